"""Methods that are wrong on purpose, each of which the harness must find."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.registry.cells import Cell, pairs, run_pair
from tests.registry.coupling import Coupled, Result, couple
from tests.registry.methods import METHODS
from tests.registry.tables import Relation

from sfumato.errors import EngineError
from sfumato.methods.publish.histogram import Histogram
from sfumato.methods.synth.encode.atoms import AtomSearch
from sfumato.privacy.accounting.events import Composed, Event
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys
from sfumato.privacy.noise.entropy import SystemEntropy

ROWS, MORE = [3, 5, 0], [3, 6, 0]
"""Counts of two tables of which the second has one row more."""
ONCE = Geometric(epsilon=Fraction(1))


def histogram(counts: list[int], noise: Geometric, event: Event) -> Result:
    noisy = noise.steps(np.array(counts), SystemEntropy())
    return event, {"histogram": pa.table({"count": noisy.tolist()})}


def coupled(method: Any, first: Any = ROWS, second: Any = MORE) -> Coupled:
    return couple(lambda: method(first), lambda: method(second))


def test_a_right_method_passes() -> None:
    found = coupled(lambda counts: histogram(counts, ONCE, ONCE.event))
    assert not found.findings
    assert found.loss_share == found.claimed_share == 1


def test_half_of_the_sensitivity_is_found() -> None:
    wrong = Geometric(epsilon=Fraction(1), l1_sensitivity=Fraction(1, 2))
    found = coupled(lambda counts: histogram(counts, wrong, wrong.event))
    assert found.findings[0].endswith("L1 change 1, claimed 0.5")
    assert found.findings[1] == "loss: 4 times what was charged"


def test_rows_that_decide_about_calls_are_found() -> None:
    def method(counts: list[int]) -> Result:
        if sum(counts) > 8:
            ONCE.steps(np.array([0]), SystemEntropy())
        return histogram(counts, ONCE, ONCE.event)

    assert coupled(method).findings[0].startswith("control flow: call 0, Geometric")
    assert coupled(method, MORE, ROWS).findings[0].startswith("control flow: call 0, Geometric")


def test_rows_that_decide_about_parameters_are_found() -> None:
    def method(counts: list[int]) -> Result:
        return histogram(counts, Geometric(epsilon=Fraction(1, sum(counts))), ONCE.event)

    assert "epsilon=Fraction(1, 9)" in coupled(method).findings[0]


def test_rows_that_decide_about_draws_are_found() -> None:
    def method(counts: list[int]) -> Result:
        SystemEntropy().words(sum(counts))
        return histogram(counts, ONCE, ONCE.event)

    assert coupled(method).findings == ("control flow: other draws outside of mechanisms",)


def test_an_extreme_cell_that_fails_is_found() -> None:
    def method(cells: list[int]) -> Result:
        if any(abs(cell) > 2**53 for cell in cells):
            raise EngineError("cell_too_large", "It does not fit.")
        return histogram([len(cells)], ONCE, ONCE.event)

    found = coupled(method, [1], [1, 2**53 + 1])
    assert found.findings == ("outcome: answer, on the neighbour refusal cell_too_large",)


def test_more_spent_than_charged_is_found() -> None:
    def method(counts: list[int]) -> Result:
        ONCE.steps(np.array(counts), SystemEntropy())
        return histogram(counts, ONCE, ONCE.event)

    found = coupled(method)
    assert found.findings == ("loss: 2 times what was charged",)
    assert found.claimed_share == 2


def test_a_count_of_zero_in_a_threshold_is_found() -> None:
    keys = ThresholdKeys(noise=ONCE, delta=Fraction(1, 1000), max_groups=1)

    def method(counts: list[int]) -> Result:
        released = keys.sample(np.array(counts), SystemEntropy())
        return keys.event, {"keys": pa.table({"place": released.positions.tolist()})}

    assert coupled(method, [40, 20], [40, 20, 1]).findings == ()
    found = coupled(method, [40, 20], [40, 20, 0])
    assert found.findings[0].endswith("a key with a count of zero takes part in a threshold")


def test_more_keys_of_one_person_than_claimed_are_found() -> None:
    keys = ThresholdKeys(noise=ONCE, delta=Fraction(1, 1000), max_groups=1)

    def method(counts: list[int]) -> Result:
        released = keys.sample(np.array(counts), SystemEntropy())
        return keys.event, {"keys": pa.table({"place": released.positions.tolist()})}

    found = coupled(method, [40, 20], [40, 20, 1, 1])
    assert "keys of one side pass with chance" in found.findings[0]


def test_a_release_that_holds_exact_counts_is_found() -> None:
    def method(counts: list[int]) -> Result:
        event, tables = histogram(counts, ONCE, ONCE.event)
        return event, {**tables, "exact": pa.table({"count": counts})}

    assert coupled(method).findings == (
        "release: table 'exact' differs though all outputs are equal",
    )


@pytest.fixture
def cell() -> Cell:
    method = next(one for one in METHODS if one.title == "publish histogram")
    return Cell(method, "row", Relation.ADD_REMOVE, "pure")


def test_a_registered_method_that_counts_rows_twice_is_found(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_pair(cell, pairs(cell)[0]).findings == ()
    release = Histogram.release

    class Doubled:
        def __init__(self, counter: Any) -> None:
            self._counter = counter

        def __getattr__(self, name: str) -> Any:
            return getattr(self._counter, name)

        def of(self, columns: Any) -> Any:
            counts = self._counter.of(columns)
            return replace(counts, counts=2 * counts.counts)

    monkeypatch.setattr(
        Histogram,
        "release",
        lambda self, counter, entropy: release(self, Doubled(counter), entropy),
    )
    assert "L1 change 2, claimed 1" in run_pair(cell, pairs(cell)[0]).findings[0]


def test_a_registered_method_that_charges_too_little_is_found(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = Geometric(epsilon=Fraction(2)).event
    monkeypatch.setattr(Histogram, "event", property(lambda _: Composed((half,))))
    assert "loss: 4 times what was charged" in run_pair(cell, pairs(cell)[0]).findings


def test_atoms_with_the_noise_of_one_column_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is a point of each of two columns, which one vector holds."""
    method = next(one for one in METHODS if one.title == "synthesize independent atoms")
    atoms = Cell(method, "row", Relation.ADD_REMOVE, "pure")
    assert run_pair(atoms, pairs(atoms)[0]).findings == ()
    noise = AtomSearch._noise

    def of_one_column(search: AtomSearch, places: int, share: Fraction) -> Any:
        del places
        return noise(search, 1, share)

    monkeypatch.setattr(AtomSearch, "_noise", of_one_column)
    found = run_pair(atoms, pairs(atoms)[0]).findings
    assert "HeavyPoints" in found[0]
    assert found[0].endswith("L1 change 2, claimed 1")
