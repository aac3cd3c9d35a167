"""Published counts of paths by brute force: nobody moves them by more than the noise is made for.

Everybody of small sets of paths leaves in turn, and is replaced by everybody else: what is counted
before the noise moves by no more than the claimed bounds, in L1 and in L2.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Points, Schema
from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.publish.request import FormRequest
from sfumato.methods.trajectory import counts, measurement
from sfumato.methods.trajectory.paths import Paths
from sfumato.privacy.accounting.price import price

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORM = Points("trip", "at", "x", "y")
COLUMNS = (
    *(Column(name, Kind.INTEGER, nullable=False) for name in ("who", "trip", "at")),
    *(Column(name, Kind.REAL, domain=Bounds(0, 2, 1)) for name in ("x", "y")),
)
CORNERS = np.array([[0.5, 0.5], [1.5, 0.5], [0.5, 1.5], [9.0, -3.0]])
KINDS = ("trips", "visits", "lengths")


def method(kind: str, cap: int, relation: Neighbours = Neighbours.ADD_REMOVE) -> Any:
    unit = Entity("who", 6, relation=relation)
    schema = Schema("trips", COLUMNS, unit, form=FORM)
    request = FormRequest(
        dataset="trips", schema=schema, form=FORM, unit=unit, price=price(epsilon=1)
    )
    cells = {"trips": {"cells": 2, "trips": cap}, "visits": {"cells": 2, "visits": cap}}
    return getattr(counts, f"prepare_{kind}")(request, **cells.get(kind, {"trips": cap}))


def paths_of(people: list[list[list[int]]]) -> Paths:
    """Of each person the paths, each a list of corners."""
    each = [(who, path) for who, mine in enumerate(people) for path in mine]
    corners = CORNERS[[corner for _, path in each for corner in path]]
    lengths = np.array([len(path) for _, path in each], dtype=np.int64)
    times = np.arange(len(corners), dtype=np.float64)
    return Paths(np.array([who for who, _ in each]), lengths, times, *corners.T)


ONES = [[0, 1, 2, 3], [3, 0, 3]], [[0, 0]], [[1], [1], [2, 1], [0, 3]], [[0, 1], [0, 1], [0, 1]]
"""What one person may have done: few paths and many, of many cells and of one."""


def moved(one: Any, before: list[Any], after: list[Any]) -> tuple[int, int]:
    change: NDArray[np.int64] = one.exact_counts(paths_of(before)) - one.exact_counts(
        paths_of(after)
    )
    return int(np.abs(change).sum()), int((change.astype(object) ** 2).sum())


def worst(one: Any, *, replaced: bool) -> tuple[int, int]:
    """The most that anybody moves, in L1 and in squared L2."""
    found = []
    for first, second in product(ONES, repeat=2):
        others = [second, ONES[2]]
        after = [[ONES[1], *others], [ONES[3], *others]] if replaced else [others]
        found += [moved(one, [first, *others], one_after) for one_after in after]
    return max(l1 for l1, _ in found), max(l2 for _, l2 in found)


def bounds(kind: str, cap: int, relation: Neighbours) -> tuple[int, int]:
    """What the docstring claims, written down once more."""
    times = 2 if relation is Neighbours.REPLACE_ONE else 1
    squared = cap if kind == "visits" else cap**2
    return times * cap * FULL_WEIGHT, times * squared * FULL_WEIGHT**2


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_nobody_moves_counts_by_more_than_is_claimed(
    kind: str, cap: int, relation: Neighbours
) -> None:
    one = method(kind, cap, relation)
    l1, l2 = worst(one, replaced=relation is Neighbours.REPLACE_ONE)
    most_l1, most_l2 = bounds(kind, cap, relation)
    assert l1 <= most_l1
    assert l2 <= most_l2
    if relation is Neighbours.ADD_REMOVE:
        assert l1 > 0.9 * cap * FULL_WEIGHT  # somebody uses what is allowed
    # And the noise is made for no less.
    assert float(one.noise.l1_sensitivity) >= most_l1


@pytest.mark.parametrize("kind", KINDS)
def test_a_cap_after_counting_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts in full, and only the counts of all are cut."""
    whole = lambda owners, _cap: np.full(len(owners), FULL_WEIGHT, dtype=np.int64)  # noqa: E731
    monkeypatch.setattr(measurement, "weights", whole)
    assert worst(method(kind, 1), replaced=False)[0] > FULL_WEIGHT


@pytest.mark.parametrize("kind", KINDS)
def test_a_cap_for_each_trip_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items weigh the cap together path by path, as if each were a person's."""
    right = counts.PathCounts._items

    def by_path(self: Any, paths: Paths) -> Any:
        each = Paths(np.arange(len(paths)), paths.lengths, paths.times, paths.x, paths.y)
        return right(self, each)

    monkeypatch.setattr(counts.PathCounts, "_items", by_path)
    assert worst(method(kind, 1), replaced=False)[0] > FULL_WEIGHT
