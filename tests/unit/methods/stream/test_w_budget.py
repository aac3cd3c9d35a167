"""Plans of a window's budget: every choice of releases that a stream can make."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from sfumato.errors import ParameterError
from sfumato.methods.stream.w_event import (
    LONGEST_WINDOW,
    PLANS,
    BudgetAbsorption,
    BudgetDistribution,
    Plan,
    Presence,
)

PERIODS = 9


def spendings(plan: Plan) -> list[list[Fraction]]:
    """What each period spends of half of epsilon, for every choice of which are released."""
    found = []
    for released in product((False, True), repeat=PERIODS):
        spent: list[int] = []
        for one in released:
            spent.append(plan.offered(spent[-2 * plan.window :]) if one else 0)
        found.append([Fraction(one, plan.share_count) for one in spent])
    return found


@pytest.mark.parametrize("window", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", PLANS)
def test_no_window_spends_more_than_its_half(kind: str, window: int) -> None:
    largest = Fraction(0)
    for spent in spendings(PLANS[kind](window)):
        for start in range(PERIODS):
            largest = max(largest, sum(spent[start : start + window], Fraction(0)))
    assert largest <= 1
    # What is offered is worth something: absorption uses all, distribution half and ever more.
    assert largest >= (
        1 if kind == "absorption" else 1 - Fraction(1, 2**window) - Fraction(1, 2**9)
    )


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("kind", PLANS)
def test_bounds_over_many_periods_hold_for_every_choice(kind: str, window: int) -> None:
    plan = PLANS[kind](window)
    largest: dict[str, Fraction] = {}
    for count in (1, 2, 4, 5, PERIODS):
        apart = row = start = Fraction(0)
        for spent in spendings(plan):
            apart = max(apart, sum(sorted(spent)[-count:], Fraction(0)))
            rows = (spent[at : at + count] for at in range(PERIODS - count + 1))
            row = max(row, max(sum(one, Fraction(0)) for one in rows))
            start = max(start, sum(spent[:count], Fraction(0)))
        assert apart <= plan.most_apart(count)
        assert row <= min(plan.most_in_a_row(count), plan.most_apart(count))
        assert start <= plan.most_from_the_start(count)
        largest[f"{count}"] = start
    if kind == "absorption":  # tight: a stream that is told anew every time
        assert all(largest[one] == plan.most_from_the_start(int(one)) for one in largest)


def test_absorption_takes_what_went_unused_and_pays_it_back() -> None:
    plan = BudgetAbsorption(4)
    assert [plan.offered([0] * gone) for gone in (0, 1, 3, 8)] == [1, 2, 4, 4]
    # Three parts taken: two periods go without, then one part each is there again.
    assert [plan.offered([0, 0, 3, *[0] * gone]) for gone in (0, 1, 2, 3)] == [0, 0, 1, 2]


def test_distribution_halves_and_gets_back_what_left_the_window() -> None:
    plan = BudgetDistribution(3)
    first = plan.offered([])
    second = plan.offered([first])
    assert (first, second) == (plan.share_count // 2, plan.share_count // 4)
    assert plan.offered([first, second, 0]) == (plan.share_count - second) // 2


@pytest.mark.parametrize("kind", PLANS)
def test_a_person_in_one_window_costs_epsilon_and_no_more(kind: str) -> None:
    plan = PLANS[kind](10)
    cost = Presence(periods=10, in_a_row=True).whole_cost(plan, Fraction(1))
    assert Fraction(99, 100) < cost <= 1


def test_a_person_anywhere_costs_more_than_a_window_says() -> None:
    plan, one = BudgetAbsorption(10), Fraction(1)
    assert Presence(periods=10).whole_cost(plan, one) == 5 + Fraction(1, 2)
    assert Presence(ends=100).whole_cost(plan, one) == 10
    assert Presence(periods=50, ends=100).whole_cost(plan, one) == Fraction(5, 2) + 5
    assert Presence(periods=1).whole_cost(plan, one) == Fraction(1, 20) + Fraction(1, 2)
    assert Presence(periods=1).whole_cost(BudgetDistribution(10), one) == Fraction(3, 10)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (Presence, "stream_invalid"),
        (lambda: Presence(periods=0), "parameter_out_of_range"),
        (lambda: BudgetAbsorption(0), "parameter_out_of_range"),
        (lambda: BudgetDistribution(LONGEST_WINDOW + 1), "stream_invalid"),
    ],
)
def test_what_has_no_finite_cost_is_refused(make: type[Presence], code: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        make()
    assert refusal.value.code == code
