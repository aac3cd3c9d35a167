"""The costs of a release: one number each, smaller is better; lower bounds guide a search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from sfumato.anonymize.criteria.identity import KAnonymity
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.lattice import Node
    from sfumato.anonymize.original import Labels, Quasi
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.memory_limit import SizeCounts

    Bounds = NDArray[np.float64]
    Numbers = NDArray[np.float64] | IntArray
    Total = NDArray[Any] | float


class PricedRelease(Protocol):
    """The input of a cost: released classes, suppressed rows, and prices of labels."""

    @property
    def problem(self) -> Problem:
        """The original table."""
        ...

    @property
    def sizes(self) -> Counts:
        """The sizes of the released classes."""
        ...

    @property
    def suppressed(self) -> int:
        """The number of suppressed rows."""
        ...

    def totals(self, cost: Separable) -> list[float]:
        """Return the sum of prices of each column; suppressed rows pay the full price."""
        ...


class Cost(ABC):
    """A number that is smaller for a better release."""

    name: ClassVar[str]

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.weights = dict(weights or {})

    @abstractmethod
    def value(self, release: PricedRelease) -> float:
        """Return the cost of a release."""

    def floor(
        self, problem: Problem, box: Sequence[slice], failing: Counts, upward: Bounds
    ) -> Bounds:
        """Return a lower bound for the nodes of a box of the lattice.

        `failing` has for each node the fewest rows that the absorbing part of the criteria
        suppresses, `upward` the largest such bound of a node below it.
        """
        del problem, box, failing
        return upward

    def from_sizes(self, problem: Problem, original: SizeCounts) -> float:
        """Return a lower bound for every node, from the class sizes of the original alone."""
        del problem, original
        return 0.0

    def upward(self, node: Node) -> float:
        """Return a lower bound for a node and all coarser ones."""
        del node
        return 0.0

    def downward(self, node: Node) -> float:
        """Return a lower bound for a node and all finer ones."""
        del node
        return 0.0


@dataclass(frozen=True, eq=False)
class PriceProfile:
    """A column as one cost sees it: prices of the labels of each level, and of suppression.

    `prices` has a single number for a level whose labels all cost the same.
    `sums` has the total of each level without suppression, `rises` by how much a suppressed row
    lifts it at least; both are too low for levels below those at which values can be held.
    `untouched` is the total of the original.
    """

    prices: tuple[Numbers, ...]
    full: float
    sums: Numbers
    rises: Numbers
    untouched: float


class Separable(Cost):
    """A cost that is a function of one total per column.

    The total of a column adds up a price for each row: that of its label, or the full price where
    the row is suppressed. Without suppression it comes from the column's own counts alone, and
    suppression only raises it.
    """

    unit: ClassVar[str]
    """The unit of a total; costs of one unit have the same prices."""

    slack: ClassVar[float] = 0.0
    """By which share a bound must be lowered, where rounding could lift it above the cost."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        super().__init__(weights)
        self._profiles: dict[Quasi, PriceProfile] = {}

    @abstractmethod
    def price(self, column: Quasi, labels: Labels) -> Numbers:
        """Return the price of each label for one row."""

    @abstractmethod
    def full(self, column: Quasi) -> float:
        """Return the price of a suppressed row."""

    @abstractmethod
    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """Return the cost from column totals, of one release or of many nodes at once."""

    def value(self, release: PricedRelease) -> float:
        """Return the cost of a release."""
        return float(self.score(release.problem, release.totals(self)))

    def profile(self, column: Quasi) -> PriceProfile:
        """Return the prices of a column, level by level, worked out once."""
        if column not in self._profiles:
            prices = [self.price(column, labels) for labels in column.levels]
            pairs = list(zip(prices, column.levels, strict=True))
            full = self.full(column)
            sums = np.array([(price * labels.rows).sum() for price, labels in pairs])
            rises = np.array([full - price[labels.rows > 0].max() for price, labels in pairs])
            untouched = self.untouched(column, sums[0].item())
            if column.united is not None:
                # Prices grow with levels: nothing there costs less than the original.
                sums[: column.united.level] = untouched
                rises[: column.united.level] = rises[column.united.level]
            self._profiles[column] = PriceProfile(
                tuple(price[:1] if price.min() == price.max() else price for price in prices),
                full,
                sums,
                rises,
                untouched,
            )
        return self._profiles[column]

    def untouched(self, column: Quasi, finest: float) -> float:
        """Return the total of an unchanged column; `finest` is its total at level 0, if counted."""
        del column
        return finest

    def floor(
        self,
        problem: Problem,
        box: Sequence[slice],
        failing: Counts,
        upward: Bounds,  # noqa: ARG002
    ) -> Bounds:
        """Return the cost of the levels alone, plus what the rows that must be suppressed add."""
        totals: list[Numbers] = []
        for position, (column, levels) in enumerate(zip(problem.quasi, box, strict=True)):
            along = [-1 if axis == position else 1 for axis in range(failing.ndim)]
            profile = self.profile(column)
            start, rise = profile.sums[levels].reshape(along), profile.rises[levels].reshape(along)
            totals.append(start + failing * rise)
        # Where every column has a single leaf, one number is the bound of all.
        lowest = np.broadcast_to(self.score(problem, totals), failing.shape)
        return lowest * (1 - self.slack)

    def weight(self, column: Quasi) -> float:
        """Return the weight of a column; 1 where none was set."""
        return self.weights.get(column.name, 1.0)


