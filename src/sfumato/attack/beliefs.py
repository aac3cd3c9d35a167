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
from sfumato.attack.people import counted_people, person_in
from sfumato.attack.sampling import below, shuffled
from sfumato.data.counting.grouping import group

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.attack.case import Case
    from sfumato.data.schema.column import Column

    Hit = Callable[[ClassValues], BoolArray]
    """Which cells of classes and values hold people who are hit."""

_DEALS = 20
_LARGE = 500
_STUDENT_FACTOR = 2.145 / 1.96
"""Twenty dealings tell their spread roughly: Student's quantile, and the error of their mean."""


def dealt(values: ClassValues, number: int) -> ClassValues:
    """The same values dealt out to the same classes at random."""
    owners = np.repeat(values.owners, values.counts)
    drawn = np.repeat(values.values, values.counts)[shuffled(values.rows, number)]
    return _united(owners, drawn, values)


def _united(owners: IntArray, drawn: IntArray, values: ClassValues) -> ClassValues:
    sizes = [int(owners.max(initial=0)) + 1, len(values.names)]
    grouped = group([owners, drawn], sizes, np.ones(len(owners), dtype=np.int64))
    representatives, people = grouped.representatives, values.people
    if people is not None:
        people = people[np.lexsort((drawn, owners))]
    return ClassValues(
        owners[representatives], drawn[representatives], grouped.counts, values.names, people=people
    )


def by_chance(values: ClassValues, hit: Hit, most: int | None = None) -> Rate:
    """How many people would be hit if values had nothing to do with classes.

    A class is hit as a whole, so that its people are no independent trials: the interval is as wide
    as the dealings differ. Of more than the `most` people, each dealing is to some classes.
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
    """How many would be hit, as classes at random tell, to which so many values are dealt.

    Values are drawn from all that there are, as often as people have them. Of a large class some
    rows stand for all: what is as rare in these is rarer still in more.
    """
    sizes = values.sizes
    tried_classes = below(len(sizes), most, number)
    # 500 rows of a large class represent it: a value as rare in these is rarer still in more rows.
    tried = np.minimum(sizes[tried_classes], _LARGE)
    tried_classes = tried_classes[np.cumsum(tried) <= most]
    tried = tried[: len(tried_classes)]
    owners = np.repeat(np.arange(len(tried_classes)), tried)
    drawn_rows = below(values.rows, len(owners), _DEALS + number)
    drawn = values.values[np.searchsorted(np.cumsum(values.counts), drawn_rows, side="right")]
    dealt_values = _united(owners, drawn, values)
    cells = hit(dealt_values)
    shares = (
        np.bincount(dealt_values.owners[cells], dealt_values.counts[cells], len(tried_classes))
        / tried
    )
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
    """Run an attack of the family on every sensitive column, and tell of the worst.

    `hit` says for a column and its values how people are hit; it is asked of dealings too.
    """
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
            *counted_people(person, "one is hit if any row of theirs is"),
        ],
    )


def examples(values: ClassValues, column: Column, cells: IntArray) -> list[dict[str, Any]]:
    """Some classes that hit people, by their labels, for the owner."""
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
