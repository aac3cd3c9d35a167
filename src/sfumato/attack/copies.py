"""Copies: people whose rows are in the release unchanged.

*Attacker*: takes a released row for a person's.
*Success*: the share of released rows that are exact copies of unique rows of the original.
*Baseline*: the same share for a fresh sample of the same people, estimated from the rows of the
original that come in pairs; correlated columns match real rows without knowing them.
With people who are not in the data, a remark says how many released rows are nearer to a row of the
original than to one of as many others; for independent people it is half.
*Victims*: released copies of unique rows beyond the expected number.
*Reference*: Good 1953, and decision `large-releases`, for the expected number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import needed, shared_columns
from sfumato.attack.evaluation.copies import count_copies
from sfumato.attack.finding import MOST_EXAMPLES, Finding, Rate, percent, plain
from sfumato.attack.records import CodedRows, Crowd, records
from sfumato.attack.sampling import subset
from sfumato.data.counting.grouping import keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import IntArray
    from sfumato.attack.case import Case
    from sfumato.attack.records import Trait


NAME = "copies"


def run(case: Case) -> Finding:
    """Look for released rows in the original."""
    original = needed(case.original, NAME, "the original, to look rows up in", "original")
    tables = [case.release.table, original, *([] if case.control is None else [case.control])]
    columns = shared_columns(case, NAME, tables)
    traits, (released, real, *controls) = records(NAME, columns, tables)
    drawn, often = _both(traits, released, real)
    kinds = np.unique(often)
    tally = count_copies(
        kinds,
        np.array([drawn[often == kind].sum() for kind in kinds]),
        np.array([(often == kind).sum() for kind in kinds]),
    )
    rows, in_pairs = released.rows, float((often == 2).sum())
    # The expected share of copies of unique rows is 2 * pairs / rows (Good and Turing). The
    # number of pairs is about Poisson, so its standard deviation is the root of it.
    spread = 2 * in_pairs**0.5 / max(real.rows, 1)
    any_row = (
        f"{tally.exact:,} of {rows:,} released rows are copies of any row; of a fresh sample "
        f"{tally.expected:,.0f} would be."
    )
    remarks = [any_row]
    if controls:
        remarks.append(_nearer(case, traits, released, real, controls[0]))
    alone = np.flatnonzero((often == 1) & (drawn > 0))[:MOST_EXAMPLES]
    return Finding(
        attack=NAME,
        attacker="takes a released row for a person's",
        meaning="Released rows that are those of people who are one of a kind",
        success=Rate.share(tally.unique, rows),
        baseline=Rate.share(tally.unique_expected, rows).widened(spread),
        victims=max(0, round(tally.unique - tally.unique_expected)),
        examples=_shown(traits, released, real, alone),
        remarks=remarks,
        rows=rows + real.rows,
        reference="Good 1953",
    )


def _both(
    traits: Sequence[Trait], released: CodedRows, real: CodedRows
) -> tuple[IntArray, IntArray]:
    """Return how often each of two tables has each different row."""
    row_number, size = _row_numbers(traits, released, real)
    cut = len(released)
    both = [
        np.bincount(own, counts, size).astype(np.int64)
        for own, counts in ((row_number[:cut], released.counts), (row_number[cut:], real.counts))
    ]
    return both[0], both[1]


def _row_numbers(traits: Sequence[Trait], *tables: CodedRows) -> tuple[IntArray, int]:
    codes = np.concatenate([table.codes for table in tables], axis=1)
    key, _ = keys(list(codes), [trait.size for trait in traits])
    present, row_number = np.unique(key, return_inverse=True)
    return row_number, len(present)


def _shown(
    traits: Sequence[Trait], released: CodedRows, real: CodedRows, chosen: IntArray
) -> list[dict[str, object]]:
    """Return some copied rows as they are, for the owner."""
    row_number, _ = _row_numbers(traits, released, real)
    _, first = np.unique(row_number, return_index=True)
    codes = np.concatenate([released.codes, real.codes], axis=1)[:, first[chosen]]
    return [
        {
            trait.name: plain(trait.values[int(code)].as_py())
            for trait, code in zip(traits, column, strict=True)
        }
        for column in codes.T
    ]


def _nearer(
    case: Case, traits: Sequence[Trait], released: CodedRows, real: CodedRows, strangers: CodedRows
) -> str:
    """Describe how many released rows are nearer to people of the original than to others."""
    # Equal sizes: the nearest row of a larger crowd is nearer by chance.
    size = min(len(real), len(strangers), case.options.guesses)
    drawn = released.codes[:, released.drawn(case.options.guesses, 1)]
    apart = []
    for number, rows in enumerate((real, strangers)):
        sampled = subset(len(rows), size, number)
        crowd = Crowd.of(
            traits, range(len(traits)), CodedRows(rows.codes[:, sampled], rows.counts[sampled])
        )
        apart.append(crowd.nearest(drawn).least)
    # Ties count half, so that independent people give one half.
    nearer = (apart[0] < apart[1]).mean() + (apart[0] == apart[1]).mean() / 2
    return (
        f"{percent(float(nearer))} of {drawn.shape[1]:,} released rows are nearer to one of "
        f"{size:,} people of the original than to one of as many others; half would be."
    )
