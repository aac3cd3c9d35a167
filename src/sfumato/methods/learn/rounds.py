"""What a round of a method sees of rows: whole-number offsets from centres, cut to a ball.

A round knows integer centres, which are public or were made with noise before it. The engine finds
the group of each row (its class, or the nearest centre), takes the offset from the group's centre
in every coordinate and cuts it to an L1 ball of radius C: where |o| > C, each o_i becomes
o_i C / |o|, rounded towards 0. All of these are whole numbers, so that every engine gives the same
sums, and a row adds at most C to them, whatever it says. Rows near their centre lose nothing, and
noise is as large as the ball, not as large as the declared bounds.

*Sensitivity*: one row adds 1 to one count, and to the sums of all groups and coordinates together
at most C in L1 and sqrt(C min(C, 2 GRID)) in L2, since no offset is beyond twice the grid; to the
sums of o_i o_j, i <= j, at most (|o|_1^2 + |o|_2^2) / 2 <= C^2. `person_sensitivity` has the rest.

Decision `learn-rounds`.
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

PLACE, _NORM, _LEAST = "sf_place", "sf_norm", "sf_least"


_SPREAD = 0.15
"""The variance that is expected of where all rows lie in a coordinate from -1 to 1."""


def reach_of(share: Fraction, coordinates: int) -> int:
    """The radius of a ball, in steps of the grid: so much of every coordinate's half width."""
    return max(int(share * coordinates * GRID), 1)


def on_grid(points: FloatArray) -> IntArray:
    """Points as whole numbers of the grid, within it."""
    return np.rint(np.clip(points, -1, 1) * GRID).astype(np.int64)


def offset_sensitivity(unit: Unit, reach: int) -> Sensitivity:
    """How far a person moves the sums of offsets, of all groups and coordinates together."""
    return person_sensitivity(unit, l1=reach, l2_squared=reach * min(reach, 2 * GRID))


def product_sensitivity(unit: Unit, reach: int) -> Sensitivity:
    """How far a person moves the sums of products of two coordinates of an offset.

    Products of two rows are never opposed: ((a b)^2 + sum of a_i^2 b_i^2) / 2 >= 0 within them.
    """
    return person_sensitivity(unit, l1=reach**2, l2_squared=reach**4, signed=False)


def best_spending(price: Price, unit: Unit, reach: int) -> Spending:
    """The way to spend a price: a delta buys Gaussian noise where offsets have less of it so."""
    size = offset_sensitivity(unit, reach)
    return min(spendings(price), key=lambda way: way.noise(size).stddev)


