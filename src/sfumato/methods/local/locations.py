"""Mechanisms for locations: cells of a grid by the exponential mechanism, and planar Laplace noise.

Both report near cells more often than far ones. Decision `local-privacy`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.exact_numbers import decimal_of, exact, not_negative, positive
from sfumato.methods.local.domains import read_numbers
from sfumato.methods.local.draws import draw_integers
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.mechanism import Channel, LocalMechanism, Oracle, read_report_count
from sfumato.methods.local.reports import Code, ReportLayout
from sfumato.privacy.accounting.elementary import exp_down, exp_up
from sfumato.privacy.noise.planar import PlanarVectors
from sfumato.report.display import Card

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.privacy.noise.planar import RevealedVector


_TOTAL = 1 << 50
_MOST_GRID_CELLS = 1024
# Scales are multiples of 2^-36.
_STEP = 1 << 36


class DistanceGrid(Oracle):
    """Report a cell with weight exp(-scale distance) from the own one, on a grid.

    Cells are numbered row by row, `columns` in a row. Distances are Euclidean, in cells. The scale
    is the largest whose channel keeps to epsilon. It is computed from the exact matrix, because
    cells at the edge have fewer neighbours, and hence other totals, than those in the middle.

    *Guarantee*: epsilon-LDP: probabilities are integers over one total, and their largest ratio
    between any two cells is at most e^epsilon.
    *Sensitivity*: None to establish: a person is in one of k cells.
    *Error*: From the inverse of the channel, cell by cell; it is ill-conditioned, so that single
    cells are estimated badly and regions better. k-ary response is better for single cells.
    *Edges*: At most 1,024 cells.
    *Reference*: McSherry & Talwar 2007; the channel is calibrated as a whole.
    """

    name = "grid"
    counted_once = True

    def __init__(
        self,
        domain: object,
        *,
        epsilon: Number | LocalEpsilon,
        columns: int | None = None,
        scale: Number | None = None,
    ) -> None:
        self.columns = None if columns is None else arguments.whole(columns, "columns")
        self._given_scale = None if scale is None else not_negative(scale, "scale")
        super().__init__(domain, epsilon=epsilon)

    def _prepare(self) -> None:
        if self.size > _MOST_GRID_CELLS:
            raise ParameterError(
                "parameter_out_of_range",
                f"A grid has at most {_MOST_GRID_CELLS:,} cells, not {self.size:,}: take larger "
                "cells.",
                parameter="cells",
                given=self.size,
            )
        if self.columns is None:
            self.columns = math.isqrt(self.size)
        if self.columns < 1 or self.size % self.columns:
            raise ParameterError(
                "parameter_out_of_range",
                f"columns must divide the {self.size:,} cells of the grid, and "
                f"{self.columns} does not.",
                parameter="columns",
            )
        row, column = np.divmod(np.arange(self.size), self.columns)
        self._squares = (row[:, None] - row) ** 2 + (column[:, None] - column) ** 2
        self.layout = ReportLayout((Code("report", self.size),))
        self.scale = self._largest_scale() if self._given_scale is None else self._given_scale
        self._chances = self._weights(self.scale)
        if not self.epsilon.allows(self.ratio):
            raise ParameterError(
                "parameter_out_of_range",
                f"A scale of {float(self.scale):g} has epsilon {self.realised:.6g}, above the "
                f"{self.epsilon} that is claimed. Leave the scale out to have the largest.",
                parameter="scale",
            )

    def options(self) -> dict[str, Any]:
        """The columns and the scale."""
        return {"columns": self.columns, "scale": decimal_of(self.scale)}

    def _largest_scale(self) -> Fraction:
        """The largest multiple of 2^-36 whose exact channel keeps to epsilon."""
        distances = np.sqrt(self._squares)
        low, high = 0, int(2 * float(self.epsilon) * _STEP)
        # Floats find a candidate by bisection; exact integers confirm it below.
        while low < high:
            middle = (low + high + 1) // 2
            chances = np.exp(-middle / _STEP * distances)
            chances /= chances.sum(axis=1, keepdims=True)
            ratio = (chances.max(axis=0) / chances.min(axis=0)).max()
            low, high = (
                (middle, high) if math.log(ratio) <= float(self.epsilon) else (low, middle - 1)
            )
        back = 1
        while low and not self.epsilon.allows(_ratio(self._weights(Fraction(low, _STEP)))):
            low, back = max(low - back, 0), 2 * back
        return Fraction(low, _STEP)

    def _weights(self, scale: Fraction) -> IntArray:
        """Integer weights with the same total in each row, at scale `scale`.

        Weights are rounded down; the remainder goes to the own cell, which keeps totals equal.
        """
        kinds, kind_index = np.unique(self._squares, return_inverse=True)
        by_kind = [
            int(exp_down(-scale * Fraction(math.isqrt(int(kind) << 80), 1 << 40), 80) * (1 << 62))
            for kind in kinds.tolist()
        ]
        raw = np.array(by_kind, dtype=object)[kind_index].reshape(self._squares.shape)
        weights = (raw * _TOTAL // raw.sum(axis=1)[:, None]).astype(np.int64)
        weights[np.diag_indices(self.size)] += _TOTAL - weights.sum(axis=1)
        return np.asarray(weights)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return _ratio(self._chances)

    def channel(self) -> Channel:
        """The matrix of probabilities."""
        return Channel(self._chances.astype(object), _TOTAL)

    @cached_property
    def _ends(self) -> IntArray:
        """Running sums of all weights, row after row, at most 2^60: one search serves all rows."""
        starts = np.arange(self.size)[:, None] * _TOTAL
        return np.asarray((np.cumsum(self._chances, axis=1) + starts).ravel())

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        drawn = draw_integers(_TOTAL, len(codes), entropy) + codes * _TOTAL
        rows["report"] = np.searchsorted(self._ends, drawn, side="right") - codes * self.size
        return rows

    @cached_property
    def _inverse(self) -> FloatArray:
        """The matrix that turns shares of reports into shares of cells."""
        return np.asarray(np.linalg.inv(self._chances.T / _TOTAL))

    def _shares(self, sketch: ReportSketch) -> FloatArray:
        return np.asarray(self._inverse @ (sketch.tally / sketch.n))

    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of the estimate of one share from n reports, at the worst cell.

        Other people are assumed to be spread evenly over the other cells.
        """
        remainder = (1 - share) / (self.size - 1)
        chances = self._chances / _TOTAL
        seen = remainder * chances.sum(axis=0) + (share - remainder) * chances
        return float(((self._inverse**2 * seen).sum(axis=1) - share).max()) / read_report_count(n)

    def _variances(self, sketch: ReportSketch, shares: FloatArray) -> FloatArray:
        seen = self._inverse**2 @ (sketch.tally / sketch.n)
        return np.asarray((seen - np.clip(shares, 0.0, 1.0)).clip(0.0) / sketch.n)


