"""Typed values: what the planner knows about a value before any row is read.

Every value is total: its SQL yields a value inside the claimed range, or NULL, and never an error.
A real is finite, and either zero or not smaller in magnitude than `least`: some engines raise an
error on underflow. A date counts in days since 1970-01-01. Decisions `total-expressions` and
`integer-ranges`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from math import frexp, gcd
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import USUAL_LENGTH, Kind
from sfumato.data.schema.toml_document import DOMAIN, add_line
from sfumato.errors import QueryError
from sfumato.methods.query.sql.parse import quote_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Scalar

    Value = Callable[[exp.Expr], "Typed"]
    Rules = dict[type[exp.Expr], Callable[[exp.Expr, Value], "Typed"]]

EPOCH = date(1970, 1, 1)
FIRST_DAY, LAST_DAY = (date.min - EPOCH).days, (date.max - EPOCH).days
SMALLEST = Fraction(1, 10**30)
"""Reals of a table that are smaller in magnitude count as zero."""

LENGTH = USUAL_LENGTH
"""Characters that are read of a text of which nothing is declared."""

_LARGEST, _UNDERFLOW = Fraction(10) ** 100, Fraction(1, 10**200)
_INTEGER = 2**63
_NODES = 3_000

TYPES = {
    Kind.INTEGER: exp.DType.BIGINT,
    Kind.REAL: exp.DType.DOUBLE,
    Kind.TEXT: exp.DType.TEXT,
    Kind.DATE: exp.DType.DATE,
    Kind.BOOLEAN: exp.DType.BOOLEAN,
}
"""The SQL type in which each kind is computed."""


@dataclass(frozen=True)
class Direct:
    """The declared column of a value, and the SQL of the value before it was clamped."""

    column: Column
    raw: exp.Expr


@dataclass(frozen=True)
class Typed:
    """A value: its SQL, its kind, and what is publicly known of it.

    Integers and dates are `low` plus a multiple of `step`, which is 0 for a constant. `values`
    lists the declared values in order. `length` is the largest number of characters of a text; it
    is None only for the person, who must not be cut, and for choices from it. `direct` is set if
    the value is a declared column, `unit` if it is the person of the row, and `noisy` if it is
    computed from released figures, so that nothing about it needs a bound.
    """

    tree: exp.Expr
    kind: Kind
    nullable: bool
    low: Fraction | None = None
    high: Fraction | None = None
    step: int = 1
    least: Fraction = SMALLEST
    values: tuple[Scalar, ...] | None = None
    length: int | None = None
    direct: Direct | None = None
    unit: bool = False
    noisy: bool = False

    @property
    def sql(self) -> exp.Expr:
        """The SQL, free to be put into another tree."""
        return self.tree.copy()

    @property
    def bounded(self) -> bool:
        """Whether both ends are known."""
        return self.low is not None and self.high is not None

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """Both ends, which are known."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    @property
    def largest(self) -> Fraction:
        """The largest magnitude, which is known."""
        return max(abs(end) for end in self.ends)


def integer(
    tree: exp.Expr, low: Fraction | int, high: Fraction | int, *, nullable: bool, step: int = 1
) -> Typed:
    """An integer between two ends."""
    constant = low == high
    return Typed(
        tree, Kind.INTEGER, nullable, Fraction(low), Fraction(high), 0 if constant else step
    )


def real(
    tree: exp.Expr, low: Fraction | None, high: Fraction | None, *, nullable: bool, least: Fraction
) -> Typed:
    """A real between two exact ends, which are rounded to doubles as in the engine."""
    if least < _UNDERFLOW or any(end is not None and abs(end) > _LARGEST for end in (low, high)):
        raise QueryError(
            "literal_invalid",
            f"Cannot compute {quote_sql(tree)}: its numbers may leave the range that every engine "
            "computes in. Multiply or divide fewer numbers.",
        )
    ends = [None if end is None else Fraction(float(end)) for end in (low, high)]
    return Typed(tree, Kind.REAL, nullable, ends[0], ends[1], least=_power_below(least))


