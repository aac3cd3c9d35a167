"""Two classes by a line between them: the perceptron, by noisy sums of the rows it gets wrong.

Decision `learn-rounds`.
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
    on_grid,
    reach_of,
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
"""The share of the price for where all rows lie; the rounds have the rest, in equal parts."""
_COUNTS, _CONSTANT = Fraction(15, 100), 1.0
"""What counts weigh, and the constant times the root of the coordinates, as parts of a reach."""
_WRONG, _SIGN = "sf_wrong", "sf_sign"
CONSTANT = "(constant)"


@dataclass(frozen=True)
class PerceptronLearning:
    """Rounds in which noisy sums of wrongly told rows move a line, around a noisy centre.

    *Guarantee*: the price in full: a fifth for where all rows lie, equal parts of the rest for
    rounds whose number is fixed before any row is read.
    *Sensitivity*: a row that is told wrongly adds its offset with a public constant as one more
    coordinate, all of it cut to the reach in L1, with its sign (`offset_sensitivity`); one that is
    told rightly adds nothing. Cutting moves no row to the other side of a line.
    *Error*: `sum` is what noise lies on each weight in each round, in rows; the line that is told
    is the mean of those of all rounds, later ones counting more.
    *Edges*: at first every row counts as wrong. Rows without a class never count. No rows, or rows
    of one class, give a line like all others. How many rows are wrong is told to nobody.
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
        """How many rounds, and how far from the centre a row counts in full."""
        return {"rounds": self.rounds, "reach": round(self.reach / GRID, 6)}

    @property
    def error(self) -> Mapping[str, Any]:
        """Of the sum over mistakes in one coordinate."""
        scale = self.row * GRID
        told = {"sd": self.noise.stddev / scale, "bound95": self.noise.bound(0.05) / scale}
        return {"sum": told, "note": "n rows told wrongly outweigh it where n is well above it"}

    @property
    def facts(self) -> Mapping[str, Any]:
        """How columns become coordinates, and what the classes are."""
        return {**self.space.facts(), "classes": self.labels.facts()}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The weight of each coordinate."""
        nothing = self._table(np.zeros(self.space.size + 1), np.zeros(self.space.size))
        return {"weights": nothing.slice(0, 0)}

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The centre, then a line that is moved by what it gets wrong."""
        expressions, label = self.space.expressions(), self.labels.expression()
        width = self.space.size
        middle = GriddedRows(salted.data, expressions, width).middle(self.middle, entropy)
        centre = np.append(on_grid(middle), 0)
        rows = GriddedRows(salted.data, [*expressions, literal(self.constant), label], width + 1)
        line, mean = np.zeros(width + 1), np.zeros(width + 1)
        for place in range(self.rounds):
            told = mistakes(rows, centre, whole_line(line), self.reach)
            noisy = self.noise.steps(told, entropy).astype(np.float64)
            line = line + noisy / (self.row * GRID)
            mean = mean + (place + 1) * line
        return {"weights": self._table(mean, centre[:-1] / GRID)}

    def _table(self, line: FloatArray, centre: FloatArray) -> pa.Table:
        """Weights of the coordinates themselves, with norm 1, and the constant first."""
        unit = line / max(float(np.linalg.norm(line[:-1])), 1e-9)
        constant = unit[-1] * self.constant / GRID - unit[:-1] @ centre
        values = np.round(np.concatenate([[constant], unit[:-1]]), 6)
        terms = pa.array([CONSTANT, *self.space.names], pa.string())
        return pa.table({"term": terms, "weight": pa.array(values)})


def whole_line(line: FloatArray) -> IntArray:
    """A line's weights as whole numbers, the largest of them GRID: only their relations matter."""
    most = float(np.abs(line).max())
    return np.rint(line * (GRID / most if most else 0.0)).astype(np.int64)


def mistakes(rows: GriddedRows, centre: IntArray, line: IntArray, reach: int) -> NDArray[Any]:
    """Exact sums of the cut offsets of rows that a line tells wrongly, with their signs.

    A score is below 2^31 for each coordinate, so that it fits 64 bits.
    """
    sign = exp.Paren(this=rows.label * exp.convert(2) - exp.convert(1))
    side = exp.column(_SIGN) * exp.Paren(this=combined(line, 0, offset))
    moves = exp.case().when(side <= exp.convert(0), exp.column(_SIGN)).else_(exp.convert(0))
    after: list[Layer] = [{_SIGN: sign}, {_WRONG: moves}]
    terms = [exp.column(_WRONG) * offset(at) for at in range(rows.width)]
    told = rows.label >= exp.convert(0)
    classed = exp.case().when(told, exp.convert(0)).else_(exp.convert(-1))
    return np.asarray(rows.sums(centre[None, :], reach, terms, classed, after=after)[0])


@dataclass(frozen=True, repr=False, kw_only=True)
class PerceptronModel(Model):
    """A line: rows above it are of the second class, all others of the first."""

    answers: ClassVar[str] = "class"

    @cached_property
    def space(self) -> FeatureSpace:
        """How rows become coordinates."""
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
        """A finite weight for each coordinate, and two classes."""
        assert len(self.weights) == self.space.size + 1
        assert np.isfinite(self.weights).all()
        assert len(self.labels) == 2

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The class of each row, and how far above the line it is."""
        above = self.weights[0] + self.space.encode(rows) @ self.weights[1:]
        told = self.labels.values.take(pa.array((above > 0).astype(np.int64)))
        return {"prediction": told, "above": pa.array(above)}


MODEL = PerceptronModel


def prepare(request: LearningRequest, *, rounds: object = _ROUNDS) -> PerceptronLearning:
    """Part two classes by a line, from public facts alone."""
    assert request.target is not None
    often = options.whole(rounds, "rounds", least=1, most=MOST_ROUNDS)
    space, labels = FeatureSpace(request.features), ClassLabels.of(request.target)
    if len(labels) != 2:
        raise ParameterError(
            "column_unsuitable",
            f"A perceptron parts two classes, and column {quoted(request.target.name)} declares "
            f"{len(labels)}. Learn 'logistic', which tells any number of classes.",
        )
    unit, (near, far) = request.unit, (reach_of(one, space.size) for one in (_NEAR, _FAR))
    spending = best_spending(request.price, unit, near)
    constant = min(max(round(near * _CONSTANT / math.sqrt(space.size)), 1), GRID)
    share = (1 - _MIDDLE) / often
    weight = max(int(_COUNTS * far), 1)
    return PerceptronLearning(
        space=space,
        labels=labels,
        middle=OffsetRound.of(spending, unit, far, weight=weight, share=_MIDDLE),
        noise=spending.noise(offset_sensitivity(unit, near), share),
        reach=near,
        constant=constant,
        rounds=often,
        row=whole_row(unit),
    )