def _ratio(chances: IntArray) -> Fraction:
    high, low = chances.max(axis=0).tolist(), chances.min(axis=0).tolist()
    return max(Fraction(most, least) for most, least in zip(high, low, strict=True))


# Planar Laplace noise: near locations are hard to distinguish, far ones are not.
#
# A location x, in metres of a projected map, is moved by a vector v of density proportional to
# exp(-epsilon |v|). The report is the cell of a declared grid that contains y = x + v, or the
# nearest cell of the map. The noise is added to the location itself, not to its cell. If locations
# were snapped to the grid first, two of them on both sides of a border, however near, would be as
# far apart as their cells, and epsilon per metre would not hold.
#
# For locations x and x' at distance d, |y - x'| - |y - x| is at most d, so the densities at every y
# differ by at most a factor exp(epsilon d). The cell is a function of y alone: post-processing.
#
# No float decides the cell: the digits of v are revealed until the cell is certain, for any
# location, origin and step (`privacy/noise/planar.py`).

MOST_CELLS = 1 << 24
LEAST, MOST = Fraction(1, 1000), Fraction(20)
_LARGEST = Fraction(10**100)
"""The largest origin and side in the unit of locations: float64 loses digits beyond it."""
_ROUNDING = 2.0**-48
"""A bound on the relative error of a few float64 operations."""


