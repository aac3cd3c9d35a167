"""Cells of a declared box: squares of the plane, or hexagons of the earth.

What a method knows of cells is the same for both: how many there are, where a point lies, which
cells touch, and a point within one. Hexagons are those of H3 and need the extra `hexagons`.
Decision `trajectories`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray


class Box(NamedTuple):
    """The declared part of the plane, which is public. Points beyond it count as at its edge."""

    west: float
    south: float
    east: float
    north: float

    def inside(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Points clipped to the box."""
        return np.clip(x, self.west, self.east), np.clip(y, self.south, self.north)


class CellSystem(Protocol):
    """A finite number of cells that cover a box."""

    @property
    def size(self) -> int:
        """The number of cells."""
        ...

    @property
    def centres(self) -> FloatArray:
        """The centre of each cell, (cells, 2)."""
        ...

    @property
    def neighbours(self) -> IntArray:
        """(cells, moves): the target of each move, or -1. A move has one direction in all cells.

        Move 0 stays.
        """
        ...

    def within(self, cells: IntArray, drawn: FloatArray) -> FloatArray:
        """Points within cells, (points, 2), from uniform numbers, (points, 2)."""
        ...


# The moves to a cell itself, first, and to the eight around it.
_AROUND = sorted(
    ((east, north) for east in (-1, 0, 1) for north in (-1, 0, 1)), key=lambda move: move != (0, 0)
)


@dataclass(frozen=True)
class Squares:
    """Equal rectangles, numbered from the south-west corner row by row."""

    box: Box
    across: int
    up: int
    width: float
    height: float

    @classmethod
    def of(cls, box: Box, across: int, up: int) -> Squares:
        """Cut the box into `across` times `up` cells."""
        return cls(box, across, up, (box.east - box.west) / across, (box.north - box.south) / up)

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.across * self.up

    def locate(self, x: FloatArray, y: FloatArray) -> IntArray:
        """Return the cell of each point."""
        x, y = self.box.inside(x, y)
        east = np.floor((x - self.box.west) / self.width).astype(np.int64)
        north = np.floor((y - self.box.south) / self.height).astype(np.int64)
        cells: IntArray = np.minimum(north, self.up - 1) * self.across + np.minimum(
            east, self.across - 1
        )
        return cells

    @cached_property
    def centres(self) -> FloatArray:
        """The middle of each cell."""
        north, east = np.divmod(np.arange(self.size), self.across)
        return np.stack(
            [
                self.box.west + (east + 0.5) * self.width,
                self.box.south + (north + 0.5) * self.height,
            ],
            axis=1,
        )

    @cached_property
    def neighbours(self) -> IntArray:
        """The cell itself and the eight around it."""
        north, east = np.divmod(np.arange(self.size), self.across)
        neighbours_of_cell = np.full((self.size, len(_AROUND)), -1, dtype=np.int64)
        for move, (right, above) in enumerate(_AROUND):
            x, y = east + right, north + above
            held = (x >= 0) & (x < self.across) & (y >= 0) & (y < self.up)
            neighbours_of_cell[held, move] = y[held] * self.across + x[held]
        return neighbours_of_cell

    def within(self, cells: IntArray, drawn: FloatArray) -> FloatArray:
        """Points of cells, by uniform numbers."""
        shape = np.array([self.width, self.height])
        return np.asarray(self.centres[cells] + (drawn - 0.5) * shape)

    def halved(self) -> tuple[Squares, IntArray]:
        """Cells twice as wide and high, and the one that holds each cell of this system."""
        across, up = (self.across + 1) // 2, (self.up + 1) // 2
        wider = Squares(self.box, across, up, 2 * self.width, 2 * self.height)
        north, east = np.divmod(np.arange(self.size), self.across)
        return wider, (north // 2) * across + east // 2


@dataclass(frozen=True)
class Hexagons:
    """Cells of H3 in degrees of longitude and latitude, all of one resolution."""

    names: tuple[int, ...]
    """Their numbers in H3, in order."""

    @classmethod
    def of(cls, box: Box, resolution: int) -> Hexagons:
        """Return all that touch a box of longitudes and latitudes."""
        h3 = _h3()
        corners = [
            (box.south, box.west),
            (box.south, box.east),
            (box.north, box.east),
            (box.north, box.west),
        ]
        shape = h3.LatLngPoly(corners)
        cells = h3.polygon_to_cells_experimental(shape, resolution, contain="overlap")
        return cls(tuple(sorted(int(cell) for cell in cells)))

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.names)

    def locate(self, x: FloatArray, y: FloatArray, box: Box) -> IntArray:
        """Return the cell of each point."""
        h3 = _h3()
        resolution = h3.get_resolution(self.names[0])
        x, y = box.inside(x, y)
        cells = [
            h3.latlng_to_cell(north, east, resolution) for north, east in zip(y, x, strict=True)
        ]
        names = np.array(self.names, dtype=np.uint64)
        positions = np.searchsorted(names, np.array(cells, dtype=np.uint64)).clip(max=self.size - 1)
        return positions.astype(np.int64)

    @cached_property
    def centres(self) -> FloatArray:
        """The middle of each cell, as longitude and latitude."""
        h3 = _h3()
        return np.array([h3.cell_to_latlng(name)[::-1] for name in self.names])

    @cached_property
    def neighbours(self) -> IntArray:
        """The cell itself and the six around it, each in its direction."""
        h3 = _h3()
        number_of_name = {name: number for number, name in enumerate(self.names)}
        neighbours_of_cell = np.full((self.size, 7), -1, dtype=np.int64)
        neighbours_of_cell[:, 0] = np.arange(self.size)
        for number, name in enumerate(self.names):
            for neighbour in h3.grid_disk(name, 1):
                near = number_of_name.get(int(neighbour))
                if near is not None and near != number:
                    east, north = self.centres[near] - self.centres[number]
                    turn = np.arctan2(north, east * np.cos(np.radians(self.centres[number, 1])))
                    sixth = int(np.floor(turn / (np.pi / 3))) % 6
                    free = [
                        direction % 6
                        for direction in range(sixth, sixth + 6)
                        if neighbours_of_cell[number, 1 + direction % 6] < 0
                    ]
                    neighbours_of_cell[number, 1 + free[0]] = near
        return neighbours_of_cell

    def within(self, cells: IntArray, drawn: FloatArray) -> FloatArray:
        """Points within cells: uniform in a triangle of the centre and a random side."""
        h3 = _h3()
        corners = np.full((self.size, 6, 2), np.nan)
        for number, name in enumerate(self.names):
            boundary = np.array(h3.cell_to_boundary(name))[:, ::-1]
            corners[number] = boundary[np.arange(6) % len(boundary)]
        side = (drawn[:, 0] * 6).astype(np.int64).clip(0, 5)
        along = drawn[:, 0] * 6 - side
        middle = self.centres[cells]
        first, second = corners[cells, side], corners[cells, (side + 1) % 6]
        reach = np.sqrt(drawn[:, 1])[:, None]
        return np.asarray(middle + reach * (first + along[:, None] * (second - first) - middle))

    def parents(self) -> tuple[Hexagons, IntArray]:
        """Return the cells of the next coarser resolution, and the parent of each cell."""
        h3 = _h3()
        up = h3.get_resolution(self.names[0]) - 1
        parent_names = np.array(
            [h3.cell_to_parent(name, up) for name in self.names], dtype=np.uint64
        )
        names, belongs = np.unique(parent_names, return_inverse=True)
        return Hexagons(tuple(names.tolist())), belongs.astype(np.int64)


