"""Scoreboard: a few ratings of a person find all ratings of that person.

*Attacker*: knows some items that the victim has rated, the ratings up to 1 and the days up to 14,
and scores everybody in the release. Each known item that a person has rated too adds the weight
1 / ln(number of its raters) times e^(-|difference of ratings| / 1.5) + e^(-|difference of days| /
30). The best person is claimed if the second best is more than 1.5 standard deviations of all
scores behind.
*Success*: the share of victims who are claimed rightly. The known items come from the original if
it is given, which has the same names of people; else from the release.
*Baseline*: anybody.
*Victims*: those who are claimed rightly.
*Reference*: Narayanan and Shmatikov, Robust de-anonymization of large sparse datasets, 2008,
section 5. An item with one rater has the weight of two raters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.case import PERSON, cannot_run, column_of, needed_column
from sfumato.attack.finding import MOST_EXAMPLES, Finding, Rate, percent, plain
from sfumato.attack.records import minutes, records, texts
from sfumato.attack.sampling import below, mixed, subset
from sfumato.data.counting.grouping import ragged
from sfumato.errors import option

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import Case
    from sfumato.attack.records import CodedRows, Trait


NAME = "scoreboard"
# Assumptions and constants of Narayanan and Shmatikov 2008, section 5.
_KNOWS = 8
_RATING_OFF, _DAYS_OFF = 1, 14
_RATING_SCALE, _DAYS_SCALE = 1.5, 30.0
_ECCENTRIC = 1.5
_BLOCK = 1 << 22


def run(case: Case) -> Finding:
    """Score everybody in the release by the known ratings of each victim."""
    person, item = (needed_column(case, NAME, role) for role in (PERSON, "item"))
    rating, time = (column_of(case, NAME, role) for role in ("rating", "time"))
    names = [person, item, *(column for column in (rating, time) if column is not None)]
    table = case.original or case.release.table
    if any(name not in table.names for name in names):
        raise cannot_run(NAME, "the original lacks a column of these. Name columns alike.")
    traits, both = records(NAME, texts(names), [case.release.table, table])
    released, known = (Ratings.of(traits, rows, rating, time) for rows in both)
    people, knows = traits[0].size, case.options.knows or _KNOWS
    known = known.sample(knows, case.options.guesses)
    if not len(known.people):
        raise cannot_run(NAME, f"nobody has rated {knows} items. Give a smaller {option('knows')}.")
    victims = known.people[::knows]
    claimed, right = _claims(released, known, knows, people)
    hits, tried = claimed & right, len(victims)
    claims_text = (
        f"{percent(hits.sum() / max(claimed.sum(), 1))} of {int(claimed.sum()):,} claims right"
    )
    shown = traits[0].values.take(pa.array(victims[hits][:MOST_EXAMPLES])).to_pylist()
    return Finding(
        attack=NAME,
        attacker=f"knows {knows} items of a person, ratings up to {_RATING_OFF}, days up to "
        f"{_DAYS_OFF}",
        meaning="People whose ratings are found",
        success=Rate.share(float(hits.sum()), tried),
        baseline=Rate.share(tried / max(len(np.unique(released.people)), 1), tried),
        victims=int(hits.sum()),
        examples=[{person: plain(column)} for column in shown],
        remarks=[
            f"{claims_text}; without claims the best is right in {percent(float(right.mean()))}."
        ],
        rows=len(released.people),
        reference="Narayanan and Shmatikov 2008",
    )


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings: person, item, rating and day; unknown ratings and days are all 0."""

    people: IntArray
    items: IntArray
    ratings: FloatArray
    days: FloatArray

    @classmethod
    def of(
        cls, traits: list[Trait], rows: CodedRows, rating: str | None, time: str | None
    ) -> Ratings:
        """Read ratings from coded rows; of a repeated person and item the first counts."""
        blank = pc.equal(pc.utf8_trim_whitespace(traits[0].values), "").fill_null(fill_value=True)
        named = rows.codes[:, ~blank.to_numpy(zero_copy_only=False)[rows.codes[0]]]
        _, first = np.unique(named[0] * traits[1].size + named[1], return_index=True)
        codes = named[:, first]
        ratings, days = np.zeros(len(first)), np.zeros(len(first))
        for trait, code in list(zip(traits, codes, strict=True))[2:]:
            if trait.name == rating:
                ratings = _numbers(trait)[code]
            elif trait.name == time:
                days = minutes(NAME, trait.name, trait.values)[code] / (24 * 60)
        return cls(codes[0], codes[1], np.nan_to_num(ratings), np.nan_to_num(days))

    def sample(self, knows: int, most: int) -> Ratings:
        """Draw `knows` ratings of each of `most` people, and add errors to them."""
        order = np.lexsort((mixed(len(self.people), 1), self.people))
        starts = np.flatnonzero(np.diff(self.people[order], prepend=-1))
        rating_counts = np.diff(starts, append=len(order))
        enough = starts[rating_counts >= knows]
        chosen = enough[subset(len(enough), most, 2)]
        chosen_rows = order[ragged(chosen, np.full(len(chosen), knows))]
        # Uniform errors of at most one star and 14 days.
        off = [below(2 * width + 1, len(chosen_rows), 3 + width) - width for width in (1, 14)]
        return Ratings(
            self.people[chosen_rows],
            self.items[chosen_rows],
            self.ratings[chosen_rows] + off[0] * bool(self.ratings.any()),
            self.days[chosen_rows] + off[1] * bool(self.days.any()),
        )


