"""Read released boxes: the smallest boxes, the boxes nearest to a point, and GeoJSON."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato import arguments
from sfumato.data.counting.axes import Grid
from sfumato.errors import ParameterError
from sfumato.methods import options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import FloatArray
    from sfumato.data.counting.axes import Axis


def smallest(tables: Mapping[str, pa.Table], columns: Sequence[str]) -> pa.Table | None:
    """Boxes with a count, from `<column>_low` to `<column>_high`; None if there are none.

    The smallest boxes of a tree are its leaves; a cell is a box of one value. Rows of missing
    values are left out.
    """
    table = next(iter(tables.values()))
    if not {"count", *(f"{name}_low" for name in columns)} <= {*table.column_names}:
        if not {"count", *columns} <= {*table.column_names}:
            return None
        for column in columns:
            values = table.column(column)
            table = table.append_column(f"{column}_low", values)
            table = table.append_column(f"{column}_high", values).drop_columns(column)
    if "leaf" in table.column_names:
        table = table.filter(table.column("leaf"))
    for column in columns:
        lows = table.column(f"{column}_low")
        table = table.filter(pc.invert(pc.is_null(lows, nan_is_null=True)))
    return table


def nearest(boxes: pa.Table, point: Sequence[float | date], k: int) -> pa.Table:
    """Return the boxes nearest to a point that together are expected to hold k rows.

    Boxes are ordered by distance, in the unit of the columns (days for dates); the box around the
    point has distance 0. A negative count counts as 0. Where all boxes together hold fewer than k
    rows, all of them are returned.
    """
    names = columns(boxes)
    row_count = options.whole(k, "k", least=1, most=1 << 53)
    arguments.require(point, "point", (list, tuple, np.ndarray), "a list of coordinates")
    for coordinate in point:
        arguments.require(
            coordinate, "A coordinate", (int, float, date, np.number), "a number or a date"
        )
    if len(point) != len(names):
        raise ParameterError(
            "array_invalid",
            f"A point among {', '.join(names)} has {len(names)} coordinates, not {len(point)}.",
        )
    squares = np.zeros(len(boxes))
    for name, value in zip(names, point, strict=True):
        at = value.toordinal() - EPOCH if isinstance(value, date) else value
        below = numbers(boxes, f"{name}_low") - at
        above = at - numbers(boxes, f"{name}_high")
        squares += np.maximum(np.maximum(below, above), 0.0) ** 2
    order = np.argsort(squares, kind="stable")
    mass = np.cumsum(np.maximum(numbers(boxes, "count")[order], 0.0))
    chosen = order[: np.searchsorted(mass, row_count) + 1]
    result = boxes.take(pa.array(chosen))
    result = result.append_column("distance", pa.array(np.sqrt(squares[chosen])))
    return result.append_column("expected", pa.array(mass[: len(chosen)]))


def columns(table: pa.Table) -> list[str]:
    """Return the names of the columns of released boxes."""
    return [name.removesuffix("_low") for name in table.column_names if name.endswith("_low")]


def numbers(table: pa.Table, name: str) -> FloatArray:
    """A column of released boxes as numbers; dates count in days."""
    values = table.column(name)
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ParameterError(
            "column_unsuitable",
            f"Column {name!r} of the boxes holds {values.type}, which has no distances. Distances "
            "and maps need columns of numbers or dates.",
        )
    return np.asarray(values, dtype=np.float64)


# Dates count in days since this one.
EPOCH = date(1970, 1, 1).toordinal()

# The columns of boxes that GeoJSON features have as properties.
_PROPERTIES = ("level", "count", "sd")


def to_geojson(boxes: pa.Table, axes: Sequence[Axis]) -> dict[str, Any]:
    """Boxes as a FeatureCollection of rectangles with their counts and, if known, their sd.

    Longitude comes first in GeoJSON: it is the column whose name begins with lon or lng, else the
    first column. A point of a declared grid stands for all values nearest to it, so rectangles
    reach half a step beyond their points and touch each other. They are cut at the declared bounds,
    so that together they always cover the same rectangle.
    """
    if len(axes) != 2:
        raise ParameterError(
            "columns_invalid",
            f"GeoJSON needs boxes of two columns, but these lie in {len(axes)}: "
            f"{', '.join(axis.column for axis in axes)}.",
        )
    swapped = axes[1].column.lower().startswith(("lon", "lng"))
    (west, east), (south, north) = (
        _edges(boxes, name) for name in (axes[::-1] if swapped else axes)
    )
    rings = np.array([[west, south], [east, south], [east, north], [west, north], [west, south]])
    properties = boxes.select(
        [name for name in _PROPERTIES if name in boxes.column_names]
    ).to_pylist()
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [ring]},
            "properties": described,
        }
        for ring, described in zip(rings.transpose(2, 0, 1).tolist(), properties, strict=True)
    ]
    return {"type": "FeatureCollection", "features": features}


def _edges(boxes: pa.Table, axis: Axis) -> tuple[FloatArray, FloatArray]:
    """The edges of boxes: half a declared step beyond their points, within the declared bounds."""
    first, last, half = _declared_ends(axis)
    lows = numbers(boxes, f"{axis.column}_low") - half
    highs = numbers(boxes, f"{axis.column}_high") + half
    # Twelve decimals are what a declared value can have.
    return np.clip(lows, first, None).round(12), np.clip(highs, None, last).round(12)


def _declared_ends(axis: Axis) -> tuple[float, float, float]:
    """The declared ends of a column, and half of its step (for values, of their smallest gap)."""
    if isinstance(axis, Grid):
        ends = (axis.bounds.low, axis.bounds.high)
        low, high = (end.toordinal() - EPOCH if isinstance(end, date) else end for end in ends)
        return float(low), float(high), float(axis.bounds.grid_step or 1) / 2
    values = np.unique(numbers(pa.table({axis.column: axis.values.drop_null()}), axis.column))
    half = float(np.diff(values).min() / 2) if len(values) > 1 else 0.0
    return float(values[0]), float(values[-1]), half
