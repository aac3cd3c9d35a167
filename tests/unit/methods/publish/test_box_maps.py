"""Released boxes as tables, as maps for other programs, and asked for what is near."""

from __future__ import annotations

import itertools
import json
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.axes import Grid, Listed
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.errors import ParameterError
from sfumato.methods.publish.box_maps import nearest, smallest, to_geojson
from sfumato.methods.publish.spatial_tree import Space
from sfumato.privacy.estimation.trees import BoxTree

LONGITUDE = Grid("lon", Kind.REAL, Bounds(Decimal(-10), Decimal(10), Decimal("0.1")), True)
LATITUDE = Grid("lat", Kind.REAL, Bounds(Decimal(40), Decimal(44), Decimal("0.1")), False)
DAYS = Grid("day", Kind.DATE, Bounds(date(2026, 1, 1), date(2026, 12, 31)), False)
WHOLE = Grid("age", Kind.INTEGER, Bounds(-5, 95, 5), False)
COLOURS = Listed("colour", pa.array(["red", "green", "blue", None]), declared=True)


def three(first: int, second: int) -> BoxTree:
    """A root and its two halves along the first column."""
    half = first // 2
    lows = np.array([[0, 0], [0, 0], [half, 0]])
    highs = np.array([[first, second], [half - 1, second], [first, second]])
    return BoxTree(lows, highs, np.array([-1, 0, 0]))


def table(*axes: Grid) -> pa.Table:
    tree = three(*(axis.points - 1 for axis in axes))
    return Space(axes).table(tree, np.array([30.0, 10.0, 20.0]), np.array([1.0, 4.0, 9.0]))


def halves(*axes: Grid) -> pa.Table:
    found = smallest({"boxes": table(*axes)}, [axis.column for axis in axes])
    assert found is not None
    return found


@pytest.mark.parametrize(
    "axes", [(LONGITUDE, LATITUDE), (DAYS, WHOLE), (WHOLE, COLOURS), (COLOURS, DAYS)]
)
def test_what_was_written_is_read_back(axes: tuple[Grid | Listed, ...]) -> None:
    space = Space(axes)
    tree = three(*(size - 1 for size in space.shape))
    written = space.table(tree, np.arange(3.0), np.ones(3))
    read, counts = space.read(written)
    assert read.lows.tolist() == tree.lows.tolist()
    assert read.highs.tolist() == tree.highs.tolist()
    assert read.parents.tolist() == tree.parents.tolist()
    assert counts.tolist() == [0, 1, 2]


def test_a_box_is_a_row() -> None:
    assert table(WHOLE, DAYS).to_pylist()[2] == {
        "age_low": 45,
        "age_high": 95,
        "day_low": date(2026, 1, 1),
        "day_high": date(2026, 12, 31),
        "level": 1,
        "parent": 0,
        "leaf": True,
        "count": 20.0,
        "sd": 3.0,
    }


def test_geojson_has_a_closed_ring_for_each_leaf_and_no_gaps() -> None:
    for axes in ((LONGITUDE, LATITUDE), (LATITUDE, LONGITUDE)):
        found = json.loads(json.dumps(to_geojson(halves(*axes), axes)))
        first, second = found["features"]
        assert found["type"] == "FeatureCollection"
        assert first["properties"] == {"level": 1, "count": 10.0, "sd": 2.0}
        west, east = ({x for x, _ in one["geometry"]["coordinates"][0]} for one in (first, second))
        south, north = (
            {y for _, y in one["geometry"]["coordinates"][0]} for one in (first, second)
        )
        # One of both is halved, and the halves touch midway between two points.
        assert {len(west & east), len(south & north)} == {1, 2}
        assert (min(west | east), max(west | east)) == (-10, 10)
        assert (min(south | north), max(south | north)) == (40, 44)
        for one in (first, second):
            ring = one["geometry"]["coordinates"][0]
            assert ring[0] == ring[-1]
            area = sum(a[0] * b[1] - b[0] * a[1] for a, b in itertools.pairwise(ring))
            assert area > 0  # counter-clockwise


