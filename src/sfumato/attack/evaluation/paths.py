"""What an evaluation has found of paths, where rows are points of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray


@dataclass(frozen=True)
class ComparedPaths:
    """Paths of either table: how far answers differ, and where their points lie."""

    many: tuple[int, int]
    """How many there are in the original and in the synthetic table."""
    figures: Mapping[str, float]
    """By name; 0 is best but for patterns, where 1 is."""
    maps: tuple[FloatArray, FloatArray]
    """The share of points in each cell of the declared box, from south to north, west to east."""

    def json(self) -> dict[str, Any]:
        """The figures, ready to be written."""
        return {"original": self.many[0], "synthetic": self.many[1], **self.figures}