class PlanarLaplace(LocalMechanism):
    """Report the cell of a public grid to which planar Laplace noise moves the location.

    *Guarantee*: geo-indistinguishability: any report is at most e^(epsilon d) times as likely from
    one location as from another at distance d (in metres, or the unit that locations are given in),
    however near these are to each other or to a border of the grid. It is not LDP: locations far
    apart can be distinguished. Reports of a trajectory cost the sum of their epsilons.
    *Sensitivity*: the distance of two locations: the log of the noise's density changes by at most
    epsilon for a unit of distance, in every direction. Locations beyond the map count as the
    nearest point of the map; this moves no two locations farther apart.
    *Error*: the noise has mean length 2 / epsilon, variance 3 / epsilon^2 along each axis; epsilon
    times its length is below 1.678 / 4.744 / 6.638 for 50 / 95 / 99 %. The middle of the reported
    cell is at most step / sqrt 2 from where the noise leads, while that is on the map.
    *Edges*: coordinates must be projected. Where a unit is longer along one axis than along the
    other, as a degree is, `scale` has the length of each. Exact for all locations in float64.
    *Reference*: Andres, Bordenabe, Chatzikokolakis & Palamidessi 2013; decision `local-privacy`.
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
        scale: Sequence[Number] = (1, 1),
    ) -> None:
        self.epsilon, self.step = read_epsilon(epsilon), positive(step, "step")
        self.scale = tuple(positive(length, "scale") for length in _pair(scale, "scale"))
        """The length of one unit of each coordinate: of degrees, in metres, for example."""
        self.origin = tuple(exact(coordinate, "origin") for coordinate in _pair(origin, "origin"))
        self.cells = tuple(arguments.whole(count, "cells") for count in _pair(cells, "cells"))
        if min(self.cells) < 1 or math.prod(self.cells) > MOST_CELLS:
            raise ParameterError(
                "parameter_out_of_range",
                f"cells must be how many there are eastwards and northwards, {MOST_CELLS:,} in "
                "all at most. Take larger steps.",
                parameter="cells",
            )
        self._each = self.epsilon.lower * self.step
        if not LEAST <= self._each <= MOST:
            raise ParameterError(
                "parameter_out_of_range",
                f"epsilon times step is {float(self._each):g}; it must be between {LEAST} and "
                f"{MOST}. Take a step of {float(1 / (10 * self._each / self.step)):.3g}, say.",
                parameter="step",
            )
        self._steps = tuple(self.step / length for length in self.scale)
        sides = (*self._steps, *(1 / side for side in self._steps))
        if max(*map(abs, self.origin), *sides) > _LARGEST:
            raise ParameterError(
                "parameter_out_of_range",
                "origin, and step divided by scale, must be numbers of ordinary size: the origin "
                "within 1e100, and the side of a cell from 1e-100 to 1e100.",
            )
        self.layout = ReportLayout((Code("east", self.cells[0]), Code("north", self.cells[1])))

    def _declaration(self) -> dict[str, Any]:
        return {
            "origin": [decimal_of(coordinate) for coordinate in self.origin],
            "step": decimal_of(self.step),
            "cells": list(self.cells),
            **(
                {}
                if set(self.scale) == {Fraction(1)}
                else {"scale": [decimal_of(length) for length in self.scale]}
            ),
        }

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between locations one step apart."""
        return exp_up(self._each)

    @property
    def realised(self) -> float:
        """The epsilon of one unit of distance."""
        return float(self.epsilon)

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        points = read_numbers(values, 2)
        rows = self.layout.empty(len(points))
        rows["east"], rows["north"] = self._report_cells(points, entropy).T
        return rows

    def _report_cells(self, points: FloatArray, entropy: Entropy) -> IntArray:
        """Draw the reported cells, east and north, of locations.

        Float64 gives an interval for each coordinate in cells; where it contains the border of a
        cell, exact digits of the noise decide.
        """
        start, step = self._floats
        end = [
            float(low + step * count)
            for low, step, count in zip(self.origin, self._steps, self.cells, strict=True)
        ]
        held = np.clip(points, start, end)
        noise, epsilon_step, last = PlanarVectors(len(held), entropy), float(self._each), self._last
        middle = (held - start) / step + noise.values / epsilon_step
        # Bounds the error of `middle`: rounding of the location, then error of the noise.
        margin = (np.abs(held) + np.abs(start)) / step * _ROUNDING
        margin += (noise.errors[:, None] + np.abs(noise.values) * _ROUNDING) / epsilon_step
        lowest, highest = (
            np.clip(np.floor(coordinate), 0, last)
            for coordinate in (middle - margin, middle + margin)
        )
        cells = lowest.astype(np.int64)
        for row in np.flatnonzero((lowest != highest).any(axis=1)).tolist():
            cells[row] = self._decide_cell(held[row].tolist(), noise.exactly(row))
        return cells

    def _decide_cell(self, point: list[float], noise: RevealedVector) -> list[int]:
        """The cell of one location, by as many digits of its noise as needed."""
        own = [
            (Fraction(coordinate) - low) / step
            for coordinate, low, step in zip(point, self.origin, self._steps, strict=True)
        ]
        while True:
            enclosed = zip(own, noise.bounds(), self._last, strict=True)
            cells = [
                tuple(min(max(math.floor(at + end / self._each), 0), last) for end in ends)
                for at, ends, last in enclosed
            ]
            if all(low == high for low, high in cells):
                return [low for low, _ in cells]
            noise.narrow()

    @property
    def _floats(self) -> tuple[FloatArray, FloatArray]:
        """The origin and the side of a cell along each axis, in the unit of locations."""
        start = np.array([float(coordinate) for coordinate in self.origin])
        return start, np.array([float(side) for side in self._steps])

    @property
    def _last(self) -> tuple[int, int]:
        return self.cells[0] - 1, self.cells[1] - 1

    def reported(self, sketch: ReportSketch) -> pa.Table:
        """Count reports by cell.

        Parameters
        ----------
        sketch : ReportSketch
            The sums of the reports.

        Returns
        -------
        pyarrow.Table
            Columns east and north (the centre of a cell) and reports. The noise is not removed:
            every cluster looks wider than it is.

        Raises
        ------
        SourceError
            If the sketch is of another mechanism, damaged or without reports.
        """
        counts = self._own(sketch).tally
        east, north = np.nonzero(counts)
        start, step = self._floats
        return pa.table(
            {
                "east": start[0] + (east + 0.5) * step[0],
                "north": start[1] + (north + 0.5) * step[1],
                "reports": counts[east, north],
            }
        )

    def radius(self, confidence: float = 0.95) -> float:
        """A distance that contains the reports of one location with at least this probability.

        Half the diagonal of a cell is added to the quantile of the noise. It holds for locations
        that are at least this far from the edge of the map.

        Parameters
        ----------
        confidence : float
            Between 0 and 1.

        Returns
        -------
        float
            In the unit of locations.

        Raises
        ------
        ParameterError
            If the confidence is not between 0 and 1.
        """
        if not 0 < confidence < 1:
            raise ParameterError(
                "parameter_out_of_range",
                "confidence must be between 0 and 1, as 0.95.",
                parameter="confidence",
            )
        return _quantile(confidence) / float(self.epsilon.lower) + float(self.step) / math.sqrt(2)

    def _card(self) -> Card:
        line = (
            f"locations on {self.cells[0]:,} x {self.cells[1]:,} cells of {decimal_of(self.step)} "
            f"at epsilon {self.epsilon} for each unit"
        )
        facts = {
            "cells": f"{self.cells[0]:,} x {self.cells[1]:,}",
            "side of a cell": decimal_of(self.step),
            "epsilon of a unit": str(self.epsilon),
            "half of all reports, at least, are within": self.radius(0.5),
            "95 %, at least, are within": self.radius(0.95),
        }
        return Card(line, facts)


def _pair(values: object, name: str) -> Sequence[Any]:
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise ParameterError(
            "parameter_type_wrong",
            f"{name} must be two numbers, eastwards and northwards: (0, 0), say.",
            parameter=name,
        )
    return values


def _quantile(confidence: float) -> float:
    """The x with 1 - (1 + x) e^-x = confidence: the quantile of the length of unit noise."""
    low, high = 0.0, 800.0
    for _ in range(80):
        middle = (low + high) / 2
        if (1 + middle) * math.exp(-middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high
