"""Operands of expressions: their kinds, brackets around them, and numbers made alike."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.expressions.typed import (
    LENGTH,
    Typed,
    constant,
    literal,
    real,
    released,
    shortened,
)
from sfumato.query.sql.parse import part
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Value = Callable[[exp.Expr], Typed]
    Rules = dict[type[exp.Expr], Callable[[exp.Expr, Value], Typed]]

NUMBERS = (Kind.INTEGER, Kind.REAL)


def bracket(tree: exp.Expr) -> exp.Expr:
    """A tree that keeps its meaning inside any other."""
    loose = exp.Binary | exp.Unary | exp.Between | exp.In
    return exp.Paren(this=tree) if isinstance(tree, loose) else tree


def demand(value: Typed, kinds: Sequence[Kind], node: exp.Expr) -> Typed:
    """Refuse a value of another kind."""
    if value.kind in kinds:
        return value
    raise QueryError(
        "kind_mismatch",
        f"Cannot compute with {part(node)}, which is {value.kind}; "
        f"allowed is {' or '.join(kinds)}.",
    )


def demand_text(value: Typed, node: exp.Expr) -> Typed:
    """Refuse what is no text; of a person's name only so much is used as of any other text."""
    demand(value, (Kind.TEXT,), node)
    if value.length is not None or value.noisy:
        return value
    return replace(value, tree=shortened(value.tree, LENGTH), length=LENGTH, unit=False)


def demand_bounds(value: Typed, node: exp.Expr) -> Typed:
    """Refuse a number of which no bounds are known."""
    if value.bounded or value.noisy:
        return value
    raise QueryError(
        "bounds_missing",
        f"Cannot compute with {part(node)}: no bounds of it are declared or follow from declared "
        "ones. Declare bounds for its columns, or write LEAST(GREATEST(x, low), high).",
    )


def number(node: exp.Expr, value: Value) -> Typed:
    """A number with bounds."""
    return checked_number(value(node), node)


def checked_number(value: Typed, node: exp.Expr) -> Typed:
    """A value that is a number with bounds."""
    return demand_bounds(demand(value, NUMBERS, node), node)


def as_real(value: Typed) -> Typed:
    """An integer as a real."""
    if value.kind is Kind.REAL:
        return value
    tree: exp.Expr = exp.cast(value.sql, exp.DType.DOUBLE)
    if value.step == 0 and value.values is not None:
        tree = literal(value.ends[0])
    if value.noisy:
        return released(tree, nullable=value.nullable)
    return replace(
        real(tree, value.low, value.high, nullable=value.nullable, least=Fraction(1)),
        step=value.step,
        values=value.values,
    )


def as_integer(value: Typed) -> Typed:
    """A truth value as 0 or 1; anything else as it is."""
    if value.kind is not Kind.BOOLEAN:
        return value
    case = exp.case().when(value.sql, exp.cast(exp.convert(1), exp.DType.BIGINT))
    case = case.when(exp.Not(this=bracket(value.sql)), exp.cast(exp.convert(0), exp.DType.BIGINT))
    return Typed(case, Kind.INTEGER, value.nullable, Fraction(0), Fraction(1), noisy=value.noisy)


def alike(values: Sequence[Typed], nodes: Sequence[exp.Expr]) -> list[Typed]:
    """Values of one kind: integers beside reals become real, quoted dates beside dates dates."""
    kinds = {value.kind for value in values}
    if Kind.DATE in kinds and Kind.TEXT in kinds:
        pairs = zip(values, nodes, strict=True)
        values = [_as_date(value, node) for value, node in pairs]
        kinds = {value.kind for value in values}
    if kinds == set(NUMBERS):
        return [as_real(value) for value in values]
    if len(kinds) > 1:
        raise QueryError(
            "kind_mismatch",
            f"Cannot put {part(nodes[0])}, which is {values[0].kind}, beside "
            f"{part(nodes[-1])}, which is {values[-1].kind}. Cast one of them.",
        )
    return list(values)


def _as_date(value: Typed, node: exp.Expr) -> Typed:
    """A date written in quotes as a date."""
    if value.kind is Kind.DATE or not isinstance(node, exp.Literal):
        return value
    return written_date(node)


def written_date(node: exp.Literal) -> Typed:
    """The date that a literal spells."""
    try:
        if len(node.name) != 10:
            raise ValueError
        return constant(date.fromisoformat(node.name))
    except ValueError:
        raise QueryError(
            "date_malformed", f"{part(node)} is not a date. Write it as 'YYYY-MM-DD'."
        ) from None


def whole_literal(node: exp.Expr | None, allowed: range, what: str) -> int:
    """A whole number that is written out, within limits."""
    sign, inner = 1, node
    if isinstance(inner, exp.Neg):
        sign, inner = -1, inner.this
    written = inner.name if isinstance(inner, exp.Literal) and not inner.is_string else ""
    if written.isascii() and written.isdigit() and len(written) < 19:
        found = sign * int(written)
        if found in allowed:
            return found
    given = f", not {part(node)}" if node is not None else ""
    raise QueryError(
        "literal_needed",
        f"{what} must be a whole number written out, from {allowed.start} to "
        f"{allowed.stop - 1}{given}.",
    )
