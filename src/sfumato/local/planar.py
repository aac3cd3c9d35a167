"""Places told with planar noise on a public grid: near places are hard to tell apart.

A person's place, in metres of a projected map, is snapped to a cell of a declared grid, moved by a
random number of whole cells, and brought back to the edge where that leaves the map. The move v of
cells has probability proportional to exp(-theta q(v)), q(v) the length of v rounded up to a part in
m = 4096 of a cell. For cells x and x' at a distance of d >= 1 cells q(y - x') - q(y - x) is at most
d + 1/m <= d (1 + 1/m); so theta = epsilon step m / (m + 1) gives ratios of at most
exp(epsilon step d): epsilon for every metre between two places, exactly, at a loss of a part in
4096. All places of the plane have the same total weight, because the grid of moves has no end.

*Drawing.* k = G1 + G2 of two geometric variables has weight (k + 1) e^(-theta k), and gives one of
8 (k + 1) numbers; of these 8 k are the moves whose larger coordinate is k (one, where k = 0). The
others are drawn again, and a move is kept with probability exp(-theta (q - k)). Each step is exact,
and none depends on where anybody is. Decision 0334.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import given
from sfumato.cards import Card
from sfumato.errors import ParameterError
from sfumato.local.amounts import numbers_of
from sfumato.local.level import level
from sfumato.local.mechanism import LocalMechanism, tallied
from sfumato.local.reports import Code, ReportLayout
from sfumato.noise.discrete import geometric
from sfumato.noise.entropy import BLOCK
from sfumato.noise.exponential import exceed
from sfumato.noise.selection import uniform_below
from sfumato.privacy.elementary import exp_up
from sfumato.privacy.numbers import decimal_of, exact, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.local.level import LocalEpsilon
    from sfumato.local.sketch import ReportSketch
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.numbers import Number

    Moves = NDArray[np.int64]

PARTS = 1 << 12
"""The parts of a cell that lengths are rounded up to: m."""

MOST_CELLS = 1 << 24
LEAST, MOST = Fraction(1, 1000), Fraction(20)
_FINE = Fraction(1, 20)
"""Where weights fall by less from cell to cell, cells are as good as points."""
_LONGEST = 1 << 18
"""Lengths of moves up to this many cells are reckoned in 64 bits."""


class PlanarLaplace(LocalMechanism):
    """A random cell of a public grid, the likelier the nearer it is to the person's place.

    *Guarantee*: epsilon times the distance, for any two places and any report: geo-
    indistinguishability, epsilon per metre (or the unit that places are given in). It is no plain
    LDP: places far apart can be told apart. A path of reports costs the sum of them.
    *Sensitivity*: None to establish: places beyond the map count as the nearest cell of it.
    *Error*: the distance r has mean about 2 / epsilon, variance 3 / epsilon^2 along each axis;
    epsilon r is below 1.678 / 4.744 / 6.638 for 50 / 95 / 99 % where cells are small beside it.
    *Edges*: coordinates must be projected, in one unit; degrees would make east shorter than north.
    *Reference*: Andres, Bordenabe, Chatzikokolakis & Palamidessi 2013; decision 0334.
    """

    name = "planar-laplace"
    counted_once = True

    def __init__(
        self,
        origin: Sequence[Number],
        *,
        step: Number,
        cells: Sequence[int],
        epsilon: Number | LocalEpsilon,
    ) -> None:
        self.level, self.step = level(epsilon), positive(step, "step")
        self.origin = tuple(exact(one, "origin") for one in _pair(origin, "origin"))
        self.cells = tuple(given.whole(one, "cells") for one in _pair(cells, "cells"))
        if min(self.cells) < 1 or math.prod(self.cells) > MOST_CELLS:
            raise ParameterError(
                "parameter_out_of_range",
                f"cells must be how many there are eastwards and northwards, {MOST_CELLS:,} in "
                "all at most. Take larger steps.",
            )
        self._each = self.level.lower * self.step
        if not LEAST <= self._each <= MOST:
            raise ParameterError(
                "parameter_out_of_range",
                f"epsilon times step is {float(self._each):g}; it must be between {LEAST} and "
                f"{MOST}. Take a step of {float(1 / (10 * self._each / self.step)):.3g}, say.",
            )
        self.layout = ReportLayout((Code("east", self.cells[0]), Code("north", self.cells[1])))

    def _asked(self) -> dict[str, Any]:
        return {
            "origin": [decimal_of(one) for one in self.origin],
            "step": decimal_of(self.step),
            "cells": list(self.cells),
        }

    @property
    def ratio(self) -> Fraction:
        """What the chances of a report differ by between neighbouring cells, at most."""
        return exp_up(self._each)

    @property
    def realised(self) -> float:
        """The epsilon of a unit of distance, at most."""
        return float(self.level)

    @property
    def rate(self) -> Fraction:
        """How fast the weight of a move falls with its length in cells: theta."""
        return self._each * PARTS / (PARTS + 1)

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        places = numbers_of(values, 2)
        start, step = np.array([float(one) for one in self.origin]), float(self.step)
        last = np.array(self.cells) - 1
        own = np.clip(np.floor((places - start) / step), 0, last).astype(np.int64)
        moved = np.clip(own + self.moves(len(own), entropy), 0, last)
        rows = self.layout.empty(len(own))
        rows["east"], rows["north"] = moved.T
        return rows

    def moves(self, count: int, entropy: Entropy) -> Moves:
        """Draw so many moves, as numbers of cells east and north."""
        found = [np.zeros((0, 2), dtype=np.int64)]
        missing = count
        while missing > 0:
            found.append(self._trials(max(BLOCK, 3 * missing), entropy)[:missing])
            missing -= len(found[-1])
        return np.concatenate(found)

    def _trials(self, count: int, entropy: Entropy) -> Moves:
        """The moves that so many trials give."""
        scale = 1 / self.rate
        far = (geometric(scale, count, entropy) + geometric(scale, count, entropy)).astype(np.int64)
        drawn = uniform_below(8 * (far + 1), entropy)
        kept = drawn < np.where(far > 0, 8 * far, 1)
        far, moves = far[kept], _on_square(far[kept], drawn[kept])
        beyond = _lengths(moves) - PARTS * far
        rate = self.rate / PARTS
        levels = beyond.astype(np.float64) * float(rate)
        return moves[exceed(levels, lambda at: int(beyond[at]) * rate, entropy)]

    def _count(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        return self._tally(rows, None)

    def _count_groups(
        self,
        rows: NDArray[Any],
        times: NDArray[np.int64],
        bits: NDArray[np.int64] | None,  # noqa: ARG002  reports have no bits
    ) -> NDArray[np.int64]:
        return self._tally(rows, times)

    def _tally(self, rows: NDArray[Any], times: NDArray[np.int64] | None) -> NDArray[np.int64]:
        codes = rows["east"].astype(np.int64) * self.cells[1] + rows["north"]
        return tallied(codes, math.prod(self.cells), times).reshape(self.cells)

    def reported(self, sketch: ReportSketch) -> pa.Table:
        """Where reports are: east, north (the middle of a cell) and how many.

        These are places with their noise, which makes every crowd wider than it is.
        """
        counts = self._own(sketch).tally
        east, north = np.nonzero(counts)
        start, step = [float(one) for one in self.origin], float(self.step)
        return pa.table(
            {
                "east": start[0] + (east + 0.5) * step,
                "north": start[1] + (north + 0.5) * step,
                "reports": counts[east, north],
            }
        )

    @cached_property
    def _radii(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lengths of moves in order, and the probability of none longer."""
        reach = math.ceil(25 / float(self.rate)) + 2
        side = np.arange(reach + 1)
        lengths = np.hypot(side[:, None], side[None, :])
        # Each move east and north stands for all that differ from it by signs.
        twins = np.where(side > 0, 2, 1)
        weights = np.exp(-float(self.rate) * lengths) * np.multiply.outer(twins, twins)
        order = np.argsort(lengths, axis=None)
        masses = np.cumsum(weights.ravel()[order])
        return lengths.ravel()[order], masses / masses[-1]

    def radius(self, confidence: float = 0.95) -> float:
        """The distance, in the unit of places, within which a move stays with this probability."""
        if not 0 < confidence < 1:
            raise ParameterError(
                "parameter_out_of_range", "confidence must be between 0 and 1, as 0.95."
            )
        if self.rate < _FINE:
            return _quantile(confidence) / float(self.rate) * float(self.step)
        lengths, below = self._radii
        return float(lengths[np.searchsorted(below, confidence)]) * float(self.step)

    def _card(self) -> Card:
        line = (
            f"places on {self.cells[0]:,} x {self.cells[1]:,} cells of {decimal_of(self.step)} "
            f"at epsilon {self.level} for each unit"
        )
        facts = {
            "cells": f"{self.cells[0]:,} x {self.cells[1]:,}",
            "side of a cell": decimal_of(self.step),
            "epsilon of a unit": str(self.level),
            "half of all reports are within": self.radius(0.5),
            "95 % are within": self.radius(0.95),
        }
        return Card(line, facts)


