"""Histograms gone wrong: noise for fewer rows than a person has, cells that are not declared."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.publications import ABSENT, release_copies

from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit
from sfumato.methods.publish.histogram import Histogram, prepare
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.data.counting.axes import Axis
    from sfumato.privacy.noise.entropy import Entropy

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
