"""Strategies that are diagonal in the projections between levels: exact errors of any ranges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.privacy.events import Composed
from sfumato.publish.tree.ladder import outer, spectrum, variances

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.privacy.events import Event
    from sfumato.publish.purse import Noise
    from sfumato.publish.tree.estimate import Level
    from sfumato.publish.tree.ladder import Ladder


class Measured(NamedTuple):
    """One level of blocks, or one projection, with the share of the price that its noise costs."""

    level: Level
    share: Fraction
    noise: Noise


@dataclass(frozen=True, eq=False)
class Diagonal(ABC):
    """What follows from what is measured, and from the precision of each projection."""

    ladders: tuple[Ladder, ...]
    measured: tuple[Measured, ...]

    @property
    def event(self) -> Event:
        """What all measurements cost together."""
        return Composed(tuple(one.noise.event for one in self.measured))

    @property
    @abstractmethod
    def precisions(self) -> NDArray[np.float64]:
        """1 / variance of the estimate in each projection."""

    @property
    def coarse(self) -> bool:
        """Whether a cell has several values."""
        return any(ladder.cuts is not None for ladder in self.ladders)

    @property
    def cell_variance(self) -> float:
        """The variance of a cell: all have the same."""
        ends = [0 if one.cuts is None else int(one.cuts[1]) - 1 for one in self.ladders]
        return float(self.variances(np.array([[(0, end) for end in ends]]))[0])

    @property
    def labels(self) -> NDArray[np.int64]:
        """Cells are estimated one by one."""
        shape = [ladder.cells for ladder in self.ladders]
        return np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)

    def held(self, box: NDArray[np.int64]) -> NDArray[np.float64]:
        """The part of each cell that a box holds."""
        sides = (ladder.held(*ends) for ladder, ends in zip(self.ladders, box, strict=True))
        return outer(list(sides)).ravel()

    def variances(self, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The variance of the estimate of each box."""
        return variances(self.ladders, boxes, self.precisions)

    def mean_variance(self, boxes: NDArray[np.int64] | None) -> float:
        """The mean variance over boxes, or over all ranges of cells where none are given."""
        return float((spectrum(self.ladders, boxes) / self.precisions).sum())
