"""Mondrian, strict and relaxed: cut the table into ever smaller boxes. Decision `partitions`."""

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
    """For each box: its lowest and highest value, the value after which it is cut, and the balance.

    The balance is the size of the smaller side; 0 where there is nothing to cut.
    """

    low: IntArray
    high: IntArray
    cut: IntArray
    balance: IntArray


@dataclass(frozen=True, eq=False)
class Runs:
    """The values of each box in order, with their numbers of rows; `starts` begins each box."""

    starts: IntArray
    box: IntArray
    value: IntArray
    balance: IntArray

    @classmethod
    def of(cls, box: NDArray[np.int32], values: NDArray[np.integer], counts: IntArray) -> Runs:
        """Sort the values of all boxes together."""
        width = int(values.max()) + 1
        keys, rows = _sum_by_key(box, values, counts, width)
        owner, value = np.divmod(keys, width)
        starts = _starts(owner)
        rows_up_to_value = np.cumsum(rows)
        rows_up_to_value -= (rows_up_to_value[starts] - rows[starts])[owner]
        ends = np.append(starts[1:], len(keys)) - 1
        return cls(
            starts,
            owner,
            value,
            np.minimum(rows_up_to_value, rows_up_to_value[ends][owner] - rows_up_to_value),
        )

    def best(self) -> Cuts:
        """Return the most balanced cut of each box, the lowest of several."""
        best = np.maximum.reduceat(self.balance, self.starts)
        equal = np.flatnonzero(self.balance == best[self.box])
        first = equal[_starts(self.box[equal])]
        return self._cuts(self.value[first], best)

    def by_balance(self, most: int) -> Iterator[Cuts]:
        """Yield the most balanced cuts of each box in turn; balance 0 if none is left."""
        ceiling = int(self.balance.max()) + 1
        order = np.argsort((self.box + 1) * ceiling - self.balance, kind="stable")
        lengths = np.diff(self.starts, append=len(order))
        for rank in range(min(most, int(lengths.max()) - 1)):
            indices = order[self.starts + np.minimum(rank, lengths - 1)]
            balance = np.where(rank < lengths, self.balance[indices], 0)
            if not balance.any():
                return
            yield self._cuts(self.value[indices], balance)

    def _cuts(self, cut: IntArray, balance: IntArray) -> Cuts:
        ends = np.append(self.starts[1:], len(self.value)) - 1
        return Cuts(self.value[self.starts], self.value[ends], cut, balance)


def best_cuts(
    box: NDArray[np.int32], box_count: int, values: NDArray[np.integer], counts: IntArray
) -> Cuts:
    """Return the most balanced cut of each box 0 .. box_count - 1; none is empty."""
    width = int(values.max()) + 1
    # Few points in many boxes: sorting is cheaper than a histogram of every box.
    if box_count * width > _DENSE_FACTOR * len(box):
        return Runs.of(box, values, counts).best()
    keys = box.astype(np.int64) * width + values
    # float64 adds exactly below 2^53 rows.
    rows = np.bincount(keys, counts, box_count * width).reshape(box_count, width)
    rows_up_to_value = np.cumsum(rows, axis=1)
    balance = np.minimum(rows_up_to_value, rows_up_to_value[:, -1:] - rows_up_to_value)
    cut = balance.argmax(axis=1)
    present = rows > 0
    return Cuts(
        present.argmax(axis=1),
        width - 1 - present[:, ::-1].argmax(axis=1),
        cut,
        balance[np.arange(box_count), cut].astype(np.int64),
    )


def _sum_by_key(
    box: NDArray[np.int32], values: NDArray[np.integer], counts: IntArray, width: int
) -> tuple[IntArray, IntArray]:
    """Return the keys box * width + value that occur, in order, and the rows of each.

    Key and count are sorted as one integer, which saves gathering the counts afterwards.
    """
    most = int(counts.max())
    bits = most.bit_length() if most > 1 else 0
    keys = box.astype(np.int64)
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
    """Return where each run of equal numbers begins."""
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.flatnonzero(first)


NAME = "mondrian"
# With criteria beyond k-anonymity the balanced cut may fail while one beside it passes.
_MOST_CANDIDATES = 8


