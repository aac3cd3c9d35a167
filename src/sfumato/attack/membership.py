"""Membership: find out which people were in the data that a table was made from.

*Attacker*: has the release and people of the same kind who are not in the data, knows all columns
of the victim, and computes three scores: how much nearer the nearest released row is than the
nearest other person; how much commoner the victim's pairs of values are in the release than among
the others (the sum of logarithms over pairs of columns, which methods that measure marginals
reveal); and the same for single values, which is Homer's test. Published counts have no rows and
one score, that of `published_counts`.
*Success*: half of those tried are people of the original, half are others (`control`); the half
with the highest scores is taken for people of the original. The best score is chosen on half of the
people and reported for the other half; a single score is reported for all.
Where the schema says whose rows are, one row of each person is tried.
*Baseline*: the toss of a coin.
*Bound*: as in `games`, by the epsilon and delta that the release promises.
*Reference*: Homer et al. 2008 for single values; Golob, Pentyala, Maratkhan and De Cock, Privacy
vulnerabilities in marginals-based synthetic data, 2024, for pairs; Chen, Yu, Zhang and Fritz,
GAN-leaks, 2020, for distances calibrated by others.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed
from sfumato.attack.finding import Finding, Rate, percent
from sfumato.attack.games import bound
from sfumato.attack.person_counts import counted_people, one_row_each, person_in
from sfumato.attack.published_counts import likelihoods
from sfumato.attack.records import CodedRows, Crowd, people_records, records
from sfumato.attack.sampling import shuffled
from sfumato.data.schema.column import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import Case, HeldTable
    from sfumato.attack.published_counts import PublishedTable
    from sfumato.attack.records import Trait
    from sfumato.data.schema.column import Column


NAME = "membership"
# Numbers are compared in bins of equal rows: with more bins most cells of a pair would be empty.
_BINS = 20
_MOST_PAIRS = 300
# The fewest people on each side: half of them choose the score and half test it.
_LEAST = 8


def run(case: Case) -> Finding:
    """Score people of the original and others, and take the higher half for members."""
    original = needed(case.original, NAME, "the original, to score the guesses", "original")
    control = needed(case.control, NAME, "people like these who are not in the data", "control")
    columns = _columns(case, original, control)
    names, person = [column.name for column in columns], person_in(case, original, control)
    people = [one_row_each(table, names, person) for table in (original, control)]
    if case.release.rows_are == "counts":
        traits, coded = people_records(NAME, columns, people)
        real, strangers = coded
        drawn = _drawn(real, strangers, case.options.guesses)
        scores = {"published counts": _by_counts(case.release.published, traits, drawn)}
    else:
        traits, coded = records(NAME, columns, [case.release.table, *people])
        released, real, strangers = coded
        drawn = _drawn(real, strangers, case.options.guesses)
        scores = _scores(traits, released, drawn.reference, drawn.people)
    truth = np.arange(len(drawn)) < len(drawn) // 2
    best, asked = _chosen(scores, truth)
    score, right = scores[best][asked], truth[asked]
    tried, top = len(score), np.argsort(-score, kind="stable")[: max(len(drawn) // 100, 1)]
    score_shares = ", ".join(
        f"{name} {percent(_right(o, truth) / len(o))}" for name, o in scores.items()
    )
    top_share = percent(float(right[top].mean()))
    promised = case.release.promised
    most = None if promised is None else bound(*promised)
    return Finding(
        attack=NAME,
        attacker="has the release and people like these, and knows all columns of people",
        meaning="People whose presence in the data is guessed right",
        success=Rate.share(_right(score, right), tried),
        baseline=Rate.share(tried / 2, tried),
        bound=most,
        remarks=[
            f"Told apart by {best}." + f" All scores: {score_shares}." * (len(scores) > 1),
            f"Of the {len(top):,} who score highest, {top_share} are in the data.",
            *_allowed_remark(promised, most),
            *counted_people(person, "one row of each is tried"),
        ],
        rows=sum(table.rows for table in coded),
        reference="Homer et al. 2008; Golob et al. 2024; Chen et al. 2020",
    )


def _columns(case: Case, original: HeldTable, control: HeldTable) -> list[Column]:
    """Return the columns by which people are scored: in all tables, and in the release."""
    counts, tables = case.release.rows_are == "counts", [original, control]
    if counts and not case.release.published:
        raise cannot_run(
            NAME,
            "no table of the release counts people by single values of columns; ranges and "
            "sketches are not read.",
        )
    published = {column.name for table in case.release.published for column in table.columns}
    known = published if counts else case.release.table.names
    columns = [
        column
        for column in case.schema.columns
        if column.role is not Role.IDENTIFIER
        and column.name != case.schema.unit.column
        and column.name in known
        and all(column.name in table.names for table in tables)
    ]
    if not columns:
        raise cannot_run(NAME, "the tables have no column in common. Name columns alike.")
    return columns


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The people who are tried, members first, then as many others; and the reference people."""

    people: IntArray
    reference: CodedRows

    def __len__(self) -> int:
        return len(self.people[0])