def _numbers(trait: Trait) -> FloatArray:
    try:
        numbers: FloatArray = trait.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise cannot_run(NAME, f"the ratings in {trait.name!r} are not numbers.") from None
    return numbers


def _claims(
    released: Ratings, known: Ratings, knows: int, people: int
) -> tuple[BoolArray, BoolArray]:
    """Return for each victim whether somebody is claimed, and whether the best is the victim."""
    order = np.argsort(released.items, kind="stable")
    items = released.items[order]
    first = np.searchsorted(items, known.items, side="left")
    rater_counts = np.searchsorted(items, known.items, side="right") - first
    # Rare items identify people better; two raters at least, because ln 1 is 0.
    weights = 1 / np.log(np.maximum(rater_counts, 2))
    candidates = max(len(np.unique(released.people)), 1)
    victims = len(known.people) // knows
    claimed, right = np.zeros(victims, dtype=bool), np.zeros(victims, dtype=bool)
    work = np.cumsum(rater_counts.reshape(victims, knows).sum(axis=1) + people)
    start = 0
    while start < victims:
        finished = work[start - 1] if start else 0
        end = max(int(np.searchsorted(work, finished + _BLOCK, side="right")), start + 1)
        block = np.arange(start * knows, end * knows)
        rows = order[ragged(first[block], rater_counts[block])]
        owners = np.repeat(block, rater_counts[block])
        score = np.exp(-np.abs(released.ratings[rows] - known.ratings[owners]) / _RATING_SCALE)
        score += np.exp(-np.abs(released.days[rows] - known.days[owners]) / _DAYS_SCALE)
        cells = (owners // knows - start) * people + released.people[rows]
        flat = np.bincount(cells, score * weights[owners], (end - start) * people)
        board = flat.astype(np.float64, copy=False).reshape(end - start, people)
        best_person, best, second = _best(board)
        # People who are in the original alone are no candidates: their scores are 0.
        mean = board.sum(axis=1) / candidates
        squares = np.einsum("ij,ij->i", board, board) / candidates
        spread = np.sqrt(np.maximum(squares - mean**2, 0))
        claimed[start:end] = best - second > _ECCENTRIC * spread
        truth = known.people[block[::knows]]
        right[start:end] = (best_person == truth) & (best > second)
        start = end
    return claimed, right


def _best(board: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the best person of each row, the score, and the score of the second."""
    lines, best_person = np.arange(len(board)), board.argmax(axis=1)
    best = board[lines, best_person]
    board[lines, best_person] = -1.0
    second = board.max(axis=1).clip(min=0.0)
    board[lines, best_person] = best
    return best_person, best, second