@dataclass(frozen=True)
class SingleCell:
    """One cell that covers everything, so that every step can be expressed in some system."""

    below: CellSystem

    size = 1

    @property
    def centres(self) -> FloatArray:
        """The middle of all."""
        return np.asarray(self.below.centres.mean(axis=0, keepdims=True))

    @property
    def neighbours(self) -> IntArray:
        """It leads only to itself."""
        return np.zeros((1, 1), dtype=np.int64)

    def within(self, cells: IntArray, drawn: FloatArray) -> FloatArray:  # noqa: ARG002  there is but one
        """Points of the cells below, uniform over these cells."""
        chosen = (drawn[:, 0] * self.below.size).astype(np.int64)
        within_cell = np.stack([drawn[:, 0] * self.below.size - chosen, drawn[:, 1]], axis=1)
        return self.below.within(chosen, within_cell)


def _h3() -> Any:
    try:
        from h3.api import basic_int  # type: ignore[import-untyped]
    except ImportError:
        raise ParameterError(
            "package_missing",
            "Hexagons need the package h3. Install it with: pip install 'sfumato[hexagons]'; or "
            "leave out hexagons, which takes squares.",
        ) from None
    return basic_int


# Hierarchical reference systems: cells for each speed, the finest for the slowest.
#
# A step from one point to the next is told at the finest cells in which it leads no farther than
# to a neighbour. So slow steps are told precisely and fast ones coarsely, each with few moves to
# choose from: nine among squares, seven among hexagons.


# So many cells across are all neighbours of each other.
_COARSEST = 2


@dataclass(frozen=True)
class ReferenceSystems:
    """Systems of cells from the finest to the coarsest. A coarser cell consists of finer ones."""

    box: Box
    systems: tuple[CellSystem, ...]
    above: tuple[IntArray, ...]
    """For each system, the cell of it that holds each of the finest cells."""

    @classmethod
    def squares(cls, box: Box, finest: int) -> ReferenceSystems:
        """Squares, `finest` of them along the longer side of the box, then doubled in size."""
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
        """Hexagons of H3, their parents, and one cell that covers everything."""
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
        """Return the finest cell of each point."""
        finest = self.systems[0]
        if isinstance(finest, Hexagons):
            return finest.locate(x, y, self.box)
        assert isinstance(finest, Squares)
        return finest.locate(x, y)

    def assign(
        self, start: IntArray, end: IntArray, chosen: tuple[int, ...]
    ) -> tuple[IntArray, IntArray]:
        """The finest chosen system that can express each step, as an index, and the move in it."""
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
        """Return how many of the finest cells each cell of a system has."""
        return np.bincount(self.above[number], minlength=self.systems[number].size)

    @property
    def headings(self) -> int:
        """The number of headings: the moves of the finest system, with 0 for none."""
        return int(self.systems[0].neighbours.shape[1])

    @cached_property
    def side(self) -> float:
        """The distance between the centres of two neighbouring finest cells."""
        grid = self.systems[0]
        cell, move = np.argwhere(grid.neighbours[:, 1:] >= 0)[0]
        neighbour = grid.neighbours[cell, 1 + move]
        return float(np.hypot(*(grid.centres[cell] - grid.centres[neighbour])))
