"""Second moments of features, with noise: what linear models, components and covariances share.

A row is z = (1, x, y): a constant, its coordinates, and its target where there is one. Where the
norm of x passes a public bound R, the whole of z is multiplied by R / |x|. In a regression that is
a row of less weight, and weights that depend on x alone leave a linear model what it is; shrinking
x alone would bend it. What is measured are sums of products of two coordinates of z, in blocks:
rows (1 1), sums (1 x), squares (x_i x_i), cross products (x_i x_j), and with a target y (1 y),
(x y), (y y). Two coordinates of one column are never both other than 0, so that their product is
known to be 0 and is not measured.

*Guarantee*: each block is noise of its own share of the price, and the blocks compose.
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

Decision `learn-moments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.data.counting.axes import literal
from sfumato.errors import ParameterError
from sfumato.exact_numbers import positive
from sfumato.methods.learn.features import GRID, FeatureSpace, OneHot, Switch
from sfumato.methods.learn.row_sums import clip_layers, person_sensitivity, sums, whole_row
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
"""The square of a number's coordinate that a norm expects by default; a value's is 1."""

_SHARE_BITS = 20

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
    """Some products of two coordinates of z, by their places, and what one row can do to them."""

    name: str
    pairs: tuple[tuple[int, int], ...]
    l1: int
    l2_squared: int
    signed: bool = True

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """How far a person moves them."""
        return person_sensitivity(unit, l1=self.l1, l2_squared=self.l2_squared, signed=self.signed)


@dataclass(frozen=True)
class NoisyMoments:
    """Moments with noise, in units of rows and of 1, and the standard deviation of each block."""

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
        """Whether the number of rows stands out of its noise, so that quotients by it mean much."""
        return self.rows > _STANDS_OUT * self.stddev[ROWS]

    def means(self) -> FloatArray:
        """The means of the coordinates, as near to the middle as their noise makes likely."""
        raw = np.clip(self.sums / self.rows, -1, 1)
        return np.asarray(raw * _kept(self.stddev[SUMS] / self.rows))

    def target_mean(self) -> float:
        """The same of the target."""
        raw = min(max(self.target / self.rows, -1.0), 1.0)
        return raw * _kept(self.stddev.get(TARGET, 0.0) / self.rows)

    def centred(self) -> FloatArray:
        """The sums of products around the means, symmetric, not yet made possible."""
        means = self.means()
        return np.asarray(self.products - self.rows * np.outer(means, means))


_STANDS_OUT = 4

_NORMAL_95, _LAPLACE_95 = 1.959963984540054, log(20) / sqrt(2)

_PRIOR = 0.1
"""The variance that a mean is expected to have, among all tables that there are."""


def _kept(stddev: float) -> float:
    """How much of a noisy mean is kept."""
    return _PRIOR / (_PRIOR + stddev**2)


@dataclass(frozen=True)
class MomentPlan:
    """What is measured of which columns, by how much noise. Nothing in it saw data."""

    space: FeatureSpace
    target: FeatureSpace | None
    unit: Unit
    norm: int
    """R, in units of 1 / GRID."""
    spending: Spending
    weights: Mapping[str, float]
    """How much each block matters; 1 where nothing is said."""

    @cached_property
    def blocks(self) -> tuple[MomentBlock, ...]:
        """What is measured, in order; place 0 of z is the constant, the last one is the target."""
        return _blocks(self.space, self.norm, has_target=self.target is not None)

    @cached_property
    def shares(self) -> dict[str, Fraction]:
        """What each block gets of the price: exact, and 1 in all."""
        pure = self.spending.epsilon is not None
        sizes = {}
        for one in self.blocks:
            moved = float(one.l1) ** 2 if pure else float(one.l2_squared)
            spread = len(one.pairs) * moved * self.weights.get(one.name, 1.0)
            sizes[one.name] = spread ** (1 / 3 if pure else 1 / 2)
        whole = sum(sizes.values())
        parts = {
            name: max(1, int(size / whole * (1 << _SHARE_BITS))) for name, size in sizes.items()
        }
        every = sum(parts.values())
        return {name: Fraction(part, every) for name, part in parts.items()}

    @cached_property
    def noises(self) -> dict[str, Noise]:
        """The noise of each block."""
        return {
            one.name: self.spending.noise(one.sensitivity(self.unit), self.shares[one.name])
            for one in self.blocks
        }

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed(tuple(noise.event for noise in self.noises.values()))

    @property
    def stddev(self) -> dict[str, float]:
        """The noise of a figure of each block, in units of rows and of 1."""
        whole = float(whole_row(self.unit) * GRID**2)
        return {name: noise.stddev / whole for name, noise in self.noises.items()}

    @property
    def parameters(self) -> dict[str, Any]:
        """The choices made, in JSON form."""
        return {
            "norm": self.norm / GRID,
            "noise": type(next(iter(self.noises.values()))).__name__.lower(),
            "shares": {name: float(share) for name, share in self.shares.items()},
        }

    def measure(self, data: Dataset, entropy: Entropy) -> NoisyMoments:
        """Add up in the engine, add noise, and only then divide."""
        return self.noised(self.exact(data), entropy)

    @property
    def wide(self) -> float:
        """How many standard deviations hold 95 %: of Laplace's noise more than of a normal one."""
        return _LAPLACE_95 if self.spending.epsilon is not None else _NORMAL_95

    def noised(self, exact: NDArray[Any], entropy: Entropy) -> NoisyMoments:
        """Add each block's noise to exact sums."""
        whole, start = float(whole_row(self.unit) * GRID**2), 0
        size = self.space.size + 2
        found, stddev = np.zeros((size, size)), self.stddev
        for one in self.blocks:
            noisy = self.noises[one.name].steps(exact[start : start + len(one.pairs)], entropy)
            start += len(one.pairs)
            for (i, j), value in zip(one.pairs, noisy, strict=True):
                found[i, j] = found[j, i] = int(value) / whole
        inner, last = slice(1, size - 1), size - 1
        return NoisyMoments(
            rows=max(found[0, 0], stddev[ROWS], 1.0),
            sums=found[0, inner],
            products=found[inner, inner],
            target=float(found[0, last]),
            joint=found[inner, last],
            target_square=float(found[last, last]),
            stddev=stddev,
        )

    def exact(self, data: Dataset) -> NDArray[Any]:
        """The sums of all products of all blocks, in the order of the blocks: private."""
        size = self.space.size
        features = self.space.expressions()
        others = [literal(GRID)]
        if self.target is not None:
            others += self.target.expressions()
        # Features come first, because the norm is theirs alone; the others are shrunk with them.
        layers = clip_layers(size, self.norm, others=len(others))
        place_of = [size, *range(size), size + 1]
        terms = [
            exp.Mul(
                this=exp.column(f"sf_c{place_of[i]}"), expression=exp.column(f"sf_c{place_of[j]}")
            )
            for one in self.blocks
            for i, j in one.pairs
        ]
        bits = (GRID * GRID).bit_length()  # no coordinate is above GRID
        found: NDArray[Any] = sums(data, [*features, *others], terms, layers=layers, bits=bits)[0]
        return found


