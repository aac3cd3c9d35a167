"""Exact integer gradients and curvatures of a logistic regression, summed in the engine.

A row is x = (1, coordinates), whole numbers up to GRID in size, and a class. Coefficients are whole
numbers in 1 / COEFFICIENT; the first class has none (score 0). A row's scores are exact, and so is
every step from scores to probabilities: 2^-t is a polynomial in whole numbers, each quotient is
rounded down, and probabilities are whole parts of ONE. No step uses a float, so that a row's terms
are the same in every engine and never depend on other rows. The probabilities are within 1e-5 of
the softmax function.

*Sensitivity*: declared ranges bound a row, so that nothing is clipped. Of k columns each adds at
most GRID to |x|_1 and GRID^2 to |x|_2^2 (a number, or one indicator that is not 0), the constant as
much; with R^2 = 1 + k, in units of GRID: |x|_1 <= R^2 and |x|_2 <= R.

- *Gradient*: (p - y) x. Two classes: only the second class is summed, |p - y| <= 1: L1 R^2, L2 R.
  More: |p - y|_1 <= 2 and |p - y|_2 <= sqrt 2, also for probabilities that are rounded down, since
  (1 - p_y) bounds the sum of the others: L1 2 R^2, L2 sqrt 2 R.
- *Products* x_i x_j, i <= j: L1 (|x|_1^2 + |x|_2^2) / 2, and L2^2 (|x|_2^4 + |x|_4^4) / 2: both are
  at most (R^4 + R^2) / 2, because |x|_4^4 <= R^2.
- *Curvature*: v_cd x_i x_j for classes c <= d but the first, with v = diag(p) - p p'. Two classes:
  v <= 1/4. More: with s = |p|_2^2, |v|_F^2 = s - 2 |p|_3^3 + s^2 <= s - s^2 <= 1/4, and the sum of
  |v_cd|, c <= d, is at most 3/2 (1 - 1 / (classes - 1)).

A class weight is at most 1, so that it raises no bound. `person_sensitivity` goes from a row to a
person.

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.data.counting.axes import literal
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.row_sums import (
    coordinate,
    person_sensitivity,
    sums,
    total_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.unit import Sensitivity, Unit
    from sfumato.methods.learn.bins import ClassLabels
    from sfumato.methods.learn.row_sums import Layer
    from sfumato.methods.method import Dataset

ONE = 1 << 20
"""A probability of 1."""
COEFFICIENT = 1 << 12
"""A coefficient of 1."""
LARGEST = 64
"""Coefficients are at most this large, so that scores stay below 2^37."""
WEIGHT_ONE = 1 << 10
"""A class weight of 1."""

_FRACTION = 1 << 16
"""Exponents of 2 are in units of 1 / _FRACTION."""
_PER_EXPONENT = 1 << 22
"""Scores are in units of 1 / (GRID COEFFICIENT)."""
_LOG2_E = 94548
"""log2(e) in units of 1 / _FRACTION."""
_POWER = (1048574, 726716, 251070, 55812, 7174)
"""2^-f ONE is the alternating sum of these times f^i, within 2e-6 ONE for 0 <= f <= 1."""
_MOST_HALVINGS = 20
"""2^-21 ONE rounds down to 0."""

_TERM_BITS = 41


@dataclass(frozen=True)
class LogisticRows:
    """The rows of a data set as integer coordinates with a class, for a logistic regression."""

    data: Dataset
    space: FeatureSpace
    labels: ClassLabels
    class_weights: IntArray
    """The weight of each class in 1 / WEIGHT_ONE, at most WEIGHT_ONE."""

    def counts(self) -> NDArray[Any]:
        """The exact number of rows of each class, unweighted."""
        return sums(
            self.data, self._expressions, [literal(1)],
            group=self._label, groups=len(self.labels), bits=2,
        )[:, 0]  # fmt: skip

    def gradient(self, coefficients: IntArray) -> NDArray[Any]:
        """The exact sums of w (p - y) x, (classes, width), or of the second of two classes only.

        In units of 1 / (ONE GRID).
        """
        terms = [
            exp.column(f"sf_r{number}") * _x(position, self.width)
            for number in self._measured_classes
            for position in range(self.width)
        ]
        layers = [*self._probability_layers(coefficients), self._residuals()]
        return self._sums(terms, layers).reshape(-1, self.width)

    def products(self) -> NDArray[Any]:
        """The exact sums of w x_i x_j over `pairs`, in units of 1 / (WEIGHT_ONE GRID^2)."""
        terms = [exp.column("sf_w") * product for product in self._products()]
        return self._sums(terms, [{"sf_w": self._weight}])

    def curvature(self, coefficients: IntArray) -> NDArray[Any]:
        """The exact sums of w v_cd x_i x_j: (pairs of classes c <= d, `pairs`).

        In units of 1 / (ONE GRID^2).
        """
        terms = [
            exp.column(f"sf_v{first}_{second}") * product
            for first, second in class_pairs(len(self.labels))
            for product in self._products()
        ]
        layers = [*self._probability_layers(coefficients), self._curvatures()]
        return self._sums(terms, layers).reshape(-1, len(self.pairs))

    @property
    def width(self) -> int:
        """The length of x: the constant and the coordinates."""
        return self.space.size + 1

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The measured products: all but those of two values of one column, which are 0."""
        return product_pairs(self.space)

    @property
    def _measured_classes(self) -> range:
        return range(1, 2) if len(self.labels) == 2 else range(len(self.labels))

    @property
    def _expressions(self) -> list[exp.Expr]:
        """The coordinates, the constant, and the number of the class."""
        return [*self.space.expressions(), literal(GRID), self.labels.expression()]

    @property
    def _label(self) -> exp.Expr:
        return coordinate(self.width)

    @property
    def _weight(self) -> exp.Expr:
        """The weight of the row's class."""
        case = exp.case()
        for number, weight in enumerate(self.class_weights):
            case = case.when(self._label.eq(literal(number)), literal(int(weight)))
        return exp.cast(case.else_(literal(0)), "BIGINT")

    def _products(self) -> list[exp.Expr]:
        return [_x(i, self.width) * _x(j, self.width) for i, j in self.pairs]

    def _sums(self, terms: Sequence[exp.Expr], layers: Sequence[Layer]) -> NDArray[Any]:
        """Sums over the rows that have a class."""
        has_class = self._label >= literal(0)
        group = exp.case().when(has_class, literal(0)).else_(literal(-1))
        totals: NDArray[Any] = sums(
            self.data, self._expressions, terms, layers=layers, group=group, bits=_TERM_BITS
        )[0]
        return totals

    def _probability_layers(self, coefficients: IntArray) -> list[Layer]:
        """Layers that compute `sf_p0`, `sf_p1`, ...: probabilities in ONE, rounded down."""
        classes = range(len(self.labels))
        scores = {"sf_z0": exp.cast(literal(0), "BIGINT")}
        for number, row in enumerate(coefficients, start=1):
            products = [
                _x(position, self.width) * literal(int(value))
                for position, value in enumerate(row)
                if value
            ]
            scores[f"sf_z{number}"] = exp.cast(total_of(products), "BIGINT")
        first, *others = (exp.column(name) for name in scores)
        largest = exp.Greatest(this=first, expressions=others, ignore_nulls=True)
        powers = {f"sf_e{c}": _power_of_half(exp.column(f"sf_t{c}")) for c in classes}
        total = total_of([exp.column(name) for name in powers])
        return [
            scores,
            {"sf_z": largest},
            {f"sf_t{c}": _exponent(exp.column("sf_z") - exp.column(f"sf_z{c}")) for c in classes},
            powers,
            {"sf_e": total},
            {
                f"sf_p{c}": _quotient(exp.column(f"sf_e{c}") * literal(ONE), exp.column("sf_e"))
                for c in classes
            },
        ]

    def _residuals(self) -> Layer:
        """w |p - y| in ONE, rounded down, with the sign of p - y."""
        residuals: dict[str, exp.Expr] = {}
        for number in self._measured_classes:
            chance = exp.column(f"sf_p{number}")
            own = exp.Paren(this=literal(ONE) - chance)
            negative = exp.Paren(this=literal(0) - self._weighted(own))
            case = exp.case().when(self._label.eq(literal(number)), negative)
            residuals[f"sf_r{number}"] = case.else_(self._weighted(chance.copy()))
        return residuals

    def _curvatures(self) -> Layer:
        """w v_cd in ONE: magnitudes are rounded down before the sign."""
        layer: dict[str, exp.Expr] = {}
        for first, second in class_pairs(len(self.labels)):
            p, q = exp.column(f"sf_p{first}"), exp.column(f"sf_p{second}")
            if first == second:
                own = self._weighted(_quotient(p * exp.Paren(this=literal(ONE) - q), literal(ONE)))
                layer[f"sf_v{first}_{second}"] = own
            else:
                shared = self._weighted(_quotient(p * q, literal(ONE)))
                layer[f"sf_v{first}_{second}"] = exp.Paren(this=literal(0) - shared)
        return layer

    def _weighted(self, value: exp.Expr) -> exp.Expr:
        if set(self.class_weights.tolist()) == {WEIGHT_ONE}:
            return value
        return _quotient(exp.Paren(this=value) * self._weight, literal(WEIGHT_ONE))


