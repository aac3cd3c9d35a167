"""Mondrian on a table whose combinations do not fit in memory: cut in the engine until parts do.

A part that does not fit is cut along the same column, after the same leaf, as it would be if it
did: where to cut is decided from each column by itself. Boxes that fit are counted and cut here.

Decision `partitions`.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.anonymize.cost import Loss
from sfumato.anonymize.lattice_grouping import View
from sfumato.anonymize.original import SensitiveColumn, order_of
from sfumato.anonymize.outcome import Outcome, outcome_facts
from sfumato.anonymize.partition import DataPoints, LabelledGroups, Members, write_members
from sfumato.anonymize.search import all_needed, require_weighted
from sfumato.anonymize.search.mondrian import NAME, Boxes, chosen_cuts, require_root
from sfumato.anonymize.taxonomy import declared
from sfumato.data.counting.frequencies import count
from sfumato.data.counting.memory_limit import (
    CELLS_PER_VALUE,
    TooManyCombinationsError,
    cells_of,
    combinations,
    most_combinations,
)
from sfumato.data.schema.column import Role
from sfumato.release.recoding import ByCuts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.labels import Written
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.search import SearchProgress
    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.release.open_table import Table


_VALUE, _LEAF = "sf_value", "sf_leaf"
_FIELDS = ("node", "column", "cut", "lower", "upper")


@dataclass(frozen=True, eq=False)
class TreeEnds(LabelledGroups):
    """The groups at the ends of a tree: the rows and the labels of each."""

    problem: Problem
    counts: IntArray
    labels: tuple[Written, ...]

    @property
    def group_sizes(self) -> IntArray:
        """The number of rows of each group."""
        return self.counts

    @property
    def suppressed_people(self) -> None:
        """Nothing is suppressed."""
        return


@dataclass(frozen=True, kw_only=True, eq=False)
class CutTree(Outcome):
    """A release in which rows go down a tree of cuts; each end of it is a group."""

    release: TreeEnds
    depths: tuple[pa.Table, ...]
    ends: IntArray

    def recoding(self, unchanged: Sequence[str] = ()) -> ByCuts:
        """Return the tree, and the labels at its ends."""
        quasi = self.release.problem.quasi
        labels = (
            pa.array(written.texts, type=pa.string()).take(pa.array(written.codes))
            for written in self.release.labels
        )
        names = ["node", *(column.name for column in quasi)]
        table = pa.Table.from_arrays([pa.array(self.ends), *labels], names=names)
        maps = tuple(column.released(0) for column in quasi)
        return ByCuts(maps, self.depths, table, tuple(unchanged))


@dataclass(frozen=True)
class _Box:
    """A part that is not cut yet: its place in the tree, and the conditions that lead to it."""

    node: int = 0
    depth: int = 0
    where: tuple[exp.Expr, ...] = ()


def cut_in_engine(
    table: Table,
    problem: Problem,
    counted: Frequencies,
    watch: SearchProgress,
    weights: Mapping[str, float] | None,
) -> CutTree:
    """Cut a table; its problem is posed at the roots, with columns by themselves alone."""
    require_weighted([column.name for column in problem.quasi], weights)
    if problem.people is not None:
        raise all_needed(NAME, cells_to_cut(table, problem.criteria))
    require_root(problem, DataPoints.of(problem))
    sensitive = [
        SensitiveColumn.of(
            counted, original.name, order_of(table.schema.column(original.name)), original.taxonomy
        )
        for original in (view.original for view in problem.views)
        if original is not None
    ]
    with _with_leaves(table.engine, table.engine.table, problem) as rows, watch.listening():
        search = _Search(table.engine, rows, problem, counted, sensitive)
        waiting = [_Box()]
        while waiting:
            waiting += search.look(waiting.pop(0), watch)
            watch.report(search.finished, problem.rows)
    return replace(search.outcome(weights), ended=watch.ended, minimised=Loss.name)


def cells_to_cut(table: Table, criteria: Sequence[Criterion]) -> int:
    """Return how many cells must fit in memory to cut a table: at most all that it has.

    Each column is counted alone, with the sensitive values; counting people needs everything.
    """
    quasi = table.schema.by_role(Role.QUASI)
    sensitive = list(
        dict.fromkeys(criterion.column for criterion in criteria if criterion.column is not None)
    )
    everything = list(dict.fromkeys([*(column.name for column in quasi), *sensitive]))
    person = table.schema.unit.column
    engine, rows = table.engine, table.engine.table
    if person is not None:
        return cells_of(engine, rows, list(dict.fromkeys([*everything, person])))
    least = [combinations(engine, rows, sensitive) * len(everything)]
    for column in quasi:
        least.append(cells_of(engine, rows, [column.name, *sensitive]))
        if not declared(column):
            least.append(combinations(engine, rows, [column.name]) * CELLS_PER_VALUE)
    return min(cells_of(engine, rows, everything), max(least))


@contextmanager
def _with_leaves(engine: Engine, table: exp.Table, problem: Problem) -> Iterator[exp.Subquery]:
    """Open the table with the leaf number of each value of a column."""
    rows = exp.select("sf_source.*").from_(exp.alias_(table.copy(), "sf_source", table=True))
    with ExitStack() as lent:
        for position, column in enumerate(problem.quasi):
            known = column.released(0)
            joined = f"sf_map_{position}"
            value = exp.column(column.name, table="sf_source", quoted=True)
            leaves = pa.table({_VALUE: known.values, _LEAF: known.codes.cast(pa.int64())})
            leaves = leaves.filter(known.values.is_valid())
            rows.join(
                exp.alias_(lent.enter_context(engine.lend(leaves)), joined, table=True),
                on=value.eq(exp.column(_VALUE, table=joined)),
                join_type="left",
                copy=False,
            )
            leaf = exp.case().when(value.copy().is_(exp.Null()), exp.convert(known.missing[0]))
            leaf = leaf.else_(exp.column(_LEAF, table=joined))
            rows.select(exp.alias_(leaf, f"{_LEAF}_{position}"), copy=False)
        yield rows.subquery("sf_leaves")


@dataclass
class _Search:
    """The tree of cuts so far, and the groups at its ends."""

    engine: Engine
    rows: exp.Subquery
    problem: Problem
    counted: Frequencies
    sensitive: Sequence[SensitiveColumn]
    finished: int = 0
    _nodes: int = 1
    _groups: int = 0
    _depths: dict[int, list[list[IntArray]]] = field(default_factory=lambda: defaultdict(list))
    _ends: list[IntArray] = field(default_factory=list)
    _sizes: list[IntArray] = field(default_factory=list)
    _members: list[list[Members]] = field(default_factory=list)

    def look(self, box: _Box, watch: SearchProgress) -> list[_Box]:
        """Cut a part to its end here where it fits, or once in the engine."""
        try:
            subproblem = self._subproblem(range(len(self.problem.quasi)), box)
        except TooManyCombinationsError:
            return self._cut(box, watch)
        points = DataPoints.of(subproblem)
        state = Boxes(subproblem, points)
        while state.box_count:
            if watch.expired:
                state.stop()
            else:
                state.cut()
        for depth, cuts in enumerate(state.tree):
            nodes = [self._global(box, numbers) for numbers in (cuts.node, cuts.lower, cuts.upper)]
            # Nodes of the subproblem are numbered anew after all known ones; its root is the box.
            self._note(
                box.depth + depth, [nodes[0], cuts.column.astype(np.int64), cuts.cut, *nodes[1:]]
            )
        ends = self._global(box, np.concatenate(state.ends))
        self._nodes += state.made - 1
        sizes = np.bincount(state.final, points.counts).astype(np.int64)
        group = state.final.astype(np.int64)
        self._finish(
            ends, sizes, [Members(group, leaves.astype(np.int64)) for leaves in points.leaves]
        )
        return []

    def _global(self, box: _Box, nodes: IntArray) -> IntArray:
        """Number the nodes of a part in the whole tree, where its root has a number already."""
        return np.where(nodes == 0, box.node, nodes + self._nodes - 1)

    def _cut(self, box: _Box, watch: SearchProgress) -> list[_Box]:
        """Cut a part in the engine, or end there where it cannot be cut."""
        alone = [self._subproblem([position], box) for position in range(len(self.problem.quasi))]
        columns = [DataPoints.of(problem) for problem in alone]
        candidates = [Boxes(*pair).allowable(0) for pair in zip(alone, columns, strict=True)]
        divided, chosen, cuts = chosen_cuts(
            [column_cuts for column_cuts, _ in candidates], [width for _, width in candidates]
        )
        if watch.expired or not divided[0]:
            members = [
                Members(np.zeros(len(points), np.int64), points.leaves[0].astype(np.int64))
                for points in columns
            ]
            self._finish(np.array([box.node]), np.array([columns[0].counts.sum()]), members)
            return []
        position, cut = int(chosen[0]), int(cuts[0])
        # Both children get the next free numbers; deeper boxes are looked at later.
        low, high = self._nodes, self._nodes + 1
        self._nodes += 2
        self._note(box.depth, [np.array([value]) for value in (box.node, position, cut, low, high)])
        leaf, limit = exp.column(f"{_LEAF}_{position}"), exp.convert(cut)
        sides = (exp.LTE(this=leaf, expression=limit), exp.GT(this=leaf, expression=limit))
        return [
            _Box(node, box.depth + 1, (*box.where, side))
            for node, side in zip((low, high), sides, strict=True)
        ]

    def _subproblem(self, positions: Sequence[int], box: _Box) -> Problem:
        """Pose the problem of some columns of a part alone; raise if it does not fit in memory."""
        quasi = tuple(self.problem.quasi[position] for position in positions)
        values = [self.counted.axis(column.original.name) for column in self.sensitive]
        columns: list[str | Axis] = [*(column.name for column in quasi), *values]
        table = count(
            self.engine,
            self.rows,
            columns,
            where=exp.and_(*box.where) if box.where else None,
            most=most_combinations(len(columns)),
        )
        views = [View.of_values(quasi, table, column) for column in self.sensitive]
        views = views or [View.of_rows(quasi, table, None)]
        return replace(self.problem, quasi=quasi, views=tuple(views), floor=None)

    def _note(self, depth: int, cuts: list[IntArray]) -> None:
        """Add cuts of a depth to the tree."""
        if len(cuts[0]):
            self._depths[depth].append(cuts)

    def _finish(self, ends: IntArray, sizes: IntArray, members: Sequence[Members]) -> None:
        """Add groups, with the leaves that each has."""
        renumbered = []
        for column, (group, leaves) in zip(self.problem.quasi, members, strict=True):
            width = len(column.taxonomy.leaves)
            group, leaves = np.divmod(np.unique(group * width + leaves), width)
            renumbered.append(Members(group + self._groups, leaves))
        self._members.append(renumbered)
        self._ends.append(ends)
        self._sizes.append(sizes)
        self._groups += len(sizes)
        self.finished += int(sizes.sum())

    def outcome(self, weights: Mapping[str, float] | None) -> CutTree:
        """Return the release that the tree makes."""
        members = [
            Members(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))
            for pieces in zip(*self._members, strict=True)
        ]
        labels = write_members(self.problem, members, self._groups, "natural")
        release = TreeEnds(self.problem, np.concatenate(self._sizes), labels)
        floor = self.problem.floor
        assert floor is not None
        note = (
            f"The table has {len(floor.sizes):,} combinations of values, more than memory is kept "
            "for: it was cut where it lies until its parts fit, which changes nothing."
        )
        return CutTree(
            **outcome_facts(NAME, release, weights),
            release=release,
            depths=tuple(_table(self._depths[depth]) for depth in range(len(self._depths))),
            ends=np.concatenate(self._ends),
            notes=(note,),
        )


def _table(cuts: Sequence[Sequence[IntArray]]) -> pa.Table:
    """Return the cuts of a depth as engines read them."""
    columns = (np.concatenate(pieces).astype(np.int64) for pieces in zip(*cuts, strict=True))
    return pa.table(dict(zip(_FIELDS, columns, strict=True)))
