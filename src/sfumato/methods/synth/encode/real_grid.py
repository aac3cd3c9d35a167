"""The grid of a column of reals: as fine as is declared, or as its decimals are written.

Decision `schemas` cuts a continuum into about a hundred round steps, by which counts and sums are
no worse. Rows that are drawn on them would have lost their decimals: weights of 71.3 were 71 then.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import EXACT, Bounds
from sfumato.data.schema.spelling import NumberSpelling

if TYPE_CHECKING:
    from sfumato.data.schema.column import Column

_MOST_POINTS = 1 << 16
"""Finer than this decimals are not drawn: a question about such points could not be judged."""


def on_grid(column: Column) -> Column:
    """The column with a step, if it is one of reals within bounds that declares none."""
    domain = column.public_domain
    if column.kind is not Kind.REAL or not isinstance(domain, Bounds) or domain.step is not None:
        return column
    stepped = _as_written(column, domain) or (None if domain.stepped() else _by_last_digit(domain))
    return column if stepped is None else replace(column, domain=stepped, spelling=None)


def _as_written(column: Column, domain: Bounds) -> Bounds | None:
    """In steps of the last decimal that is written, unless round steps are finer."""
    written = column.spelling
    if not isinstance(written, NumberSpelling) or written.places is None or not domain.span:
        return None
    step, round_steps = Decimal(1).scaleb(-written.places), domain.stepped()
    whole = not EXACT.remainder(Decimal(domain.span), step)
    if not whole or EXACT.divide(Decimal(domain.span), step) >= _MOST_POINTS:
        return None
    if round_steps is not None and Decimal(round_steps.step or 0) <= step:
        return None
    return Bounds(domain.low, domain.high, step)


def _by_last_digit(domain: Bounds) -> Bounds:
    """What no round step divides, and a single number: in steps of their last digit."""
    low, high = Decimal(domain.low), Decimal(domain.high)  # type: ignore[arg-type]
    digits = min(int(end.normalize().as_tuple().exponent) for end in (low, high))
    return Bounds(low, high, Decimal(1).scaleb(min(digits, 0)))
