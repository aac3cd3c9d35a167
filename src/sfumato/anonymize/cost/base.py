"""What every cost is: one number for a release, and lower bounds for nodes not yet examined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.lattice.nodes import Node
    from sfumato.anonymize.original import Labels, Quasi
    from sfumato.anonymize.problem import Problem
    from sfumato.arrays import IntArray
    from sfumato.data.counting.memory_limit import SizeCounts

    Bounds = NDArray[np.float64]
    Numbers = NDArray[np.float64] | IntArray
    Total = NDArray[Any] | float


class PricedRelease(Protocol):
    """What a cost measures: classes that are released, rows that are not, prices of labels."""

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
        """How many rows are suppressed."""
        ...

    def totals(self, cost: Separable) -> list[float]:
        """The sum of prices of each column: of released labels, or the full one if suppressed."""
        ...


class Cost(ABC):
    """A number that is smaller for a better release."""

    name: ClassVar[str]

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.weights = dict(weights or {})

    @abstractmethod
    def value(self, release: PricedRelease) -> float:
        """The cost of a release."""

    def floor(
        self, problem: Problem, box: Sequence[slice], failing: Counts, upward: Bounds
    ) -> Bounds:
        """A lower bound for the nodes of a box of the lattice.

        `failing` says how many rows each of them must suppress at least for the absorbing part of
        the criteria, `upward` the largest such bound of a node below it.
        """
        del problem, box, failing
        return upward

    def from_sizes(self, problem: Problem, original: SizeCounts) -> float:
        """A lower bound for every node, from the sizes of the classes of the original alone."""
        del problem, original
        return 0.0

    def upward(self, node: Node) -> float:
        """A lower bound for a node and all coarser ones."""
        del node
        return 0.0

    def downward(self, node: Node) -> float:
        """A lower bound for a node and all finer ones."""
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
    """What a total counts; costs of one unit have the same prices."""

    slack: ClassVar[float] = 0.0
    """By which share a bound must be lowered, where rounding could lift it above the cost."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        super().__init__(weights)
        self._profiles: dict[Quasi, PriceProfile] = {}

    @abstractmethod
    def price(self, column: Quasi, labels: Labels) -> Numbers:
        """The price of each label for one row."""

    @abstractmethod
    def full(self, column: Quasi) -> float:
        """The price of a suppressed row."""

    @abstractmethod
    def score(self, problem: Problem, totals: Sequence[Total]) -> Total:
        """The cost from the totals of the columns, of one release or of many nodes at once."""

    def value(self, release: PricedRelease) -> float:
        """The cost of a release."""
        return float(self.score(release.problem, release.totals(self)))

    def profile(self, column: Quasi) -> PriceProfile:
        """The prices of a column, level by level, worked out once."""
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
        """The total of a column as it was; `finest` is that of level 0 where values are held."""
        del column
        return finest

    def floor(
        self,
        problem: Problem,
        box: Sequence[slice],
        failing: Counts,
        upward: Bounds,  # noqa: ARG002
    ) -> Bounds:
        """The cost of the levels alone, plus what the rows that must be suppressed add."""
        totals: list[Numbers] = []
        for place, (column, levels) in enumerate(zip(problem.quasi, box, strict=True)):
            along = [-1 if axis == place else 1 for axis in range(failing.ndim)]
            profile = self.profile(column)
            start, rise = profile.sums[levels].reshape(along), profile.rises[levels].reshape(along)
            totals.append(start + failing * rise)
        # Where every column has a single leaf, one number is the bound of all.
        lowest = np.broadcast_to(self.score(problem, totals), failing.shape)
        return lowest * (1 - self.slack)

    def weight(self, column: Quasi) -> float:
        """How much a column matters; 1 unless told otherwise."""
        return self.weights.get(column.name, 1.0)
