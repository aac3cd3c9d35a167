"""Cells of a huge domain by number, and which of very many pass, each with the same small chance.

The chance p of a cell is irrational. A rational scale s is taken for which the chance
p' = 1 - exp(-1/s) is p or a trifle more, so that the cells passed over between two that pass with
chance p' are a geometric variable of scale s, which is drawn exactly; a cell found in this way is
kept with chance p / p', by a coin that compares as many digits of a uniform number, and of the
chance, as it takes. Cells then pass independently with chance p' (p / p') = p, exactly.

Decision `exact-noise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.grouping import keys
from sfumato.data.schema.column import Kind
from sfumato.errors import ParameterError
from sfumato.methods.publish.domain import figure_name
from sfumato.privacy.accounting.elementary import exp_down, exp_up, log_down, round_down
from sfumato.privacy.noise.discrete import geometric
from sfumato.privacy.noise.entropy import BLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.privacy.noise.entropy import Entropy

# The most cells of a sparse release.
MAX_CELLS = 1 << 60

_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class NumberedCells:
    """All cells of some declared axes, numbered in lexicographic order of their codes."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if self.count > MAX_CELLS:
            raise ParameterError(
                "problem_too_large",
                f"{' x '.join(axis.column for axis in self.axes)} has {self.count:,} cells; at "
                f"most {MAX_CELLS:,} can be numbered. Take fewer columns or a coarser step.",
            )

    @cached_property
    def count(self) -> int:
        """How many cells there are, those of missing values included."""
        return prod(axis.size for axis in self.axes)

    def occupied(self, counter: Counter) -> tuple[IntArray, IntArray]:
        """The cells that occur, in order, and how many rows are in each."""
        counts = counter.of([axis.column for axis in self.axes])
        return keys(counts.codes, counts.sizes)[0], counts.counts

    def table(self, numbers: IntArray, figures: NDArray[Any]) -> pa.Table:
        """One row for each of these cells, in their order: values and a count."""
        order = np.argsort(numbers)
        quotients, arrays = numbers[order], []
        for axis in reversed(self.axes):
            quotients, codes = np.divmod(quotients, axis.size)
            arrays.append(axis.decode(codes))
        names = [axis.column for axis in self.axes]
        return pa.Table.from_arrays(
            [*reversed(arrays), pa.array(figures[order])],
            names=[*names, figure_name(self.axes, "count")],
        )

    def box_sums(self, table: pa.Table, boxes: IntArray) -> FloatArray:
        """Add up the counts of a table of `table` over boxes of inclusive codes."""
        codes = [_codes(axis, table.column(axis.column)) for axis in self.axes]
        counted = table.column(figure_name(self.axes, "count"))
        figures = np.asarray(counted, dtype=np.float64)
        sums = np.empty(len(boxes))
        at_once = max(1, _AT_ONCE // max(len(figures), 1))
        for first in range(0, len(boxes), at_once):
            chunk = boxes[first : first + at_once]
            inside = np.ones((len(chunk), len(figures)), dtype=bool)
            for index, axis_codes in enumerate(codes):
                inside &= (axis_codes >= chunk[:, index, :1]) & (axis_codes <= chunk[:, index, 1:])
            sums[first : first + at_once] = inside @ figures
        return sums


def empty_cells(occupied: IntArray, ranks: IntArray) -> IntArray:
    """The cells at these ranks among those that are not occupied; both in order, ranks from 0."""
    # Before occupied cell c_j there are c_j - j others.
    others_before = occupied - np.arange(len(occupied))
    return np.asarray(ranks + np.searchsorted(others_before, ranks, side="right"))


def _codes(axis: Axis, values: pa.ChunkedArray) -> IntArray:
    """The codes of released values, of which missing ones are beyond all others."""
    if not isinstance(axis, Grid):
        return np.asarray(pc.index_in(values, value_set=axis.values), dtype=np.int64)
    first = axis.decode(np.zeros(1, dtype=np.int64))
    step = axis.bounds.grid_step or 1
    missing = np.asarray(pc.is_null(values, nan_is_null=True))
    if axis.kind is Kind.REAL:
        reals = np.nan_to_num(np.asarray(values.fill_null(0.0)))
        points = np.rint((reals - first[0].as_py()) / float(step)).astype(np.int64)
    else:
        if axis.kind is Kind.DATE:
            values, first = values.cast(pa.int32()), first.cast(pa.int32())
        # Differences of 64-bit integers fit 64 bits without a sign.
        unsigned = np.asarray(values.fill_null(0), dtype=np.int64).view(np.uint64)
        low = np.asarray(first, dtype=np.int64).view(np.uint64)
        points = ((unsigned - low) // np.uint64(step)).astype(np.int64)
    return np.where(missing, axis.points, points)


Bounds = tuple[Fraction, Fraction]
# Bounds on a chance below 1 that close in on it as the number of bits grows.
Chance = Callable[[int], Bounds]

_BITS = 256
_WORD_BITS = 64
# So small a chance that among 2^60 cells none passes but once in 2^40; skips stay of ordinary size.
_SMALLEST = Fraction(1, 1 << 100)


def power(scale: Fraction, exponent: int, bits: int) -> Bounds:
    """Bound exp(-exponent / scale) within 2^-bits."""
    level = exponent / scale
    if level > bits:
        return Fraction(0), Fraction(1, 1 << bits)
    return exp_down(-level, bits), exp_up(-level, bits)


class Passing:
    """Cells of which each passes with the same chance, below 1.

    *Guarantee*: each passes independently with exactly this chance.
    *Edges*: no cells, or a chance too small for any, give no places; at most 2^60 cells.
    *Reference*: Cormode, Procopiuc, Srivastava & Tran 2012, section 4; the module's argument.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        highest = max(chance(_BITS)[1], _SMALLEST)
        self._scale = round_down(-1 / log_down(1 - highest, _BITS))
        # A word below this is surely below p / p'.
        self._sure = min(
            (self._ratio(_BITS)[0] * (1 << _WORD_BITS)).__floor__(), (1 << _WORD_BITS) - 1
        )

    def draw(self, cells: int, entropy: Entropy) -> IntArray:
        """Which of [0, cells) pass, in order."""
        candidates = self._propose(cells, entropy)
        random_words = entropy.words(max(len(candidates), BLOCK))[: len(candidates)]
        accepted = random_words < np.uint64(self._sure)
        for index in np.flatnonzero(~accepted).tolist():
            accepted[index] = below(self._ratio, int(random_words[index]), entropy)
        return candidates[accepted]

    def _propose(self, cells: int, entropy: Entropy) -> IntArray:
        """The places that pass with chance p'."""
        chunks = [np.empty(0, dtype=np.int64)]
        position = 0
        while position < cells:
            expected = (cells - position) * -math.expm1(-float(1 / self._scale))
            draws = int(expected + 6 * math.sqrt(expected)) + BLOCK
            skips = geometric(self._scale, draws, entropy)
            # A skip beyond the end ends it, however long. What wraps lies behind one that does.
            ends = position + np.cumsum(np.minimum(skips, cells).astype(np.int64) + 1)
            beyond = np.flatnonzero(ends > cells)
            chunks.append(ends[: beyond[0] if len(beyond) else None] - 1)
            position = cells if len(beyond) else int(ends[-1])
        return np.concatenate(chunks)

    def _ratio(self, bits: int) -> Bounds:
        """Bounds on p / p', the chance with which a place found is kept."""
        low, high = self._chance(bits)
        proposed_low = 1 - exp_up(-1 / self._scale, bits)
        proposed_high = 1 - exp_down(-1 / self._scale, bits)
        return low / proposed_high, high / proposed_low


def below(chance: Chance, prefix: int, entropy: Entropy) -> bool:
    """Whether the uniform number that begins with these 64 digits is below a chance."""
    digits = _WORD_BITS
    while True:
        low, high = chance(_BITS + digits)
        if prefix + 1 <= low * (1 << digits):
            return True
        if prefix >= high * (1 << digits):
            return False
        prefix = prefix << _WORD_BITS | int(entropy.words(1)[0])
        digits += _WORD_BITS