def _pair(values: object, name: str) -> Sequence[Any]:
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise ParameterError(
            "type_wrong", f"{name} must be two numbers, eastwards and northwards: (0, 0), say."
        )
    return values


def _quantile(confidence: float) -> float:
    """The x with 1 - (1 + x) e^-x = confidence: how far planar noise of rate 1 goes."""
    low, high = 0.0, 800.0
    for _ in range(80):
        middle = (low + high) / 2
        if (1 + middle) * math.exp(-middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _on_square(far: Moves, drawn: Moves) -> Moves:
    """Move number `drawn` of the 8 k whose larger coordinate is k: four sides of 2 k each."""
    side, along = drawn // np.maximum(2 * far, 1), drawn % np.maximum(2 * far, 1) - far
    east = np.choose(side, [far, -along, -far, along])
    north = np.choose(side, [along, far, -along, -far])
    return np.where((far > 0)[:, None], np.stack([east, north], axis=1), 0)


def _lengths(moves: Moves) -> NDArray[Any]:
    """The lengths of moves in parts of a cell, rounded up: ceil(PARTS sqrt(east^2 + north^2))."""
    if len(moves) and int(np.abs(moves).max()) > _LONGEST:
        squares = (moves.astype(object) ** 2).sum(axis=1) * PARTS**2
        return np.array([math.isqrt(one - 1) + 1 if one else 0 for one in squares], dtype=object)
    squares = (moves**2).sum(axis=1) * PARTS**2
    found = np.ceil(np.sqrt(squares.astype(np.float64))).astype(np.int64)
    # A root just above a whole number may have been rounded to it; none is rounded past one.
    found += found**2 < squares
    return np.asarray(found)