class AverageClassSize(Cost):
    """N over the number of classes, suppressed rows being one more, in multiples of k.

    *Guarantee*: N / (released classes + 1 if anything is suppressed) / k.
    *Error*: one division.
    *Edges*: k = 1 where k-anonymity is not asked.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006, section 5, with suppression.
    """

    name = "average-class-size"

    def value(self, release: PricedRelease) -> float:
        """Return the cost of a release."""
        # All suppressed rows are taken as one more class.
        classes = len(release.sizes) + (release.suppressed > 0)
        return release.problem.rows / classes / release.problem.k

    def from_sizes(self, problem: Problem, original: SizeCounts) -> float:
        """Coarser nodes have no more classes."""
        return problem.rows / _most_of(problem, original) / problem.k

    def upward(self, node: Node) -> float:
        """Coarser nodes have no more classes."""
        return node.problem.rows / _most_above(node) / node.problem.k

    def downward(self, node: Node) -> float:
        """Finer nodes split a class into pieces that are not too small."""
        return node.problem.rows / (_most_below(node) + 1) / node.problem.k


class CAvg(Cost):
    """Released rows over released classes, in multiples of k: C_AVG.

    *Guarantee*: (released rows / released classes) / k; 1 is the best that k-anonymity allows.
    *Error*: one division.
    *Edges*: k = 1 where k-anonymity is not asked; suppressing rows can lower it.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006, section 5.
    """

    name = "c-avg"

    def value(self, release: PricedRelease) -> float:
        """Return the cost of a release."""
        released = release.problem.rows - release.suppressed
        return released / len(release.sizes) / release.problem.k

    def from_sizes(self, problem: Problem, original: SizeCounts) -> float:
        """Coarser nodes have no more classes, and no more rows are suppressed than allowed."""
        rows = problem.rows - problem.allowed_rows
        return rows / _most_of(problem, original) / problem.k

    def upward(self, node: Node) -> float:
        """Coarser nodes have no more classes, and no more rows are suppressed than allowed."""
        problem = node.problem
        return (problem.rows - problem.allowed_rows) / _most_above(node) / problem.k

    def downward(self, node: Node) -> float:
        """Finer nodes split a class into pieces that are not too small."""
        problem = node.problem
        return (problem.rows - problem.allowed_rows) / max(_most_below(node), 1) / problem.k


