"""An answer as text for people: cells, the error of every number, and which are too noisy.

The terminal, notebooks and the console show answers through this module. It uses released figures
and the public facts that are stored with them, and nothing else.
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

MISSING, ALL_VALUES, NO_NUMBER = "(missing)", "(all)", "–"
"""What NULL is shown as: in a key, in a key that a total does not group by, and in a number."""

_UNUSABLE = "too noisy"
_MOST_DECIMALS, _DIGITS = 6, 6
_MOST_NAMED_ROWS = 3
_LARGEST_EPSILON = 10
"""Larger budgets are not recommended: they protect hardly anyone."""


@dataclass(frozen=True)
class ShownColumn:
    """A column as text. `bars` has the error beside each cell, if the column has noisy numbers.

    `too_noisy` tells for each row whether its number is too noisy to use.
    """

    name: str
    cells: tuple[str, ...]
    is_number: bool
    bars: tuple[str, ...] | None = None
    too_noisy: tuple[bool, ...] = ()

    @property
    def bar_title(self) -> str:
        """The title of the column of errors."""
        return "± 95 %"


@dataclass(frozen=True)
class ShownAnswer:
    """The columns of an answer, and notes that its reader must know."""

    columns: tuple[ShownColumn, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        """The cells row by row, each number followed by its error."""
        columns = [texts for column in self.columns for texts in (column.cells, column.bars)]
        return zip(*(texts for texts in columns if texts is not None), strict=True)


def show_answer(answer: Release, rows: int | None = None) -> ShownAnswer:
    """An answer as text, or only its first `rows`, with all of its notes."""
    columns = tuple(_column(answer, name, rows) for name in answer.table.column_names)
    return ShownAnswer(columns, notes(answer))


def notes(answer: Release) -> tuple[str, ...]:
    """What a reader must know about the numbers of an answer, one or two sentences each."""
    return tuple(_notes(answer))


def _column(answer: Release, name: str, rows: int | None = None) -> ShownColumn:
    values = answer.table[name].slice(0, rows).to_pylist()
    error: Mapping[str, Any] | None = (answer.error or {}).get(name)
    if error is None:
        totals = set((answer.provenance.parameters.get("all") or {}).get(name, ()))
        missing = MISSING if answer.provenance.method == "query" else NO_NUMBER
        nulls = [ALL_VALUES if row in totals else missing for row in range(len(values))]
        cells = tuple(
            null if value is None else _key_text(value)
            for value, null in zip(values, nulls, strict=True)
        )
        return ShownColumn(name, cells, _is_numeric(values))
    bounds = _by_row(error.get("bound95"), len(values))
    decimals = _decimals(bounds)
    too_noisy = set(error.get("too_noisy", ()))
    ranks = error.get("ranks95")
    bars = [
        _bar_text(bound, ranks, decimals) if value is not None else ""
        for value, bound in zip(values, bounds, strict=True)
    ]
    return ShownColumn(
        name,
        tuple(NO_NUMBER if value is None else cell_text(value, decimals) for value in values),
        _is_numeric(values),
        tuple(
            f"{text} {_UNUSABLE}".strip() if row in too_noisy else text
            for row, text in enumerate(bars)
        ),
        tuple(row in too_noisy for row in range(len(values))),
    )


def _key_text(value: object) -> str:
    """The value of a key. A year or a code is no amount, so it has no thousands separators."""
    return cell_text(value).replace(",", "") if isinstance(value, int | float) else cell_text(value)


def cell_text(value: object, decimals: int | None = None) -> str:
    """A value for people: thousands separated, and only as many decimals as its error allows."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if not math.isfinite(value):
            return NO_NUMBER
        if decimals is None:
            text = f"{value:,.{_DIGITS}g}"
            return f"{value:,.0f}" if "e+" in text else text
        return f"{value:,.{decimals}f}"
    return value.isoformat() if isinstance(value, date) else str(value)


