"""Where the people of the made-up town live: an old town, suburbs, a road, and much empty land."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.demo.draws import Choice, bell, uniform
from sfumato.schema.column import Column, Kind, Role
from sfumato.schema.domain import Bounds
from sfumato.schema.schema import Schema

SIDE = 64
"""The map is a square of so many by so many cells."""

# Middle, spread and weight of each place; positions in cells from the lower left corner.
_PLACES = np.array(
    [
        (20.0, 36.0, 2.0, 5.0),
        (24.0, 30.0, 5.0, 4.0),
        (46.0, 46.0, 2.5, 2.0),
        (50.0, 14.0, 1.5, 1.5),
        (9.0, 10.0, 1.2, 0.5),
    ]
)
_ROAD = 1.5  # its weight; it runs between the first place and the fourth
SCHEMA = Schema(
    "homes",
    tuple(
        Column(name, Kind.INTEGER, Role.QUASI, Bounds(0, SIDE - 1), nullable=False)
        for name in ("east", "north")
    ),
)


def table(people: int) -> pa.Table:
    """Make the homes of the first `people` people, one row each."""
    counters = np.arange(people, dtype=np.uint64)
    kind = Choice(np.append(_PLACES[:, 3], _ROAD))("home place", counters)
    on_road = kind == len(_PLACES)
    place = _PLACES[np.where(on_road, 0, kind)]
    along = uniform("home on road", counters)
    middle = np.where(
        on_road[:, None],
        _PLACES[0, :2] + along[:, None] * (_PLACES[3, :2] - _PLACES[0, :2]),
        place[:, :2],
    )
    spread = np.where(on_road, 0.5, place[:, 2])
    cells = [
        np.clip(np.floor(middle[:, axis] + spread * bell(f"home {axis}", counters)), 0, SIDE - 1)
        for axis in range(2)
    ]
    return pa.table(
        {name: cell.astype(np.int64) for name, cell in zip(("east", "north"), cells, strict=True)}
    )
