"""An answer as people read it: its cells, a bar beside every figure, and what cannot be used.

The terminal, notebooks and JSON tell an answer by this one page. All of it is made of what was
released and of public facts that travel with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.data.schema.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.release.release import Release

MISSING, ALL, NOTHING = "(missing)", "(all)", "–"
"""What stands for NULL: in a key, in a key that a level does not group by, and in a figure."""

_UNUSABLE = "too noisy"
_MOST_DECIMALS, _DIGITS, _NAMED = 6, 6, 3
_LARGEST_EPSILON = 10


@dataclass(frozen=True)
class ShownColumn:
    """A column for people; `bars` has a text beside each cell, if the column has figures.

    `too_noisy` says of each row whether its figure is of no use.
    """

    name: str
    cells: tuple[str, ...]
    is_number: bool
    bars: tuple[str, ...] | None = None
    too_noisy: tuple[bool, ...] = ()

    @property
    def bar_title(self) -> str:
        """What stands above its bars."""
        return "± 95 %"


@dataclass(frozen=True)
class ShownAnswer:
    """The columns of an answer, and in sentences what a reader must know of its figures."""

    columns: tuple[ShownColumn, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        """The cells row by row, each figure followed by its bar."""
        texts = [one for column in self.columns for one in (column.cells, column.bars)]
        return zip(*(one for one in texts if one is not None), strict=True)


def shown(answer: Release, rows: int | None = None) -> ShownAnswer:
    """An answer in texts: cells and bars, of its first rows where so many are enough, and notes."""
    columns = tuple(_column(answer, name, rows) for name in answer.table.column_names)
    return ShownAnswer(columns, notes(answer))


def notes(answer: Release) -> tuple[str, ...]:
    """What a reader of an answer must know of its figures, each in one sentence or two."""
    return tuple(_notes(answer))


def _column(answer: Release, name: str, rows: int | None = None) -> ShownColumn:
    values = answer.table[name].slice(0, rows).to_pylist()
    error: Mapping[str, Any] | None = (answer.error or {}).get(name)
    if error is None:
        whole = set((answer.provenance.parameters.get("all") or {}).get(name, ()))
        key = MISSING if answer.provenance.method == "query" else NOTHING
        absent = [ALL if row in whole else key for row in range(len(values))]
        cells = tuple(
            other if one is None else _label(one) for one, other in zip(values, absent, strict=True)
        )
        return ShownColumn(name, cells, _numeric(values))
    bounds = _by_row(error.get("bound95"), len(values))
    decimals = _decimals(bounds)
    useless = set(error.get("too_noisy", ()))
    ranks = error.get("ranks95")
    bars = [
        _bar(bound, ranks, decimals) if value is not None else ""
        for value, bound in zip(values, bounds, strict=True)
    ]
    return ShownColumn(
        name,
        tuple(NOTHING if one is None else cell(one, decimals) for one in values),
        _numeric(values),
        tuple(
            f"{text} {_UNUSABLE}".strip() if row in useless else text
            for row, text in enumerate(bars)
        ),
        tuple(row in useless for row in range(len(values))),
    )


def _label(value: object) -> str:
    """The value of a key: a year or a code is no amount, and is written as it is."""
    return cell(value).replace(",", "") if isinstance(value, int | float) else cell(value)


def cell(value: object, decimals: int | None = None) -> str:
    """A value as people write it: thousands apart, and no more decimals than its bar allows."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if not math.isfinite(value):
            return NOTHING
        if decimals is None:
            text = f"{value:,.{_DIGITS}g}"
            return f"{value:,.0f}" if "e+" in text else text
        return f"{value:,.{decimals}f}"
    return value.isoformat() if isinstance(value, date) else str(value)


def _numeric(values: Sequence[object]) -> bool:
    return all(
        isinstance(one, int | float) and not isinstance(one, bool)
        for one in values
        if one is not None
    ) and any(one is not None for one in values)


def _by_row(numbers: object, rows: int) -> list[float | None]:
    return numbers[:rows] if isinstance(numbers, list) else [numbers] * rows  # type: ignore[list-item]


def _decimals(bounds: Sequence[float | None]) -> int | None:
    """So many decimals that the narrowest bar of a column shows two digits."""
    known = [one for one in bounds if one]
    if not known:
        return None
    return min(max(1 - math.floor(math.log10(min(known))), 0), _MOST_DECIMALS)


def _bar(bound: float | None, ranks: float | None, decimals: int | None) -> str:
    """A bar in words, rounded up."""
    if ranks is not None:
        return f"rank ± {math.ceil(ranks):,}"
    if bound is None:
        return ""
    unit = Decimal(1).scaleb(-(decimals or 0))
    return f"± {Decimal(repr(bound)).quantize(unit, rounding=ROUND_CEILING):,}"


def _notes(answer: Release) -> Iterator[str]:
    for name, error in (answer.error or {}).items():
        if name not in answer.table.column_names or not isinstance(error, dict):
            continue
        if error.get("ranks95") is not None:
            yield (
                f"{quoted(name)} is the value at a rank: in 95 % of cases that rank is at most "
                f"{math.ceil(error['ranks95']):,} rows from the wanted one."
            )
        if error.get("too_noisy"):
            yield _advice(answer, name, error)


def _advice(answer: Release, name: str, error: Mapping[str, Any]) -> str:
    """Which figures are of no use, and what would help."""
    places, rows = error["too_noisy"], answer.table.num_rows
    which = "" if rows == 1 else f" in {len(places):,} of {rows:,} rows{_labels(answer, places)}"
    more = _needed(answer, error)
    figure = "the largest of them" if len(places) > 1 else "the figure"
    helps = [] if more is None else [f"{more} for a bar of a third of {figure}"]
    helps += ["fewer and larger groups"] if rows > 1 else []
    return f"{quoted(name)} is too noisy to use{which}. What would help: " + (
        ", or ".join([*helps, "a WHERE that keeps more rows"]) + "."
    )


def _labels(answer: Release, places: Sequence[int]) -> str:
    """The groups of some rows by their keys, where they are few."""
    keys = [one for one in answer.table.column_names if one not in (answer.error or {})]
    if not keys or len(places) > _NAMED:
        return ""
    columns = [_column(answer, key).cells for key in keys]
    return f": {'; '.join(', '.join(column[row] for column in columns) for row in places)}"


def _needed(answer: Release, error: Mapping[str, Any]) -> str | None:
    """The price at which the bar of the largest useless figure would be a third of it."""
    promised = answer.guarantee.parameters
    if "less_noise" not in error:
        return None
    # Noise shrinks with epsilon, and with the root of rho.
    factor = Fraction(error["less_noise"])
    if "epsilon" in promised:
        amount, word = float(factor * Fraction(promised["epsilon"])), "epsilon"
    elif "rho" in promised:
        amount, word = float(factor**2 * Fraction(promised["rho"])), "rho"
    else:
        return None
    largest = _LARGEST_EPSILON if word == "epsilon" else _LARGEST_EPSILON**2 / 2
    return f"{word} {_two_digits_up(amount)}" if amount <= largest else None


def _two_digits_up(amount: float) -> str:
    exact = Decimal(repr(amount))
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    return f"{exact.quantize(unit, rounding=ROUND_CEILING).normalize():f}"
