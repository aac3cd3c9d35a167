"""Histograms gone wrong: noise for fewer rows than a person has, cells that are not declared."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.mechanisms.laplace import Geometric
from sfumato.privacy.losses import Pure
from sfumato.privacy.price import price
from sfumato.privacy.units import Entity, Neighbours, Rows, Unit
from sfumato.publish.histogram import Histogram, prepare
from sfumato.publish.request import Request
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy
from sfumato.testing.publications import ABSENT, release_copies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.counting.axes import Axis
    from sfumato.noise.entropy import Entropy

ONE = Pure(epsilon=Fraction(1))


def noise_for_one_row(unit: Unit, axes: tuple[Axis, ...]) -> Histogram:
    """As if no one were ever replaced and everyone had one row."""
    made = prepare(Request(dataset="d", axes=axes, unit=unit, price=price(epsilon=1)))
    assert isinstance(made.noise, Geometric)
    return replace(made, noise=replace(made.noise, l1_sensitivity=Fraction(1)))


@pytest.mark.parametrize(
    ("unit", "pair"),
    [
        (Rows(relation=Neighbours.REPLACE_ONE), ([5, 1, 2], [6, 0, 2])),
        (Entity("person", max_rows=2), ([5, 0, 2], [5, 2, 2])),
    ],
    ids=["replaced", "people"],
)
def test_noise_for_one_row_is_caught(unit: Unit, pair: Any) -> None:
    def run(table: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        return release_copies(lambda axes: noise_for_one_row(unit, axes), table, count, entropy)

    found = audit(run, pair, ONE, entropy=SeededEntropy(6))
    assert found.violated, found.sentence()


def test_a_histogram_of_the_cells_in_use_is_caught() -> None:
    """Noise is right, but cells that no one is in are left out."""

    def run(table: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        outputs = release_copies(
            lambda axes: prepare(
                Request(dataset="d", axes=axes, unit=Rows(), price=price(epsilon=1))
            ),
            table,
            count,
            entropy,
        )
        return np.where(np.array(table) > 0, outputs, ABSENT)

    found = audit(run, ([5, 0, 2], [5, 1, 2]), ONE, entropy=SeededEntropy(6))
    assert found.violated, found.sentence()
