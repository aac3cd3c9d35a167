"""Joining: two releases, or a release and a public table, are joined over their labels.

*Attacker*: has both tables, and joins rows whose labels have a value in common in every joining
column: the quasi-identifiers of both, or the columns asked for (`on`).
*Success*: among people with a partner in the join of the originals, the share whose own row meets a
partner in a pick among the rows that it joins. Partners are the same person where both originals
name people; else, or if columns are asked for, rows with equal values. A person who fits several
classes is in each with the chance that `link` computes.
*Baseline*: a pick among all rows of the other table.
*Victims*: people whose row joins exactly one row, their partner's.
The figures give the joined pairs of rows, those that are true, false and lost, and bounds on the
number of pairs with equal values over all worlds.

*Worlds*: each released row stands for one row of the original, with any of the values that its
labels cover, independently of other rows. A world gives every row of both tables its values; the
count is the number of pairs with equal values. Suppressed rows are in no world.
*Bounds*: if one table has exact values, each row of the other chooses for itself: s rows that may
be any x meet between s min n(x) and s max n(x) rows. Both ends are also reached if every class
meets at most one class. Otherwise choices depend on each other, and the bounds hold but may not be
reached: a row meets at most all rows that may have its value, and at least the certain ones.
*Reference*: Sweeney 2002 for linking; Nergiz, Clifton and Nergiz, Multirelational k-anonymity,
2007. Decision `worlds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attack.case import cannot_run, needed, needed_quasi
from sfumato.attack.classes import boxes_together
from sfumato.attack.finding import Finding, Rate, percent
from sfumato.attack.matching import by_key, examples, fitting, meeting, overlapping, same_keys
from sfumato.data.counting.grouping import keys, ragged
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.classes import Boxes
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column


NAME = "join"


_MOST_PAIRS = 50_000_000
"""Pairs of people with the same name that fit in memory; more are refused."""


_MOST_EXACT = 10_000_000
"""Above this number of pairs intervals use the normal curve, which is then exact enough."""


def run(case: Case) -> Finding:
    """Join two tables, and compare with the join of their originals."""
    if case.other is None:
        raise cannot_run(
            NAME,
            "it needs a second release or a public table. Give it with "
            f"{option('other', metavar='RELEASE')}.",
        )
    if case.release.buckets is not None or case.other.buckets is not None:
        raise cannot_run(NAME, "one release is an anatomy, which has no classes; join two tables.")
    original = needed(case.original, NAME, "the original, to tell which pairs are true", "original")
    tables = [case.release.table, case.other.table]
    labels = [
        table.counted([column.name for column in _columns(case, original)]) for table in tables
    ]
    # A table without labels is its own original: a public list, for example.
    second = case.other_original
    if second is None:
        (alone,) = boxes_together(labels[1:], _columns(case, original))
        second = original if _has_labels(alone) else case.other.table
    columns = _columns(case, original, second)
    names = [column.name for column in columns]
    named = _identifying_columns(case, original, second)
    people = [
        held_table.counted([*dict.fromkeys([*names, *named])]) for held_table in (original, second)
    ]
    counted = [table.counted(names) for table in tables]
    if second is case.other.table:  # its values are read as labels are
        mine, theirs, own = boxes_together([*counted, people[1]], columns, people[:1])
        points = [column.covers.low[column.labels] for column in own.columns]
    else:
        mine, theirs = boxes_together(counted, columns, people)
        points = theirs.locate(people[1])
    sides = (
        JoinSide.of(mine, people[0], mine.locate(people[0])),
        JoinSide.of(theirs, people[1], points),
    )
    return _join_finding(sides, names, named)


def _columns(case: Case, *tables: HeldTable) -> list[Column]:
    """Return the join columns: the requested ones, else the quasi-identifiers of all tables."""
    assert case.other is not None
    held = [case.other.table, *tables]
    if not case.options.on:
        return needed_quasi(case, NAME, *held)
    every = frozenset.intersection(case.release.table.names, *(table.names for table in held))
    for name in case.options.on:
        if name not in every:
            raise cannot_run(
                NAME,
                f"not all tables have a column {quoted(name)}; {suggestion(name, sorted(every))}",
            )
    return [case.schema.column(name) for name in case.options.on]


def _has_labels(classes: Boxes) -> bool:
    """Return whether some released cell stands for several values."""
    return any((column.covers.leaves[column.labels] > 1).any() for column in classes.columns)


def _identifying_columns(case: Case, *originals: HeldTable) -> list[str]:
    """Return the column that identifies people in both originals; none if `on` names columns.

    It is the column of the privacy unit, or an identifier that is unique in both tables: two people
    with one name are not the same person.
    """
    if case.options.on:
        return []
    unit = case.schema.unit.column
    for name in dict.fromkeys([unit, *(c.name for c in case.schema.by_role(Role.IDENTIFIER))]):
        if name is None or not all(name in original.names for original in originals):
            continue
        if name == unit or all(
            original.counted([name]).counts.max(initial=0) < 2 for original in originals
        ):
            return [name]
    return []


@dataclass(frozen=True, eq=False)
class JoinSide:
    """One of two tables: its classes, and the people of its original with their leaves."""

    boxes: Boxes
    people: Frequencies
    points: list[IntArray]
    share: FloatArray
    """For each class the chance that a person who fits it is in it."""

    @classmethod
    def of(cls, classes: Boxes, people: Frequencies, points: list[IntArray]) -> JoinSide:
        """Match the people of an original, given by their leaves, with the classes of a release."""
        crowd = np.zeros(len(classes))
        for mine, theirs in fitting(points, classes):
            crowd += np.bincount(theirs, people.counts[mine], len(classes))
        # s released rows stand for some of G people who fit: each of them is in the class with
        # chance s / max(G, s).
        return cls(classes, people, points, classes.sizes / np.maximum(crowd, classes.sizes))

    def released(self, weight: FloatArray | None = None) -> FloatArray:
        """Return the chance of each person to be released, or the mean weight of their class."""
        chance, weighed = np.zeros(len(self.people)), np.zeros(len(self.people))
        for mine, theirs in fitting(self.points, self.boxes):
            chance += np.bincount(mine, self.share[theirs], len(chance))
            if weight is not None:
                weighed += np.bincount(mine, (self.share * weight)[theirs], len(chance))
        return (chance if weight is None else weighed) / self.in_one(chance)

    def in_one(self, chances: FloatArray) -> FloatArray:
        """Return the divisor of chances: a person who fits several classes is in only one.

        If no row was suppressed, everybody is in exactly one class.
        """
        if self.boxes.rows >= self.people.total:
            return np.where(chances > 0, chances, 1.0)
        return np.maximum(chances, 1.0)


def _join_finding(sides: Sequence[JoinSide], names: Sequence[str], named: list[str]) -> Finding:
    first, two = sides
    partners = np.zeros(len(first.boxes))
    for mine, theirs in meeting(first.boxes, two.boxes):
        partners += np.bincount(mine, two.boxes.sizes[theirs], len(partners))
    joined = float((first.boxes.sizes * partners).sum())
    pairs = Partners.of(first, two, partners, named)
    people, second_counts = (
        first.people.counts.astype(np.float64),
        two.people.counts.astype(np.float64),
    )
    weight = people[pairs.mine] * second_counts[pairs.theirs]
    size = len(first.people)
    true, every = float((pairs.met * weight).sum()), float(weight.sum())
    right = np.minimum(
        np.bincount(pairs.mine, pairs.picked * second_counts[pairs.theirs], size), 1.0
    )
    has = np.bincount(pairs.mine, minlength=size) > 0
    release_chance = two.released()
    guess = np.bincount(pairs.mine, (release_chance * second_counts)[pairs.theirs], size) / max(
        two.boxes.rows, 1
    )
    certain = right > 1 - 1e-9
    figures = _figures(joined, true, every) | _counts(first, two)
    partner_rule = f"the same {named[0]}" if named else f"the same {', '.join(names)}"
    return Finding(
        attack=NAME,
        attacker=f"has both tables, and joins rows whose {', '.join(names)} can be the same",
        meaning="People who meet their partner in a pick among the rows that theirs joins",
        success=Rate.share(float((right * people)[has].sum()), float(people[has].sum())),
        baseline=Rate.share(float((guess * people)[has].sum()), float(people[has].sum())),
        victims=round(float(people[certain].sum())),
        examples=examples(first.people, named or names, np.flatnonzero(certain)),
        remarks=_remarks(figures, partner_rule, sides),
        figures=figures,
        rows=sum(side.people.total + side.boxes.rows for side in sides),
        reference="Sweeney 2002; Nergiz et al. 2007",
    )


def _figures(joined: float, true: float, every: float) -> dict[str, Any]:
    # Expected numbers may exceed each other by rounding.
    true = min(true, joined)
    precision, recall = _share(true, joined), _share(true, every)
    return {
        "joined": round(joined),
        "true": true,
        "false": joined - true,
        "lost": every - true,
        "original": round(every),
        "precision": precision.value,
        "precision_interval": [precision.low, precision.high],
        "recall": recall.value,
        "recall_interval": [recall.low, recall.high],
    }


def _share(true: float, pairs: float) -> Rate:
    """Return a share of pairs with its interval; of very many pairs by the normal curve."""
    if pairs <= _MOST_EXACT:
        return Rate.share(true, pairs)
    value = true / pairs
    return Rate.estimate(value, (value * (1 - value) / pairs) ** 0.5, round(pairs))


def _counts(first: JoinSide, second: JoinSide) -> dict[str, Any]:
    """Count pairs with equal values in the originals, and bound the count over all worlds."""
    mine, theirs = _same_values(first, second)
    low, high, exact = count_bounds(first.boxes, second.boxes)
    count = int((first.people.counts[mine] * second.people.counts[theirs]).sum())
    return {"count": count, "count_bounds": [low, high], "count_bounds_exact": exact}


def _remarks(figures: dict[str, Any], partner_rule: str, sides: Sequence[JoinSide]) -> list[str]:
    low, high = figures["count_bounds"]
    width = "exactly" if figures["count_bounds_exact"] else "or less wide"
    pairs = (
        f"{figures['joined']:,} pairs of rows are joined: {figures['true']:,.1f} have "
        f"{partner_rule}, "
        f"{figures['false']:,.1f} do not ({percent(figures['precision'])} are true); "
        f"{figures['lost']:,.1f} of {figures['original']:,} such pairs of the originals are lost."
    )
    count = (
        f"COUNT(*) of pairs with equal values is {figures['count']:,} in the originals; in the "
        f"tables that both releases may stand for from {low:,} to {high:,}, {width}."
    )
    remarks = [pairs, count]
    left_out = sum(max(side.people.total - side.boxes.rows, 0) for side in sides)
    if left_out:
        remarks.append(
            f"{left_out:,} rows of the originals are not released, and not in the bounds."
        )
    return remarks


def _values(first: JoinSide, second: JoinSide) -> tuple[IntArray, IntArray]:
    """Number the values of people, alike in both tables; -1 for unknown values."""
    points = [np.concatenate(pair) for pair in zip(first.points, second.points, strict=True)]
    known = np.logical_and.reduce([leaves >= 0 for leaves in points])
    sizes = [len(column.taxonomy.leaves) for column in first.boxes.columns]
    key, _ = keys([np.maximum(leaves, 0) for leaves in points], sizes)
    key = np.where(known, key, -1)
    return key[: len(first.people)], key[len(first.people) :]


def _same_values(first: JoinSide, second: JoinSide) -> tuple[IntArray, IntArray]:
    """Return pairs of people with equal values in the join columns."""
    mine, theirs = _values(first, second)
    known = np.flatnonzero(mine >= 0)
    return by_key(known, mine[known], theirs)


@dataclass(frozen=True, eq=False)
class Partners:
    """Pairs of people in the join of the originals.

    `met` is the chance that both rows are released and joined. `picked` is the chance that a pick
    among the rows that the first row joins is its partner.
    """

    mine: IntArray
    theirs: IntArray
    met: FloatArray
    picked: FloatArray

    @classmethod
    def of(
        cls, first: JoinSide, second: JoinSide, partners: FloatArray, named: list[str]
    ) -> Partners:
        """Find partners by name, or else by values; rows with equal values are always joined."""
        alone = np.divide(1, partners, out=np.zeros(len(partners)), where=partners > 0)
        mine, theirs = _same_name(first, second, named) if named else _same_values(first, second)
        release_chance = second.released()[theirs]
        met = first.released()[mine] * release_chance
        picked = first.released(alone)[mine] * release_chance
        if named:
            values, second_values = _values(first, second)
            # Equal values lie in the same labels, so such rows always join. The same person with
            # two values (an old address) joins only where the classes of both overlap.
            differing = np.flatnonzero((values[mine] != second_values[theirs]) | (values[mine] < 0))
            met[differing], picked[differing] = _apart(
                first, second, mine[differing], theirs[differing], alone
            )
        return cls(mine, theirs, met, picked)


def _same_name(first: JoinSide, second: JoinSide, named: list[str]) -> tuple[IntArray, IntArray]:
    mine, theirs = same_keys(first.people, second.people, named)
    size = int(max(mine.max(initial=0), theirs.max(initial=0))) + 1
    pair_count = float(
        (np.bincount(mine, minlength=size) * np.bincount(theirs, minlength=size)).sum()
    )
    if pair_count > _MOST_PAIRS:
        raise cannot_run(
            NAME,
            f"{pair_count:,.0f} pairs of rows have the same {named[0]}; at most {_MOST_PAIRS:,} "
            "are "
            f"looked at. Take a sample, or name columns with {option('on', metavar='COLUMNS')}.",
        )
    return by_key(np.arange(len(mine)), mine, theirs)


def _apart(
    left: JoinSide, right: JoinSide, mine: IntArray, theirs: IntArray, alone: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return `met` and `picked` of pairs whose values differ: joined only if classes overlap."""
    first, second = _classes(left, mine), _classes(right, theirs)
    pair_counts = first.many[:, None] * second.many[:, None]
    owner = np.repeat(np.arange(len(mine)), pair_counts.ravel())
    step = ragged(np.zeros(len(mine), dtype=np.int64), pair_counts.ravel())
    width = np.maximum(second.many, 1)[owner]
    ours = first.classes[first.start[owner] + step // width]
    their_classes = second.classes[second.start[owner] + step % width]
    meets = np.ones(len(ours), dtype=bool)
    for column, their_column in zip(left.boxes.columns, right.boxes.columns, strict=True):
        meets &= overlapping(
            column, column.labels[ours], their_column, their_column.labels[their_classes]
        )
    # Rows are released independently, so the chances of both sides multiply.
    chance = meets * left.share[ours] * right.share[their_classes]
    total = left.in_one(first.total) * right.in_one(second.total)
    met = np.bincount(owner, chance, len(mine)) / total
    return met, np.bincount(owner, chance * alone[ours], len(mine)) / total


@dataclass(frozen=True, eq=False)
class _Classes:
    """The classes that people fit, person by person."""

    classes: IntArray
    start: IntArray
    many: IntArray
    total: FloatArray
    """The sum of the chances to be in each of them."""


def _classes(side: JoinSide, people: IntArray) -> _Classes:
    points = [leaves[people] for leaves in side.points]
    portions = list(fitting(points, side.boxes))
    empty = np.zeros(0, dtype=np.int64)
    mine = np.concatenate([empty, *(matched for matched, _ in portions)])
    theirs = np.concatenate([empty, *(held for _, held in portions)])
    order = np.argsort(mine, kind="stable")
    class_counts = np.bincount(mine, minlength=len(people))
    total = np.zeros(len(people)) + np.bincount(mine, side.share[theirs], len(people))
    return _Classes(theirs[order], np.cumsum(class_counts) - class_counts, class_counts, total)


def count_bounds(ours_boxes: Boxes, theirs_boxes: Boxes) -> tuple[int, int, bool]:
    """Return bounds of COUNT(*) over all worlds, and whether some world reaches both ends."""
    sides = ((ours_boxes, theirs_boxes), (theirs_boxes, ours_boxes))
    low = max(_certain(mine, theirs) for mine, theirs in sides)
    for mine, theirs in sides:
        if _single(theirs).all():
            return low, _largest(mine, theirs), True
    pairs = list(meeting(ours_boxes, theirs_boxes))
    ours = np.concatenate([first for first, _ in pairs] or [np.zeros(0, dtype=np.int64)])
    theirs_met = np.concatenate([second for _, second in pairs] or [np.zeros(0, dtype=np.int64)])
    high = min(
        _at_most(ours_boxes, theirs_boxes, ours, theirs_met),
        _at_most(theirs_boxes, ours_boxes, theirs_met, ours),
    )
    # If every class meets at most one class, choices do not depend on each other.
    exact = len(np.unique(ours)) == len(np.unique(theirs_met)) == len(ours)
    return low, high, exact


def _single(boxes: Boxes) -> BoolArray:
    """Return which classes cover one value in every column."""
    single: BoolArray = _volume(boxes) == 1
    return single


def _volume(boxes: Boxes) -> FloatArray:
    """Count the combinations of values that each class covers."""
    volume = np.ones(len(boxes))
    for column in boxes.columns:
        volume *= column.covers.leaves[column.labels]
    return volume


def _points(boxes: Boxes) -> tuple[list[IntArray], IntArray]:
    """Return the values of classes that cover one combination, and the rows of each."""
    single = _single(boxes)
    points = [np.where(single, column.covers.low[column.labels], -1) for column in boxes.columns]
    return points, np.where(single, boxes.sizes, 0)


def _certain(mine: Boxes, theirs: Boxes) -> int:
    """Bound the count from below.

    Each row meets at least the smallest number of certain rows over the values that it may have.
    """
    points, sizes = _points(theirs)
    seen = np.zeros(len(mine))
    fewest = np.full(len(mine), np.iinfo(np.int64).max)
    for point, classes in fitting(points, mine):
        seen += np.bincount(classes, minlength=len(mine))
        np.minimum.at(fewest, classes, sizes[point])
    # Only if every value that a row may have holds certain rows, the minimum is above 0.
    everywhere = seen == _volume(mine)
    return int((mine.sizes[everywhere] * fewest[everywhere]).sum())


def _largest(mine: Boxes, theirs: Boxes) -> int:
    """Return the largest count when the other table is exact: each row chooses the most rows."""
    points, sizes = _points(theirs)
    most = np.zeros(len(mine), dtype=np.int64)
    for point, classes in fitting(points, mine):
        np.maximum.at(most, classes, sizes[point])
    return int((mine.sizes * most).sum())


def _at_most(mine: Boxes, theirs: Boxes, ours: IntArray, their_classes: IntArray) -> int:
    """Bound the count from above: a row meets at most all rows that may have its value.

    If no two classes of the other table overlap, these are the rows of its largest class.
    """
    most = np.zeros(len(mine), dtype=np.int64)
    if sum(len(first) for first, _ in meeting(theirs, theirs)) == len(theirs):
        np.maximum.at(most, ours, theirs.sizes[their_classes])
    else:
        np.add.at(most, ours, theirs.sizes[their_classes])
    return int((mine.sizes * most).sum())
