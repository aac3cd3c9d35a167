"""Released boxes as GeoJSON, which map programs read."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.axes import Grid
from sfumato.errors import ParameterError
from sfumato.publish.spatial.nearest import EPOCH, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.axes import Axis


_TOLD = ("level", "count", "sd")


def to_geojson(boxes: pa.Table, axes: Sequence[Axis]) -> dict[str, Any]:
    """Boxes as a FeatureCollection of rectangles with their count and, if known, its noise's sd.

    Longitude comes first in GeoJSON: of the two columns it is the one whose name begins with lon or
    lng or, if there is none, the first. A point of a declared grid stands for all values that are
    nearest to it, so rectangles reach half a step beyond their points and touch each other, but
    none goes beyond the declared bounds: together they are always the same rectangle.
    """
    if len(axes) != 2:
        raise ParameterError(
            "geojson_columns",
            f"GeoJSON needs boxes of two columns, but these lie in {len(axes)}: "
            f"{', '.join(axis.column for axis in axes)}.",
        )
    turned = axes[1].column.lower().startswith(("lon", "lng"))
    (west, east), (south, north) = (_edges(boxes, one) for one in (axes[::-1] if turned else axes))
    rings = np.array([[west, south], [east, south], [east, north], [west, north], [west, south]])
    properties = boxes.select([one for one in _TOLD if one in boxes.column_names]).to_pylist()
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [ring]},
            "properties": described,
        }
        for ring, described in zip(rings.transpose(2, 0, 1).tolist(), properties, strict=True)
    ]
    return {"type": "FeatureCollection", "features": features}


def _edges(boxes: pa.Table, axis: Axis) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the boxes end: half a declared step beyond their points, within what is declared."""
    first, last, half = _declared(axis)
    lows = numbers(boxes, f"{axis.column}_low") - half
    highs = numbers(boxes, f"{axis.column}_high") + half
    # Twelve decimals are what a declared value can have.
    return np.clip(lows, first, None).round(12), np.clip(highs, None, last).round(12)


def _declared(axis: Axis) -> tuple[float, float, float]:
    """The declared ends of a column, and half of its step: that of values is their least gap."""
    if isinstance(axis, Grid):
        ends = (axis.bounds.low, axis.bounds.high)
        low, high = (one.toordinal() - EPOCH if isinstance(one, date) else one for one in ends)
        return float(low), float(high), float(axis.bounds.grid_step or 1) / 2
    values = np.unique(numbers(pa.table({axis.column: axis.values.drop_null()}), axis.column))
    half = float(np.diff(values).min() / 2) if len(values) > 1 else 0.0
    return float(values[0]), float(values[-1]), half