def _drawn(real: CodedRows, control: CodedRows, most: int) -> _Drawn:
    strangers = np.repeat(np.arange(len(control)), control.counts)
    # People outside the data are split: some are tried, the others are the attacker's reference.
    strangers = strangers[shuffled(len(strangers), 1)]
    per_side = min(len(strangers) // 2, real.rows, most)
    # An even number on each side, because half of the people choose the score and the others test
    # it.
    per_side -= per_side % 2
    if per_side < _LEAST:
        raise cannot_run(NAME, f"it needs at least {2 * _LEAST} people not in the data.")
    reference = CodedRows(
        control.codes[:, strangers[per_side:]], np.ones(len(strangers) - per_side, dtype=np.int64)
    )
    members = real.codes[:, real.drawn(per_side, 2)[shuffled(per_side, 3)]]
    people = np.concatenate([members, control.codes[:, strangers[:per_side]]], axis=1)
    return _Drawn(people, reference)


def _by_counts(
    tables: Sequence[PublishedTable], traits: Sequence[Trait], drawn: _Drawn
) -> FloatArray:
    """Return the score of each person from tables whose columns the attacker knows."""
    axis_of = {trait.name: number for number, trait in enumerate(traits)}
    by_name = {trait.name: trait for trait in traits}
    reference, people = (
        {name: codes[axis] for name, axis in axis_of.items()}
        for codes in (drawn.reference.codes, drawn.people)
    )
    known = [
        table for table in tables if {column.name for column in table.columns} <= axis_of.keys()
    ]
    if not known:
        raise cannot_run(
            NAME,
            "no published table has only columns that the original and the control have, none of "
            "them an identifier.",
        )
    return likelihoods(NAME, known, by_name, reference, people)


def _chosen(scores: Mapping[str, FloatArray], truth: BoolArray) -> tuple[str, BoolArray]:
    """Return the score that is best on half of the people, and the other half for the test.

    A single score is tested on everybody.
    """
    if len(scores) == 1:
        return next(iter(scores)), np.ones(len(truth), dtype=bool)
    # Choosing and testing a score on the same people would report the luck of the best of three.
    asked = np.arange(len(truth)) % 2 == 1
    tuned = {name: _right(score[~asked], truth[~asked]) for name, score in scores.items()}
    return max(tuned, key=lambda name: tuned[name]), asked


def _allowed_remark(promised: tuple[float, float] | None, most: float | None) -> list[str]:
    """Return the remark about the largest success that the guarantee of a release allows."""
    if promised is None or most is None:
        return []
    return [f"With epsilon {promised[0]:.3g} nobody can be right more often than {percent(most)}."]


def _right(scores: FloatArray, truth: BoolArray) -> float:
    """Return how many are right if the half with the highest scores is taken for members."""
    middle = np.median(scores)
    # Ties at the median share the remaining places, so that exactly half is taken.
    above, is_tied = scores > middle, scores == middle
    tie_share = (len(scores) / 2 - above.sum()) / max(is_tied.sum(), 1)
    chance = np.where(is_tied, tie_share, above)
    return float(np.where(truth, chance, 1 - chance).sum())


def _scores(
    traits: Sequence[Trait], released: CodedRows, reference: CodedRows, people: IntArray
) -> dict[str, FloatArray]:
    """Return every score of each person; a higher score means more likely in the data."""
    apart = [
        Crowd.of(traits, range(len(traits)), score_rows).nearest(people).least
        for score_rows in (reference, released)
    ]
    bins = [_bins(trait, released, number) for number, trait in enumerate(traits)]
    sizes = [int(binning.max(initial=0)) + 1 for binning in bins]
    tables = [
        [own[codes] for own, codes in zip(bins, rows.codes, strict=True)]
        for rows in (released, reference)
    ]
    asked = [own[codes] for own, codes in zip(bins, people, strict=True)]
    counts = released.counts, reference.counts
    alone, together = np.zeros(people.shape[1]), np.zeros(people.shape[1])
    for index, size in enumerate(sizes):
        score_rows, reference_counts = (
            np.bincount(rows[index], row_counts, size) / row_counts.sum()
            for rows, row_counts in zip(tables, counts, strict=True)
        )
        # Homer et al. 2008: the difference of shares, summed over single values.
        alone += (score_rows - reference_counts)[asked[index]]
    # Golob et al. 2024: the log ratio of the shares of each pair of values in the release and
    # outside.
    for a, b in list(combinations(range(len(traits)), 2))[:_MOST_PAIRS]:
        cells = [rows[a] * sizes[b] + rows[b] for rows in (*tables, asked)]
        score_rows, reference_counts = (
            np.bincount(cell, row_counts, sizes[a] * sizes[b])
            for cell, row_counts in zip(cells, counts, strict=False)
        )
        scale = counts[0].sum() / counts[1].sum()
        # Half a count is added to both sides, so that empty cells have a finite logarithm.
        together += np.log((score_rows + 0.5) / (reference_counts * scale + 0.5))[cells[2]]
    return {"distance": apart[0] - apart[1], "pairs": together, "single values": alone}


def _bins(trait: Trait, released: CodedRows, axis: int) -> IntArray:
    """Return the bin of each code: the code itself, or one of _BINS bins with equal rows."""
    if trait.numbers is None or trait.size <= _BINS:
        return np.arange(trait.size)
    rows = np.cumsum(np.bincount(released.codes[axis], released.counts, trait.size))
    bins: IntArray = np.minimum((rows * _BINS) // (rows[-1] + 1), _BINS - 1).astype(np.int64)
    return bins
