"""Rounds of noisy sums: offsets of rows from centres, clipped to an L1 ball.

k-means and the perceptron read rows in rounds. A round starts from integer
centres that are public or noisy results of earlier rounds. The engine finds the group of each row
(the nearest centre), takes the offset o from the group's centre and clips it to an L1
ball of radius C, the *reach*: if |o| > C, each o_i becomes o_i C / |o|, rounded towards 0. All
values are integers, so that every engine computes the same sums. Rows near their centre are not
clipped, and noise grows with the reach, not with the declared bounds.

*Sensitivity*: one row adds 1 to one count. To the sums of all groups and coordinates together it
adds at most C in L1 and sqrt(C min(C, 2 GRID)) in L2, because |o_i| <= 2 GRID and so
|o|_2^2 <= |o|_1 max |o_i|. `person_sensitivity` goes from a row to a person.

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.data.counting.axes import literal
from sfumato.methods.learn.features import GRID
from sfumato.methods.learn.row_sums import coordinate, person_sensitivity, sums, total_of, whole_row
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.unit import Sensitivity, Unit
    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

    Layer = Mapping[str, exp.Expr]

GROUP_COLUMN, _NORM_COLUMN, _LEAST_COLUMN = "sf_place", "sf_norm", "sf_least"


_SPREAD = 0.15
"""The prior variance of the mean of all rows, in a coordinate from -1 to 1."""


def reach_of(share: Fraction, coordinates: int) -> int:
    """The radius C of the ball, in 1 / GRID: this share of the half width of every coordinate."""
    return max(int(share * coordinates * GRID), 1)


def round_to_grid(points: FloatArray) -> IntArray:
    """Points as integers in 1 / GRID, clamped to -1 to 1."""
    return np.rint(np.clip(points, -1, 1) * GRID).astype(np.int64)


def offset_sensitivity(unit: Unit, reach: int) -> Sensitivity:
    """The sensitivity of the sums of offsets, of all groups and coordinates together."""
    return person_sensitivity(unit, l1=reach, l2_squared=reach * min(reach, 2 * GRID))


def best_spending(price: Price, unit: Unit, reach: int) -> Spending:
    """The spending of least noise on offsets; a delta may buy Gaussian noise."""
    sensitivity = offset_sensitivity(unit, reach)
    return min(spendings(price), key=lambda spending: spending.noise(sensitivity).stddev)


@dataclass(frozen=True, kw_only=True)
class OffsetRound:
    """One round: noisy counts of rows by group, and noisy sums of their offsets.

    *Guarantee*: the round's share of the price, for counts and sums together.
    *Sensitivity*: 1 a row for counts, `reach` a row in L1 for offsets; each has its own noise and
    its own part of the share.
    *Error*: `count_sd` in rows; `sum_sd` in rows times half the width of a coordinate.
    *Edges*: a group without rows gets noise alone; no step depends on whether it has rows.
    *Reference*: Blum, Dwork, McSherry & Nissim 2005, section 4, for learning by noisy sums.
    """

    counts: Noise
    sums: Noise
    reach: int
    row: int
    """The weight of a row that counts in full."""

    @classmethod
    def of(
        cls, spending: Spending, unit: Unit, reach: int, *, weight: int, share: Fraction
    ) -> OffsetRound:
        """Make a round for a share of a price, of which counts get weight / (reach + weight).

        With Laplace noise, weight times the counts and the offsets then have one scale of noise,
        (reach + weight) / epsilon.
        """
        count_share = Fraction(weight, reach + weight)
        # Indicators are never negative, so that two rows' terms do not oppose each other.
        ones = person_sensitivity(unit, l1=1, l2_squared=1, signed=False)
        return cls(
            counts=spending.noise(ones, share * count_share),
            sums=spending.noise(offset_sensitivity(unit, reach), share * (1 - count_share)),
            reach=reach,
            row=whole_row(unit),
        )

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed((self.counts.event, self.sums.event))

    @property
    def count_sd(self) -> float:
        """The standard deviation of a count, in rows."""
        return self.counts.stddev / self.row

    @property
    def sum_sd(self) -> float:
        """The standard deviation of a sum of offsets, in rows."""
        return self.sums.stddev / (self.row * GRID)

    def sample(self, exact: NDArray[Any], entropy: Entropy) -> tuple[FloatArray, FloatArray]:
        """Noisy counts by group, and noisy sums by group and coordinate."""
        counts = self.counts.steps(exact[:, 0], entropy).astype(np.float64)
        sums = self.sums.steps(exact[:, 1:], entropy).astype(np.float64)
        return counts / self.row, sums / (self.row * GRID)


@dataclass(frozen=True)
class GriddedRows:
    """The rows of a data set as integers: coordinates and, behind them, a class."""

    data: Dataset
    expressions: Sequence[exp.Expr]
    width: int
    """How many of the expressions are coordinates."""

    def group_sums(
        self, centres: IntArray, reach: int, group: exp.Expr, layers: Sequence[Layer] = ()
    ) -> NDArray[Any]:
        """The exact number of rows of each group, and the sums of their clipped offsets."""
        terms = [exp.convert(1), *(offset(position) for position in range(self.width))]
        return self.sums(centres, reach, terms, group, layers)

    def sums(
        self,
        centres: IntArray,
        reach: int,
        terms: Sequence[exp.Expr],
        group: exp.Expr,
        layers: Sequence[Layer] = (),
        after: Sequence[Layer] = (),
    ) -> NDArray[Any]:
        """Exact sums of terms of clipped offsets, by group number: one row for each centre.

        The group is computed from `layers`; the layers of `after` are computed from offsets.
        """
        return sums(
            self.data,
            self.expressions,
            terms,
            layers=[*layers, {GROUP_COLUMN: group}, *offset_layers(centres, reach), *after],
            group=exp.column(GROUP_COLUMN),
            groups=len(centres),
        )

    def middle(self, offset_round: OffsetRound, entropy: Entropy) -> FloatArray:
        """The noisy mean of all rows, shrunk towards the middle of the bounds.

        The factor is prior variance / (prior variance + noise variance), as for a normal prior.
        """
        origin = np.zeros((1, self.width), dtype=np.int64)
        counts, sums = offset_round.sample(
            self.group_sums(origin, offset_round.reach, exp.convert(0)), entropy
        )
        # The noisy count may be 0 or negative.
        rows = max(float(counts[0]), 1.0)
        shrinkage = _SPREAD / (_SPREAD + (offset_round.sum_sd / rows) ** 2)
        return np.asarray(np.clip(sums[0] / rows, -1, 1) * shrinkage)

    @property
    def label(self) -> exp.Expr:
        """The SQL of a row's class number; -1 for a row without a class."""
        return coordinate(self.width)