@pytest.mark.parametrize(
    ("axis", "ends", "cut"),
    [
        (LONGITUDE, (-10, 10), -0.05),
        (WHOLE, (-5, 95), 42.5),
        (DAYS, (20454, 20818), 20635.5),
        (Listed("n", pa.array([2, 3, 4, 8, None]), declared=True), (2, 8), 2.5),
    ],
    ids=["real", "integer", "date", "values"],
)
def test_the_outer_edge_of_a_map_is_what_is_declared_however_it_is_cut(
    axis: Grid | Listed, ends: tuple[float, float], cut: float
) -> None:
    space = Space((axis, LATITUDE))
    whole = BoxTree(np.zeros((1, 2), int), np.array([space.shape]) - 1, np.array([-1]))
    parts = three(*(size - 1 for size in space.shape))
    for tree, edges in ((whole, {*ends}), (parts, {*ends, cut})):
        size = len(tree)
        made = {"boxes": space.table(tree, np.ones(size), np.ones(size))}
        boxes = smallest(made, [axis.column, "lat"])
        assert boxes is not None
        rings = [
            one["geometry"]["coordinates"][0] for one in to_geojson(boxes, space.axes)["features"]
        ]
        assert sorted({x for ring in rings for x, _ in ring}) == sorted(edges)
        assert {y for ring in rings for _, y in ring} == {40, 44}


def test_geojson_needs_two_columns() -> None:
    space = Space((WHOLE,))
    root = BoxTree(np.array([[0]]), np.array([[20]]), np.array([-1]))
    with pytest.raises(ParameterError) as caught:
        to_geojson(space.table(root, np.zeros(1), np.ones(1)), [WHOLE])
    assert caught.value.code == "columns_invalid"


def test_the_nearest_boxes_hold_as_many_as_asked_for() -> None:
    boxes = halves(LONGITUDE, LATITUDE)
    one = nearest(boxes, (-3, 41), 10).to_pylist()
    assert [(row["distance"], row["expected"]) for row in one] == [(0.0, 10.0)]
    both = nearest(boxes, (-3, 41), 11).to_pylist()
    assert [row["expected"] for row in both] == [10.0, 30.0]
    assert both[1]["distance"] == pytest.approx(3.0)
    assert len(nearest(boxes, (-3, 41), 1000)) == 2


def test_nearness_in_days() -> None:
    found = nearest(halves(DAYS, WHOLE), (date(2026, 1, 3), 0), 15).to_pylist()
    assert found[1]["distance"] == (found[1]["day_low"] - date(2026, 1, 3)).days


@pytest.mark.parametrize(
    ("point", "k", "code"),
    [
        ((1,), 1, "array_invalid"),
        ((1, 2), 0, "parameter_out_of_range"),
        ((1, 2), 1, "column_unsuitable"),
    ],
)
def test_what_has_no_distance_is_refused(point: tuple[float, ...], k: int, code: str) -> None:
    space = Space((WHOLE, COLOURS))
    boxes = space.table(three(20, 2), np.ones(3), np.ones(3))
    with pytest.raises(ParameterError) as caught:
        nearest(boxes, point, k)
    assert caught.value.code == code


def test_cells_and_blocks_are_boxes_too() -> None:
    cells = pa.table({"x": [0, 1, None], "y": [5, 6, 7], "count": [1.0, 2.0, 3.0]})
    found = smallest({"cells": cells}, ["x", "y"])
    assert found is not None
    assert found.to_pylist()[1] == {
        "count": 2.0,
        "x_low": 1,
        "x_high": 1,
        "y_low": 6,
        "y_high": 6,
    }
    assert len(found) == 2
    blocks = pa.table({"x_low": [0, None], "x_high": [4, None], "count": [1.0, 2.0]})
    assert smallest({"blocks": blocks}, ["x"]) == blocks.slice(0, 1)
    assert smallest({"quantiles": pa.table({"rank": [0.5], "x": [3]})}, ["x"]) is None
