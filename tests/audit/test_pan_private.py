"""States that may be seized keep their epsilon, with and without answers; planted wrong ones not.

Each place of a table stands for a table of its own, so that one update draws many outputs. For a
fresh seed a sound table would be accused with probability at most 1e-6.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.methods.local.draws import draw_events
from sfumato.methods.stream.pan_private import PanCells, PanTable
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

EPSILON, OUTPUT = Fraction(1), Fraction(1, 2)
Look = tuple[int, ...]


def seized(kind: type[PanTable], round_: int, epsilon: Fraction = EPSILON) -> Callable[..., Any]:
    """What a thief sees after so many visits in each update."""

    def outputs(visits: Look, count: int, entropy: Entropy) -> NDArray[Any]:
        held = after(kind(size=count, epsilon=epsilon, round=round_), visits, entropy)
        return np.stack([held.counters, held.bits], axis=1)

    return outputs


def after(
    table: PanTable, visits: Look, entropy: Entropy, held: PanCells | None = None
) -> PanCells:
    """The cells after further updates; a thief's copy of the cells before stays as it was."""
    held = table.begin(entropy) if held is None else copied(held)
    for one in visits:
        table.update(held, np.full(table.size, one), entropy)
    return held


def copied(cells: PanCells) -> PanCells:
    return PanCells(memoryview(bytearray(cells.data)))


def seized_and_told(noise: Geometric | None, round_: int) -> Callable[..., Any]:
    """What a thief sees between two updates, and what is answered after the second."""

    def outputs(visits: Look, count: int, entropy: Entropy) -> NDArray[Any]:
        table = PanTable(size=count, epsilon=EPSILON, round=round_)
        seen = after(table, visits[:1], entropy)
        ones = after(table, visits[1:], entropy, seen).bits.astype(np.int64)
        told = ones if noise is None else noise.steps(ones, entropy)
        return np.stack([seen.counters, seen.bits, told], axis=1)

    return outputs


@pytest.mark.parametrize("round_", [1, 2, 3])
@pytest.mark.parametrize("visits", [(1,), (5,), (1, 1, 1), (2, 1, 4)])
def test_a_seized_state_keeps_its_epsilon(round_: int, visits: Look) -> None:
    pair = ((0,) * len(visits), visits)
    claim = Pure(epsilon=EPSILON)
    found = audit(seized(PanTable, round_), pair, claim, entropy=SeededEntropy(1), draws=40_000)
    assert not found.violated, found.sentence()


@pytest.mark.parametrize("round_", [1, 3])
@pytest.mark.parametrize("visits", [(1, 0), (0, 1), (1, 1), (4, 5)])
def test_state_and_answer_keep_both_epsilons_together(round_: int, visits: Look) -> None:
    noise = Geometric(epsilon=OUTPUT)
    claim = Pure(epsilon=EPSILON + OUTPUT)
    watched = seized_and_told(noise, round_)
    found = audit(watched, ((0, 0), visits), claim, entropy=SeededEntropy(2), draws=40_000)
    assert not found.violated, found.sentence()


def test_the_epsilon_of_a_bit_is_nearly_found() -> None:
    """Close to 1.59, the claim is tight: a little less would be caught."""
    tight, epsilon = seized(PanTable, 1, Fraction(159, 100)), Fraction(159, 100)
    pair = ((0,), (1,))
    found = audit(tight, pair, Pure(epsilon=epsilon), entropy=SeededEntropy(3))
    assert not found.violated
    found = audit(tight, pair, Pure(epsilon=epsilon * Fraction(9, 10)), entropy=SeededEntropy(3))
    assert found.violated


class _Twice(PanTable):
    """Wrong: half of epsilon in place of a quarter."""

    @property
    def chance(self) -> Fraction:
        return Fraction(1, 2) + self.epsilon / 2


class _FirstOnly(PanTable):
    """Wrong: only who has no bit yet is drawn anew, so those who come often have one at last."""

    def update(
        self, cells: PanCells, visits: NDArray[np.int64], entropy: Entropy, **more: Any
    ) -> None:
        before = cells.bits
        super().update(cells, visits, entropy, **more)
        cells.data[:] = (np.frombuffer(cells.data, np.uint8) | before).data


class _FromZero(PanTable):
    """Wrong: counters begin at 0, and tell how often somebody came."""

    def begin(self, entropy: Entropy) -> PanCells:
        bits = draw_events(Fraction(1, 2), self.size, entropy)
        return PanCells(memoryview(bytearray(bits.astype(np.uint8).tobytes())))


@pytest.mark.parametrize(
    ("kind", "round_", "epsilon", "visits"),
    [
        (_Twice, 1, Fraction(1, 2), (1,)),
        (_FirstOnly, 1, EPSILON, (1, 1, 1)),
        (_FromZero, 3, EPSILON, (1,)),
    ],
)
def test_wrong_tables_are_caught(
    kind: type[PanTable], round_: int, epsilon: Fraction, visits: Look
) -> None:
    pair = ((0,) * len(visits), visits)
    watched, claim = seized(kind, round_, epsilon), Pure(epsilon=epsilon)
    found = audit(watched, pair, claim, entropy=SeededEntropy(4), draws=40_000)
    assert found.violated, found.sentence()


def test_an_answer_without_noise_is_caught() -> None:
    """With the state it tells that a bit was drawn anew."""
    claim = Pure(epsilon=EPSILON + OUTPUT)
    found = audit(
        seized_and_told(None, 1), ((0, 0), (0, 1)), claim, entropy=SeededEntropy(5), draws=40_000
    )
    assert found.violated, found.sentence()


def test_two_looks_are_told_to_be_no_promise_and_are_none() -> None:
    def outputs(visits: Look, count: int, entropy: Entropy) -> NDArray[Any]:
        table = PanTable(size=count, epsilon=EPSILON)
        first = after(table, visits[:1], entropy)
        second = after(table, visits[1:], entropy, first)
        return np.stack([first.bits, second.bits], axis=1)

    claim = Pure(epsilon=2 * EPSILON)
    found = audit(outputs, ((0, 0), (0, 1)), claim, entropy=SeededEntropy(6), draws=40_000)
    assert found.violated