def product_pairs(space: FeatureSpace) -> tuple[tuple[int, int], ...]:
    """The positions i <= j in x whose product can differ from 0."""
    column_of = {at + 1: number for number, block in enumerate(space.blocks) for at in block}
    column_of[0] = -1
    pairs = combinations_with_replacement(range(space.size + 1), 2)
    return tuple((i, j) for i, j in pairs if i == j or column_of[i] != column_of[j])


def class_pairs(classes: int) -> list[tuple[int, int]]:
    """The pairs c <= d of all classes but the first."""
    return list(combinations_with_replacement(range(1, classes), 2))


def matrix_of(values: FloatArray, space: FeatureSpace) -> FloatArray:
    """The symmetric matrix of figures of `product_pairs`."""
    first, second = np.array(product_pairs(space)).T
    matrix = np.zeros((space.size + 1, space.size + 1))
    matrix[first, second] = matrix[second, first] = values
    return matrix


def coefficients_on_grid(coefficients: FloatArray) -> IntArray:
    """Coefficients in 1 / COEFFICIENT, at most LARGEST in size."""
    return np.rint(np.clip(coefficients, -LARGEST, LARGEST) * COEFFICIENT).astype(np.int64)


# The sensitivities of the sums, as the module states them, in the units of each sum.


def squared_radius(space: FeatureSpace) -> int:
    """R^2: the largest squared norm of a row, in GRID^2."""
    return 1 + len(space.blocks)


