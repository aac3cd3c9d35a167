"""Where the nearest rows to a point are expected to be, from released boxes."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError
from sfumato.publish import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def nearest(boxes: pa.Table, point: Sequence[float | date], k: int) -> pa.Table:
    """The boxes nearest to a point that together are expected to hold k rows.

    Boxes come by their distance, in the unit of the columns (days for dates), of which the first
    is that of the box around the point, 0. A negative count holds nobody. Where all boxes hold
    fewer than k rows, all of them are given.
    """
    names = columns(boxes)
    wanted = options.whole(k, "k", least=1, most=1 << 53)
    if len(point) != len(names):
        raise ParameterError(
            "nearest_point",
            f"A point among {', '.join(names)} has {len(names)} coordinates, not {len(point)}.",
        )
    squares = np.zeros(len(boxes))
    for name, place in zip(names, point, strict=True):
        at = place.toordinal() - EPOCH if isinstance(place, date) else place
        below = numbers(boxes, f"{name}_low") - at
        above = at - numbers(boxes, f"{name}_high")
        squares += np.maximum(np.maximum(below, above), 0.0) ** 2
    order = np.argsort(squares, kind="stable")
    mass = np.cumsum(np.maximum(numbers(boxes, "count")[order], 0.0))
    taken = order[: np.searchsorted(mass, wanted) + 1]
    found = boxes.take(pa.array(taken))
    found = found.append_column("distance", pa.array(np.sqrt(squares[taken])))
    return found.append_column("expected", pa.array(mass[: len(taken)]))


def columns(table: pa.Table) -> list[str]:
    """The names of the columns that released boxes lie in."""
    return [name.removesuffix("_low") for name in table.column_names if name.endswith("_low")]


def numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    """A column of released boxes as numbers; dates count in days."""
    values = table.column(name)
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ParameterError(
            "boxes_not_numbers",
            f"Column {name!r} of the boxes holds {values.type}, which has no distances. Distances "
            "and maps need columns of numbers or dates.",
        )
    return np.asarray(values, dtype=np.float64)


EPOCH = date(1970, 1, 1).toordinal()
"""The day from which dates are counted."""