def _blocks(space: FeatureSpace, norm: int, *, has_target: bool) -> tuple[MomentBlock, ...]:
    """The blocks with what one row can do, in parts of 1 / GRID^2."""
    size, columns = space.size, len(space.blocks)
    longest, last = isqrt(columns * norm**2), size + 1
    of = {place: number for number, one in enumerate(space.blocks) for place in one}
    inner = range(1, size + 1)
    cross = [
        (i, j) for i in inner for j in range(i + 1, size + 1) if of[i - 1] != of[j - 1]
    ]  # fmt: skip
    one, along, apart = GRID**2, GRID * longest, norm**2 * (columns - 1) // 2
    flat = norm**4 * (columns - 1) // (2 * columns) if columns else 0
    blocks = [
        MomentBlock(ROWS, ((0, 0),), one, one**2, signed=False),
        MomentBlock(SUMS, tuple((0, i) for i in inner), along, GRID**2 * norm**2),
        MomentBlock(SQUARES, tuple((i, i) for i in inner), norm**2, norm**4, signed=False),
        MomentBlock(CROSS, tuple(cross), max(apart, 1), max(flat, 1)),
    ]
    if has_target:
        blocks += [
            MomentBlock(TARGET, ((0, last),), one, one**2),
            MomentBlock(JOINT, tuple((i, last) for i in inner), along, GRID**2 * norm**2),
            MomentBlock(TARGET_SQUARE, ((last, last),), one, one**2, signed=False),
        ]
    return tuple(block for block in blocks if block.pairs)


def plan(
    request: LearningRequest,
    *,
    norm: object = None,
    weights: Mapping[str, float] | None = None,
    whole: bool = False,
) -> MomentPlan:
    """Choose from public facts: the norm, and the noise that is least.

    Where nothing is said of the norm, it is what is typical; or, where rows are to be `whole`, the
    largest that there is, so that none is ever shrunk.
    """
    space = FeatureSpace(request.features)
    if space.size > MOST_COORDINATES:
        raise ParameterError(
            "problem_too_large",
            f"The features have {space.size:,} coordinates, one for each number and each declared "
            f"value; at most {MOST_COORDINATES} can be learnt together. Take fewer features, or "
            "features of fewer values.",
        )
    target = None if request.target is None else FeatureSpace((request.target,))
    plans = [
        MomentPlan(
            space, target, request.unit, _norm(space, norm, whole=whole), spending, weights or {}
        )
        for spending in spendings(request.price)
    ]
    return min(plans, key=_spread)


def _spread(one: MomentPlan) -> float:
    """The variance of all figures together, as they matter."""
    return sum(
        len(block.pairs) * one.weights.get(block.name, 1.0) * one.stddev[block.name] ** 2
        for block in one.blocks
    )


def _norm(space: FeatureSpace, given: object, *, whole: bool) -> int:
    """R in parts of 1 / GRID: as said, or what rows in the middle of their bounds have."""
    most = isqrt(len(space.blocks) * GRID**2 - 1) + 1
    if given is not None:
        return max(1, min(int(positive(given, "norm") * GRID), most))
    if whole:
        return most
    listed = sum(isinstance(one, Switch | OneHot) for one in space.encodings)
    expected = listed + (len(space.encodings) - listed) * _TYPICAL
    return min(isqrt(int(expected * GRID**2)), most)


def spectral(stddev: Mapping[str, float], size: int) -> float:
    """How large the noise of the products is as a matrix, in the norm of eigenvalues, by about.

    A symmetric matrix of independent noise has eigenvalues up to 2 sqrt(size) standard deviations.
    """
    off, own = stddev.get(CROSS, 0.0), stddev[SQUARES]
    return 2.0 * float(np.sqrt(max(size - 1, 0) * off**2 + own**2))