def gradient_sensitivity(unit: Unit, space: FeatureSpace, classes: int) -> Sensitivity:
    """The sensitivity of `LogisticRows.gradient`."""
    radius, factor = squared_radius(space), 1 if classes == 2 else 2
    return person_sensitivity(
        unit, l1=factor * radius * ONE * GRID, l2_squared=factor * radius * (ONE * GRID) ** 2
    )


def product_sensitivity(unit: Unit, space: FeatureSpace) -> Sensitivity:
    """The sensitivity of `LogisticRows.products`.

    Two rows' products have the inner product ((a.b)^2 + sum of a_i^2 b_i^2) / 2 >= 0: not `signed`.
    """
    radius, scale = squared_radius(space), WEIGHT_ONE * GRID**2
    products = radius * (radius + 1) // 2
    return person_sensitivity(
        unit, l1=products * scale, l2_squared=products * scale**2, signed=False
    )


def curvature_sensitivity(unit: Unit, space: FeatureSpace, classes: int) -> Sensitivity:
    """The sensitivity of `LogisticRows.curvature`."""
    radius, scale = squared_radius(space), ONE * GRID**2
    products = radius * (radius + 1) // 2
    l1, l2_squared = Fraction(1, 4), Fraction(1, 16)
    if classes > 2:
        l1, l2_squared = Fraction(3, 2) * (1 - Fraction(1, classes - 1)), Fraction(1, 4)
    return person_sensitivity(
        unit,
        l1=-(-l1 * products * scale // 1),
        l2_squared=-(-l2_squared * products * scale**2 // 1),
        # For more classes the terms of a pair of classes may have either sign.
        signed=classes > 2,
    )


def class_count_sensitivity(unit: Unit) -> Sensitivity:
    """The sensitivity of `LogisticRows.counts`."""
    return person_sensitivity(unit, l1=1, l2_squared=1, signed=False)


def _x(position: int, width: int) -> exp.Expr:
    """The SQL of an entry of x: the constant first; it is the last of the engine's coordinates."""
    return coordinate(width - 1 if position == 0 else position - 1)


def _exponent(difference: exp.Expr) -> exp.Expr:
    """The exponent t of 2^-t = e^-difference, in 1 / _FRACTION, for a difference of at least 0."""
    scaled = exp.Paren(this=difference) * literal(_LOG2_E)
    return exp.Least(
        this=_quotient(scaled, literal(_PER_EXPONENT)),
        expressions=[exp.cast(literal((_MOST_HALVINGS + 1) * _FRACTION), "BIGINT")],
        ignore_nulls=True,
    )


def _power_of_half(exponent: exp.Expr) -> exp.Expr:
    """2^-t ONE, rounded down: a polynomial of the fraction of t, halved as often as t is whole."""
    fraction = exp.Mod(this=exponent.copy(), expression=literal(_FRACTION))
    power: exp.Expr = literal(_POWER[-1])
    for value in reversed(_POWER[:-1]):
        # Every intermediate value is positive, so that all engines round it in the same way.
        power = exp.Paren(
            this=literal(value)
            - _quotient(exp.Paren(this=fraction.copy()) * power, literal(_FRACTION))
        )
    case = exp.case()
    for halvings in range(_MOST_HALVINGS):
        below = exponent.copy() < literal((halvings + 1) * _FRACTION)
        case = case.when(below, literal(1 << halvings))
    return _quotient(power, exp.cast(case.else_(literal(1 << 2 * _MOST_HALVINGS)), "BIGINT"))


def _quotient(dividend: exp.Expr, divisor: exp.Expr) -> exp.Expr:
    """A quotient of whole numbers that are not negative, rounded down."""
    wide = exp.cast(exp.Paren(this=dividend), "BIGINT")
    return exp.cast(exp.IntDiv(this=wide, expression=exp.cast(divisor, "BIGINT")), "BIGINT")
