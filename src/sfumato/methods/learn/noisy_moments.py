"""Second moments of features, with noise: what linear models, components and covariances share.

A row is z = (1, x, y): a constant, its coordinates, and its target if there is one. If the norm of
x exceeds a public bound R, the whole of z is multiplied by R / |x|. In a regression such a row has
less weight, and weights that depend on x alone do not bias a linear model; clipping x alone would.
Measured are sums of products of two coordinates of z, in blocks: rows (1 1), sums (1 x), squares
(x_i x_i), cross products (x_i x_j), and with a target y (1 y), (x y), (y y). Of two coordinates of
one column at least one is 0, so that their product is known to be 0 and is not measured.

*Guarantee*: each block gets noise for its own share of the price, and the blocks compose.
*Sensitivity*: of one row, with k columns and so |x|_1 <= L = sqrt(k) R, in norms L1 and L2 squared:
rows, y, (y y): 1, 1; sums and (x y): L, R^2; squares: R^2, R^4; cross products: (k - 1) R^2 / 2,
(1 - 1/k) R^4 / 2. A person has `max_rows` of them. The last two are largest where all columns are
equally large: sum_{i<j} |x_i x_j| = (|x|_1^2 - |x|_2^2) / 2, and sum_{i<j} x_i^2 x_j^2 =
(|x|_2^4 - |x|_4^4) / 2, where |x|_4^4 >= |x|_2^4 / k.
*Error*: `NoisyMoments.stddev` of each block, exact and known before. Shares go as the cube root
(Laplace) or the square root (Gaussian) of the number of figures times squared sensitivity, which
makes the summed variance least, times public weights that say which blocks matter to a model.
*Edges*: no rows, or only missing values, give noise around 0; the number of rows that estimates
divide by is never below 1 nor below its own noise. R is public: an option, or by default from how
many columns there are.
*Reference*: Dwork, Talwar, Thakurta & Zhang 2014 (Analyze Gauss); Wang 2018 (AdaSSP).

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import isqrt, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.data.counting.axes import literal
from sfumato.errors import ParameterError
from sfumato.exact_numbers import positive
from sfumato.methods.learn.features import GRID, FeatureSpace, OneHot, Switch
from sfumato.methods.learn.row_sums import clip_layers, clipped, person_sensitivity, sums, whole_row
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.data.schema.unit import Sensitivity, Unit
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

MOST_COORDINATES = 256
"""More would be tens of thousands of sums."""

_TYPICAL = Fraction(1, 6)
"""The expected square of a numeric coordinate, for the default norm; an indicator has 1."""

_SHARE_BITS = 20
"""Shares are fractions of 2^20, so that they are exact and add up to 1."""

ROWS, SUMS, SQUARES, CROSS, TARGET, JOINT, TARGET_SQUARE = (
    "rows",
    "sums",
    "squares",
    "cross",
    "target",
    "joint",
    "target_square",
)
"""The blocks by name."""


@dataclass(frozen=True)
class MomentBlock:
    """Products of two coordinates of z, by their positions, and their sensitivity to one row."""

    name: str
    pairs: tuple[tuple[int, int], ...]
    l1: int
    l2_squared: int
    signed: bool = True

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """The sensitivity of the block to a person, in parts of `whole_row` and 1 / GRID^2."""
        return person_sensitivity(unit, l1=self.l1, l2_squared=self.l2_squared, signed=self.signed)


@dataclass(frozen=True)
class NoisyMoments:
    """Noisy moments in rows and coordinates from -1 to 1, with standard deviations by block."""

    rows: float
    """At least 1, and at least as large as its own noise."""
    sums: FloatArray
    products: FloatArray
    target: float
    joint: FloatArray
    target_square: float
    stddev: Mapping[str, float]

    @property
    def counts(self) -> bool:
        """Whether the noisy number of rows is large against its noise, so that it may divide."""
        return self.rows > _STANDS_OUT * self.stddev[ROWS]

    def means(self) -> FloatArray:
        """The means of the coordinates, shrunk towards the middle by their noise."""
        raw = np.clip(self.sums / self.rows, -1, 1)
        return np.asarray(raw * _shrinkage(self.stddev[SUMS] / self.rows))

    def target_mean(self) -> float:
        """The mean of the target, shrunk in the same way."""
        raw = min(max(self.target / self.rows, -1.0), 1.0)
        return raw * _shrinkage(self.stddev.get(TARGET, 0.0) / self.rows)

    def centred(self) -> FloatArray:
        """The sums of products around the means: symmetric, perhaps not positive definite."""
        means = self.means()
        return np.asarray(self.products - self.rows * np.outer(means, means))


_STANDS_OUT = 4
"""How many standard deviations of its noise a number of rows must exceed."""

_NORMAL_95, _LAPLACE_95 = 1.959963984540054, log(20) / sqrt(2)

_PRIOR = 0.1
"""The prior variance of a mean, among tables that people have."""


def _shrinkage(stddev: float) -> float:
    """The factor of a noisy mean under a normal prior: prior / (prior + noise variance)."""
    return _PRIOR / (_PRIOR + stddev**2)


@dataclass(frozen=True)
class MomentPlan:
    """The measured blocks of moments and their noise, chosen from public facts alone."""

    space: FeatureSpace
    target: FeatureSpace | None
    unit: Unit
    norm: int
    """R, in units of 1 / GRID."""
    spending: Spending
    weights: Mapping[str, float]
    """How much the variance of each block matters; 1 by default."""

    @cached_property
    def blocks(self) -> tuple[MomentBlock, ...]:
        """The measured blocks in order; position 0 of z is the constant, the last is the target."""
        return _blocks(self.space, self.norm, has_target=self.target is not None)

    @cached_property
    def shares(self) -> dict[str, Fraction]:
        """The share of each block in the price: exact fractions that add up to 1."""
        # The sum over blocks of n_b w_b s_b^2 / share_b^p is least, under shares that add up to 1,
        # for shares in proportion to (n_b w_b s_b^2)^(1 / (p + 1)); Laplace noise has p = 2,
        # Gaussian noise p = 1.
        pure = self.spending.epsilon is not None
        sizes = {}
        for block in self.blocks:
            sensitivity_squared = float(block.l1) ** 2 if pure else float(block.l2_squared)
            weighted = len(block.pairs) * sensitivity_squared * self.weights.get(block.name, 1.0)
            sizes[block.name] = weighted ** (1 / 3 if pure else 1 / 2)
        total = sum(sizes.values())
        parts = {
            name: max(1, int(size / total * (1 << _SHARE_BITS))) for name, size in sizes.items()
        }
        all_parts = sum(parts.values())
        return {name: Fraction(part, all_parts) for name, part in parts.items()}

    @cached_property
    def noises(self) -> dict[str, Noise]:
        """The noise of each block."""
        return {
            block.name: self.spending.noise(block.sensitivity(self.unit), self.shares[block.name])
            for block in self.blocks
        }

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed(tuple(noise.event for noise in self.noises.values()))

    @property
    def stddev(self) -> dict[str, float]:
        """The standard deviation of a figure of each block, in rows."""
        row_parts = float(whole_row(self.unit) * GRID**2)
        return {name: noise.stddev / row_parts for name, noise in self.noises.items()}

    @property
    def parameters(self) -> dict[str, Any]:
        """The choices made, in JSON form."""
        return {
            "norm": self.norm / GRID,
            "noise": type(next(iter(self.noises.values()))).__name__.lower(),
            "shares": {name: float(share) for name, share in self.shares.items()},
        }

    def measure(self, data: Dataset, entropy: Entropy) -> NoisyMoments:
        """Sum in the engine and add noise; divisions come after this."""
        return self.noised(self.exact(data), entropy)

    @property
    def interval_sds(self) -> float:
        """Half a 95 % interval in standard deviations: 1.96, or 2.12 for Laplace noise."""
        return _LAPLACE_95 if self.spending.epsilon is not None else _NORMAL_95

    def noised(self, exact: NDArray[Any], entropy: Entropy) -> NoisyMoments:
        """Add each block's noise to exact sums."""
        row_parts, start = float(whole_row(self.unit) * GRID**2), 0
        size = self.space.size + 2
        matrix, stddev = np.zeros((size, size)), self.stddev
        for block in self.blocks:
            noisy = self.noises[block.name].steps(exact[start : start + len(block.pairs)], entropy)
            start += len(block.pairs)
            for (i, j), value in zip(block.pairs, noisy, strict=True):
                matrix[i, j] = matrix[j, i] = int(value) / row_parts
        # Without a target the last row and column of z stay 0.
        inner, last = slice(1, size - 1), size - 1
        return NoisyMoments(
            rows=max(matrix[0, 0], stddev[ROWS], 1.0),
            sums=matrix[0, inner],
            products=matrix[inner, inner],
            target=float(matrix[0, last]),
            joint=matrix[inner, last],
            target_square=float(matrix[last, last]),
            stddev=stddev,
        )

    def exact(self, data: Dataset) -> NDArray[Any]:
        """The exact sums of all products, in the order of the blocks. They are private."""
        size = self.space.size
        features = self.space.expressions()
        constant_and_target = [literal(GRID)]
        if self.target is not None:
            constant_and_target += self.target.expressions()
        # Features come first, because the norm is theirs alone; the others are shrunk with them.
        layers = clip_layers(size, self.norm, scaled_along=len(constant_and_target))
        column_of = [size, *range(size), size + 1]
        terms = [
            exp.Mul(this=clipped(column_of[i]), expression=clipped(column_of[j]))
            for block in self.blocks
            for i, j in block.pairs
        ]
        bits = (GRID * GRID).bit_length()  # no coordinate is above GRID
        totals: NDArray[Any] = sums(
            data, [*features, *constant_and_target], terms, layers=layers, bits=bits
        )[0]
        return totals


