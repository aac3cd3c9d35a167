from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.itemsets.privbasis import PrivBasis, pair_count
from sfumato.methods.itemsets.transactions import RowSets
from sfumato.privacy.accounting.events import ConcentratedEvent, PureEvent
from sfumato.privacy.mechanisms.spending import Spending
from sfumato.testing.entropy import SeededEntropy

HUGE = Spending(epsilon=Fraction(10**6))


def rows(seed: int = 1, kinds: int = 14, many: int = 800) -> RowSets:
    """Baskets of items of falling frequency, some of which go together."""
    draw = np.random.default_rng(seed)
    has = draw.random((many, kinds)) < 0.6 / np.arange(1, kinds + 1)
    has[:, 3] |= has[:, 2]
    codes = [one.astype(np.int64) for one in has.T]
    items = [(place, 1) for place in range(kinds)]
    return RowSets(codes, np.ones(many, dtype=np.int64), items)


def truth(held: RowSets) -> Counter[tuple[int, ...]]:
    baskets = np.stack(held.codes, axis=1).astype(bool)
    return Counter(
        one
        for basket in baskets
        for size in range(1, 5)
        for one in combinations(np.flatnonzero(basket).tolist(), size)
    )


@pytest.mark.parametrize("k", [5, 20])
def test_at_a_huge_epsilon_counts_are_exact_and_the_most_frequent_are_found(k: int) -> None:
    held = rows()
    method = PrivBasis(spending=HUGE, unit=Entity("p", 1), k=k)
    items, found = method.measure(held, SeededEntropy(1))
    true = truth(held)
    for one in found.sets:
        if 1 <= len(one) <= 4:
            named = tuple(sorted(items[list(one)].tolist()))
            assert found.count(one) == pytest.approx(true[named])
    top = found.most_frequent(k, size=4)
    assert [one.estimate for one in top] == pytest.approx([many for _, many in true.most_common(k)])
    assert found.count(()) == pytest.approx(800)


@pytest.mark.parametrize(("k", "seed"), [(3, 1), (8, 2), (30, 3)])
def test_the_rank_is_that_of_all_sets_of_one_or_two_items(k: int, seed: int) -> None:
    """Only the most frequent items are looked at, and that is enough."""
    held = rows(seed, kinds=40)
    every = sorted((many for one, many in truth(held).items() if len(one) <= 2), reverse=True)
    method = PrivBasis(spending=HUGE, unit=Entity("p", 1), k=k)
    assert method.rank(held.counts(), held) == every[int(Fraction(6, 5) * k) - 1]


def test_noise_is_by_bases_transactions_and_relation() -> None:
    once = Spending(epsilon=Fraction(1))
    for relation, factor in ((Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE_ONE, 2)):
        method = PrivBasis(spending=once, unit=Entity("p", 3, relation=relation), k=5)
        noise = method.noise(7, Fraction(1))
        assert noise.l1_sensitivity == 7 * 3 * factor  # type: ignore[union-attr]
    shared = PrivBasis(spending=Spending(rho=Fraction(1)), unit=Entity("p", 3), k=5)
    assert shared.noise(7, Fraction(1)).l2_sensitivity_squared == 7 * 9  # type: ignore[union-attr]


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize(("items", "pairs"), [(1, 0), (10, 0), (20, 15), (90, 12)])
def test_shares_are_the_whole(chosen: bool, items: int, pairs: int) -> None:
    method = PrivBasis(spending=HUGE, unit=Entity("p", 1), k=5, chosen=chosen)
    shares = method.shares(items, pairs)
    assert sum(shares.values()) == Fraction(19, 20)
    assert all(one >= 0 for one in shares.values())
    assert (shares["items"] > 0) is chosen


def test_the_cost_is_known_before_and_is_the_spending() -> None:
    pure = PrivBasis(spending=Spending(epsilon=Fraction(2)), unit=Entity("p", 1), k=5)
    assert pure.event == PureEvent(epsilon=Fraction(2))
    shared = PrivBasis(spending=Spending(rho=Fraction(2)), unit=Entity("p", 1), k=5)
    assert shared.event == ConcentratedEvent(rho=Fraction(2))


def test_pairs_are_wanted_as_the_paper_has_it() -> None:
    assert pair_count(100, 10) == 0
    assert pair_count(100, 90) == 30
    assert pair_count(100, 20) == 44  # of 100, damped: 100 / sqrt(100 / 20)
    assert pair_count(10, 90) == 0


def test_nothing_to_choose_from_gives_nothing() -> None:
    nothing = RowSets([], np.zeros(0, dtype=np.int64), [])
    method = PrivBasis(spending=HUGE, unit=Entity("p", 1), k=5)
    items, found = method.measure(nothing, SeededEntropy(1))
    assert len(items) == 0
    assert found.most_frequent(5, size=4) == []


def test_with_nobody_there_are_sets_by_noise_alone() -> None:
    method = PrivBasis(spending=Spending(epsilon=Fraction(1)), unit=Entity("p", 1), k=5)
    empty = RowSets(
        [np.zeros(0, dtype=np.int64)] * 3, np.zeros(0, dtype=np.int64), [(0, 1), (2, 1)]
    )
    _, found = method.measure(empty, SeededEntropy(1))
    assert found.bases
