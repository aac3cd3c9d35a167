"""Places on a grid: a near cell is said more often than a far one, by the exponential mechanism."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.exact_numbers import decimal_of, not_negative
from sfumato.methods.local.draws import below
from sfumato.methods.local.mechanism import Channel, Oracle, people_of, tallied
from sfumato.methods.local.reports import Code, ReportLayout
from sfumato.privacy.accounting.elementary import exp_down

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy

_TOTAL = 1 << 50
_MOST_GRID_CELLS = 1024
_STEP = 1 << 36  # scales are whole numbers of this part


class DistanceGrid(Oracle):
    """Say a cell with weight exp(-scale distance) from one's own, on a grid of `columns` columns.

    Cells are numbered row by row. Distances are Euclidean, in cells. The scale is the largest whose
    channel keeps to epsilon, which is computed from the whole matrix: cells at the edge have fewer
    neighbours, and so other totals than those in the middle.

    *Guarantee*: epsilon-LDP: the chances are whole numbers, and the largest of their ratios between
    any two cells is at most e^epsilon.
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
        self._wished = None if scale is None else not_negative(scale, "scale")
        super().__init__(domain, epsilon=epsilon)

    def _prepare(self) -> None:
        if self.size > _MOST_GRID_CELLS:
            raise ParameterError(
                "parameter_out_of_range",
                f"A grid has at most {_MOST_GRID_CELLS:,} cells, not {self.size:,}: take larger cells.",
            )
        if self.columns is None:
            self.columns = math.isqrt(self.size)
        if self.columns < 1 or self.size % self.columns:
            raise ParameterError(
                "parameter_out_of_range",
                f"columns must divide the {self.size:,} cells of the grid, and "
                f"{self.columns} does not.",
            )
        row, column = np.divmod(np.arange(self.size), self.columns)
        self._squares = (row[:, None] - row) ** 2 + (column[:, None] - column) ** 2
        self.layout = ReportLayout((Code("report", self.size),))
        self.scale = self._largest_scale() if self._wished is None else self._wished
        self._chances = self._weights(self.scale)
        if not self.level.allows(self.ratio):
            raise ParameterError(
                "parameter_out_of_range",
                f"A scale of {float(self.scale):g} has epsilon {self.realised:.6g}, above the "
                f"{self.level} that is claimed. Leave the scale out to have the largest.",
            )

    def options(self) -> dict[str, Any]:
        """What else was settled, by name."""
        return {"columns": self.columns, "scale": decimal_of(self.scale)}

    def _largest_scale(self) -> Fraction:
        """The largest scale, in whole steps, whose exact channel keeps to epsilon."""
        distances = np.sqrt(self._squares)
        low, high = 0, int(2 * float(self.level) * _STEP)
        while low < high:  # floats find it, whole numbers confirm it
            middle = (low + high + 1) // 2
            chances = np.exp(-middle / _STEP * distances)
            chances /= chances.sum(axis=1, keepdims=True)
            ratio = (chances.max(axis=0) / chances.min(axis=0)).max()
            low, high = (
                (middle, high) if math.log(ratio) <= float(self.level) else (low, middle - 1)
            )
        back = 1
        while low and not self.level.allows(_ratio(self._weights(Fraction(low, _STEP)))):
            low, back = max(low - back, 0), 2 * back
        return Fraction(low, _STEP)

    def _weights(self, scale: Fraction) -> IntArray:
        """Whole chances of one total: rounded down, and what is left over stays at the own cell."""
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
        """The largest ratio of the chances of a report between two values, exactly."""
        return _ratio(self._chances)

    def channel(self) -> Channel:
        """The matrix of chances."""
        return Channel(self._chances.astype(object), _TOTAL)

    @cached_property
    def _ends(self) -> IntArray:
        """Where the stretch of each cell ends, each row after the one before: below 2^61 in all."""
        starts = np.arange(self.size)[:, None] * _TOTAL
        return np.asarray((np.cumsum(self._chances, axis=1) + starts).ravel())

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        drawn = below(_TOTAL, len(codes), entropy) + codes * _TOTAL
        rows["report"] = np.searchsorted(self._ends, drawn, side="right") - codes * self.size
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return tallied(rows["report"], self.size)

    def _count_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,  # noqa: ARG002  reports have no bits
    ) -> IntArray:
        return tallied(rows["report"], self.size, times)

    @cached_property
    def _inverse(self) -> FloatArray:
        """What turns shares of reports into shares of cells."""
        return np.asarray(np.linalg.inv(self._chances.T / _TOTAL))

    def _shares(self, sketch: ReportSketch) -> FloatArray:
        return np.asarray(self._inverse @ (sketch.tally / sketch.n))

    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of one share's estimate from n reports, where the true share is this.

        That of the cell that is estimated worst; people elsewhere are taken to be spread evenly.
        """
        remainder = (1 - share) / (self.size - 1)
        chances = self._chances / _TOTAL
        seen = remainder * chances.sum(axis=0) + (share - remainder) * chances
        return float(((self._inverse**2 * seen).sum(axis=1) - share).max()) / people_of(n)

    def _variances(self, sketch: ReportSketch, shares: FloatArray) -> FloatArray:
        seen = self._inverse**2 @ (sketch.tally / sketch.n)
        return np.asarray((seen - np.clip(shares, 0.0, 1.0)).clip(0.0) / sketch.n)


def _ratio(chances: IntArray) -> Fraction:
    high, low = chances.max(axis=0).tolist(), chances.min(axis=0).tolist()
    return max(Fraction(most, least) for most, least in zip(high, low, strict=True))
