"""Mondrian, strict and relaxed: cut the table into ever smaller boxes. Decision 0085."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.criteria.identity import KAnonymity
from sfumato.anonymize.labels import positions
from sfumato.anonymize.partition import DataPoints, Partition, Shares, failing, refuse_population
from sfumato.anonymize.search.base import unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search.base import SearchProgress
    from sfumato.arrays import BoolArray, FloatArray, IntArray


_DENSE_FACTOR = 4  # a histogram of this many slots per point is still cheaper than a sort


@dataclass(frozen=True, eq=False)
class Cuts:
    """For each part: its lowest and highest value, and a cut behind a value, with its balance.

    The balance is the size of the smaller side; 0 where there is nothing to cut.
    """

    low: IntArray
    high: IntArray
    cut: IntArray
    balance: IntArray


@dataclass(frozen=True, eq=False)
class Runs:
    """The values of each part in order, with their numbers of rows; `starts` begins each part."""

    starts: IntArray
    part: IntArray
    value: IntArray
    balance: IntArray

    @classmethod
    def of(cls, part: NDArray[np.int32], values: NDArray[np.integer], counts: IntArray) -> Runs:
        """Sort the values of all parts together."""
        width = int(values.max()) + 1
        keys, rows = _summed(part, values, counts, width)
        owner, value = np.divmod(keys, width)
        starts = _starts(owner)
        left = np.cumsum(rows)
        left -= (left[starts] - rows[starts])[owner]
        ends = np.append(starts[1:], len(keys)) - 1
        return cls(starts, owner, value, np.minimum(left, left[ends][owner] - left))

    def best(self) -> Cuts:
        """The most balanced cut of each part, the lowest of several."""
        best = np.maximum.reduceat(self.balance, self.starts)
        equal = np.flatnonzero(self.balance == best[self.part])
        first = equal[_starts(self.part[equal])]
        return self._cuts(self.value[first], best)

    def by_balance(self, most: int) -> Iterator[Cuts]:
        """The most balanced cuts of each part one after the other; balance 0 where none is left."""
        ceiling = int(self.balance.max()) + 1
        order = np.argsort((self.part + 1) * ceiling - self.balance, kind="stable")
        lengths = np.diff(self.starts, append=len(order))
        for rank in range(min(most, int(lengths.max()) - 1)):
            place = order[self.starts + np.minimum(rank, lengths - 1)]
            balance = np.where(rank < lengths, self.balance[place], 0)
            if not balance.any():
                return
            yield self._cuts(self.value[place], balance)

    def _cuts(self, cut: IntArray, balance: IntArray) -> Cuts:
        ends = np.append(self.starts[1:], len(self.value)) - 1
        return Cuts(self.value[self.starts], self.value[ends], cut, balance)


def best_cuts(
    part: NDArray[np.int32], parts: int, values: NDArray[np.integer], counts: IntArray
) -> Cuts:
    """The most balanced cut of each of the parts 0 .. parts - 1, none of which is empty."""
    width = int(values.max()) + 1
    if parts * width > _DENSE_FACTOR * len(part):
        return Runs.of(part, values, counts).best()
    keys = part.astype(np.int64) * width + values
    # float64 adds exactly below 2^53 rows.
    rows = np.bincount(keys, counts, parts * width).reshape(parts, width)
    left = np.cumsum(rows, axis=1)
    balance = np.minimum(left, left[:, -1:] - left)
    cut = balance.argmax(axis=1)
    present = rows > 0
    return Cuts(
        present.argmax(axis=1),
        width - 1 - present[:, ::-1].argmax(axis=1),
        cut,
        balance[np.arange(parts), cut].astype(np.int64),
    )


def _summed(
    part: NDArray[np.int32], values: NDArray[np.integer], counts: IntArray, width: int
) -> tuple[IntArray, IntArray]:
    """The keys part x width + value that occur, in order, and the rows of each.

    Key and count are sorted as one integer, so that nothing need be gathered afterwards.
    """
    most = int(counts.max())
    bits = most.bit_length() if most > 1 else 0
    keys = part.astype(np.int64)
    keys *= width
    keys += values
    if bits:
        keys <<= bits
        keys |= counts
    keys.sort()
    rows = keys & ((1 << bits) - 1) if bits else None
    keys >>= bits
    starts = _starts(keys)
    if rows is None:
        return keys[starts], np.diff(starts, append=len(keys))
    return keys[starts], np.add.reduceat(rows, starts)


def _starts(ordered: IntArray) -> IntArray:
    """Where each run of equal numbers begins."""
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.flatnonzero(first)


NAME = "mondrian"
_MOST_CANDIDATES = 8


def search(problem: Problem, cost: Cost, watch: SearchProgress) -> Partition:
    """Cut each part where both sides pass, along the widest column; final is what has no such cut.

    *Guarantee*: with k-anonymity alone a class has at most 2 d (k - 1) + m rows, d the number of
    columns and m the most copies of one combination.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006.
    """
    refuse_population(problem, NAME)
    points = DataPoints.of(problem)
    group = partition(problem, points, watch)
    shares = Shares(points, np.arange(len(points)), points.counts, group)
    return Partition.of(NAME, problem, shares, "natural", weights=cost.weights)


def partition(problem: Problem, points: DataPoints, watch: SearchProgress) -> NDArray[np.int32]:
    """The group of each point."""
    require_root(problem, points)
    state = Parts(problem, points)
    while state.parts:
        watch.tell(problem.rows - int(state.counts.sum()), problem.rows)
        if watch.expired:
            state.stop()
        else:
            state.cut()
    return state.final


@dataclass(frozen=True, eq=False)
class TreeCuts:
    """Cuts of one depth: of a node the column, the last leaf that goes to the lower child."""

    node: IntArray
    column: NDArray[np.int16]
    cut: IntArray
    lower: IntArray
    upper: IntArray


def require_root(problem: Problem, points: DataPoints) -> None:
    """Refuse a table that fails as a whole: no part of it can be made to pass by cutting."""
    whole = points.classes(np.zeros(len(points), dtype=np.int64), 1)
    if failing(problem.criteria, whole)[0]:
        raise unreachable(problem, suppresses=False)


class Parts:
    """The parts that may still be cut; `final` has the group of each point that is done.

    `tree` has the cuts of each depth, nodes numbered from 0 at the root, and `ends` the nodes of
    the groups that are done, in their order.
    """

    def __init__(self, problem: Problem, points: DataPoints) -> None:
        self.problem, self.points = problem, points
        self.final = np.full(len(points), -1, dtype=np.int32)
        self.live = np.arange(len(points), dtype=np.int32)
        self.leaves = list(points.leaves)
        self.counts = points.counts
        self.part = np.zeros(len(points), dtype=np.int32)
        self.parts, self._groups = 1, 0
        self.tree: list[TreeCuts] = []
        self.ends: list[IntArray] = []
        self.nodes, self.made = np.zeros(1, dtype=np.int64), 1
        self._lines = [positions(column.taxonomy) for column in problem.quasi]
        self._plain = problem.people is None and all(
            isinstance(one, KAnonymity) for one in problem.criteria
        )
        self._spans = [
            float(np.ptp(line[np.asarray([column.leaves.min(), column.leaves.max()])])) or 1.0
            for line, column in zip(self._lines, problem.quasi, strict=True)
        ]

    def cut(self) -> None:
        """Cut every part once, or make it final."""
        found = [self.allowable(place) for place in range(len(self.leaves))]
        self._divide(*chosen_cuts([cuts for cuts, _ in found], [width for _, width in found]))

    def stop(self) -> None:
        """Make every part final as it is: it passes."""
        nothing = np.zeros(self.parts, dtype=np.int64)
        self._divide(nothing.astype(bool), nothing.astype(np.int16), nothing)

    def allowable(self, place: int) -> tuple[Cuts, FloatArray]:
        """The best cut of each part along a column, and how wide it is there; -1 without a cut."""
        found, line = self._allowable(self.leaves[place]), self._lines[place]
        width = (line[found.high] - line[found.low]) / self._spans[place]
        return found, np.where(found.balance >= self.problem.smallest, width, -1.0)

    def _allowable(self, values: NDArray[np.integer]) -> Cuts:
        """The most balanced cut along a column whose sides pass; balance 0 where none does."""
        if self._plain:
            return best_cuts(self.part, self.parts, values, self.counts)
        best: Cuts | None = None
        for candidate in Runs.of(self.part, values, self.counts).by_balance(_MOST_CANDIDATES):
            if best is None:
                nothing = np.zeros(self.parts, dtype=np.int64)
                best = Cuts(candidate.low, candidate.high, nothing, nothing.copy())
            open_parts = (best.balance == 0) & (candidate.balance >= self.problem.smallest)
            if not open_parts.any():
                break
            passes = self._pass(values, candidate.cut, open_parts)
            best.cut[passes], best.balance[passes] = (
                candidate.cut[passes],
                candidate.balance[passes],
            )
        if best is None:
            nothing = np.zeros(self.parts, dtype=np.int64)
            return Cuts(nothing, nothing, nothing, nothing)
        return best

    def _pass(self, values: NDArray[np.integer], cut: IntArray, open_parts: BoolArray) -> IntArray:
        """Which of the open parts have sides that both pass every criterion."""
        number = np.cumsum(open_parts) - 1
        tested = np.flatnonzero(open_parts[self.part])
        part = self.part[tested]
        owners = np.full(len(self.points), -1, dtype=np.int64)
        owners[self.live[tested]] = 2 * number[part] + (values[tested] > cut[part])
        count = 2 * (int(number[-1]) + 1)
        fails = failing(self.problem.criteria, self.points.classes(owners, count))
        return np.flatnonzero(open_parts)[~(fails[0::2] | fails[1::2])]

    def _divide(self, divided: BoolArray, chosen: NDArray[np.int16], cuts: IntArray) -> None:
        """Give the points of final parts their groups, and those of divided parts their sides."""
        self._branch(divided, chosen, cuts)
        if not divided.all():
            stays = divided[self.part]
            done = np.flatnonzero(~stays)
            numbers = np.cumsum(~divided, dtype=np.int32) - 1 + self._groups
            self.final[self.live[done]] = numbers[self.part[done]]
            self._groups += int(np.count_nonzero(~divided))
            self.live, self.counts = self.live[stays], self.counts[stays]
            self.leaves = [values[stays] for values in self.leaves]
            self.part = (np.cumsum(divided, dtype=np.int32) - 1)[self.part[stays]]
            chosen, cuts = chosen[divided], cuts[divided]
        self.parts = 2 * len(chosen)
        column = chosen[self.part]
        side = np.zeros(len(self.part), dtype=np.int32)
        for place, values in enumerate(self.leaves):
            mine = np.flatnonzero(column == place)
            side[mine] = values[mine] > cuts[self.part[mine]]
        self.part = self.part * 2 + side

    def _branch(self, divided: BoolArray, chosen: NDArray[np.int16], cuts: IntArray) -> None:
        """Note the cuts in the tree."""
        self.ends.append(self.nodes[~divided])
        parents = self.nodes[divided]
        self.nodes = self.made + np.arange(2 * len(parents))
        self.made += len(self.nodes)
        lower, upper = self.nodes[0::2], self.nodes[1::2]
        self.tree.append(TreeCuts(parents, chosen[divided], cuts[divided], lower, upper))


def chosen_cuts(
    found: Sequence[Cuts], widths: Sequence[FloatArray]
) -> tuple[BoolArray, NDArray[np.int16], IntArray]:
    """Whether each part is cut, along which column and behind which leaf.

    The widest column wins, then the most balanced cut, then the first.
    """
    width = np.stack(widths)
    widest = width.max(axis=0)
    balances = np.stack([one.balance for one in found])
    chosen = np.where(width == widest, balances, -1).argmax(axis=0)
    cuts = np.stack([one.cut for one in found])[chosen, np.arange(len(widest))]
    return widest >= 0, chosen.astype(np.int16), cuts


RELAXED = "mondrian-relaxed"


def search_relaxed(problem: Problem, cost: Cost, watch: SearchProgress) -> Partition:
    """Cut each part into halves along the widest column, sharing the rows of the cut value.

    *Guarantee*: with k-anonymity alone a group has at most 2 k - 1 rows; groups whose labels read
    the same are one class of the release. With further criteria the rows of one combination stay
    together, and no bound is claimed.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006.
    """
    refuse_population(problem, RELAXED)
    points = DataPoints.of(problem)
    require_root(problem, points)
    state = _Units(problem, points)
    while len(state.part):
        watch.tell(problem.rows - int(state.rows.sum()), problem.rows)
        if watch.expired:
            state.stop()
        else:
            state.cut()
    return Partition.of(RELAXED, problem, state.shares(), "natural", weights=cost.weights)


class _Units:
    """Rows of points in parts that may still be cut, part after part."""

    def __init__(self, problem: Problem, points: DataPoints) -> None:
        self.problem, self.points = problem, points
        self.point, self.rows = np.arange(len(points)), points.counts
        self.part = np.zeros(len(points), dtype=np.int64)
        self._done: list[tuple[IntArray, IntArray, IntArray]] = []
        self._groups = 0
        # The rows of a point that are dealt to two sides might be one person's.
        self._plain = problem.people is None and all(
            isinstance(one, KAnonymity) for one in problem.criteria
        )
        self._lines = []
        for column, leaves in zip(problem.quasi, points.leaves, strict=True):
            line = positions(column.taxonomy)
            span = line[leaves.max()] - line[leaves.min()]
            self._lines.append(line / (span or 1.0))

    def cut(self) -> None:
        """Cut every part once, or make it final."""
        starts = np.flatnonzero(np.diff(self.part, prepend=-1))
        left = np.zeros(len(self.rows), dtype=np.int64)
        is_open = np.add.reduceat(self.rows, starts) >= 2 * self.problem.smallest
        divided = np.zeros(len(starts), dtype=bool)
        for columns in self._preferences(starts):
            if not is_open.any():
                break
            tested = np.flatnonzero(is_open[self.part])
            left[tested] = self._left(tested, columns)
            passed = is_open & self._pass(tested, left, len(starts))
            divided |= passed
            is_open &= ~passed
        self._divide(divided, left)

    def stop(self) -> None:
        """Make every part final as it is: it passes."""
        parts = int(self.part[-1]) + 1
        self._divide(np.zeros(parts, dtype=bool), np.zeros(len(self.rows), dtype=np.int64))

    def _preferences(self, starts: IntArray) -> IntArray:
        """For each part the columns from widest to narrowest, ties in their order."""
        widths = []
        for line, leaves in zip(self._lines, self.points.leaves, strict=True):
            mine = leaves[self.point]
            low, high = np.minimum.reduceat(mine, starts), np.maximum.reduceat(mine, starts)
            widths.append(line[high] - line[low])
        return np.argsort(-np.array(widths), axis=0, kind="stable")

    def _left(self, tested: IntArray, columns: IntArray) -> IntArray:
        """How many rows of each tested unit go to the lower half of its part."""
        part, point, rows = self.part[tested], self.point[tested], self.rows[tested]
        values = np.zeros(len(tested), dtype=np.int64)
        column = columns[part]
        for place, leaves in enumerate(self.points.leaves):
            mine = np.flatnonzero(column == place)
            values[mine] = leaves[point[mine]]
        order = np.lexsort((values, part))
        part, rows = part[order], rows[order]
        before = np.cumsum(rows) - rows
        starts = np.flatnonzero(np.diff(part, prepend=-1))
        lengths = np.diff(starts, append=len(part))
        sizes = np.repeat(np.add.reduceat(rows, starts), lengths)
        before -= np.repeat(before[starts], lengths)
        found = np.empty(len(tested), dtype=np.int64)
        if self._plain:
            found[order] = np.clip(sizes // 2 - before, 0, rows)
        else:
            found[order] = np.where(2 * before + rows <= sizes, rows, 0)
        return found

    def _pass(self, tested: IntArray, left: IntArray, parts: int) -> BoolArray:
        """Which parts have two halves that pass."""
        if self._plain:
            return np.ones(parts, dtype=bool)
        side = left[tested] == 0
        present, owner = np.unique(2 * self.part[tested] + side, return_inverse=True)
        owners = np.full(len(self.points), -1, dtype=np.int64)
        owners[self.point[tested]] = owner
        passing = ~failing(self.problem.criteria, self.points.classes(owners, len(present)))
        halves = np.bincount(present[passing] // 2, minlength=parts)
        return np.asarray(halves == 2)

    def _divide(self, divided: BoolArray, left: IntArray) -> None:
        """Keep the units of final parts as groups, and split those of the others."""
        final = ~divided[self.part]
        numbers = np.cumsum(~divided) - 1 + self._groups
        self._done.append((self.point[final], self.rows[final], numbers[self.part[final]]))
        self._groups += int(np.count_nonzero(~divided))
        point, rows, part = self.point[~final], self.rows[~final], self.part[~final]
        part = 2 * (np.cumsum(divided) - 1)[part]
        left = left[~final]
        rows = np.concatenate([left, rows - left])
        kept = np.flatnonzero(rows)
        both = np.concatenate([part, part + 1])[kept]
        order = np.argsort(both, kind="stable")
        self.part, self.rows = both[order], rows[kept][order]
        self.point = np.concatenate([point, point])[kept][order]

    def shares(self) -> Shares:
        """The groups found."""
        point, rows, group = (np.concatenate(parts) for parts in zip(*self._done, strict=True))
        return Shares(self.points, point, rows, group)
