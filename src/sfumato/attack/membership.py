"""Membership: who was in the data that a table was made from.

*Attacker*: has the release and people of the same kind who are not in the data, knows all columns
of the victim, and scores the victim in three ways: by how much nearer the nearest released row is
than the nearest of the other people; by how much commoner the victim's pairs of values are in the
release than among them, as the sum of logarithms over pairs of columns, which is what methods that
measure marginals give away; and by the same of single values, which is Homer's test.
*Success*: half of those tried are people of the original, half are others (`control`); who scores
above the middle is taken for one of the original. Which score is used is decided on half of the
people, and told of the other half.
Where the schema says whose rows are, one row of each person is tried.
*Baseline*: the toss of a coin.
*Reference*: Homer et al. 2008 for single values; Golob, Pentyala, Maratkhan and De Cock, Privacy
vulnerabilities in marginals-based synthetic data, 2024, for pairs; Chen, Yu, Zhang and Fritz,
GAN-leaks, 2020, for distances calibrated by others.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed
from sfumato.attack.draws import shuffled
from sfumato.attack.finding import Finding, Rate, percent
from sfumato.attack.persons import counted_people, one_row_each, person_in
from sfumato.attack.records import CodedRows, Crowd, records
from sfumato.schema.column import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.attack.case import Case
    from sfumato.attack.records import Trait

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

NAME = "membership"
_BINS = 20
_MOST_PAIRS = 300
_LEAST = 8


def run(case: Case) -> Finding:
    """Score people of the original and others, and tell them apart."""
    original = needed(case.original, NAME, "the original, to tell who is right", "original")
    control = needed(case.control, NAME, "people like these who are not in the data", "control")
    tables = [case.release.table, original, control]
    columns = [
        one
        for one in case.schema.columns
        if one.role is not Role.IDENTIFIER
        and one.name != case.schema.unit.column
        and all(one.name in table.names for table in tables)
    ]
    if not columns:
        raise cannot_run(NAME, "the tables have no column in common. Name columns alike.")
    names, person = [one.name for one in columns], person_in(case, original, control)
    tables[1:] = [one_row_each(one, names, person) for one in tables[1:]]
    traits, (released, real, others) = records(NAME, columns, tables)
    strangers = np.repeat(np.arange(len(others)), others.counts)
    strangers = strangers[shuffled(len(strangers), 1)]
    each = min(len(strangers) // 2, real.rows, case.options.guesses)
    each -= each % 2
    if each < _LEAST:
        raise cannot_run(NAME, f"it needs at least {2 * _LEAST} people not in the data.")
    reference = CodedRows(
        others.codes[:, strangers[each:]], np.ones(len(strangers) - each, dtype=np.int64)
    )
    members = real.codes[:, real.drawn(each, 2)[shuffled(each, 3)]]
    people = np.concatenate([members, others.codes[:, strangers[:each]]], axis=1)
    scores = _scores(traits, released, reference, people)
    half = np.arange(2 * each) % 2 == 0
    truth = np.arange(2 * each) < each
    tuned = {name: _right(one[half], truth[half]) for name, one in scores.items()}
    best = max(tuned, key=lambda name: tuned[name])
    told = ", ".join(f"{name} {percent(_right(o, truth) / len(o))}" for name, o in scores.items())
    top = np.argsort(-scores[best][~half], kind="stable")[: max(each // 50, 1)]
    highest = (
        f"Of the {len(top):,} who score highest, {percent(float(truth[~half][top].mean()))} are in "
        "the data."
    )
    return Finding(
        attack=NAME,
        attacker="has the release and people like these, and knows all columns of people",
        meaning="People of whom it is told whether they are in the data",
        success=Rate.share(_right(scores[best][~half], truth[~half]), each),
        baseline=Rate.share(each / 2, each),
        remarks=[
            f"Told apart by {best}. All scores: {told}.",
            highest,
            *counted_people(person, "one row of each is tried"),
        ],
        rows=released.rows + real.rows + others.rows,
        reference="Homer et al. 2008; Golob et al. 2024; Chen et al. 2020",
    )


def _right(scores: Reals, truth: NDArray[np.bool_]) -> float:
    """How many are told apart by the middle score; those who have it are guessed."""
    middle = np.median(scores)
    right = (scores > middle) == truth
    return float(np.where(scores == middle, 0.5, right).sum())


def _scores(
    traits: Sequence[Trait], released: CodedRows, reference: CodedRows, people: Ints
) -> dict[str, Reals]:
    """Every score of everybody; higher is likelier in the data."""
    apart = [
        Crowd.of(traits, range(len(traits)), one).nearest(people).least
        for one in (reference, released)
    ]
    bins = [_bins(trait, released, place) for place, trait in enumerate(traits)]
    sizes = [int(one.max(initial=0)) + 1 for one in bins]
    tables = [
        [own[codes] for own, codes in zip(bins, rows.codes, strict=True)]
        for rows in (released, reference)
    ]
    asked = [own[codes] for own, codes in zip(bins, people, strict=True)]
    counts = released.counts, reference.counts
    alone, together = np.zeros(people.shape[1]), np.zeros(people.shape[1])
    for place, size in enumerate(sizes):
        one, other = (
            np.bincount(rows[place], many, size) / many.sum()
            for rows, many in zip(tables, counts, strict=True)
        )
        alone += (one - other)[asked[place]]
    for a, b in list(combinations(range(len(traits)), 2))[:_MOST_PAIRS]:
        cells = [rows[a] * sizes[b] + rows[b] for rows in (*tables, asked)]
        one, other = (
            np.bincount(cell, many, sizes[a] * sizes[b])
            for cell, many in zip(cells, counts, strict=False)
        )
        scale = counts[0].sum() / counts[1].sum()
        together += np.log((one + 0.5) / (other * scale + 0.5))[cells[2]]
    return {"distance": apart[0] - apart[1], "pairs": together, "single values": alone}


def _bins(trait: Trait, released: CodedRows, place: int) -> Ints:
    """Codes as they are, or of many numbers in as many bins of equal rows."""
    if trait.numbers is None or trait.size <= _BINS:
        return np.arange(trait.size)
    rows = np.cumsum(np.bincount(released.codes[place], released.counts, trait.size))
    bins: Ints = np.minimum((rows * _BINS) // (rows[-1] + 1), _BINS - 1).astype(np.int64)
    return bins
