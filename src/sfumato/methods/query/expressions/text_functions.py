"""Functions of texts, and casts between kinds.

Letters are those of ASCII: engines disagree about all others. CAST and TRY_CAST are the same: what
cannot be converted is NULL.
"""

from __future__ import annotations

import string
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.errors import QueryError
from sfumato.methods.query.expressions.number_functions import round_to
from sfumato.methods.query.expressions.typed_values import (
    LENGTH,
    Typed,
    as_integer,
    as_real,
    boolean,
    bracket,
    check_tree_size,
    date_literal,
    integer,
    integer_literal,
    literal,
    real,
    require_bounds,
    require_text,
    text,
)
from sfumato.methods.query.sql.parse import quote_sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.query.expressions.typed_values import Rules, Value


_LONGEST = 2**16
"""Characters of a text that is joined of others."""

_LETTERS = {
    exp.Upper: (string.ascii_lowercase, string.ascii_uppercase),
    exp.Lower: (string.ascii_uppercase, string.ascii_lowercase),
}


def change_case(node: exp.Expr, value: Value) -> Typed:
    """UPPER(x) and LOWER(x)."""
    operand = require_text(value(node.this), node.this)
    source, target = _LETTERS[type(node)]  # type: ignore[index]  # both are in the table of rules
    table = str.maketrans(source, target)
    tree = exp.Translate(
        this=operand.sql, from_=exp.Literal.string(source), to=exp.Literal.string(target)
    )
    return _map_values(operand, tree, lambda string_: string_.translate(table))


def slice_(node: exp.Expr, value: Value) -> Typed:
    """SUBSTRING(x, start, length) and LEFT(x, length), counted in characters."""
    operand = require_text(value(node.this), node.this)
    if isinstance(node, exp.Left):
        start, length = 1, node.expression
    else:
        start = integer_literal(node.args.get("start"), range(1, 10_001), "The start")
        length = node.args.get("length")
    limit = integer_literal(length, range(10_001), "The length")
    tree = exp.Substring(this=operand.sql, start=exp.convert(start), length=exp.convert(limit))
    operand = replace(operand, length=min(limit, operand.length or limit))
    return _map_values(operand, tree, lambda string_: string_[start - 1 : start - 1 + limit])


def trim(node: exp.Expr, value: Value) -> Typed:
    """TRIM(x): without spaces around it."""
    if node.expression:
        raise QueryError("expression_not_allowed", f"Cannot use {quote_sql(node)}; write TRIM(x).")
    operand = require_text(value(node.this), node.this)
    tree = exp.Trim(this=operand.sql, expression=exp.Literal.string(" "))
    return _map_values(operand, tree, lambda string_: string_.strip(" "))


def _map_values(operand: Typed, tree: exp.Expr, function: Callable[[str], str]) -> Typed:
    """A text made of another one; so are its declared values."""
    values = operand.values
    if values is not None:
        # Different values may become one, as "A" and "a" do.
        values = tuple(dict.fromkeys(function(str(entry)) for entry in values))
    return replace(operand, tree=tree, values=values, direct=None, unit=False)


def length(node: exp.Expr, value: Value) -> Typed:
    """LENGTH(x), in characters."""
    operand = require_text(value(node.this), node.this)
    high = operand.length or LENGTH
    if operand.values is not None:
        high = max(len(str(entry)) for entry in operand.values)
    tree: exp.Expr = exp.Length(this=operand.sql)
    if operand.values is not None:
        # The data may hold longer texts than are declared.
        longer = exp.GT(this=tree.copy(), expression=exp.convert(high))
        tree = check_tree_size(exp.case().when(longer, exp.convert(high)).else_(tree), node)
    return integer(exp.cast(tree, exp.DType.BIGINT), 0, high, nullable=operand.nullable)


def concatenation(node: exp.Expr, value: Value) -> Typed:
    """x || y; NULL where either is."""
    operands = [require_text(value(operand), operand) for operand in (node.this, node.expression)]
    left, right = operands
    length = sum(operand.length or LENGTH for operand in operands)
    if length > _LONGEST:
        raise QueryError(
            "overflow_possible",
            f"Cannot compute {quote_sql(node)}: by what is declared it may have {length:,} "
            "characters; "
            f"at most {_LONGEST:,} are computed. Join fewer texts, cut them with LEFT(x, n), or "
            "add under each in its schema: length = 100",
        )
    # What was joined just now stands nowhere else: copying it again would take quadratic time.
    is_new_join = isinstance(left.tree, exp.DPipe) and left.tree.parent is None
    first = left.tree if is_new_join else left.sql
    tree = exp.DPipe(this=bracket(first), expression=bracket(right.sql), safe=False)
    return text(tree, nullable=left.nullable or right.nullable, length=length)


