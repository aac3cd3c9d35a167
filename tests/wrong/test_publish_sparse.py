"""Sparse releases gone wrong in what they do to the cells that no one is in."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.fixtures.publications import release_copies

from sfumato.data.schema.unit import Rows
from sfumato.methods.publish import sparse as filtered
from sfumato.methods.publish.request import Request
from sfumato.methods.publish.sparse import power, prepare
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.testing.audit import Audit, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    import pytest
    from numpy.typing import NDArray

    from sfumato.data.counting.axes import Axis
    from sfumato.methods.publish.sparse import Bounds, PrioritySample, ThresholdFilter
    from sfumato.privacy.noise.entropy import Entropy

ONE = Pure(epsilon=Fraction(1))


def make(axes: tuple[Axis, ...]) -> ThresholdFilter | PrioritySample:
    asked = Request(dataset="d", axes=axes, unit=Rows(), price=price(epsilon=1))
    return prepare(asked, threshold=3)


def accused() -> Audit:
    """The method as it now is, where one person comes into an empty cell."""

    def run(table: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        return release_copies(make, table, count, entropy)

    return audit(run, ([0, 0, 0], [1, 0, 0]), ONE, entropy=SeededEntropy(6))


class NoneOfTheEmpty:
    """Empty cells are forgotten, so that the cells released tell which are in use."""

    def __init__(self, chance: object) -> None:
        pass

    def draw(self, cells: int, entropy: Entropy) -> NDArray[np.int64]:  # noqa: ARG002
        return np.empty(0, dtype=np.int64)


def test_forgotten_empty_cells_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered, "Passing", NoneOfTheEmpty)
    found = accused()
    assert found.violated, found.sentence()


def tail_of_continuous_noise(scale: Fraction, threshold: int, sides: int, bits: int) -> Bounds:
    """a^t / 2 instead of a^t / (1 + a): right only for noise that is not whole."""
    low, high = power(scale, threshold, bits)
    return sides * low / 2, sides * high / 2


def test_a_wrong_chance_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered, "tail", tail_of_continuous_noise)
    found = accused()
    assert found.violated, found.sentence()


def nothing_beyond(scale: Fraction, size: int, entropy: Entropy) -> NDArray[np.int64]:  # noqa: ARG001
    """All empty cells that pass are released at the threshold itself."""
    return np.zeros(size, dtype=np.int64)


def test_noise_not_drawn_beyond_the_threshold_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered, "geometric", nothing_beyond)
    found = accused()
    assert found.violated, found.sentence()