def _most_above(node: Node) -> int:
    """Return the largest number of classes of a coarser node; suppressed rows count as one class.

    Each passing class of a coarser node contains a class that passes here, or consists of rows that
    fail here.
    """
    # Rows that fail can form at most failing / smallest classes that pass, above this node.
    passing = len(node.classes) - int(np.count_nonzero(node.lacking))
    return min(len(node.classes), passing + node.failing // node.problem.smallest + 1)


def _most_of(problem: Problem, original: SizeCounts) -> int:
    """Return the largest number of classes of any node, from the class sizes of the original."""
    passing = original.sizes >= problem.smallest
    failing = int(original.rows[~passing].sum())
    most = int(original.classes[passing].sum()) + failing // problem.smallest + 1
    return min(len(original), most)


def _most_below(node: Node) -> int:
    """Return how many classes a finer node can release at most."""
    # A class of n rows splits into at most n / smallest classes that pass.
    sizes = node.classes.sizes[~node.lacking]
    return int((sizes // node.problem.smallest).sum())


class Discernability(Cost):
    """The sum of |E|^2 over released classes E, plus N for each suppressed row.

    *Guarantee*: at least the sum of |E|^2 over all classes, which never falls as classes unite.
    *Error*: none; integers below 2^63.
    *Edges*: none.
    *Reference*: Bayardo and Agrawal 2005, section 3.
    """

    name = "discernability"

    def value(self, release: PricedRelease) -> float:
        """Return the cost of a release."""
        return int(release.sizes @ release.sizes) + release.suppressed * release.problem.rows

    def floor(
        self,
        problem: Problem,
        box: Sequence[slice],  # noqa: ARG002
        failing: Counts,
        upward: Bounds,
    ) -> Bounds:
        """The sum of squares, where rows that must be suppressed pay N instead of their share.

        A class that fails for its size alone has fewer than k rows, so its share is known.
        """
        floor: Bounds = np.maximum(upward, failing * float(problem.rows))
        sized = all(isinstance(criterion, KAnonymity) for criterion in problem.necessary)
        if sized and problem.people is None:
            # A failing class has at most k - 1 rows, so each of its rows paid at most k - 1 so far
            # and
            # pays N instead: the sum of squares plus N - (k - 1) for each failing row.
            floor = upward + failing * float(problem.rows - problem.k + 1)
        # Above 2^53 a float may lie above the integer it stands for.
        return floor if problem.rows**2 < 1 << 53 else floor * (1 - 1e-15)

    def from_sizes(self, problem: Problem, original: SizeCounts) -> float:  # noqa: ARG002
        """Uniting classes never lowers the sum of squares."""
        return float(original.squares)

    def upward(self, node: Node) -> float:
        """Uniting classes never lowers the sum of squares, and suppressing a class never does."""
        return float(node.classes.sizes @ node.classes.sizes)


class Suppressed(Cost):
    """The number of suppressed rows; among equals the lowest node wins.

    *Guarantee*: a count.
    *Error*: none.
    *Edges*: none.
    *Reference*: Samarati 2001 (MaxSup).
    """

    name = "suppressed"

    def value(self, release: PricedRelease) -> float:
        """Return the cost of a release."""
        return release.suppressed

    def floor(
        self,
        problem: Problem,  # noqa: ARG002
        box: Sequence[slice],  # noqa: ARG002
        failing: Counts,
        upward: Bounds,  # noqa: ARG002
    ) -> Bounds:
        """Return the rows that must be suppressed."""
        return failing.astype(np.float64)


class Loss(Separable):
    """The mean over columns of the share of leaves that a row's label covers, from 0 to 1.

    *Guarantee*: L = (T - N) / (N n - N) for a column of n leaves over N rows, T the leaves covered
    by the labels of all rows, n for a suppressed one; 0 for the original, 1 for all suppressed.
    *Error*: T is an integer; one rounding per column.
    *Edges*: leaves are those of the hierarchy, whether they occur or not; a single leaf loses 0.
    *Reference*: Xu et al. 2006; Iyengar 2002.
    """

    name = "loss"
    unit = "leaves"

    def price(self, column: Quasi, labels: Labels) -> Counts:  # noqa: ARG002
        """Return the number of leaves a label covers."""
        return labels.leaves

    def untouched(self, column: Quasi, finest: float) -> float:  # noqa: ARG002
        """A value covers one leaf."""
        return int(column.rows.sum())

    def full(self, column: Quasi) -> int:
        """A suppressed row covers every leaf."""
        return column.breadth

    def column(self, problem: Problem, column: Quasi, total: Total) -> Total:
        """Return the loss of one column."""
        # T - N of N n - N: no loss where each row covers one leaf, 1 where each covers all n.
        rows, leaves = problem.rows, column.breadth
        return (total - rows) / (rows * leaves - rows) if leaves > 1 else 0.0

    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """Return the weighted mean of the columns' losses."""
        weights = [self.weight(column) for column in problem.quasi]
        terms = zip(weights, problem.quasi, totals, strict=True)
        losses = [weight * self.column(problem, column, total) for weight, column, total in terms]
        return sum(losses) / sum(weights)


class LossGeometric(Loss):
    """The geometric mean of 1 + loss over the columns, less 1.

    *Guarantee*: prod (1 + L)^(1 / columns) - 1, weights as exponents.
    *Error*: as of the loss; the power is rounded once more.
    *Edges*: as of the loss.
    *Reference*: Prasser, Kohlmayer and Kuhn 2016, section 4.
    """

    name = "loss-geometric"
    slack = 1e-12

    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """Return the weighted geometric mean of the columns."""
        weights = [self.weight(column) for column in problem.quasi]
        product: Total = 1.0
        for weight, column, total in zip(weights, problem.quasi, totals, strict=True):
            factor = 1 + self.column(problem, column, total)
            product = product * (factor if weight == 1 else factor**weight)
        return product ** (1 / sum(weights)) - 1


def ncp(release: PricedRelease) -> dict[str, float]:
    """Return the loss of each column by itself."""
    loss, problem = Loss(), release.problem
    totals = zip(problem.quasi, release.totals(loss), strict=True)
    return {column.name: float(loss.column(problem, column, total)) for column, total in totals}


class Precision(Separable):
    """The mean over rows and columns of level over height; a suppressed row counts 1.

    *Guarantee*: 0 for the original, 1 for all suppressed: the distortion that MinGen minimises.
    *Error*: sums of levels are integers; one rounding per column.
    *Edges*: levels that change nothing still count.
    *Reference*: Sweeney 2002, definition of Prec (here 1 - Prec).
    """

    name = "precision"
    unit = "steps"

    def price(self, column: Quasi, labels: Labels) -> Counts:  # noqa: ARG002
        """Return the steps up to a label."""
        return labels.level

    def full(self, column: Quasi) -> int:
        """A suppressed row went all the way up."""
        return column.taxonomy.height

    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """Return the weighted mean of the columns."""
        weights = [self.weight(column) for column in problem.quasi]
        terms = zip(weights, problem.quasi, totals, strict=True)
        steps = [w * (total / (problem.rows * c.taxonomy.height)) for w, c, total in terms]
        return sum(steps) / sum(weights)


class EntropyLoss(Separable):
    """The sum over rows and columns of log2(n(released) / n(original)), in bits.

    *Guarantee*: n counts rows of the original column under the released label and with the original
    value; a suppressed row has n(released) = N.
    *Error*: sums of float64 logarithms, relative 1e-13.
    *Edges*: labels that join no values that occur cost nothing.
    *Reference*: Gionis and Tassa 2009; Kifer and Gehrke 2006.
    """

    name = "entropy"
    unit = "bits"
    slack = 1e-9

    def price(self, column: Quasi, labels: Labels) -> FloatArray:  # noqa: ARG002
        """Return the logarithm of the rows under a label."""
        # A label that no row of the original wears prices nothing; log2(0) must not appear.
        return np.log2(np.maximum(labels.rows, 1))

    def untouched(self, column: Quasi, finest: float) -> float:
        """Return the bits of single values, which their keys do not show."""
        return finest if column.united is None else column.united.bits

    def full(self, column: Quasi) -> float:
        """A suppressed row could be any row."""
        return log2(column.rows.sum())

    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """Return the weighted sum of bits lost, never below 0."""
        bits = [
            self.weight(column) * (total - self.profile(column).untouched)
            for column, total in zip(problem.quasi, totals, strict=True)
        ]
        # Rounding can put the difference of two sums just below 0.
        lost: Total = np.maximum(sum(bits), 0.0)
        return lost


COSTS: dict[str, type[Cost]] = {
    cost.name: cost
    for cost in (
        Loss,
        LossGeometric,
        Discernability,
        AverageClassSize,
        CAvg,
        Precision,
        EntropyLoss,
        Suppressed,
    )
}


def named(name: str, weights: Mapping[str, float] | None = None) -> Cost:
    """Return the cost of a name, with a weight above 0 for each column that counts more or less."""
    if name not in COSTS:
        raise ParameterError(
            "choice_unknown",
            f"Cost {name!r} is not known; take one of {', '.join(COSTS)}.",
            parameter="cost",
        )
    if weights and not issubclass(COSTS[name], Separable):
        raise ParameterError(
            "option_not_applicable",
            f"Cost {name!r} looks at classes, not at columns, and takes no weights. Drop them, or "
            "take loss, loss-geometric, precision or entropy.",
        )
    wrong = [column for column, weight in (weights or {}).items() if not 0 < weight < float("inf")]
    if wrong:
        raise ParameterError(
            "weights_invalid",
            f"The weight of column {wrong[0]!r} must be a finite number above 0.",
        )
    return COSTS[name](weights)


class Costs:
    """All costs, to be measured of one release after another."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._costs = {name.replace("-", "_"): cost(weights) for name, cost in COSTS.items()}

    def measure(self, release: PricedRelease) -> dict[str, float]:
        """Every cost of a release, under its name with underscores."""
        return {name: cost.value(release) for name, cost in self._costs.items()}
