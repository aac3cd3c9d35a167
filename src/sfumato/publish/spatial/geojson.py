"""Released boxes as GeoJSON, which map programs read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.publish.spatial.nearest import columns, numbers

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


_TOLD = ("level", "count", "sd")


def to_geojson(boxes: pa.Table) -> dict[str, Any]:
    """Boxes as a FeatureCollection of rectangles with their count and, if known, its noise's sd.

    Longitude comes first in GeoJSON: of the two columns it is the one whose name begins with lon or
    lng or, if there is none, the first. A point of a declared grid stands for all values that are
    nearest to it, so rectangles reach half a step beyond their points and touch each other.
    """
    names = columns(boxes)
    if len(names) != 2:
        raise ParameterError(
            "geojson_columns",
            f"GeoJSON needs boxes of two columns, but these lie in {len(names)}: "
            f"{', '.join(names)}.",
        )
    if names[1].lower().startswith(("lon", "lng")):
        names.reverse()
    (west, east), (south, north) = (_edges(boxes, name) for name in names)
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


def _edges(boxes: pa.Table, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the boxes end: half a step beyond their first and last points."""
    lows, highs = numbers(boxes, f"{name}_low"), numbers(boxes, f"{name}_high")
    # Boxes fill the space, so the next box begins one step behind the last point of another.
    starts, ends = np.unique(lows)[1:], np.unique(highs)[:-1]
    half = float((starts - ends).min() / 2) if len(starts) else 0.0
    # Twelve decimals are what a declared value can have.
    return np.round(lows - half, 12), np.round(highs + half, 12)
