"""Hierarchical reference systems: cells for each speed, the finest for the slowest.

A step from one point to the next is told at the finest cells in which it leads no farther than to a
neighbour. So slow steps are told precisely and fast ones coarsely, each with few moves to choose
from: nine among squares, seven among hexagons.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.cells import Box, CellSystem, Hexagons, SingleCell, Squares

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray


# So many cells across are all neighbours of each other.
_COARSEST = 2


@dataclass(frozen=True)
class ReferenceSystems:
    """Cells from the finest to the coarsest; each of a coarser system is made of finer ones."""

    box: Box
    systems: tuple[CellSystem, ...]
    above: tuple[IntArray, ...]
    """For each system, the cell of it that holds each of the finest cells."""

    @classmethod
    def squares(cls, box: Box, finest: int) -> ReferenceSystems:
        """Squares by halves: so many of the finest along the longer side of the box."""
        wide, high = box.east - box.west, box.north - box.south
        across = finest if wide >= high else max(round(finest * wide / high), 1)
        up = finest if high >= wide else max(round(finest * high / wide), 1)
        grid = Squares.of(box, across, up)
        systems: list[CellSystem] = [grid]
        above = [np.arange(grid.size)]
        while max(grid.across, grid.up) > _COARSEST:
            grid, belongs = grid.halved()
            systems.append(grid)
            above.append(belongs[above[-1]])
        return cls(box, tuple(systems), tuple(above))

    @classmethod
    def hexagons(cls, box: Box, resolution: int, levels: int = 4) -> ReferenceSystems:
        """Hexagons of H3 and those that they belong to, then everything as one cell."""
        grid = Hexagons.of(box, resolution)
        systems: list[CellSystem] = [grid]
        above = [np.arange(grid.size)]
        for _ in range(min(levels - 1, resolution)):
            if grid.size <= 1:
                break
            grid, belongs = grid.parents()
            systems.append(grid)
            above.append(belongs[above[-1]])
        systems.append(SingleCell(systems[0]))
        above.append(np.zeros(systems[0].size, dtype=np.int64))
        return cls(box, tuple(systems), tuple(above))

    def locate(self, x: FloatArray, y: FloatArray) -> IntArray:
        """The finest cell of each point."""
        finest = self.systems[0]
        if isinstance(finest, Hexagons):
            return finest.locate(x, y, self.box)
        assert isinstance(finest, Squares)
        return finest.locate(x, y)

    def assign(
        self, start: IntArray, end: IntArray, chosen: tuple[int, ...]
    ) -> tuple[IntArray, IntArray]:
        """Of steps between finest cells: the place in `chosen` of the system, and the move."""
        system = np.full(len(start), len(chosen) - 1, dtype=np.int64)
        move = np.zeros(len(start), dtype=np.int64)
        open_ = np.arange(len(start))
        for index, number in enumerate(chosen):
            belongs = self.above[number]
            around = self.systems[number].neighbours[belongs[start[open_]]]
            hit = around == belongs[end[open_]][:, None]
            is_told = hit.any(axis=1)
            system[open_[is_told]] = index
            move[open_[is_told]] = hit[is_told].argmax(axis=1)
            open_ = open_[~is_told]
        return system, move

    def fine_cells(self, number: int) -> IntArray:
        """How many of the finest cells each cell of a system has."""
        return np.bincount(self.above[number], minlength=self.systems[number].size)

    @property
    def headings(self) -> int:
        """How many ways a path may head, none among them: the moves of the finest system."""
        return int(self.systems[0].neighbours.shape[1])

    @cached_property
    def side(self) -> float:
        """From one of the finest cells to the next."""
        grid = self.systems[0]
        cell, move = np.argwhere(grid.neighbours[:, 1:] >= 0)[0]
        neighbour = grid.neighbours[cell, 1 + move]
        return float(np.hypot(*(grid.centres[cell] - grid.centres[neighbour])))