DType = exp.DType

_KINDS = {
    **dict.fromkeys((DType.TINYINT, DType.SMALLINT, DType.INT, DType.BIGINT), Kind.INTEGER),
    **dict.fromkeys((DType.FLOAT, DType.DOUBLE), Kind.REAL),
    **dict.fromkeys((DType.TEXT, DType.VARCHAR), Kind.TEXT),
    DType.DATE: Kind.DATE,
    DType.BOOLEAN: Kind.BOOLEAN,
}
_DIGITS = "0123456789"
_INTEGER_DIGITS, _REAL_SIGNS = 18, 17
_SPELLED_LENGTH = 20
"""Characters of an integer of 64 bits with its sign; dates and truth values have fewer."""


def cast(node: exp.Expr, value: Value) -> Typed:
    """CAST(x AS type)."""
    target_kind = _KINDS.get(node.args["to"].this)
    inner = node.this
    if target_kind is None or node.args["to"].expressions:
        raise QueryError(
            "expression_not_allowed",
            f"Cannot use {quote_sql(node)}. Allowed are CAST to BIGINT, DOUBLE, TEXT, DATE and "
            "BOOLEAN.",
        )
    if target_kind is Kind.DATE and isinstance(inner, exp.Literal) and inner.is_string:
        return date_literal(inner)
    operand = value(inner)
    if operand.kind is target_kind:
        return operand
    match operand.kind, target_kind:
        case (Kind.REAL, Kind.INTEGER):
            return round_to(node, require_bounds(operand, inner), 0)
        case (Kind.INTEGER, Kind.REAL):
            return as_real(require_bounds(operand, inner))
        case (Kind.BOOLEAN, Kind.INTEGER):
            return as_integer(operand)
        case (Kind.INTEGER, Kind.BOOLEAN):
            tree = exp.NEQ(this=bracket(operand.sql), expression=literal(0))
            return boolean(tree, nullable=operand.nullable)
        case (Kind.INTEGER | Kind.DATE | Kind.BOOLEAN, Kind.TEXT):
            spelled = exp.cast(operand.sql, exp.DType.TEXT)
            return text(spelled, nullable=operand.nullable, length=_SPELLED_LENGTH)
        case (Kind.TEXT, Kind.INTEGER | Kind.REAL):
            return _parse_number(node, require_text(operand, inner), target_kind)
    raise QueryError(
        "expression_not_allowed",
        f"Cannot use {quote_sql(node)}: from {operand.kind} to {target_kind} engines differ. "
        "Declare the column as what it is.",
    )


def _parse_number(node: exp.Expr, operand: Typed, target_kind: Kind) -> Typed:
    """The number that a text spells: an optional sign, digits and, in reals, a point."""
    remainder = exp.Substring(this=operand.sql, start=exp.convert(2), length=exp.convert(20))
    first = exp.Substring(this=operand.sql, start=exp.convert(1), length=exp.convert(1))
    allowed_signs = ["", "."] if target_kind is Kind.REAL else [""]
    longest = _REAL_SIGNS if target_kind is Kind.REAL else _INTEGER_DIGITS
    spelled = exp.and_(
        exp.LTE(this=exp.Length(this=operand.sql), expression=exp.convert(longest)),
        _is_one_of(_without_digits(first), ["", "-"]),
        _is_one_of(_without_digits(remainder), allowed_signs),
        # At least one digit: without this "-" and "." would be numbers.
        exp.NEQ(this=_without_digits(operand.sql), expression=operand.sql),
    )
    # The text is chosen inside the cast: an engine may cast a constant before it asks for CASE.
    tree = exp.cast(check_tree_size(exp.case().when(spelled, operand.sql), node), _SQL[target_kind])
    high = Fraction(10) ** longest
    if target_kind is Kind.INTEGER:
        return integer(tree, -high, high, nullable=True)
    return real(tree, -high, high, nullable=True, least=1 / high)


_SQL = {Kind.INTEGER: exp.DType.BIGINT, Kind.REAL: exp.DType.DOUBLE}


def _without_digits(tree: exp.Expr) -> exp.Expr:
    return exp.Translate(this=tree, from_=exp.Literal.string(_DIGITS), to=exp.Literal.string(""))


def _is_one_of(tree: exp.Expr, texts: list[str]) -> exp.Expr:
    return exp.In(this=tree, expressions=[exp.Literal.string(entry) for entry in texts])


RULES: Rules = {
    exp.Upper: change_case,
    exp.Lower: change_case,
    exp.Substring: slice_,
    exp.Left: slice_,
    exp.Trim: trim,
    exp.Length: length,
    exp.DPipe: concatenation,
    exp.Cast: cast,
    exp.TryCast: cast,
}
