"""One charge pays for everything: no selection spends more, and what would pass it is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.fixtures.synthesis import bench_of, linked_rows, table_of

from sfumato.errors import InternalError
from sfumato.methods.synth.privbayes import select_network
from sfumato.methods.synth.selection import (
    Worth,
    choose_tree,
    measure_columns,
    pair_noise,
    suited_method,
)
from sfumato.methods.synth.synthesis import METHODS
from sfumato.methods.synth.workbench import Misfit
from sfumato.privacy.accounting.composition import basic_guarantee
from sfumato.privacy.accounting.events import Composed, Event
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.zcdp import guarantee
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.selection import Exponential

SIZES = (3, 2, 5, 2, 4)
TABLE = table_of(SIZES, linked_rows(SIZES, 3000, 1))
OPTIONS: dict[str, dict[str, Any]] = {"workload": {"sets": [(0, 1), (1, 2, 3), (0, 1)]}}
WORKLOADS: list[list[tuple[int, ...]]] = [[], [(0, 1), (1, 2, 3), (0, 1)], [(3,)]]


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """What the mechanisms themselves cost, noted when each of them runs."""
    events: list[Event] = []

    def watch(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def noting(self: Any, *given: Any) -> Any:
            events.append(self.event)
            return original(self, *given)

        monkeypatch.setattr(kind, name, noting)

    watch(Gaussian, "steps")
    watch(Geometric, "steps")
    watch(Exponential, "sample")
    return events


@pytest.mark.parametrize("amount", ["1/10000", "1/10", "10"])
@pytest.mark.parametrize("method", METHODS)
def test_no_selection_spends_more_than_its_rho(
    method: str, amount: str, spent: list[Event]
) -> None:
    bench = bench_of(TABLE, rho=Fraction(amount))
    METHODS[method][0](bench, **OPTIONS.get(method, {}))
    found, delta = guarantee(Composed(tuple(spent)))
    assert found.rho <= Fraction(amount)
    assert delta == 0
    # And nearly all of it is used: an epsilon is the root of a rho, rounded down.
    assert found.rho >= Fraction(amount) * Fraction(999, 1000)
    assert bench.charge.remaining == 0
    measured = [one.event for one in bench.log.tables]
    assert [one for one in spent if one in measured] == measured


@pytest.mark.parametrize("method", METHODS)
def test_no_selection_spends_more_than_its_epsilon(method: str, spent: list[Event]) -> None:
    bench = bench_of(TABLE, epsilon=Fraction(2))
    METHODS[method][0](bench, **OPTIONS.get(method, {}))
    found = basic_guarantee(Composed(tuple(spent)))
    assert isinstance(found, Pure)
    assert found.epsilon <= 2
    assert found.epsilon >= Fraction(1999, 1000)


@pytest.mark.parametrize("sets", WORKLOADS)
@pytest.mark.parametrize("target", [None, 2])
def test_a_workload_changes_nothing_about_what_adaptive_rounds_cost(
    sets: list[tuple[int, ...]], target: int | None, spent: list[Event]
) -> None:
    bench = bench_of(TABLE, rho=Fraction(1, 10))
    METHODS["aim"][0](bench, sets=sets, target=target)
    found, _ = guarantee(Composed(tuple(spent)))
    assert Fraction(999, 10_000) <= found.rho <= Fraction(1, 10)
    assert bench.charge.remaining == 0


def test_what_is_not_there_is_refused_before_anything_is_drawn(spent: list[Event]) -> None:
    bench = bench_of(TABLE)
    bench.measure((0,), Fraction(2, 3))
    guess = np.zeros(3, dtype=np.int64)
    for share in (Fraction(1, 2), Fraction(1, 3) + Fraction(1, 10**30)):
        with pytest.raises(InternalError) as caught:
            bench.measure((1,), share)
        assert caught.value.code == "internal"
        with pytest.raises(InternalError) as caught:
            bench.choose(Misfit([(0,)], [guess], [0], [1]), share)
        assert caught.value.code == "internal"
    assert len(spent) == 1
    assert bench.charge.remaining == Fraction(1, 3)


@pytest.mark.parametrize("score", ["R", "F", "I"])
def test_networks_by_every_score(score: Any) -> None:
    """The chain of columns is found where there is much to spend."""
    sizes = (2, 2, 2, 2) if score == "F" else SIZES
    bench = bench_of(table_of(sizes, linked_rows(sizes, 3000, 1)), rho=Fraction(100))
    select_network(bench, score)
    sets = [set(one) for one in bench.log.measured]
    assert all(any({one, one + 1} <= other for other in sets) for one in range(len(sizes) - 1))


def test_a_score_of_two_codes_leaves_the_other_columns_to_another() -> None:
    bench = bench_of(TABLE, rho=Fraction(100))
    select_network(bench, "F")
    assert {column for one in bench.log.measured if len(one) > 1 for column in one} == {*range(5)}


def test_a_tree_is_a_tree_and_follows_the_data() -> None:
    bench = bench_of(TABLE, rho=Fraction(10))
    METHODS["mst"][0](bench)
    pairs = [one for one in bench.log.measured if len(one) == 2]
    assert sorted(pairs) == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_where_noise_is_everything_no_pair_is_measured() -> None:
    bench = bench_of(table_of(SIZES, linked_rows(SIZES, 30, 1)), rho=Fraction(1, 10**6))
    METHODS["mst"][0](bench)
    assert all(len(one) == 1 for one in bench.log.measured)


def test_a_workload_is_measured_as_given() -> None:
    bench = bench_of(TABLE)
    METHODS["workload"][0](bench, sets=[(0, 1), (1,), (1, 2, 3)])
    assert bench.log.measured == {(0, 1), (1, 2, 3), (4,)}


AUTO_RHO = Fraction(1, 3000)
"""By which noise is from a tenth to a half of all rows, where `auto` begins with a tree."""


def test_auto_goes_on_with_rounds_where_all_columns_hang_together() -> None:
    """Columns are measured twice where they do not; else what is left goes to what is off."""
    tied = np.random.default_rng(3).integers(0, 3, 4000)
    for rows, rounds in ((np.stack([tied, tied, tied], axis=1), True), (None, False)):
        apart = np.random.default_rng(4).integers(0, 3, (4000, 3))
        bench = bench_of(table_of((3, 3, 3), apart if rows is None else rows), rho=AUTO_RHO)
        assert (
            suited_method(pair_noise(bench.shape, bench.magnitude(Fraction(1, 5)), 4000)) == "mst"
        )
        METHODS["auto"][0](bench)
        pairs = {one for one in bench.log.measured if len(one) == 2}
        twice = [one.columns for one in bench.log.tables].count((0,)) == 2
        assert (len(pairs) >= 2, twice) == (rounds, not rounds)


def test_noise_of_columns_makes_no_pair_worth_measuring() -> None:
    """Guesses that are off by the noise of columns alone are no reason to measure pairs."""
    table = table_of(SIZES, np.stack([np.random.default_rng(one).integers(0, size, 3000)
                                      for one, size in enumerate(SIZES)], axis=1))  # fmt: skip
    found = []
    for seed in range(12):
        bench = bench_of(table, seed=seed, rho=Fraction(1, 300))
        measure_columns(bench, Fraction(1, 2))
        found.append(len(choose_tree(bench, Fraction(1, 8), Fraction(3, 8), Worth(bench.shape))))
    assert np.mean(found) < 1.3  # 2.1 if it were left out


def test_adaptive_rounds_measure_within_a_workload() -> None:
    bench = bench_of(TABLE, rho=Fraction(10))
    METHODS["aim"][0](bench, sets=[(0, 1), (2, 3, 4)])
    larger = {one for one in bench.log.measured if len(one) > 1}
    assert (0, 1) in larger
    assert all(set(one) <= {0, 1} or set(one) <= {2, 3, 4} for one in larger)
    assert {(column,) for column in range(5)} <= bench.log.measured


def test_a_triple_that_no_pair_tells_is_measured_where_it_is_named() -> None:
    """The third column is the parity of two others, and each pair of them is even."""
    first, second = np.random.default_rng(7).integers(0, 2, (2, 20_000))
    table = table_of((2, 2, 2), np.stack([first, second, first ^ second], axis=1))
    for sets, found in (([], False), ([(0, 1, 2)], True)):
        bench = bench_of(table, rho=Fraction(1, 10))
        METHODS["aim"][0](bench, sets=sets)
        assert ((0, 1, 2) in bench.log.measured) == found


def test_adaptive_rounds_go_beyond_a_tree() -> None:
    """Three columns that hang together pair by pair need all three pairs."""
    draws = np.random.default_rng(2)
    first, second = draws.integers(0, 4, (2, 20000))
    rows = np.stack([first, second, (first + second) % 7, draws.integers(0, 3, 20000)], axis=1)
    bench = bench_of(table_of((4, 4, 7, 3), rows), rho=Fraction(1))
    METHODS["aim"][0](bench)
    assert {(0, 2), (1, 2)} <= bench.log.measured
    assert sum(len(one.columns) > 1 for one in bench.log.tables) > 4