def offset(position: int) -> exp.Expr:
    """The SQL of a coordinate of a row's clipped offset."""
    return exp.column(f"sf_o{position}")


def nearest_layers(centres: IntArray) -> tuple[list[Layer], exp.Expr]:
    """Layers that find the nearest centre, and the SQL of its number; ties go to the first.

    |x - c|^2 = |x|^2 + |c|^2 - 2 x.c, and |x|^2 is the same for all centres, so that the engine
    compares |c|^2 - 2 x.c, an integer below 2^45.
    """
    if len(centres) == 1:
        return [], exp.convert(0)
    squares = (centres.astype(object) ** 2).sum(axis=1)
    distances = {
        f"sf_far{number}": combined(-2 * centre, int(squares[number]), coordinate)
        for number, centre in enumerate(centres)
    }
    first, *others = (exp.column(name) for name in distances)
    least = exp.Least(this=first, expressions=others, ignore_nulls=True)
    case = exp.case()
    for number, name in enumerate((first, *others[:-1])):
        case = case.when(name.copy().eq(exp.column(_LEAST_COLUMN)), exp.convert(number))
    return [distances, {_LEAST_COLUMN: least}], case.else_(exp.convert(len(others)))


def combined(weights: IntArray, constant: int, column: Callable[[int], exp.Expr]) -> exp.Expr:
    """The SQL of a linear combination of columns with integer weights."""
    scaled = [
        column(position) * exp.convert(int(weight)) for position, weight in enumerate(weights)
    ]
    return total_of([exp.convert(constant), *scaled])


def offset_layers(centres: IntArray, reach: int) -> list[Layer]:
    """Layers that take each row's offset from its group's centre and clip it to the ball."""
    width = centres.shape[1]
    differences = {
        f"sf_r{position}": coordinate(position) - _centre(centres[:, position])
        for position in range(width)
    }
    magnitudes = [exp.Abs(this=exp.column(name)) for name in differences]
    return [
        differences,
        {_NORM_COLUMN: total_of(magnitudes)},
        {
            f"sf_o{position}": _cut(exp.column(f"sf_r{position}"), reach)
            for position in range(width)
        },
    ]


def _cut(difference: exp.Expr, reach: int) -> exp.Expr:
    """A clipped coordinate; magnitudes are divided, because engines round negatives differently."""
    norm = exp.column(_NORM_COLUMN)
    # An engine may compute a branch that it does not take: the divisor must never be 0.
    divisor = exp.Greatest(this=norm, expressions=[exp.convert(1)], ignore_nulls=True)
    scaled = exp.Paren(this=exp.cast(exp.Abs(this=difference), "BIGINT") * literal(reach))
    quotient = exp.IntDiv(this=scaled, expression=exp.cast(divisor, "BIGINT"))
    shrunk = exp.cast(quotient, "BIGINT")
    case = exp.case().when(norm.copy() <= exp.convert(reach), difference.copy())
    case = case.when(difference.copy() < exp.convert(0), exp.Paren(this=exp.convert(0) - shrunk))
    return case.else_(shrunk.copy())


def _centre(column: IntArray) -> exp.Expr:
    """A coordinate of the centre of a row's group; rows of no group are not summed."""
    if len(set(column.tolist())) == 1:
        return exp.convert(int(column[0]))
    case = exp.case()
    for group, value in enumerate(column[:-1]):
        case = case.when(exp.column(GROUP_COLUMN).eq(exp.convert(group)), exp.convert(int(value)))
    return exp.Paren(this=case.else_(exp.convert(int(column[-1]))))
