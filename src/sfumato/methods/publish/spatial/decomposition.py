"""What spatial decompositions share: shares of a price, their release, and ranges over it.

Decision `spatial-trees`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.exact_numbers import exact, plain
from sfumato.methods.publish.domain import blank_boxes, blank_figures
from sfumato.methods.publish.postprocess import caveat, postprocess
from sfumato.privacy.estimation.boxes import estimates, unevenness, variances
from sfumato.privacy.estimation.trees import (
    Generation,
    LeastSquares,
    distribute_down,
    in_small_families,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.methods.publish.spatial.growth import Growth, Space
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.estimation.trees import BoxTree
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

_GRAIN = 1 << 20
_LEAST_SHARE = Fraction(1, 10**6)
# The height of a tree whose leaves most rows come to lie in.
USUAL_HEIGHT = 8


def price_share(value: object, name: str, *, default: Fraction) -> Fraction:
    """Read the share of the price that is spent on the shape of a tree."""
    share = default if value is None else exact(value, name)
    if not _LEAST_SHARE <= share <= 1 - _LEAST_SHARE:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be a share of the price from {plain(_LEAST_SHARE)} to "
            f"{plain(1 - _LEAST_SHARE)}, not {arguments.shown(value)}.",
        )
    return share


def level_shares(height: int, dimensions: int, spending: Spending) -> list[Fraction]:
    """Shares of the levels of a tree, the root's first, that err least on ranges.

    They grow down to depth 8. Levels further down, n of them, have together as much as sqrt(n)
    levels: a tree goes there where many rows are, in few boxes of a level.

    A box crosses about 2^((k-1) i) nodes of depth i in k dimensions. The sum of crossings times
    variances is least for shares that grow as their cube root under Laplace noise, of variance
    1 / share^2, and as their square root under Gaussian noise, of variance 1 / share
    (Cormode et al. 2012, Lemma 3).
    """
    growth = 2 ** ((dimensions - 1) / (2 if spending.epsilon is None else 3))
    most = growth ** min(height, USUAL_HEIGHT)
    further = max(height - USUAL_HEIGHT, 1) ** 0.5
    weights = [
        Fraction(round((growth**depth if depth <= USUAL_HEIGHT else most / further) * _GRAIN))
        for depth in range(height + 1)
    ]
    return [weight / sum(weights) for weight in weights]


_SPREAD = (
    "The noise alone. Inside a smallest box rows are taken to lie evenly; a range that ends within "
    "one may be off by its rows besides, which `ranges_unevenness` of the release bounds."
)


@dataclass(frozen=True, kw_only=True)
class Decomposition(ABC):
    """A tree of boxes with noisy counts, made consistent; kinds differ in how it grows."""

    space: Space
    noises: tuple[Noise, ...]
    """The noise of each measurement of the whole partition, in order."""
    steps: tuple[str, ...] = ()

    @property
    @abstractmethod
    def event(self) -> Event:
        """What it costs."""

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The choices made, in JSON form."""

    @abstractmethod
    def grow(self, growth: Growth, entropy: Entropy) -> None:
        """Divide boxes and measure them, with each of the noises once."""

    def precisions(self, tree: BoxTree) -> FloatArray:
        """One over the variance of all measurements of each node of a released tree.

        The first noise is of the root alone and each further one of one level more, so an inner
        node is measured once and a leaf from its own level on.
        """
        level_precisions = np.array([1 / noise.variance for noise in self.noises])
        onward = np.cumsum(level_precisions[::-1])[::-1]
        return np.where(tree.leaves, onward[tree.depths], level_precisions[tree.depths])

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of a smallest box at most, and what else is to be known."""
        stated = {"box": {"sd": self.noises[-1].stddev}, "note": _SPREAD}
        return {**stated, "postprocess": caveat(self.steps)} if self.steps else stated

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that will be released, without a row, and of their columns the main ones."""
        blank = {"boxes": blank_boxes(self.space.axes)}
        return {**blank, "missing": blank_figures("count")} if self.space.patterns else blank

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """All boxes with their counts and, where values can be missing, those rows apart."""
        growth = self.space.plant(counter)
        self.grow(growth, entropy)
        tree, (values, precisions) = growth.tree, growth.measured
        fitted = LeastSquares(tree, precisions)
        counts = fitted.solve(values)
        missing, precision = growth.missing
        if self.steps:
            counts = self._postprocessed(fitted, counts)
            missing = postprocess(missing, self.steps)
        # After post-processing no deviation is known, so none is given.
        has_variances = not self.steps
        tables = {
            "boxes": self.space.table(tree, counts, fitted.variances if has_variances else None)
        }
        if self.space.patterns:
            tables["missing"] = self.space.missing(
                missing, 1 / precision if has_variances else None
            )
        return tables

    def _postprocessed(self, fitted: LeastSquares, counts: FloatArray) -> FloatArray:
        """Bring the counts down the tree, family by family."""
        tree = fitted.tree
        nonnegative, integer = "nonnegative" in self.steps, "integer" in self.steps
        goals = np.maximum(counts[:1], 0.0) if nonnegative else counts[:1]
        processed = [np.rint(goals) if integer else goals]
        for above, nodes in pairwise(tree.generations):
            parents = tree.parents[nodes] - above.start
            below = in_small_families(Generation(counts[nodes], fitted.variances[nodes], parents))
            processed.append(
                distribute_down(below, processed[-1], nonnegative=nonnegative, integer=integer)
            )
        return np.concatenate(processed)

    def ranges(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """Estimate the rows in each box, taken to lie evenly inside the leaves."""
        return estimates(*self.space.read(tables["boxes"]), boxes)

    def ranges_unevenness(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """The most that rows which lie unevenly in leaves add to the error of each estimate."""
        return unevenness(*self.space.read(tables["boxes"]), boxes)

    def ranges_variance_of(self, tables: Mapping[str, pa.Table], boxes: IntArray) -> FloatArray:
        """The variance that noise gives each estimate, now that the tree is known."""
        tree, _ = self.space.read(tables["boxes"])
        return variances(LeastSquares(tree, self.precisions(tree)), boxes)


def middle(request: Request, space: Space) -> IntArray:
    """The ranges to judge noise by: those that matter or, if nobody said, the middle of space."""
    if request.boxes is not None and len(request.boxes):
        return request.boxes
    return np.array([[[size // 4, size - 1 - size // 4] for size in space.shape]])
