"""The perceptron: two classes separated by a line, from noisy sums of misclassified rows.

Decision `learning`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.counting.axes import literal
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.learn.bins import ClassLabels
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.model import Model
from sfumato.methods.learn.rounds import (
    GriddedRows,
    OffsetRound,
    best_spending,
    combined,
    offset,
    offset_sensitivity,
    reach_of,
    round_to_grid,
)
from sfumato.methods.learn.row_sums import whole_row
from sfumato.privacy.accounting.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.learn.rounds import Layer
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy

MOST_ROUNDS = 20
_ROUNDS = 4
_NEAR, _FAR = Fraction(3, 10), Fraction(1, 2)
_MIDDLE = Fraction(1, 5)
"""The share of the price for the mean of all rows; the rounds share the rest equally."""
_COUNTS, _CONSTANT = Fraction(15, 100), 1.0
"""The weight of counts, and the constant times the root of the dimension, as shares of a reach."""
_WRONG, _SIGN = "sf_wrong", "sf_sign"
CONSTANT = "(constant)"


@dataclass(frozen=True)
class PerceptronLearning:
    """Rounds in which noisy sums of misclassified rows move a line, around a noisy centre.

    *Guarantee*: the price in full: a fifth for the mean of all rows, equal parts of the rest for
    rounds whose number is fixed before any row is read.
    *Sensitivity*: a misclassified row adds its offset, with a public constant as one more
    coordinate, clipped to the reach in L1 and with the sign of its class (`offset_sensitivity`); a
    row on the right side adds 0. Clipping moves no row to the other side of a line.
    *Error*: `sum` is the noise on each weight in each round, in rows; the released line is the mean
    of the lines of all rounds, with larger weights for later rounds.
    *Edges*: in the first round every row counts as misclassified. Rows without a class never count.
    No rows, or rows of one class, give an ordinary line. The number of misclassified rows is not
    released.
    *Reference*: Blum, Dwork, McSherry & Nissim 2005, section 5.1 (SuLQ perceptron).
    """

    space: FeatureSpace
    labels: ClassLabels
    middle: OffsetRound
    noise: Noise
    reach: int
    constant: int
    rounds: int
    row: int

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed((self.middle.event, *(self.noise.event for _ in range(self.rounds))))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number of rounds, and their reach."""
        return {"rounds": self.rounds, "reach": round(self.reach / GRID, 6)}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of the sum over misclassified rows, in one coordinate."""
        scale = self.row * GRID
        noise = {"sd": self.noise.stddev / scale, "bound95": self.noise.bound(0.05) / scale}
        return {
            "sum": noise,
            "note": "n misclassified rows outweigh the noise if n is well above it",
        }

    @property
    def facts(self) -> Mapping[str, Any]:
        """The declarations of the features and of the classes."""
        return {**self.space.facts(), "classes": self.labels.facts()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table of weights, without a row."""
        empty = self._table(np.zeros(self.space.size + 1), np.zeros(self.space.size))
        return {"weights": empty.slice(0, 0)}

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure the centre, then move the line by its misclassified rows, round by round."""
        expressions, label = self.space.expressions(), self.labels.expression()
        width = self.space.size
        middle = GriddedRows(salted.data, expressions, width).middle(self.middle, entropy)
        centre = np.append(round_to_grid(middle), 0)
        # The constant is a further coordinate, so that the line need not pass through the centre.
        rows = GriddedRows(salted.data, [*expressions, literal(self.constant), label], width + 1)
        line, mean = np.zeros(width + 1), np.zeros(width + 1)
        for round_index in range(self.rounds):
            exact = sum_mistakes(rows, centre, line_on_grid(line), self.reach)
            noisy = self.noise.steps(exact, entropy).astype(np.float64)
            line = line + noisy / (self.row * GRID)
            # Later lines make fewer mistakes and count more in the released mean.
            mean = mean + (round_index + 1) * line
        return {"weights": self._table(mean, centre[:-1] / GRID)}

    def _table(self, line: FloatArray, centre: FloatArray) -> pa.Table:
        """The released table: the constant, and weights of coordinates, scaled to norm 1."""
        unit = line / max(float(np.linalg.norm(line[:-1])), 1e-9)
        constant = unit[-1] * self.constant / GRID - unit[:-1] @ centre
        values = np.round(np.concatenate([[constant], unit[:-1]]), 6)
        terms = pa.array([CONSTANT, *self.space.names], pa.string())
        return pa.table({"term": terms, "weight": pa.array(values)})


def line_on_grid(line: FloatArray) -> IntArray:
    """A line's weights as integers with the largest at GRID: only their ratios matter."""
    largest = float(np.abs(line).max())
    return np.rint(line * (GRID / largest if largest else 0.0)).astype(np.int64)