def _is_numeric(values: Sequence[object]) -> bool:
    return all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for value in values
        if value is not None
    ) and any(value is not None for value in values)


def _by_row(numbers: object, rows: int) -> list[float | None]:
    return numbers[:rows] if isinstance(numbers, list) else [numbers] * rows  # type: ignore[list-item]


def _decimals(bounds: Sequence[float | None]) -> int | None:
    """The decimals at which the smallest error of a column shows two digits."""
    known = [bound for bound in bounds if bound]
    if not known:
        return None
    return min(max(1 - math.floor(math.log10(min(known))), 0), _MOST_DECIMALS)


def _bar_text(bound: float | None, ranks: float | None, decimals: int | None) -> str:
    """The error of a number as text, rounded up."""
    if ranks is not None:
        return f"rank ± {math.ceil(ranks):,}"
    if bound is None:
        return ""
    # Rounded up: a shown error is never smaller than the real one.
    unit = Decimal(1).scaleb(-(decimals or 0))
    return f"± {Decimal(repr(bound)).quantize(unit, rounding=ROUND_CEILING):,}"


def _notes(answer: Release) -> Iterator[str]:
    for name, error in (answer.error or {}).items():
        if name not in answer.table.column_names or not isinstance(error, dict):
            continue
        if error.get("ranks95") is not None:
            yield (
                f"{quoted(name)} is the value at a noisy rank: in 95 % of cases it is at most "
                f"{math.ceil(error['ranks95']):,} rows from the requested one."
            )
        if error.get("too_noisy"):
            yield _advice(answer, name, error)


def _advice(answer: Release, name: str, error: Mapping[str, Any]) -> str:
    """Which numbers are too noisy to use, and what would help."""
    noisy_rows, rows = error["too_noisy"], answer.table.num_rows
    location = ""
    if rows > 1:
        location = f" in {len(noisy_rows):,} of {rows:,} rows{_row_names(answer, noisy_rows)}"
    budget = _needed_budget(answer, error)
    number = "the largest of them" if len(noisy_rows) > 1 else "the number"
    helps = [] if budget is None else [f"{budget} for an error of a third of {number}"]
    helps += ["fewer and larger groups"] if rows > 1 else []
    helps.append("a WHERE that keeps more rows")
    return f"{quoted(name)} is too noisy to use{location}. What would help: {', or '.join(helps)}."


def _row_names(answer: Release, rows: Sequence[int]) -> str:
    """The keys of some rows, if they are few."""
    keys = [name for name in answer.table.column_names if name not in (answer.error or {})]
    if not keys or len(rows) > _MOST_NAMED_ROWS:
        return ""
    columns = [_column(answer, key).cells for key in keys]
    return f": {'; '.join(', '.join(column[row] for column in columns) for row in rows)}"


def _needed_budget(answer: Release, error: Mapping[str, Any]) -> str | None:
    """The budget at which the error of the largest noisy number would be a third of it."""
    guarantee = answer.guarantee.parameters
    if "less_noise" not in error:
        return None
    # The standard deviation of noise shrinks with epsilon, and with the square root of rho.
    factor = Fraction(error["less_noise"])
    if "epsilon" in guarantee:
        amount, unit_name = float(factor * Fraction(guarantee["epsilon"])), "epsilon"
    elif "rho" in guarantee:
        amount, unit_name = float(factor**2 * Fraction(guarantee["rho"])), "rho"
    else:
        return None
    # A pure epsilon costs at most rho = epsilon^2 / 2: the same limit, in the unit of zCDP.
    largest = _LARGEST_EPSILON if unit_name == "epsilon" else _LARGEST_EPSILON**2 / 2
    return f"{unit_name} {_two_digits_up(amount)}" if amount <= largest else None


def _two_digits_up(amount: float) -> str:
    exact = Decimal(repr(amount))
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    return f"{exact.quantize(unit, rounding=ROUND_CEILING).normalize():f}"
