"""Spatial decompositions before the auditor: shape and counts together stay within the price.

Entropy is seeded, so every run draws the same. Each audit would accuse a sound method with
probability at most 1e-6 over the seeds.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.publications import grow_copies, seen_of_copies

from sfumato.data.counting.axes import Axis, Grid
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.publish import publication
from sfumato.methods.publish.request import Request
from sfumato.methods.publish.spatial_tree import Decomposition
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.testing.audit import Audit, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.noise.entropy import Entropy

EPSILON = Fraction(2)
LINE, PLANE = (8,), (4, 4)
PAIR_OF_ROWS = Entity("person", max_rows=2)
REPLACED = Rows(relation=Neighbours.REPLACE_ONE)


def made(kind: str, sizes: tuple[int, ...], unit: Unit, options: dict[str, Any]) -> Decomposition:
    axes: tuple[Axis, ...] = tuple(
        Grid(name, Kind.INTEGER, Bounds(0, size - 1), nullable=False)
        for name, size in zip("xy", sizes, strict=False)
    )
    request = Request(dataset="people", axes=axes, unit=unit, price=price(epsilon=EPSILON))
    method = publication.prepare(kind, request, options).method
    assert isinstance(method, Decomposition)
    return method


def audited(
    method: Decomposition, pair: tuple[list[tuple[int, ...]], list[tuple[int, ...]]], draws: int
) -> Audit:
    def run(points: Any, count: int, entropy: Entropy) -> NDArray[Any]:
        return seen_of_copies(grow_copies(method, points, count, entropy), count)

    return audit(run, pair, Pure(epsilon=EPSILON), entropy=SeededEntropy(7), draws=draws)


KD = {"height": 2, "prune": 3}
CASES: dict[str, tuple[str, tuple[int, ...], Unit, dict[str, Any], Any, float]] = {
    "kdtree, a row that stops a box": (
        "kdtree", LINE, Rows(), KD, ([(1,), (1,), (2,)], [(1,), (1,)]), 0.4),
    "kdtree, a row in a box that stops at once": (
        "kdtree", LINE, Rows(), {"height": 3, "hybrid": 0, "prune": 1000}, ([(0,)], []), 0.4),
    "kdtree, a row that moves the median": (
        "kdtree", LINE, Rows(), {"height": 1, "prune": 0, "medians": "0.9"},
        ([(0,)] * 5 + [(1,)] + [(7,)] * 4, [(0,)] * 4 + [(1,)] + [(7,)] * 4), 0.4),
    "kdtree, two rows in two boxes": (
        "kdtree", PLANE, PAIR_OF_ROWS, {"height": 1, "prune": 0, "medians": "0.7"},
        ([(0, 0), (3, 3)] * 3, [(0, 0), (3, 3)] * 2), 0.1),
    "kdtree, a row replaced": (
        "kdtree", LINE, REPLACED, {"height": 1, "prune": 3},
        ([(0,), (0,), (0,)], [(0,), (0,), (7,)]), 0.1),
    "privtree, nobody and one row": ("privtree", LINE, Rows(), {}, ([(0,)], []), 0.4),
    "privtree, a box that just splits": (
        "privtree", LINE, Rows(), {"shape": "0.9"}, ([(0,)] * 3, [(0,)] * 2), 0.15),
    "privtree, two rows in two boxes": (
        "privtree", LINE, PAIR_OF_ROWS, {}, ([(0,), (7,)], []), 0.3),
    "adaptive grid, a row that refines a cell": (
        "adaptive-grid", PLANE, Rows(), {"grid": 2}, ([(0, 0)] * 7, [(0, 0)] * 6), 0.4),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_seen_stays_within_the_price(name: str) -> None:
    kind, sizes, unit, options, pair, power = CASES[name]
    found = audited(made(kind, sizes, unit, options), pair, draws=30_000)
    assert not found.violated, found.sentence()
    assert found.power > power, found.sentence()