def _power_below(least: Fraction) -> Fraction:
    """A power of two below a number, by a margin for rounding."""
    # frexp gives 2^(e-1) <= x < 2^e, so 2^(e-2) is at most half of x: room for the engine's
    # rounding.
    _, exponent = frexp(float(least))
    return Fraction(2) ** (exponent - 2)


def boolean(tree: exp.Expr, *, nullable: bool, noisy: bool = False) -> Typed:
    """A truth value."""
    return Typed(tree, Kind.BOOLEAN, nullable, values=(False, True), noisy=noisy)


def text(tree: exp.Expr, *, nullable: bool, length: int) -> Typed:
    """A text of which nothing more is known."""
    return Typed(tree, Kind.TEXT, nullable, length=length)


def shorten_text(tree: exp.Expr, length: int) -> exp.Expr:
    """The first characters of a text. Texts of few bytes are not cut, which is cheaper."""
    bits = exp.Anonymous(this="BIT_LENGTH", expressions=[tree.copy()])
    # A text of at most 8n bits has at most n characters, in any encoding.
    short = exp.LTE(this=bits, expression=exp.convert(8 * length))
    cut = exp.Substring(this=tree.copy(), start=exp.convert(1), length=exp.convert(length))
    return exp.case().when(short, tree.copy()).else_(cut)


def day(
    tree: exp.Expr, low: Fraction | int, high: Fraction | int, *, nullable: bool, step: int = 1
) -> Typed:
    """A date between two days."""
    constant = low == high
    return Typed(tree, Kind.DATE, nullable, Fraction(low), Fraction(high), 0 if constant else step)


def released_number(tree: exp.Expr, *, nullable: bool) -> Typed:
    """A number made of released figures."""
    return Typed(tree, Kind.REAL, nullable, noisy=True)


def constant(value: Scalar) -> Typed:
    """A value that is written out."""
    tree = literal(value)
    listed = (value,)
    if isinstance(value, bool):
        return Typed(tree, Kind.BOOLEAN, nullable=False, values=listed)
    if isinstance(value, int):
        return Typed(tree, Kind.INTEGER, False, Fraction(value), Fraction(value), 0, values=listed)
    if isinstance(value, Decimal):
        point = Fraction(float(value))
        least = abs(point) if point else SMALLEST
        return Typed(tree, Kind.REAL, False, point, point, least=least, values=listed)
    if isinstance(value, date):
        days = Fraction(days_of(value))
        return Typed(tree, Kind.DATE, False, days, days, 0, values=listed)
    return Typed(tree, Kind.TEXT, nullable=False, values=listed, length=len(value))


def literal(value: Scalar | Fraction) -> exp.Expr:
    """A value as SQL, in the type its kind is computed in."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        return exp.cast(exp.convert(value), exp.DType.BIGINT)
    if isinstance(value, Decimal | Fraction):
        return exp.cast(exp.Literal.string(repr(float(value))), exp.DType.DOUBLE)
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)
    return exp.Literal.string(value)


def days_of(value: date) -> int:
    """A date as the number of its day."""
    return (value - EPOCH).days


def date_of(days: Fraction | int) -> date:
    """The date of a day's number."""
    return EPOCH + timedelta(days=int(days))


def fits_integer(low: Fraction, high: Fraction) -> bool:
    """Whether every integer between two ends, and its negative, fits into 64 bits."""
    return low > -_INTEGER and high < _INTEGER


def common_step(values: Sequence[Typed]) -> int:
    """The step of a value that is one of several integer expressions."""
    lows = [value.low for value in values]
    steps = [value.step for value in values]
    if any(low is None for low in lows):
        return 1
    first = lows[0] or Fraction(0)
    # Values on different grids lie on the grid of the greatest common divisor of steps and
    # offsets.
    return gcd(*steps, *(int((low or Fraction(0)) - first) for low in lows))


def check_tree_size(tree: exp.Expr, node: exp.Expr) -> exp.Expr:
    """Return a tree that repeats a part of itself; refuse it if it has become too long."""
    for count, _ in enumerate(tree.walk()):
        if count > _NODES:
            raise QueryError(
                "sql_too_complex",
                f"Cannot plan {quote_sql(node)}: written out it is too long. Nest fewer functions.",
            )
    return tree


