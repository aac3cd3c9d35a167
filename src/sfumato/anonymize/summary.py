"""The summary of a release for its report: figures, promises, risk, and the change of each column.

The change of a column is read from the released labels and the schema alone, so it cannot depend on
a row that was not released. Decision `pages`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast

from sfumato.anonymize.cost import COSTS
from sfumato.anonymize.labels import members_of, plain_label
from sfumato.anonymize.taxonomy import ends_of, stretch_of, value_of
from sfumato.data.counting.memory_limit import SizeCounts
from sfumato.data.inspection.risk import attacker, reidentification
from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy import ROOT, Calendar, Mask, Side, spell, unquoted
from sfumato.data.schema.names import count
from sfumato.data.schema.spelling import DateSpelling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.outcome import Outcome
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column


class ReleaseFigures(TypedDict):
    """The figures of a release; `k` and people are None if they do not apply.

    `suppressed_people` counts people who lose a row; `ended` is the reason of an early end of the
    search.
    """

    algorithm: str
    criteria: list[str]
    k: int | None
    rows: int
    released: int
    suppressed: int
    classes: int
    levels: dict[str, int] | None
    cost: dict[str, float | None]
    minimal: list[dict[str, int]] | None
    optimal: bool
    bound: float | None
    factor: float | None
    lattice: int | None
    checked: int | None
    people: int | None
    suppressed_people: int | None
    ended: str | None


def figures_of_outcome(outcome: Outcome) -> ReleaseFigures:
    """Return the figures of a search's outcome."""
    figures = {name: _plain(getattr(outcome, name)) for name in ReleaseFigures.__annotations__}
    if outcome.ended is not None:
        figures["factor"] = _plain(outcome.excess)
    return cast("ReleaseFigures", figures)


def figures_of_classes(algorithm: str, criteria: list[str], sizes: Counts) -> ReleaseFigures:
    """Return the figures of a release that generalizes and suppresses nothing."""
    rows = int(sizes.sum())
    figures = {
        **dict.fromkeys(ReleaseFigures.__annotations__),
        "algorithm": algorithm,
        "criteria": criteria,
        "rows": rows,
        "released": rows,
        "suppressed": 0,
        "classes": len(sizes),
        "cost": costs_of_untouched(SizeCounts.of(sizes)),
        "optimal": False,
    }
    return cast("ReleaseFigures", figures)


def costs_of_untouched(sizes: SizeCounts, *, k: int = 1) -> dict[str, Any]:
    """Return the costs of an unchanged table with classes of these sizes."""
    average = int(sizes.rows.sum()) / len(sizes) / k
    of_sizes = {
        "discernability": sizes.squares,
        "average_class_size": average,
        "c_avg": average,
        "suppressed": 0,
    }
    names = (name.replace("-", "_") for name in COSTS)
    return {name: of_sizes.get(name, 0.0) for name in names}


class PlainWords(TypedDict):
    """The meaning of criteria for a person, and what they leave open."""

    promises: tuple[str, ...]
    limits: tuple[str, ...]


def in_plain_words(criteria: Sequence[Criterion], person: str | None) -> PlainWords:
    """Return criteria in plain words; `person` is the column that identifies people, if any."""
    counted = "rows" if person is None else "people"
    return PlainWords(
        promises=tuple(criterion.promise(counted) for criterion in criteria),
        limits=tuple(dict.fromkeys(criterion.leaves_open for criterion in criteria)),
    )


def risk_of(sizes: Counts) -> dict[str, float]:
    """Return the risk of re-identification for an attacker who knows all quasi-identifiers."""
    return asdict(attacker(sizes, sizes))


def risk_before(counted: Frequencies, quasi: Sequence[str], person: str | None) -> dict[str, float]:
    """Return the risk in the original table; with a `person` column, for people."""
    names = dict.fromkeys([*quasi, *([] if person is None else [person])])
    return asdict(reidentification(counted.marginal([*names]), person=person).prosecutor)


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold; None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


UNCHANGED, REMOVED = "unchanged", "removed"
_EXACT, _RANGE, _GROUP, _SET, _MASK = "exact value", "range", "group", "set", "mask"
_NUMBERS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_YEARS = {"age", "âge", "alter", "edad", "eta", "età", "leeftijd", "idade"}
"""Names of columns that count years: with more words, as in age_in_months, nobody can tell."""
_DAYS_OF_A_YEAR = 365.25


class _Read(NamedTuple):
    """A label as read: its sort, and its width, or its number of values or characters."""

    sort: str
    size: float = 0


