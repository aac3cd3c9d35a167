"""Paths: a few places and times of a person find the whole path of that person.

*Attacker*: knows some points of the victim, each a cell of place and time, and looks for the people
of the release who were in all of them.
*Success*: the share of people whom their points fit alone. Points are drawn without repeats; people
with fewer points are not tried. With the original, points come from there, and the match must be
the same person. With people who are not in the data (control) any single match counts as found; the
same is done to these people, and only the excess is leaked.
*Baseline*: anybody.
*Victims*: people whom their points fit alone.
*Reference*: de Montjoye, Hidalgo, Verleysen and Blondel, Unique in the crowd, 2013.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.attack.case import PERSON, cannot_run, column_of, needed_column
from sfumato.attack.finding import MOST_EXAMPLES, Finding, Rate, percent, plain
from sfumato.attack.records import minutes, records, texts
from sfumato.attack.sampling import mixed, subset
from sfumato.data.counting.grouping import keys, ragged
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.names import quoted
from sfumato.errors import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import Case
    from sfumato.attack.records import CodedRows, Trait


NAME = "path"
# Four points single out 95 % of people in the mobile phone data of de Montjoye et al. 2013.
_KNOWS = 4
_BLOCK = 1 << 22
_DAY = 24 * 60


def run(case: Case) -> Finding:
    """Look people up by a few of their points."""
    columns, known_text = _columns(case)
    person = columns[0].name
    table = case.original or case.release.table
    if any(column.name not in table.names for column in columns):
        raise cannot_run(NAME, "the original lacks a column of these. Name columns alike.")
    tables = [case.release.table, table, *([] if case.control is None else [case.control])]
    if any(column.name not in tables[-1].names for column in columns):
        raise cannot_run(NAME, "the control lacks a column of these. Name columns alike.")
    traits, both = records(NAME, columns, tables)
    released, real, *controls = _visits(case, traits, both)
    knows = case.options.knows or _KNOWS
    points = _known(real, knows, case.options.guesses)
    if not len(points):
        raise cannot_run(NAME, f"nobody has {knows} points. Give a smaller {option('knows')}.")
    people = traits[0].size
    must_match = case.control is None
    fits_by_size = np.stack(
        [
            _fitting(released, points, size, people, must_match=must_match)
            for size in range(1, knows + 1)
        ]
    )
    hits, tried = fits_by_size[-1], len(points)
    shares = ", ".join(
        f"{size} {percent(fits.mean())}" for size, fits in enumerate(fits_by_size, start=1)
    )
    shown = traits[0].values.take(pa.array(points[hits, 0, 0][:MOST_EXAMPLES])).to_pylist()
    return Finding(
        attack=NAME,
        attacker=f"knows {knows} points of a person: {known_text}",
        meaning="People whom their points fit alone",
        success=Rate.share(float(hits.sum()), tried),
        baseline=Rate.share(tried / len(np.unique(released[0])), tried),
        control=_control(released, controls, knows, case.options.guesses, people),
        victims=int(hits.sum()),
        examples=[{person: plain(fits)} for fits in shown],
        remarks=[f"Alone by so many points: {shares}."],
        rows=both[0].rows,
        reference="de Montjoye et al. 2013",
    )


def _control(
    released: IntArray, controls: Sequence[IntArray], knows: int, guesses: int, people: int
) -> Rate | None:
    """Return how often points of people not in the data fit exactly one released person."""
    if not controls:
        return None
    points = _known(controls[0], knows, guesses)
    if not len(points):
        raise cannot_run(NAME, f"nobody of the control has {knows} points. Give more of them.")
    hits = _fitting(released, points, knows, people, must_match=False)
    return Rate.share(float(hits.sum()), len(points))


def _columns(case: Case) -> tuple[list[Column], str]:
    """Return the columns of person, time and place, and a text about their precision."""
    person, time = (needed_column(case, NAME, role) for role in (PERSON, "time"))
    place_column = column_of(case, NAME, "place")
    when = f"times to {case.options.minutes:g} minutes"
    if place_column is not None:
        return texts([person, time, place_column]), f"places as they are, {when}"
    across = [Column(needed_column(case, NAME, role), Kind.REAL) for role in ("lon", "lat")]
    return [*texts([person, time]), *across], f"places to {case.options.cell:g}, {when}"


def _visits(case: Case, traits: Sequence[Trait], tables: Sequence[CodedRows]) -> list[IntArray]:
    """Return for each table the distinct pairs of a person and a cell of place and time."""
    when = np.nan_to_num(minutes(NAME, traits[1].name, traits[1].values))
    if case.options.minutes < _DAY and len(when) > 1 and not (when % _DAY).any():
        raise cannot_run(
            NAME,
            f"column {quoted(traits[1].name)} tells the day alone. Give {option('minutes', _DAY)}, "
            "or run this attack by itself if the file has the time of day.",
        )
    cells = [_number_values(np.floor(when / case.options.minutes))]
    cells += [
        np.arange(trait.size)
        if trait.numbers is None
        else _number_values(np.floor(np.nan_to_num(trait.numbers) / case.options.cell))
        for trait in traits[2:]
    ]
    sizes = [int(axis.max(initial=0)) + 1 for axis in cells]
    cuts = np.cumsum([0, *(len(table) for table in tables)])
    codes = np.concatenate([table.codes for table in tables], axis=1)
    key, _ = keys([cell[own] for cell, own in zip(cells, codes[1:], strict=True)], sizes)
    cell_number = np.unique(key, return_inverse=True)[1]
    wide = int(cell_number.max(initial=0)) + 1
    return [
        np.stack(np.divmod(np.unique(people * wide + visited), wide))
        for people, visited in (
            (codes[0, low:high], cell_number[low:high]) for low, high in pairwise(cuts)
        )
    ]


def _number_values(values: FloatArray) -> IntArray:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _known(visits: IntArray, knows: int, most: int) -> IntArray:
    """Draw points of some people, as an array of (people, points, (person, cell))."""
    people = visits[0]
    order = np.lexsort((mixed(len(people), 1), people))
    starts = np.flatnonzero(np.diff(people[order], prepend=-1))
    point_counts = np.diff(starts, append=len(order))
    enough = starts[point_counts >= knows]
    chosen = enough[subset(len(enough), most, 2)]
    chosen_visits = order[ragged(chosen, np.full(len(chosen), knows))]
    return visits[:, chosen_visits].T.reshape(-1, knows, 2)


def _fitting(
    visits: IntArray, points: IntArray, size: int, people: int, *, must_match: bool
) -> BoolArray:
    """Return whether the first `size` points of each person fit exactly one released person.

    With `must_match` it must be the same person.
    """
    # Sorted by cell, then by person: a binary search finds everybody who was in a cell.
    held = np.sort(visits[1] * people + visits[0])
    cells = points[:, :size, 1]
    first = np.searchsorted(held, cells * people, side="left")
    candidate_counts = np.searchsorted(held, (cells + 1) * people, side="left") - first
    # Candidates come from the rarest point, so that few are left to test with the others.
    rarest = candidate_counts.argmin(axis=1)
    lines = np.arange(len(points))
    first, candidate_counts = first[lines, rarest], candidate_counts[lines, rarest]
    alone = np.zeros(len(points), dtype=bool)
    ends = np.cumsum(candidate_counts)
    start = 0
    while start < len(points):
        finished = ends[start - 1] if start else 0
        end = max(int(np.searchsorted(ends, finished + _BLOCK, side="right")), start + 1)
        owners = np.repeat(np.arange(start, end), candidate_counts[start:end])
        possible = held[ragged(first[start:end], candidate_counts[start:end])] % people
        for number in range(size):
            sought = cells[owners, number] * people + possible
            spots = np.searchsorted(held, sought).clip(max=len(held) - 1)
            is_candidate = held[spots] == sought
            owners, possible = owners[is_candidate], possible[is_candidate]
        candidates_left = np.bincount(owners - start, minlength=end - start)
        mine = np.bincount(owners - start, possible == points[owners, 0, 0], end - start)
        alone[start:end] = (candidates_left == 1) & ((mine == 1) | (not must_match))
        start = end
    return alone