NUMBERS = (Kind.INTEGER, Kind.REAL)


def bracket(tree: exp.Expr) -> exp.Expr:
    """A tree that keeps its meaning inside any other."""
    loose = exp.Binary | exp.Unary | exp.Between | exp.In
    return exp.Paren(this=tree) if isinstance(tree, loose) else tree


def require_kind(value: Typed, kinds: Sequence[Kind], node: exp.Expr) -> Typed:
    """Refuse a value of another kind."""
    if value.kind in kinds:
        return value
    raise QueryError(
        "kind_mismatch",
        f"Cannot compute with {quote_sql(node)}, which is {value.kind}; "
        f"allowed is {' or '.join(kinds)}.",
    )


def require_text(value: Typed, node: exp.Expr) -> Typed:
    """Refuse other kinds than text; a person's name is cut to the length of any other text."""
    require_kind(value, (Kind.TEXT,), node)
    if value.length is not None or value.noisy:
        return value
    return replace(value, tree=shorten_text(value.tree, LENGTH), length=LENGTH, unit=False)


def require_bounds(value: Typed, node: exp.Expr) -> Typed:
    """Refuse a number of which no bounds are known."""
    if value.bounded or value.noisy:
        return value
    raise QueryError(
        "bounds_missing",
        f"Cannot compute with {quote_sql(node)}: no bounds of it are declared or follow from "
        f"declared ones. {bounds_advice(value)}, or write LEAST(GREATEST(x, low), high).",
    )


def bounds_advice(value: Typed) -> str:
    """The line that would give a value bounds, where it is a column."""
    if value.direct is None:
        return "Declare bounds for its columns"
    column = value.direct.column
    return add_line(column.name, DOMAIN[column.kind])


def compile_number(node: exp.Expr, value: Value) -> Typed:
    """A number with bounds."""
    return require_number(value(node), node)


def require_number(value: Typed, node: exp.Expr) -> Typed:
    """A value that is a number with bounds."""
    return require_bounds(require_kind(value, NUMBERS, node), node)


def as_real(value: Typed) -> Typed:
    """An integer as a real."""
    if value.kind is Kind.REAL:
        return value
    tree: exp.Expr = exp.cast(value.sql, exp.DType.DOUBLE)
    if value.step == 0 and value.values is not None:
        tree = literal(value.ends[0])
    if value.noisy:
        return released_number(tree, nullable=value.nullable)
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


def unify_kinds(values: Sequence[Typed], nodes: Sequence[exp.Expr]) -> list[Typed]:
    """Values of one kind: integers beside reals become reals, and quoted dates become dates."""
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
            f"Cannot put {quote_sql(nodes[0])}, which is {values[0].kind}, beside "
            f"{quote_sql(nodes[-1])}, which is {values[-1].kind}. Cast one of them.",
        )
    return list(values)


def _as_date(value: Typed, node: exp.Expr) -> Typed:
    """A date written in quotes as a date."""
    if value.kind is Kind.DATE or not isinstance(node, exp.Literal):
        return value
    return date_literal(node)


def date_literal(node: exp.Literal) -> Typed:
    """The date that a literal spells."""
    try:
        if len(node.name) != 10:
            raise ValueError
        return constant(date.fromisoformat(node.name))
    except ValueError:
        raise QueryError(
            "time_malformed", f"{quote_sql(node)} is not a date. Write it as 'YYYY-MM-DD'."
        ) from None


def integer_literal(node: exp.Expr | None, allowed: range, description: str) -> int:
    """A whole number that is written out, within limits."""
    sign, inner = 1, node
    if isinstance(inner, exp.Neg):
        sign, inner = -1, inner.this
    digits = inner.name if isinstance(inner, exp.Literal) and not inner.is_string else ""
    if digits.isascii() and digits.isdigit() and len(digits) < 19:
        number_ = sign * int(digits)
        if number_ in allowed:
            return number_
    actual = f", not {quote_sql(node)}" if node is not None else ""
    raise QueryError(
        "literal_invalid",
        f"{description} must be a whole number written out, from {allowed.start} to "
        f"{allowed.stop - 1}{actual}.",
    )
