"""Classes of linear queries over the cells of a table: ranges, cells of marginals, parities.

Tables come as arrays of shape (runs, codes of each column), so that many can be asked at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.errors import ParameterError
from sfumato.privacy.estimation.boxes import box_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray

# The most queries of a class.
MAX_QUERIES = 1 << 20


class Queries(Protocol):
    """Linear queries with weights 0 and 1, or 1 and -1 where `signed`."""

    @property
    def name(self) -> str:
        """What they are called among a release's parameters."""
        ...

    @property
    def signed(self) -> bool:
        """Whether weights are 1 and -1."""
        ...

    def __len__(self) -> int: ...

    def answers(self, cells: NDArray[Any]) -> FloatArray:
        """Every query of every table: (runs, queries). Exact for whole numbers below 2^53."""
        ...

    def weights(self, chosen: IntArray) -> FloatArray:
        """The weight of every cell in one query for each run: the shape of the tables."""
        ...


@dataclass(frozen=True)
class RangeQueries:
    """How many rows lie in boxes of inclusive codes."""

    sizes: tuple[int, ...]
    boxes: IntArray
    name, signed = "ranges", False

    @classmethod
    def dyadic(cls, sizes: tuple[int, ...]) -> RangeQueries:
        """Blocks of 1, 2, 4, ... codes of each column, in all combinations, large ones first.

        Where these are too many, the smallest blocks are left out.
        """
        smallest = 0
        while prod(len(_dyadic(size, smallest)) for size in sizes) > MAX_QUERIES:
            smallest += 1
        ends = [_dyadic(size, smallest) for size in sizes]
        grid = np.indices([len(column) for column in ends]).reshape(len(sizes), -1)
        boxes = np.stack(
            [column_ends[indices] for column_ends, indices in zip(ends, grid, strict=True)], axis=1
        )
        cells = (boxes[:, :, 1] - boxes[:, :, 0] + 1).prod(axis=1)
        return cls(sizes, boxes[np.argsort(-cells, kind="stable")])

    def __len__(self) -> int:
        return len(self.boxes)

    def answers(self, cells: NDArray[Any]) -> FloatArray:
        """Every range of every table."""
        return np.stack([box_sums(table, self.boxes) for table in cells])

    def weights(self, chosen: IntArray) -> FloatArray:
        """1 inside the range, 0 outside."""
        inside = np.ones((len(chosen), *self.sizes), dtype=bool)
        for column, size in enumerate(self.sizes):
            codes = np.arange(size)
            low, high = self.boxes[chosen, column].T[:, :, None]
            inside &= _along((low <= codes) & (codes <= high), column, len(self.sizes))
        return inside.astype(np.float64)


@dataclass(frozen=True)
class MarginalQueries:
    """How many rows have given codes in some columns, in all sets of at most `way` columns."""

    sizes: tuple[int, ...]
    way: int
    name, signed = "marginals", False

    def __post_init__(self) -> None:
        _check_number(len(self))

    @cached_property
    def sets(self) -> list[tuple[int, ...]]:
        """The sets of columns, small ones first."""
        columns = range(len(self.sizes))
        return [
            column_set
            for size in range(1, self.way + 1)
            for column_set in combinations(columns, size)
        ]

    @cached_property
    def _firsts(self) -> IntArray:
        """The number of the first query of each set, and behind the last one that of all."""
        lengths = [prod(self.sizes[column] for column in column_set) for column_set in self.sets]
        return np.cumsum([0, *lengths])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def answers(self, cells: NDArray[Any]) -> FloatArray:
        """Every cell of every marginal, set by set."""
        columns = range(len(self.sizes))
        sums = [
            cells.sum(axis=tuple(column + 1 for column in columns if column not in column_set))
            for column_set in self.sets
        ]
        flat = [column_set.reshape(len(cells), -1) for column_set in sums]
        return np.concatenate(flat, axis=1).astype(np.float64)

    def weights(self, chosen: IntArray) -> FloatArray:
        """1 where all codes of the query are met, 0 elsewhere."""
        inside = np.ones((len(chosen), *self.sizes), dtype=bool)
        set_index = np.searchsorted(self._firsts, chosen, side="right") - 1
        for number, columns in enumerate(self.sets):
            runs = np.flatnonzero(set_index == number)
            cell = chosen[runs] - self._firsts[number]
            codes = np.unravel_index(cell, [self.sizes[column] for column in columns])
            for column, code in zip(columns, codes, strict=True):
                met = code[:, None] == np.arange(self.sizes[column])
                inside[runs] &= _along(met, column, len(self.sizes))
        return inside.astype(np.float64)


