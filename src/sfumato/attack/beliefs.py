"""The shared part of attacks on classes: who is hit, and how many chance alone would hit.

An attack of this family says for each class and value whether the people with that value are hit.
The baseline deals the same values out to the same classes at random, a few times, as if values had
nothing to do with classes. The dealing is deterministic, so a release gives the same finding twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attack.case import needed_quasi, needed_sensitive
from sfumato.attack.classes import ClassValues, class_values
from sfumato.attack.finding import MOST_EXAMPLES, Finding, Rate, of_columns, percent, plain
from sfumato.attack.person_counts import counted_people, person_in
from sfumato.attack.sampling import below, shuffled
from sfumato.data.counting.grouping import group

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.attack.case import Case
    from sfumato.data.schema.column import Column

    Hit = Callable[[ClassValues], BoolArray]
    """Which cells of classes and values hold people who are hit."""

# Twenty dealings keep the baseline cheap and give its spread within about a sixth.
_DEALS = 20
# Rows that stand for a class with more rows when chance is estimated.
_LARGE = 500
_STUDENT_FACTOR = 2.145 / 1.96
"""With 20 dealings the spread is itself uncertain: Student's quantile instead of the normal one."""


def dealt(values: ClassValues, number: int) -> ClassValues:
    """Deal the same values out to the same classes at random."""
    owners = np.repeat(values.owners, values.counts)
    # Every row keeps its class and gets the value of another row: sizes and totals stay the same.
    drawn = np.repeat(values.values, values.counts)[shuffled(values.rows, number)]
    return _unite_values(owners, drawn, values)


def _unite_values(owners: IntArray, drawn: IntArray, values: ClassValues) -> ClassValues:
    sizes = [int(owners.max(initial=0)) + 1, len(values.names)]
    grouped = group([owners, drawn], sizes, np.ones(len(owners), dtype=np.int64))
    representatives, people = grouped.representatives, values.people
    if people is not None:
        # Rows are sorted by class and value, as the cells are.
        people = people[np.lexsort((drawn, owners))]
    return ClassValues(
        owners[representatives], drawn[representatives], grouped.counts, values.names, people=people
    )


def by_chance(values: ClassValues, hit: Hit, most: int | None = None) -> Rate:
    """Return the share of people who would be hit if values had nothing to do with classes.

    The interval covers the differences between dealings. If more than `most` people are in the
    release, each dealing fills a sample of the classes.
    """
    people = values.hit(np.ones(len(values.counts), dtype=bool))
    if most is None or values.rows <= most or values.people is not None:
        dealings = (dealt(values, number) for number in range(_DEALS))
        hits = [float(dealing.hit(hit(dealing))) for dealing in dealings]
    else:
        hits = [_hit_in_some(values, hit, number, most) for number in range(_DEALS)]
    # A whole class is hit or missed, so the binomial interval alone would be too narrow.
    spread = _STUDENT_FACTOR * float(np.std(hits, ddof=1)) / max(people, 1)
    return Rate.share(float(np.mean(hits)), people).widened(spread)


def _hit_in_some(values: ClassValues, hit: Hit, number: int, most: int) -> float:
    """Estimate how many people chance would hit, from a sample of classes with `most` rows.

    Values are drawn with replacement, as often as people have them.
    """
    sizes = values.sizes
    tried_classes = below(len(sizes), most, number)
    # _LARGE rows represent a larger class. A class gets harder to hit by chance as it grows, so the
    # estimate of the baseline can only be too high.
    tried = np.minimum(sizes[tried_classes], _LARGE)
    tried_classes = tried_classes[np.cumsum(tried) <= most]
    tried = tried[: len(tried_classes)]
    owners = np.repeat(np.arange(len(tried_classes)), tried)
    drawn_rows = below(values.rows, len(owners), _DEALS + number)
    drawn = values.values[np.searchsorted(np.cumsum(values.counts), drawn_rows, side="right")]
    dealt_values = _unite_values(owners, drawn, values)
    cells = hit(dealt_values)
    shares = (
        np.bincount(dealt_values.owners[cells], dealt_values.counts[cells], len(tried_classes))
        / tried
    )
    # The mean over sampled classes, times the number of classes: an estimate of the total.
    return float((shares * sizes[tried_classes]).mean()) * len(sizes)


def believed(
    case: Case,
    attack: str,
    hit: Callable[[Column, ClassValues], Hit],
    *,
    attacker: str,
    meaning: str,
    reference: str,
    columns: list[Column] | None = None,
) -> Finding:
    """Run an attack of the family on every sensitive column, and report the worst one.

    `hit` returns for a column and its values the rule that finds people who are hit. The same rule
    is applied to the random dealings.
    """
    # The classes of an anatomy are its groups, which have neither quasi-identifiers nor people.
    quasi = [] if case.release.buckets is not None else needed_quasi(case, attack)
    held = case.release.table
    person = [] if case.release.buckets is not None else person_in(case, held)
    by_column: dict[str, Finding] = {}
    for column in needed_sensitive(case, attack) if columns is None else columns:
        values = class_values(case.release, quasi, column, person)
        rule = hit(column, values)
        cells = rule(values)
        baseline = by_chance(values, rule, case.options.dealt)
        success = Rate.share(values.hit(cells), baseline.tried)
        by_column[column.name] = Finding(
            attack=attack,
            attacker=attacker,
            meaning=meaning,
            reference=reference,
            success=success,
            baseline=baseline,
            victims=round(success.value * success.tried),
            examples=examples(values, column, np.flatnonzero(cells)),
            remarks=[
                f"{column.name}: {percent(success.value)}, by chance {percent(baseline.value)}."
            ],
            rows=success.tried,
        )
    worst = of_columns(by_column)
    other_remarks = [
        remark
        for finding in by_column.values()
        for remark in finding.remarks
        if finding.remarks is not worst.remarks
    ]
    return replace(
        worst,
        remarks=[
            *(other_remarks and [f"The worst column is {worst.remarks[0]}", *other_remarks]),
            *counted_people(person, "a person is hit if any of their rows is"),
        ],
    )


def examples(values: ClassValues, column: Column, cells: IntArray) -> list[dict[str, Any]]:
    """Return the labels of the largest classes in which people are hit, for the owner."""
    # The largest classes harm most people.
    largest = cells[np.argsort(-values.counts[cells], kind="stable")][:MOST_EXAMPLES]
    labels = values.labels(largest)
    return [
        {
            **{name: plain(label) for name, label in labels[number].items()},
            column.name: plain(values.names[values.values[cell]]),
            "rows": rows,
        }
        for number, (cell, rows) in enumerate(
            zip(largest.tolist(), values.counts[largest].tolist(), strict=True)
        )
    ]