def _blocks(space: FeatureSpace, norm: int, *, has_target: bool) -> tuple[MomentBlock, ...]:
    """The blocks with their sensitivity to one row in 1 / GRID^2, as the module states it."""
    size, columns = space.size, len(space.blocks)
    longest, last = isqrt(columns * norm**2), size + 1
    column_of = {
        position: column for column, block in enumerate(space.blocks) for position in block
    }
    inner = range(1, size + 1)
    pairs = combinations(inner, 2)
    cross = [(i, j) for i, j in pairs if column_of[i - 1] != column_of[j - 1]]
    # L = sqrt(k) R bounds |x|_1; cross products: (k - 1) R^2 / 2 in L1, (1 - 1/k) R^4 / 2 in L2^2.
    unit, sums_l1, cross_l1 = GRID**2, GRID * longest, norm**2 * (columns - 1) // 2
    cross_l2 = norm**4 * (columns - 1) // (2 * columns) if columns else 0
    blocks = [
        MomentBlock(ROWS, ((0, 0),), unit, unit**2, signed=False),
        MomentBlock(SUMS, tuple((0, i) for i in inner), sums_l1, GRID**2 * norm**2),
        MomentBlock(SQUARES, tuple((i, i) for i in inner), norm**2, norm**4, signed=False),
        MomentBlock(CROSS, tuple(cross), max(cross_l1, 1), max(cross_l2, 1)),
    ]
    if has_target:
        blocks += [
            MomentBlock(TARGET, ((0, last),), unit, unit**2),
            MomentBlock(JOINT, tuple((i, last) for i in inner), sums_l1, GRID**2 * norm**2),
            MomentBlock(TARGET_SQUARE, ((last, last),), unit, unit**2, signed=False),
        ]
    return tuple(block for block in blocks if block.pairs)