def search(problem: Problem, cost: Cost, watch: SearchProgress) -> Partition:
    """Cut each box along its widest column while both sides pass, then make it final.

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
    """Return the group of each point."""
    require_root(problem, points)
    state = Boxes(problem, points)
    while state.box_count:
        watch.report(problem.rows - int(state.counts.sum()), problem.rows)
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
    """Refuse a table that fails as a whole: no box of it can be made to pass by cutting."""
    root = points.classes(np.zeros(len(points), dtype=np.int64), 1)
    if failing(problem.criteria, root)[0]:
        raise unreachable(problem, suppresses=False)


class Boxes:
    """The boxes that may still be cut; `final` has the group of each point that is done.

    `tree` has the cuts of each depth, nodes numbered from 0 at the root, and `ends` the nodes of
    the groups that are done, in their order.
    """

    def __init__(self, problem: Problem, points: DataPoints) -> None:
        self.problem, self.points = problem, points
        self.final = np.full(len(points), -1, dtype=np.int32)
        self.live = np.arange(len(points), dtype=np.int32)
        self.leaves = list(points.leaves)
        self.counts = points.counts
        self.box = np.zeros(len(points), dtype=np.int32)
        self.box_count, self._groups = 1, 0
        self.tree: list[TreeCuts] = []
        self.ends: list[IntArray] = []
        self.nodes, self.made = np.zeros(1, dtype=np.int64), 1
        self._lines = [positions(column.taxonomy) for column in problem.quasi]
        self._plain = problem.people is None and all(
            isinstance(criterion, KAnonymity) for criterion in problem.criteria
        )
        # Widths are relative to the whole column, so that columns of any unit compare.
        self._spans = [
            float(np.ptp(line[np.asarray([column.leaves.min(), column.leaves.max()])])) or 1.0
            for line, column in zip(self._lines, problem.quasi, strict=True)
        ]

    def cut(self) -> None:
        """Cut every box once, or make it final."""
        candidates = [self.allowable(position) for position in range(len(self.leaves))]
        self._divide(
            *chosen_cuts([cuts for cuts, _ in candidates], [width for _, width in candidates])
        )

    def stop(self) -> None:
        """Make every box final as it is: it passes."""
        zeros = np.zeros(self.box_count, dtype=np.int64)
        self._divide(zeros.astype(bool), zeros.astype(np.int16), zeros)

    def allowable(self, position: int) -> tuple[Cuts, FloatArray]:
        """Return the best cut of each box along a column, and its width there; -1 without a cut."""
        cuts, line = self._allowable(self.leaves[position]), self._lines[position]
        # LeFevre et al. 2006: the column with the widest normalized range is cut.
        width = (line[cuts.high] - line[cuts.low]) / self._spans[position]
        return cuts, np.where(cuts.balance >= self.problem.smallest, width, -1.0)

    def _allowable(self, values: NDArray[np.integer]) -> Cuts:
        """Return the most balanced cut along a column whose sides pass; balance 0 if none does."""
        if self._plain:
            return best_cuts(self.box, self.box_count, values, self.counts)
        best: Cuts | None = None
        for candidate in Runs.of(self.box, values, self.counts).by_balance(_MOST_CANDIDATES):
            if best is None:
                zeros = np.zeros(self.box_count, dtype=np.int64)
                best = Cuts(candidate.low, candidate.high, zeros, zeros.copy())
            open_boxes = (best.balance == 0) & (candidate.balance >= self.problem.smallest)
            if not open_boxes.any():
                break
            passes = self._pass(values, candidate.cut, open_boxes)
            best.cut[passes], best.balance[passes] = (
                candidate.cut[passes],
                candidate.balance[passes],
            )
        if best is None:
            zeros = np.zeros(self.box_count, dtype=np.int64)
            return Cuts(zeros, zeros, zeros, zeros)
        return best

    def _pass(self, values: NDArray[np.integer], cut: IntArray, open_boxes: BoolArray) -> IntArray:
        """Return which of the open boxes have sides that both pass every criterion."""
        number = np.cumsum(open_boxes) - 1
        tested = np.flatnonzero(open_boxes[self.box])
        box = self.box[tested]
        owners = np.full(len(self.points), -1, dtype=np.int64)
        owners[self.live[tested]] = 2 * number[box] + (values[tested] > cut[box])
        count = 2 * (int(number[-1]) + 1)
        fails = failing(self.problem.criteria, self.points.classes(owners, count))
        return np.flatnonzero(open_boxes)[~(fails[0::2] | fails[1::2])]

    def _divide(self, divided: BoolArray, chosen: NDArray[np.int16], cuts: IntArray) -> None:
        """Give the points of final boxes their groups, and those of divided boxes their sides."""
        self._branch(divided, chosen, cuts)
        if not divided.all():
            stays = divided[self.box]
            final_points = np.flatnonzero(~stays)
            numbers = np.cumsum(~divided, dtype=np.int32) - 1 + self._groups
            self.final[self.live[final_points]] = numbers[self.box[final_points]]
            self._groups += int(np.count_nonzero(~divided))
            self.live, self.counts = self.live[stays], self.counts[stays]
            self.leaves = [values[stays] for values in self.leaves]
            self.box = (np.cumsum(divided, dtype=np.int32) - 1)[self.box[stays]]
            chosen, cuts = chosen[divided], cuts[divided]
        # Box b splits into 2b and 2b + 1.
        self.box_count = 2 * len(chosen)
        column = chosen[self.box]
        side = np.zeros(len(self.box), dtype=np.int32)
        for position, values in enumerate(self.leaves):
            mine = np.flatnonzero(column == position)
            side[mine] = values[mine] > cuts[self.box[mine]]
        self.box = self.box * 2 + side

    def _branch(self, divided: BoolArray, chosen: NDArray[np.int16], cuts: IntArray) -> None:
        """Add the cuts to the tree."""
        self.ends.append(self.nodes[~divided])
        parents = self.nodes[divided]
        self.nodes = self.made + np.arange(2 * len(parents))
        self.made += len(self.nodes)
        lower, upper = self.nodes[0::2], self.nodes[1::2]
        self.tree.append(TreeCuts(parents, chosen[divided], cuts[divided], lower, upper))


def chosen_cuts(
    candidates: Sequence[Cuts], widths: Sequence[FloatArray]
) -> tuple[BoolArray, NDArray[np.int16], IntArray]:
    """Choose for each box whether to cut it, along which column and after which leaf.

    The widest column wins, then the most balanced cut, then the first.
    """
    width = np.stack(widths)
    widest = width.max(axis=0)
    balances = np.stack([candidate.balance for candidate in candidates])
    chosen = np.where(width == widest, balances, -1).argmax(axis=0)
    cuts = np.stack([candidate.cut for candidate in candidates])[chosen, np.arange(len(widest))]
    return widest >= 0, chosen.astype(np.int16), cuts


RELAXED = "mondrian-relaxed"


def search_relaxed(problem: Problem, cost: Cost, watch: SearchProgress) -> Partition:
    """Cut each box into halves along the widest column, sharing the rows of the cut value.

    *Guarantee*: with k-anonymity alone a group has at most 2 k - 1 rows; groups whose labels read
    the same are one class of the release. With further criteria the rows of one combination stay
    together, and no bound is claimed.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006.
    """
    refuse_population(problem, RELAXED)
    points = DataPoints.of(problem)
    require_root(problem, points)
    state = _Units(problem, points)
    while len(state.box):
        watch.report(problem.rows - int(state.rows.sum()), problem.rows)
        if watch.expired:
            state.stop()
        else:
            state.cut()
    return Partition.of(RELAXED, problem, state.shares(), "natural", weights=cost.weights)


class _Units:
    """Rows of points in boxes that may still be cut, box after box."""

    def __init__(self, problem: Problem, points: DataPoints) -> None:
        self.problem, self.points = problem, points
        self.point, self.rows = np.arange(len(points)), points.counts
        self.box = np.zeros(len(points), dtype=np.int64)
        self._done: list[tuple[IntArray, IntArray, IntArray]] = []
        self._groups = 0
        # The rows of a point that are dealt to two sides might be one person's.
        self._plain = problem.people is None and all(
            isinstance(criterion, KAnonymity) for criterion in problem.criteria
        )
        self._lines = []
        for column, leaves in zip(problem.quasi, points.leaves, strict=True):
            line = positions(column.taxonomy)
            span = line[leaves.max()] - line[leaves.min()]
            self._lines.append(line / (span or 1.0))

    def cut(self) -> None:
        """Cut every box once, or make it final."""
        starts = np.flatnonzero(np.diff(self.box, prepend=-1))
        lower_rows = np.zeros(len(self.rows), dtype=np.int64)
        is_open = np.add.reduceat(self.rows, starts) >= 2 * self.problem.smallest
        divided = np.zeros(len(starts), dtype=bool)
        for columns in self._preferences(starts):
            if not is_open.any():
                break
            tested = np.flatnonzero(is_open[self.box])
            # Each box tries its widest column first, then narrower ones until both halves pass.
            lower_rows[tested] = self._lower_rows(tested, columns)
            passed = is_open & self._pass(tested, lower_rows, len(starts))
            divided |= passed
            is_open &= ~passed
        self._divide(divided, lower_rows)

    def stop(self) -> None:
        """Make every box final as it is: it passes."""
        box_count = int(self.box[-1]) + 1
        self._divide(np.zeros(box_count, dtype=bool), np.zeros(len(self.rows), dtype=np.int64))

    def _preferences(self, starts: IntArray) -> IntArray:
        """Return for each box the columns from widest to narrowest; ties keep their order."""
        widths = []
        for line, leaves in zip(self._lines, self.points.leaves, strict=True):
            mine = leaves[self.point]
            low, high = np.minimum.reduceat(mine, starts), np.maximum.reduceat(mine, starts)
            widths.append(line[high] - line[low])
        return np.argsort(-np.array(widths), axis=0, kind="stable")

    def _lower_rows(self, tested: IntArray, columns: IntArray) -> IntArray:
        """Return how many rows of each tested unit go to the lower half of its box."""
        box, point, rows = self.box[tested], self.point[tested], self.rows[tested]
        values = np.zeros(len(tested), dtype=np.int64)
        column = columns[box]
        for position, leaves in enumerate(self.points.leaves):
            mine = np.flatnonzero(column == position)
            values[mine] = leaves[point[mine]]
        order = np.lexsort((values, box))
        box, rows = box[order], rows[order]
        before = np.cumsum(rows) - rows
        starts = np.flatnonzero(np.diff(box, prepend=-1))
        lengths = np.diff(starts, append=len(box))
        sizes = np.repeat(np.add.reduceat(rows, starts), lengths)
        before -= np.repeat(before[starts], lengths)
        lower_rows = np.empty(len(tested), dtype=np.int64)
        if self._plain:
            lower_rows[order] = np.clip(sizes // 2 - before, 0, rows)
        else:
            lower_rows[order] = np.where(2 * before + rows <= sizes, rows, 0)
        return lower_rows

    def _pass(self, tested: IntArray, lower_rows: IntArray, box_count: int) -> BoolArray:
        """Return which boxes have two halves that pass."""
        if self._plain:
            return np.ones(box_count, dtype=bool)
        side = lower_rows[tested] == 0
        present, owner = np.unique(2 * self.box[tested] + side, return_inverse=True)
        owners = np.full(len(self.points), -1, dtype=np.int64)
        owners[self.point[tested]] = owner
        passing = ~failing(self.problem.criteria, self.points.classes(owners, len(present)))
        halves = np.bincount(present[passing] // 2, minlength=box_count)
        return np.asarray(halves == 2)

    def _divide(self, divided: BoolArray, lower_rows: IntArray) -> None:
        """Keep the units of final boxes as groups, and split those of the others."""
        final = ~divided[self.box]
        numbers = np.cumsum(~divided) - 1 + self._groups
        self._done.append((self.point[final], self.rows[final], numbers[self.box[final]]))
        self._groups += int(np.count_nonzero(~divided))
        point, rows, box = self.point[~final], self.rows[~final], self.box[~final]
        box = 2 * (np.cumsum(divided) - 1)[box]
        lower_rows = lower_rows[~final]
        rows = np.concatenate([lower_rows, rows - lower_rows])
        nonempty = np.flatnonzero(rows)
        both = np.concatenate([box, box + 1])[nonempty]
        order = np.argsort(both, kind="stable")
        self.box, self.rows = both[order], rows[nonempty][order]
        self.point = np.concatenate([point, point])[nonempty][order]

    def shares(self) -> Shares:
        """Return the groups found."""
        point, rows, group = (np.concatenate(arrays) for arrays in zip(*self._done, strict=True))
        return Shares(self.points, point, rows, group)
