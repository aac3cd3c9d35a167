"""Singling out: a description that fits one released row is a guess that it fits one person.

*Attacker*: has the release. Takes a released row and some of its columns at random, and describes
it: equal to its value, or for a number at least as extreme, seen from the median of the column. A
description that fits only that released row is a guess. With one column (`together` 1) guesses are
the values that one released row has, and the extremes of numbers.
*Success*: the share of guesses that fit exactly one person of the original. Rows that are equal in
all columns count once, as in the release.
*Baseline*: descriptions made of random values and comparisons.
*Control*: the same guesses about people who are not in the data. Both tables are cut at random to
the smaller size, because uniqueness depends on the number of rows.
*Reference*: Giomi, Boenisch, Wehmeyer and Tasnadi 2023; Cohen and Nissim 2020; WP216 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed, shared_columns
from sfumato.attack.finding import Finding, Rate
from sfumato.attack.records import records
from sfumato.attack.sampling import below, mixed, subset
from sfumato.data.counting.grouping import keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, IntArray
    from sfumato.attack.case import Case
    from sfumato.attack.records import CodedRows, Trait


NAME = "singling-out"
_EQUAL, _DIFFERENT, _UP_TO, _FROM = range(4)
_MOST_BATCHES = 200
_MOST_IDLE = 5
"""The search ends after so many batches without a new description."""
_BATCH = 1_000
_MOST_BYTES = 1 << 26


def run(case: Case) -> Finding:
    """Describe unique rows of the release, and count descriptions that fit one person."""
    original = needed(case.original, NAME, "the original, to score the guesses", "original")
    tables = [case.release.table, original, *([] if case.control is None else [case.control])]
    columns = shared_columns(case, NAME, tables)
    traits, (released, *people_tables) = records(NAME, columns, tables)
    together = min(case.options.together, len(columns))
    asked = case.options.guesses
    guesses = _alone(traits, released, asked) if together == 1 else None
    if guesses is None:
        guesses = _draw_descriptions(traits, released, together, asked)
    if not len(guesses):
        raise cannot_run(NAME, "no description fits one released row alone. Take more columns.")
    by_chance = _at_random(traits, together, asked)
    people = people_tables[0].codes
    remarks = [f"Made of {together} of {len(columns)} columns: {len(guesses):,} descriptions."]
    control = None
    if len(people_tables) > 1:
        size = min(len(table) for table in people_tables)
        people, strangers = (
            table.codes[:, subset(len(table), size, number)]
            for number, table in enumerate(people_tables)
        )
        control = Rate.share(float((fits(traits, strangers, guesses) == 1).sum()), len(guesses))
        remarks.append(
            f"Looked for among {size:,} different rows of the original and of others each."
        )
    hits = fits(traits, people, guesses) == 1
    chance = fits(traits, people, by_chance) == 1
    return Finding(
        attack=NAME,
        attacker="has the release, and describes rows that stand alone in it",
        meaning="Descriptions that fit one person alone",
        success=Rate.share(float(hits.sum()), len(guesses)),
        baseline=Rate.share(float(chance.sum()), len(by_chance)),
        control=control,
        victims=int(hits.sum()),
        remarks=remarks,
        rows=sum(table.rows for table in (released, *people_tables)),
        reference="Giomi et al. 2023",
    )


@dataclass(frozen=True, eq=False)
class Descriptions:
    """Descriptions, one in each row: the trait, comparison and code of each of its conditions."""

    traits: IntArray
    comparisons: IntArray
    codes: IntArray

    def __len__(self) -> int:
        return len(self.codes)

    def select(self, chosen: BoolArray | IntArray | slice) -> Descriptions:
        """Return some of the descriptions."""
        return Descriptions(self.traits[chosen], self.comparisons[chosen], self.codes[chosen])


def joined(groups: Sequence[Descriptions]) -> Descriptions:
    """Join groups of descriptions without repeats, in the order of first occurrence."""
    # Codes are shifted by 1, because a strict comparison may be one below the smallest code.
    every = [
        np.concatenate([getattr(group, name) for group in groups])
        for name in ("traits", "comparisons", "codes")
    ]
    columns = [*np.hstack(every).T + 1]
    key, _ = keys(columns, [int(column.max(initial=0)) + 1 for column in columns])
    _, first = np.unique(key, return_index=True)
    return Descriptions(*every).select(np.sort(first))


def fits(traits: Sequence[Trait], people: IntArray, asked: Descriptions) -> IntArray:
    """Count the people that each description fits, by intersecting bit masks of people."""
    fit_counts = np.zeros(len(asked), dtype=np.int64)
    # One bit for each person and condition.
    bytes_each = max(people.shape[1] // 8, 1) * asked.codes.shape[1]
    size = max(_MOST_BYTES // bytes_each, 1)
    for start in range(0, len(asked), size):
        block = slice(start, start + size)
        fit_counts[block] = _fits(traits, people, asked.select(block))
    return fit_counts


def _fits(traits: Sequence[Trait], people: IntArray, asked: Descriptions) -> IntArray:
    wide = max(trait.size for trait in traits) + 2  # a number beside the ends is a code too
    key = (asked.traits * 4 + asked.comparisons) * wide + asked.codes + 1
    known, condition_index = np.unique(key, return_inverse=True)
    trait_and_comparison, codes = np.divmod(known, wide)
    conditions = np.stack(
        [trait_and_comparison // 4, trait_and_comparison % 4, codes - 1], axis=1
    ).tolist()
    bits = np.stack([np.packbits(_holds(traits, people, *condition)) for condition in conditions])
    condition_index = condition_index.reshape(asked.codes.shape)
    both = bits[condition_index[:, 0]]
    for number in range(1, condition_index.shape[1]):
        # Intersect sets of people as bit masks: one AND for each condition.
        both &= bits[condition_index[:, number]]
    counts: IntArray = np.bitwise_count(both).sum(axis=1, dtype=np.int64)
    return counts


def _holds(
    traits: Sequence[Trait], people: IntArray, trait: int, comparison: int, code: int
) -> BoolArray:
    mine, missing = people[trait], traits[trait].missing
    holds: BoolArray
    if comparison == _EQUAL:
        holds = mine == code
    elif comparison == _DIFFERENT:
        holds = (mine != code) & (mine != missing)
    else:
        holds = mine <= code if comparison == _UP_TO else (mine >= code) & (mine != missing)
    return holds


def _draw_descriptions(
    traits: Sequence[Trait], released: CodedRows, together: int, asked: int
) -> Descriptions:
    """Draw descriptions that fit one released row, until there are as many as asked for."""
    descriptions, idle = Descriptions(*np.zeros((3, 0, together), dtype=np.int64)), 0
    middles = np.array([_middle(trait, codes) for trait, codes in _pairs(traits, released)])
    ordered = np.array([trait.numbers is not None for trait in traits])
    missing = np.array([trait.missing for trait in traits])
    for batch in range(_MOST_BATCHES):
        rows = below(len(released), _BATCH, 2 * batch)
        chosen = _columns(len(traits), together, _BATCH, 2 * batch + 1)
        codes = released.codes[chosen, rows[:, None]]
        # The half-line away from the median holds fewer people, so such a guess is likelier to be
        # unique.
        sides = np.where(codes > middles[chosen], _FROM, _UP_TO)
        plain = ~ordered[chosen] | (codes == missing[chosen])
        candidates = Descriptions(chosen, np.where(plain, _EQUAL, sides), codes)
        before = len(descriptions)
        descriptions = joined(
            [descriptions, candidates.select(fits(traits, released.codes, candidates) == 1)]
        )
        idle = idle + 1 if len(descriptions) == before else 0
        if len(descriptions) >= asked or idle == _MOST_IDLE:
            break
    return descriptions.select(slice(asked))


def _alone(traits: Sequence[Trait], released: CodedRows, asked: int) -> Descriptions:
    """Return the values that one released row has, and the extremes of numbers."""
    conditions = []
    for axis, (trait, codes) in enumerate(_pairs(traits, released)):
        single = np.flatnonzero(np.bincount(codes, minlength=trait.size) == 1)
        conditions.append([(axis, _EQUAL, code) for code in single.tolist()])
        known = codes[codes != trait.missing]
        if trait.numbers is not None and len(known):
            conditions.append([(axis, _UP_TO, int(known.min())), (axis, _FROM, int(known.max()))])
    every = np.array(
        [condition for group in conditions for condition in group], dtype=np.int64
    ).reshape(-1, 3)
    descriptions = Descriptions(*(every[:, [number]] for number in range(3)))
    descriptions = (
        descriptions.select(fits(traits, released.codes, descriptions) == 1)
        if len(descriptions)
        else descriptions
    )
    return descriptions.select(subset(len(descriptions), asked, 0))


def _at_random(traits: Sequence[Trait], together: int, asked: int) -> Descriptions:
    """Draw random columns, values and comparisons, for the baseline."""
    chosen = _columns(len(traits), together, asked, 1_000_000)
    sizes = np.array([trait.size for trait in traits])
    missing = np.array([trait.missing for trait in traits])
    ordered = np.array([trait.numbers is not None for trait in traits])
    random_words = mixed(asked * together, 3_000_000).reshape(asked, together)
    codes = (random_words >> np.uint64(16)).astype(np.int64) % sizes[chosen]
    sixth = ((random_words & np.uint64(0xFFFF)) % np.uint64(6)).astype(np.int64)
    plain = ~ordered[chosen] | (codes == missing[chosen])
    comparisons = np.where(plain, sixth % 2, np.array([0, 1, 2, 3, 2, 3])[sixth])
    # Six comparisons: =, !=, <=, >=, < and >. A strict one is the other with the neighbouring
    # code.
    codes = np.where(~plain & (sixth == 4), codes - 1, codes)
    codes = np.where(~plain & (sixth == 5), codes + 1, codes)
    return Descriptions(chosen, comparisons, codes)


def _columns(columns: int, together: int, size: int, number: int) -> IntArray:
    """Draw random sets of columns, each in the order of the table."""
    random_words = mixed(size * columns, number + 1_000_000).reshape(size, columns)
    return np.sort(np.argsort(random_words, axis=1)[:, :together], axis=1)


def _middle(trait: Trait, codes: IntArray) -> float:
    """Return the code of the median of the released rows."""
    known = codes[codes != trait.missing]
    if trait.numbers is None or not len(known):
        return float(trait.size)
    middle = float(np.median(trait.numbers[known]))
    return float(np.searchsorted(trait.numbers[: trait.missing], middle, side="right")) - 1


def _pairs(traits: Sequence[Trait], rows: CodedRows) -> list[tuple[Trait, IntArray]]:
    return list(zip(traits, rows.codes, strict=True))