@dataclass(frozen=True, kw_only=True)
class OffsetRound:
    """One round: noisy counts of rows by group, and noisy sums of their offsets.

    *Guarantee*: the share of the price that the round was given, for all that it tells together.
    *Sensitivity*: 1 a row for counts, `reach` a row in L1 for offsets; each has its own noise and
    its own part of the share.
    *Error*: `count_sd` in rows; `sum_sd` in rows times half the width of a coordinate.
    *Edges*: a group without rows has noise alone, and nothing asks whether it has any.
    *Reference*: Blum, Dwork, McSherry & Nissim 2005, section 4, for learning by noisy sums.
    """

    counts: Noise
    sums: Noise
    reach: int
    row: int
    """What a row that counts in full adds to a count."""

    @classmethod
    def of(
        cls, spending: Spending, unit: Unit, reach: int, *, weight: int, share: Fraction
    ) -> OffsetRound:
        """A round for a share of a price, of which counts get weight / (reach + weight).

        So one scale of noise, (reach + weight) / epsilon, lies on weight times the counts and on
        the offsets.
        """
        part = Fraction(weight, reach + weight)
        ones = person_sensitivity(unit, l1=1, l2_squared=1, signed=False)
        return cls(
            counts=spending.noise(ones, share * part),
            sums=spending.noise(offset_sensitivity(unit, reach), share * (1 - part)),
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

    def sample(self, told: NDArray[Any], entropy: Entropy) -> tuple[FloatArray, FloatArray]:
        """Noisy counts by group, and noisy sums by group and coordinate."""
        counts = self.counts.steps(told[:, 0], entropy).astype(np.float64)
        moved = self.sums.steps(told[:, 1:], entropy).astype(np.float64)
        return counts / self.row, moved / (self.row * GRID)


@dataclass(frozen=True)
class GriddedRows:
    """The rows of a data set as whole numbers: coordinates and, behind them, a class."""

    data: Dataset
    expressions: Sequence[exp.Expr]
    width: int
    """How many of the expressions are coordinates."""

    def tell(
        self, centres: IntArray, reach: int, group: exp.Expr, layers: Sequence[Layer] = ()
    ) -> NDArray[Any]:
        """How many rows each group has, and the sums of their cut offsets from its centre."""
        terms = [exp.convert(1), *(offset(at) for at in range(self.width))]
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
        """Exact sums of terms of cut offsets, by group number: one row for each centre.

        The group is made of `layers`; layers `after` it are made of offsets.
        """
        return sums(
            self.data,
            self.expressions,
            terms,
            layers=[*layers, {PLACE: group}, *offset_layers(centres, reach), *after],
            group=exp.column(PLACE),
            groups=len(centres),
        )

    def middle(self, first: OffsetRound, entropy: Entropy) -> FloatArray:
        """The noisy mean of all rows, drawn to the middle of the bounds as far as it is noise."""
        origin = np.zeros((1, self.width), dtype=np.int64)
        counts, moved = first.sample(self.tell(origin, first.reach, exp.convert(0)), entropy)
        rows = max(float(counts[0]), 1.0)
        known = _SPREAD / (_SPREAD + (first.sum_sd / rows) ** 2)
        return np.asarray(np.clip(moved[0] / rows, -1, 1) * known)

    @property
    def label(self) -> exp.Expr:
        """The number of a row's class; -1 for none."""
        return coordinate(self.width)


def offset(at: int) -> exp.Expr:
    """The SQL of a coordinate of a row's cut offset."""
    return exp.column(f"sf_o{at}")


def nearest_layers(centres: IntArray) -> tuple[list[Layer], exp.Expr]:
    """Layers that find the nearest of some centres, of several the first; and its number.

    |x|^2 is the same for all centres, so that |c|^2 - 2 x c decides; it is below 2^45.
    """
    if len(centres) == 1:
        return [], exp.convert(0)
    squares = (centres.astype(object) ** 2).sum(axis=1)
    far = {
        f"sf_far{at}": combined(-2 * centre, int(squares[at]), coordinate)
        for at, centre in enumerate(centres)
    }
    first, *rest = (exp.column(name) for name in far)
    least = exp.Least(this=first, expressions=rest, ignore_nulls=True)
    case = exp.case()
    for at, name in enumerate((first, *rest[:-1])):
        case = case.when(name.copy().eq(exp.column(_LEAST)), exp.convert(at))
    return [far, {_LEAST: least}], case.else_(exp.convert(len(rest)))


def combined(weights: IntArray, constant: int, column: Callable[[int], exp.Expr]) -> exp.Expr:
    """A constant and columns times whole numbers."""
    scaled = [column(at) * exp.convert(int(weight)) for at, weight in enumerate(weights)]
    return total_of([exp.convert(constant), *scaled])


def offset_layers(centres: IntArray, reach: int) -> list[Layer]:
    """Layers that take each row's offset from its group's centre and cut it to a ball."""
    width = centres.shape[1]
    apart = {f"sf_r{at}": coordinate(at) - _centre(centres[:, at]) for at in range(width)}
    sizes = [exp.Abs(this=exp.column(name)) for name in apart]
    return [
        apart,
        {_NORM: total_of(sizes)},
        {f"sf_o{at}": _cut(exp.column(f"sf_r{at}"), reach) for at in range(width)},
    ]


def _cut(apart: exp.Expr, reach: int) -> exp.Expr:
    """A coordinate of an offset within the ball; sizes are divided, so all engines round alike."""
    norm = exp.column(_NORM)
    # An engine may compute a branch that it does not take.
    divisor = exp.Greatest(this=norm, expressions=[exp.convert(1)], ignore_nulls=True)
    size = exp.Paren(this=exp.cast(exp.Abs(this=apart), "BIGINT") * literal(reach))
    whole = exp.IntDiv(this=size, expression=exp.cast(divisor, "BIGINT"))
    shrunk = exp.cast(whole, "BIGINT")
    case = exp.case().when(norm.copy() <= exp.convert(reach), apart.copy())
    case = case.when(apart.copy() < exp.convert(0), exp.Paren(this=exp.convert(0) - shrunk))
    return case.else_(shrunk.copy())


def _centre(column: IntArray) -> exp.Expr:
    """A coordinate of the centre of a row's group; a row of no group is summed nowhere."""
    if len(set(column.tolist())) == 1:
        return exp.convert(int(column[0]))
    case = exp.case()
    for at, one in enumerate(column[:-1]):
        case = case.when(exp.column(PLACE).eq(exp.convert(at)), exp.convert(int(one)))
    return exp.Paren(this=case.else_(exp.convert(int(column[-1]))))
