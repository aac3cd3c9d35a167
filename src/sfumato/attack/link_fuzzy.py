"""Fuzzy linking: a list with typing errors, missing cells and old addresses still finds people.

*Attacker*: has a named list in which cells may be wrong or missing. A missing cell is not compared.
People who fit no released row in all other columns are compared with rows that fit in all but one.
Weights are those of Fellegi and Sunter: a column agrees by chance with the share u of released
rows, which is counted, and for the right row with the share m, which is estimated by expectation
maximization over the compared pairs. The attacker picks among the rows of largest weight: the sum
of log m/u over columns that agree, plus log (1 - m)/(1 - u) of the one that does not.
*Success*: the expected share of people of the list who are in the original and whose row is picked.
The column that names people in both tables says who is right. People who share a name are left out.
*Baseline*: a pick among all released rows. A remark gives the success of `link` on the same list.
*Victims*: people with one candidate row, which is theirs.
*Reference*: Fellegi and Sunter, A theory for record linkage, 1969; Winkler 1988 for the estimation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from sfumato.attack.case import cannot_run, needed, needed_quasi
from sfumato.attack.classes import Boxes, boxes
from sfumato.attack.finding import Finding, Rate, percent
from sfumato.attack.matching import covered, crowds, examples, fitting, naming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import Case
    from sfumato.data.counting.frequencies import Frequencies


NAME = "link-fuzzy"
# Rounds of expectation maximization, without a test of convergence.
_ROUNDS = 50
_MOST_PAIRS = 20_000_000
"""Pairs of people and classes compared at most, for each column that may be wrong."""


def run(case: Case) -> Finding:
    """Look up people whose cells may be wrong or missing."""
    known = needed(case.known, NAME, "a list of people", "known")
    original = needed(case.original, NAME, "the original, to score the guesses", "original")
    if case.is_synthetic:
        raise cannot_run(NAME, "the rows of the table are synthetic; run link instead.")
    person = naming(case, known)
    if not person:
        raise cannot_run(
            NAME,
            "the list and the original have no column in common that names people, so nobody can "
            'tell who is right. Declare one role = "identifier" in the schema.',
        )
    quasi = needed_quasi(case, NAME, known, original)
    names = [column.name for column in quasi]
    people, real = known.counted([*names, *person]), original.counted([*names, *person])
    released = boxes(case.release, quasi, [people, real])
    truth = _truth(released, people, real, person[0])
    present = truth[0] >= 0
    share = _shares(released, real)
    compared = Compared.of(released, people)
    exact, _ = compared.score(compared.fits, truth, share, people)
    right, alone = compared.score(compared.best(), truth, share, people)
    tried = int(people.counts[present].sum())
    strict = float((exact * people.counts)[present].sum()) / max(tried, 1)
    remarks = compared.describe(names)
    return Finding(
        attack=NAME,
        attacker=f"has a list of people with {', '.join(names)}, in which cells may be wrong",
        meaning="People whose released row is found",
        success=Rate.share(float((right * people.counts)[present].sum()), tried),
        baseline=Rate.share(tried / max(released.rows, 1), tried),
        victims=round(float((right * people.counts)[present & alone].sum())),
        examples=examples(people, person, np.flatnonzero(present & alone & (right > 0))),
        remarks=[f"Without allowing for errors the success is {percent(strict)}.", *remarks],
        rows=people.total + released.rows,
        reference="Fellegi and Sunter 1969",
    )


def _truth(released: Boxes, people: Frequencies, real: Frequencies, person: str) -> list[IntArray]:
    """Return the true leaves of each person of the list, by name; -1 for people not in the data.

    People who share a name, in the original or on the list, have -1 too.
    """
    mine, theirs = people.axis(person), real.axis(person)
    codes = real.codes[real.columns.index(person)]
    row_of = np.full(theirs.size, -1, dtype=np.int64)
    row_of[codes] = np.arange(len(real))
    # Nobody can tell which of several namesakes is meant.
    row_of[np.bincount(codes, real.counts, theirs.size) > 1] = -1
    match = pc.index_in(
        mine.decode(np.arange(mine.size)), value_set=theirs.decode(np.arange(theirs.size))
    )
    matches = match.fill_null(-1).to_numpy(zero_copy_only=False)
    listed = people.codes[people.columns.index(person)]
    shared = np.bincount(listed, people.counts, mine.size) > 1
    rows = np.where((matches >= 0) & ~shared, row_of[matches], -1)[listed]
    return [np.where(rows >= 0, leaves[rows], -1) for leaves in released.locate(real)]


def _shares(released: Boxes, real: Frequencies) -> FloatArray:
    """Return for each class the chance that a person who fits it is in it."""
    share: FloatArray = released.sizes / np.maximum(crowds(released, real), released.sizes)
    return share


@dataclass(frozen=True, eq=False)
class PairsCompared:
    """Pairs of a person and a class, and the column that disagrees; -1 if all agree."""

    people: IntArray
    classes: IntArray
    wrong: IntArray


@dataclass(frozen=True, eq=False)
class Compared:
    """Pairs that agree in all columns; for people without any, those that agree in all but one."""

    boxes: Boxes
    fits: PairsCompared
    nearly: PairsCompared
    chance: FloatArray
    right: FloatArray
    unseen: tuple[str, ...]
    """Columns in which errors were not searched, because too many pairs would fit."""

    @classmethod
    def of(cls, released: Boxes, people: Frequencies) -> Compared:
        """Compare a list with the classes of a release."""
        points = released.locate(people)
        missing = np.stack([_missing(people, column.column.name) for column in released.columns])
        everyone = np.arange(len(people))
        fits = _pairs(released, points, missing, everyone, -1)
        if fits is None:
            raise cannot_run(
                NAME,
                f"more than {_MOST_PAIRS:,} pairs of people and classes fit each other. Take a "
                "sample of the list.",
            )
        unmatched = np.setdiff1d(everyone, fits.people)
        columns = range(len(released.columns)) if len(released.columns) > 1 else ()
        nearly = [
            _pairs(released, points, missing, unmatched[~missing[wrong][unmatched]], wrong)
            for wrong in columns
        ]
        chance = np.array(
            [
                _agreeing(released, number, points[number][~missing[number]])
                for number in range(len(released.columns))
            ]
        )
        unseen = tuple(
            released.columns[number].column.name
            for number, pairs in enumerate(nearly)
            if pairs is None
        )
        near_pairs = _join_pairs([pairs for pairs in nearly if pairs is not None])
        right = _right_shares(released, fits, near_pairs, chance, people)
        return cls(released, fits, near_pairs, chance, right, unseen)

    def best(self) -> PairsCompared:
        """Return the pairs with the largest weight of each person."""
        # The weight of a pair relative to full agreement: log odds of the one column that
        # disagrees.
        weight = np.log((1 - self.right) / (1 - self.chance)) - np.log(self.right / self.chance)
        mine = weight[self.nearly.wrong]
        highest = np.full(int(self.nearly.people.max(initial=-1)) + 1, -np.inf)
        np.maximum.at(highest, self.nearly.people, mine)
        # Weights that differ by rounding alone are equal.
        is_best = mine >= highest[self.nearly.people] - 1e-9
        return _join_pairs([self.fits, _select(self.nearly, is_best)])

    def score(
        self,
        pairs: PairsCompared,
        truth: Sequence[IntArray],
        share: FloatArray,
        people: Frequencies,
    ) -> tuple[FloatArray, BoolArray]:
        """Return the chance that a pick among these pairs is right, and who fits only one row."""
        theirs = np.ones(len(pairs.people), dtype=bool)
        for column, leaves in zip(self.boxes.columns, truth, strict=True):
            real = leaves[pairs.people]
            theirs &= (real >= 0) & covered(column, pairs.classes, np.maximum(real, 0))
        rows = np.bincount(pairs.people, self.boxes.sizes[pairs.classes], len(people))
        inside = np.bincount(pairs.people, share[pairs.classes] * theirs, len(people))
        right = np.divide(np.minimum(inside, 1.0), rows, out=np.zeros(len(rows)), where=rows > 0)
        return right, rows == 1

    def describe(self, names: Sequence[str]) -> list[str]:
        """Describe how often the cells of the list agree with the right rows, by column."""
        agreement = ", ".join(
            f"{name} {percent(float(share))}" for name, share in zip(names, self.right, strict=True)
        )
        unexamined = ", ".join(self.unseen)
        return [
            f"Cells of the list were found to agree with people's rows: {agreement}.",
            *(
                [f"No errors were looked for in {unexamined}: the rest fits too many."]
                if unexamined
                else []
            ),
        ]


def _pairs(
    released: Boxes, points: Sequence[IntArray], missing: BoolArray, people: IntArray, wrong: int
) -> PairsCompared | None:
    """Return pairs that agree in all columns but `wrong`; missing cells are not compared.

    Returns None if more than _MOST_PAIRS pairs agree.
    """
    pair_blocks, pairs = [], 0
    # People with the same missing cells are compared in the same columns, so together.
    for pattern in np.unique(missing[:, people], axis=1).T:
        alike = people[(missing[:, people] == pattern[:, None]).all(axis=0)]
        compared = [
            number
            for number, is_missing in enumerate(pattern)
            if not is_missing and number != wrong
        ]
        if not compared:
            continue
        projected = replace(released, columns=tuple(released.columns[index] for index in compared))
        for mine, theirs in fitting([points[index][alike] for index in compared], projected):
            pair_blocks.append(PairsCompared(alike[mine], theirs, np.full(len(mine), wrong)))
            pairs += len(mine)
            if pairs > _MOST_PAIRS:
                return None
    return _join_pairs(pair_blocks)


def _join_pairs(pair_blocks: Sequence[PairsCompared]) -> PairsCompared:
    empty = [np.zeros(0, dtype=np.int64)]
    return PairsCompared(
        np.concatenate([pairs.people for pairs in pair_blocks] or empty),
        np.concatenate([pairs.classes for pairs in pair_blocks] or empty),
        np.concatenate([pairs.wrong for pairs in pair_blocks] or empty),
    )


def _select(pairs: PairsCompared, chosen: BoolArray) -> PairsCompared:
    return PairsCompared(pairs.people[chosen], pairs.classes[chosen], pairs.wrong[chosen])


def _missing(people: Frequencies, name: str) -> BoolArray:
    axis, codes = people.axis(name), people.codes[people.columns.index(name)]
    empty = axis.decode(np.arange(axis.size)).is_null().to_numpy(zero_copy_only=False)
    missing: BoolArray = empty[codes]
    return missing


def _agreeing(released: Boxes, index: int, leaves: IntArray) -> float:
    """Return u of a column: the share of released rows that agree with a person by chance."""
    column = released.columns[index]
    rows = np.bincount(column.labels, released.sizes, len(column.covers.starts))
    held = np.append(
        column.over_leaves(rows.astype(np.float64)), 0.0
    )  # a value that fits nothing is at -1
    share = float(held[leaves].mean()) / max(released.rows, 1) if len(leaves) else 0.5
    # Away from 0 and 1, so that the log weights are finite.
    return min(max(share, 1e-6), 1 - 1e-6)


def _right_shares(
    released: Boxes,
    fits: PairsCompared,
    nearly: PairsCompared,
    chance: FloatArray,
    people: Frequencies,
) -> FloatArray:
    """Estimate m of each column, how often it agrees in the right row, by EM.

    A pair is the person's own row, or agrees by chance. The model covers the compared pairs only:
    those that agree in all columns or in all but one.
    """
    columns = len(chance)
    sizes = [released.sizes[pairs.classes].astype(np.float64) for pairs in (fits, nearly)]
    full = float(sizes[0].sum())
    counts = (
        np.bincount(nearly.wrong, sizes[1], columns) if len(nearly.wrong) else np.zeros(columns)
    )
    # Start of EM: most cells of the list are right.
    right = np.full(columns, 0.95)
    matched = float(people.total)
    odds = (1 - chance) / chance
    for _ in range(_ROUNDS):
        # Chances of the compared patterns relative to full agreement: column j disagrees with
        # odds (1 - u_j) / u_j; the last entry is full agreement.
        stranger = np.append(odds, 1.0)
        stranger = stranger / stranger.sum()
        # The same odds for the person's own row, with m in place of u.
        own = np.append((1 - right) / right, 1.0)
        own = own / own.sum()
        seen = np.append(counts, full)
        # E-step: the chance of a pair to be the person's own row (Fellegi and Sunter 1969).
        prior = min(matched / max(float(seen.sum()), 1.0), 0.999)
        belief = prior * own / (prior * own + (1 - prior) * stranger)
        mine = belief * seen
        matched = float(mine.sum())
        # M-step with half a count added, so that no column becomes certain.
        right = 1 - (mine[:-1] + 0.5) / (matched + 1.0)
        right = np.clip(right, 0.5, 1 - 1e-6)
    return right