def plan(
    request: LearningRequest,
    *,
    norm: object = None,
    weights: Mapping[str, float] | None = None,
    clips_nothing: bool = False,
) -> MomentPlan:
    """Choose the norm and the noise of least variance from public facts.

    The default norm is that of a typical row. With `clips_nothing`, and where the noise of rows
    that are not clipped is negligible for the declared number of rows, it is the largest norm.
    """
    space = FeatureSpace(request.features)
    if space.size > MOST_COORDINATES:
        raise ParameterError(
            "problem_too_large",
            f"The features have {space.size:,} coordinates, one for each number and each declared "
            f"value; at most {MOST_COORDINATES} can be learnt together. Take fewer features, or "
            "features of fewer values.",
        )
    # The target is one coordinate of its own, clamped to its bounds.
    target = None if request.target is None else FeatureSpace((request.target,))

    def best_plan(norm_on_grid: int) -> MomentPlan:
        plans = [
            MomentPlan(space, target, request.unit, norm_on_grid, spending, weights or {})
            for spending in spendings(request.price)
        ]
        return min(plans, key=_weighted_variance)

    unclipped = best_plan(_largest_norm(space))
    if norm is None and (clips_nothing or _is_negligible(unclipped, request.rows)):
        return unclipped
    return best_plan(_norm(space, norm))


def _is_negligible(moments: MomentPlan, rows: int | None) -> bool:
    """Whether noise moves no variance by more than a hundredth of a typical one."""
    noise = spectral(moments.stddev, moments.space.size) if moments.space.size else 0.0
    return rows is not None and noise <= rows * float(_TYPICAL) / 100


def _weighted_variance(moments: MomentPlan) -> float:
    """The weighted sum of the variances of all figures."""
    return sum(
        len(block.pairs) * moments.weights.get(block.name, 1.0) * moments.stddev[block.name] ** 2
        for block in moments.blocks
    )


def _largest_norm(space: FeatureSpace) -> int:
    """The norm of the longest possible row, in 1 / GRID."""
    return isqrt(len(space.blocks) * GRID**2 - 1) + 1


def _norm(space: FeatureSpace, norm: object) -> int:
    """R in 1 / GRID: the given norm, or the norm of a typical row."""
    largest = _largest_norm(space)
    if norm is not None:
        return max(1, min(int(positive(norm, "norm") * GRID), largest))
    indicators = sum(isinstance(encoding, Switch | OneHot) for encoding in space.encodings)
    expected = indicators + (len(space.encodings) - indicators) * _TYPICAL
    return min(isqrt(int(expected * GRID**2)), largest)


def spectral(stddev: Mapping[str, float], size: int) -> float:
    """The approximate spectral norm of the noise on the matrix of products, in rows.

    A symmetric size x size matrix of independent noise has eigenvalues up to about 2 sqrt(size)
    standard deviations (semicircle law).
    """
    off, own = stddev.get(CROSS, 0.0), stddev[SQUARES]
    return 2.0 * float(np.sqrt(max(size - 1, 0) * off**2 + own**2))
