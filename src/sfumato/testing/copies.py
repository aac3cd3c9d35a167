"""Many releases of a small table at once, of a method that treats every cell by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.axes import Axis, Grid
from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds
from sfumato.testing.counts import frequencies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.publish.request import Method

ABSENT = -(10**9)
"""Stands for the count of a cell that was not released."""


def line(name: str, points: int) -> Grid:
    """A column of the whole numbers from 0 on, never missing."""
    return Grid(name, Kind.INTEGER, Bounds(0, points - 1, 1), nullable=False)


def release_copies(
    make: Callable[[tuple[Axis, ...]], Method],
    table: Sequence[int],
    copies: int,
    entropy: Entropy,
) -> NDArray[np.int64]:
    """One row for each copy of a table of one column: its released counts, or ABSENT.

    `make` prepares the method for the columns "copy" and "x". As cells are independent, one release
    over all copies is as many releases of one.
    """
    axes = (line("copy", copies), line("x", len(table)))
    counts = frequencies(axes, np.broadcast_to(np.array(table), (copies, len(table))))
    released = next(iter(make(axes).release(counts, entropy).values()))
    outputs = np.full((copies, len(table)), ABSENT, dtype=np.int64)
    outputs[released["copy"].to_numpy(), released["x"].to_numpy()] = released["count"].to_numpy()
    return outputs