def sum_mistakes(rows: GriddedRows, centre: IntArray, line: IntArray, reach: int) -> NDArray[Any]:
    """Sum the clipped offsets of rows that a line misclassifies, with the signs of their classes.

    Each term of a score is below 2^31, so that scores fit 64 bits. The sums are exact and private.
    """
    sign = exp.Paren(this=rows.label * exp.convert(2) - exp.convert(1))
    side = exp.column(_SIGN) * exp.Paren(this=combined(line, 0, offset))
    # A row with score 0 counts as misclassified, so that the first line, 0, moves.
    mistake_sign = exp.case().when(side <= exp.convert(0), exp.column(_SIGN)).else_(exp.convert(0))
    after: list[Layer] = [{_SIGN: sign}, {_WRONG: mistake_sign}]
    terms = [exp.column(_WRONG) * offset(position) for position in range(rows.width)]
    has_class = rows.label >= exp.convert(0)
    group = exp.case().when(has_class, exp.convert(0)).else_(exp.convert(-1))
    return np.asarray(rows.sums(centre[None, :], reach, terms, group, after=after)[0])


@dataclass(frozen=True, repr=False, kw_only=True)
class PerceptronModel(Model):
    """A line: rows above it are of the second class, all others of the first."""

    answers: ClassVar[str] = "class"

    @cached_property
    def space(self) -> FeatureSpace:
        """The coordinates of the features."""
        return FeatureSpace.from_facts(self.facts)

    @cached_property
    def labels(self) -> ClassLabels:
        """The two classes."""
        return ClassLabels.from_facts(self.facts["classes"])

    @cached_property
    def weights(self) -> FloatArray:
        """The constant, and the weight of each coordinate."""
        return np.asarray(self.tables["weights"].column("weight").to_numpy(), dtype=np.float64)

    def check(self) -> None:
        """Refuse a wrong number of weights, infinite ones, and other than two classes."""
        assert len(self.weights) == self.space.size + 1
        assert np.isfinite(self.weights).all()
        assert len(self.labels) == 2

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The class of each row, and its distance above the line."""
        above = self.weights[0] + self.space.encode(rows) @ self.weights[1:]
        classes = self.labels.values.take(pa.array((above > 0).astype(np.int64)))
        return {"prediction": classes, "above": pa.array(above)}


MODEL = PerceptronModel


def prepare(request: LearningRequest, *, rounds: object = _ROUNDS) -> PerceptronLearning:
    """Plan a perceptron in `rounds` rounds, from public facts."""
    assert request.target is not None
    round_count = options.whole(rounds, "rounds", least=1, most=MOST_ROUNDS)
    space, labels = FeatureSpace(request.features), ClassLabels.of(request.target)
    if len(labels) != 2:
        raise ParameterError(
            "column_unsuitable",
            f"A perceptron separates two classes; column {quoted(request.target.name)} declares "
            f"{len(labels)}. Learn 'logistic', which predicts any number of classes.",
        )
    unit, (near, far) = request.unit, (reach_of(radius, space.size) for radius in (_NEAR, _FAR))
    spending = best_spending(request.price, unit, near)
    constant = min(max(round(near * _CONSTANT / math.sqrt(space.size)), 1), GRID)
    share = (1 - _MIDDLE) / round_count
    weight = max(int(_COUNTS * far), 1)
    return PerceptronLearning(
        space=space,
        labels=labels,
        middle=OffsetRound.of(spending, unit, far, weight=weight, share=_MIDDLE),
        noise=spending.noise(offset_sensitivity(unit, near), share),
        reach=near,
        constant=constant,
        rounds=round_count,
        row=whole_row(unit),
    )