@dataclass(frozen=True)
class ParityQueries:
    """Rows with an even number of 1s less those with an odd number, among 1 to `way` digits.

    The digits are those of the codes in binary, of all columns together; a column of two codes has
    one.
    """

    sizes: tuple[int, ...]
    way: int
    name, signed = "parities", True

    def __post_init__(self) -> None:
        _check_number(sum(comb(self.digits, size) for size in range(1, self.way + 1)))

    @cached_property
    def _widths(self) -> list[int]:
        return [(size - 1).bit_length() for size in self.sizes]

    @property
    def digits(self) -> int:
        """How many binary digits the codes of a cell have."""
        return sum(self._widths)

    @cached_property
    def masks(self) -> IntArray:
        """The digits of each query, as the digits 1 of a number; fewer digits first."""
        return np.array(
            [
                sum(1 << digit for digit in chosen)
                for size in range(1, self.way + 1)
                for chosen in combinations(range(self.digits), size)
            ],
            dtype=np.int64,
        )

    def __len__(self) -> int:
        return len(self.masks)

    def answers(self, cells: NDArray[Any]) -> FloatArray:
        """Every parity of every table, by the fast Walsh-Hadamard transform."""
        room = [
            (0, (1 << width) - size) for size, width in zip(self.sizes, self._widths, strict=True)
        ]
        table = np.pad(cells, [(0, 0), *room]).astype(np.float64).reshape(len(cells), -1)
        for digit in range(self.digits):
            pairs = table.reshape(len(cells), -1, 2, 1 << digit)
            even, odd = pairs[:, :, 0], pairs[:, :, 1]
            table = np.stack([even + odd, even - odd], axis=2)
        return table.reshape(len(cells), -1)[:, self.masks]

    def weights(self, chosen: IntArray) -> FloatArray:
        """1 where the digits 1 among the query's are even in number, -1 where odd."""
        codes = np.zeros(self.sizes, dtype=np.int64)
        for column, (size, width) in enumerate(zip(self.sizes, self._widths, strict=True)):
            codes = (codes << width) | _along(np.arange(size)[None], column, len(self.sizes))[0]
        masks = self.masks[chosen].reshape(-1, *[1] * len(self.sizes))
        return np.asarray(1.0 - 2.0 * (np.bitwise_count(codes & masks) & 1))


def _dyadic(size: int, smallest: int) -> IntArray:
    """The ends of the blocks of at least 2^smallest codes; the last of a length may be short."""
    levels = range(smallest, max((size - 1).bit_length(), smallest) + 1)
    lows = [np.arange(0, size, 1 << level) for level in levels]
    ends = [
        np.stack([low, np.minimum(low + (1 << exponent), size) - 1], axis=1)
        for low, exponent in zip(lows, levels, strict=True)
    ]
    return np.unique(np.concatenate(ends), axis=0)


def _along(rows: NDArray[Any], column: int, dimensions: int) -> NDArray[Any]:
    """Lay arrays (runs, codes) along one of the columns' axes."""
    shape = [rows.shape[0], *[1] * dimensions]
    shape[column + 1] = rows.shape[1]
    return rows.reshape(shape)


def _check_number(queries: int) -> None:
    if not 1 <= queries <= MAX_QUERIES:
        raise ParameterError(
            "problem_too_large",
            f"There would be {queries:,} queries; from 1 to {MAX_QUERIES:,} are possible. Take "
            "fewer columns or a smaller way.",
        )
