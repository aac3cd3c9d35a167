"""The adaptive grid: cells of a coarse grid are divided the finer, the more rows they hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.measurement import noise_name
from sfumato.methods.publish.postprocess import check
from sfumato.methods.publish.spatial_tree import MAX_BOXES, Decomposition, Space
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import IntArray
    from sfumato.methods.publish.request import Request
    from sfumato.methods.publish.spatial_tree import Growth
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


# The shares of the price: of the total, of the coarse grid and of the fine grid.
_SHARES = (Fraction(1, 50), Fraction(49, 100), Fraction(49, 100))
# The constant c of the paper: rows times epsilon in one cell of the best even grid.
_ROWS_PER_CELL = 10
# Bounds on the number of coarse cells per side; the lower one is the paper's.
_COARSEST, _FINEST = 10, 512


def prepare(request: Request, *, grid: object = None) -> AdaptiveGrid:
    """Choose the noise of least variance; `grid` is the number of coarse cells per side."""
    if len(request.axes) != 2:
        raise ParameterError(
            "columns_invalid",
            f"An adaptive grid lies over two columns, not {len(request.axes)}. Name two, or "
            "publish as 'kdtree'.",
        )
    coarse = None if grid is None else options.whole(grid, "grid", least=1, most=_FINEST)
    check(request.postprocess)
    candidates = [
        tuple(spending.noise(request.sensitivity, share) for share in _SHARES)
        for spending in spendings(request.price)
    ]
    least = min(candidates, key=lambda noises: noises[-1].variance)
    return AdaptiveGrid(
        space=Space(request.axes), noises=least, grid=coarse, steps=request.postprocess
    )


@dataclass(frozen=True, kw_only=True)
class AdaptiveGrid(Decomposition):
    """A grid of m x m cells, each divided into n x n; m and n follow from noisy counts.

    With E = sqrt(2) / sd of a measurement, m = max(10, ceil(sqrt(rows E / 10) / 4)) and a cell of
    about r rows has n = ceil(sqrt(r E / 5)).

    *Guarantee*: the price in full: 2 % for the total, from which m follows, and 49 % for each of
    the two grids. Sizes follow from noisy counts only.
    *Sensitivity*: of a histogram under the privacy unit, for each grid with the blocks of missing
    values.
    *Error*: of a cell at most the noise of its grid, less where both are made consistent. The noise
    that decided a division remains in the counts.
    *Edges*: a cell has at most as many parts as points. One with a noisy count below 1 is not
    divided.
    *Reference*: Qardaji, Yang & Li 2013: the adaptive grids approach and its guidelines.
    """

    grid: int | None

    @property
    def event(self) -> Event:
        """The privacy cost of the release."""
        return Composed(tuple(noise.event for noise in self.noises))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The noise, and the coarse grid where the request fixes it."""
        chosen = {"noise": noise_name(self.noises[0])}
        return chosen if self.grid is None else {**chosen, "grid": self.grid}

    def grow(self, growth: Growth, entropy: Entropy) -> None:
        """Measure the total, the coarse grid, and the fine one."""
        growth.measure(self.noises[0], entropy)
        coarse = self.grid
        if coarse is None:
            # Both grids together measure as well as one noise of the two strengths.
            strength = sum(math.sqrt(2) / noise.stddev for noise in self.noises[1:])
            rows = max(float(growth.estimates()[0]), 0.0)
            suggested = math.ceil(math.sqrt(rows * strength / _ROWS_PER_CELL) / 4)
            coarse = min(max(suggested, _COARSEST), _FINEST)
        self._divide(growth, np.full(len(growth.sizes()), coarse))
        growth.measure(self.noises[1], entropy)
        strength = math.sqrt(2) / self.noises[2].stddev
        cell_rows = np.maximum(growth.estimates(), 0.0)
        cells_per_side = np.ceil(np.sqrt(cell_rows * strength / (_ROWS_PER_CELL / 2)))
        most = math.isqrt(MAX_BOXES // coarse**2)
        self._divide(growth, np.clip(cells_per_side, 1, most).astype(np.int64))
        growth.measure(self.noises[2], entropy)

    def _divide(self, growth: Growth, cells_per_side: IntArray) -> None:
        """Divide each box into so many parts along both columns."""
        chosen = (cells_per_side > 1) & (growth.sizes() > 1).any(axis=1)
        division = growth.begin(chosen)
        cells_per_side = cells_per_side[chosen]
        for axis in range(2):
            division.evenly(axis, cells_per_side[division.origins])
        growth.end(division)