def in_words(column: Column, labels: Mapping[str | None, int]) -> str:
    """Describe a generalized column; `labels` are the released ones, with their rows.

    If labels of several sorts occur, each is named with its share of the rows. Missing values stay
    missing below the root, so they are left out.
    """
    read = _reader(column)
    sorts: dict[str, Counter[_Read]] = {}
    texts: dict[str, list[str]] = {}
    for label, rows in labels.items():
        if label is None:
            continue
        reading = read(plain_label(column, label))
        sorts.setdefault(reading.sort, Counter())[reading] += rows
        texts.setdefault(reading.sort, []).append(label)
    if not sorts:
        return unchanged_words(column)
    # Sorts are ordered by rows, then by name, so that equal releases read the same.
    weights = {sort: sum(sizes.values()) for sort, sizes in sorts.items()}
    total = sum(weights.values())
    sentences = {
        sort: _sort_in_words(column, sort, sizes, texts[sort]) for sort, sizes in sorts.items()
    }
    if len(sentences) == 1:
        (only,) = sentences.values()
        return unchanged_words(column) if only == _EXACT else only
    order = sorted(sentences, key=lambda sort: (-weights[sort], sort))
    pieces = [f"{sentences[sort]} ({_share(weights[sort], total)})" for sort in order]
    pieces[0] = f"{pieces[0][:-1]} of rows)"  # of what is said once
    return "; ".join(pieces)


def unchanged_words(column: Column) -> str:
    """Describe a column that was not generalized; the time of day is never written."""
    if isinstance(column.spelling, DateSpelling) and column.spelling.timed:
        return "only the day, without the time"
    # A number is written in one way: 1.50 as 1.5, unless the schema says how many places.
    return f"{UNCHANGED} as numbers" if column.kind is Kind.REAL else UNCHANGED


def _share(rows: int, total: int) -> str:
    """Write a share of the rows, never rounded to 0 or 100 %."""
    return "under 1 %" if 100 * rows < total else f"{min(round(100 * rows / total), 99)} %"


def _reader(column: Column) -> Callable[[str], _Read]:
    """Return the function that reads labels of this column."""
    hierarchy = column.hierarchy
    declared = None if hierarchy is None else hierarchy.declared
    leaves = None if declared is None else {spell(leaf) for leaf in declared}

    def read(label: str) -> _Read:
        if label == ROOT:
            return _Read(REMOVED)
        if leaves is not None and (label in leaves or unquoted(label) in leaves):
            return _Read(_EXACT)
        if (members := members_of(label)) is not None:
            return _Read(_SET, len(members))
        if isinstance(hierarchy, Mask):
            plain = unquoted(label) or label
            hidden = ROOT in plain
            return _Read(_MASK, len(plain.replace(ROOT, ""))) if hidden else _Read(_EXACT)
        if isinstance(hierarchy, Calendar) and (stretch := stretch_of(label)):
            return _Read(f"only the {stretch}")
        if (ends := ends_of(label, column)) is not None:
            return _Read(_RANGE, _width(*ends))
        if leaves is None and value_of(column, label) is not None:
            return _Read(_EXACT)
        return _Read(_GROUP)

    return read


def _width(low: object, high: object, closed: bool) -> float:
    """Return the width of a range; days and whole numbers are counted with both ends."""
    if isinstance(low, date) and isinstance(high, date):
        return (high - low).days + closed
    counts_both_ends = isinstance(low, int) and closed
    return float(high) - float(low) + counts_both_ends  # type: ignore[arg-type]


def _sort_in_words(column: Column, sort: str, sizes: Counter[_Read], labels: list[str]) -> str:
    """Describe one sort of label; `sizes` has the rows of each size."""
    if sort == _GROUP:
        return f"{count(len(labels), 'group')} of values"
    if sort not in (_RANGE, _SET, _MASK):
        return sort
    least, most = (end(reading.size for reading in sizes) for end in (min, max))
    mean = sum(reading.size * rows for reading, rows in sizes.items()) / sum(sizes.values())
    if sort == _SET:
        return f"sets of values, {_shown_size(mean)} on average"
    if sort == _MASK:
        digits = all(label.replace(ROOT, "").isdigit() for label in labels)
        return _shown(column, int(least), int(most), "digit" if digits else "character")
    if least == most:
        return f"ranges of {_amount(column, least)}"
    return f"ranges, {_amount(column, mean)} wide on average"


def _shown(column: Column, least: int, most: int, unit: str) -> str:
    """Return how many characters a mask leaves to be seen."""
    assert isinstance(column.hierarchy, Mask)
    end = "first" if Side(column.hierarchy.side) is Side.RIGHT else "last"
    if most == 0:
        return "only the length"
    if least < most:
        return f"{end} {least} to {most} {unit}s"
    return f"{end} {unit}" if most == 1 else f"{end} {_number_in_words(most)} {unit}s"


def _amount(column: Column, width: float) -> str:
    """Write a width with its unit, if that is known."""
    if column.kind is Kind.DATE:
        if width < 2 * _DAYS_OF_A_YEAR:
            return f"{_shown_size(width)} day{'s' * (width != 1)}"
        return f"{_shown_size(width / _DAYS_OF_A_YEAR)} years"
    return f"{_shown_size(width)} years" if column.name.casefold() in _YEARS else _shown_size(width)


def _shown_size(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.3g}"


def _number_in_words(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)
