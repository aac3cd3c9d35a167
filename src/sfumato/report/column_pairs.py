"""A column of several tables beside each other, as a page draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Distribution:
    """The shares of rows that have each value; `off` is how far each may be off by noise."""

    name: str
    shares: FloatArray
    off: float = 0.0


@dataclass(frozen=True, eq=False)
class SideBySide:
    """One column in several tables: what places stand for, and the shares that lie there.

    On a scale of numbers or days `starts` has where the stretch of each place begins, and where
    the last ends; places behind those lie outside the scale, as missing values do. `told` says
    what a reader must know of the column.
    """

    column: str
    labels: Sequence[str]
    sides: Sequence[Distribution]
    starts: Sequence[float] = ()
    dates: bool = False
    told: str = ""

    @property
    def moved(self) -> float:
        """The share of rows that would have to take other values for two tables to be the same."""
        first, second = (one.shares for one in self.sides)
        return float(np.abs(first - second).sum() / 2)
