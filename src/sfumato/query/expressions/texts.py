"""Functions of texts. Letters are those of ASCII: engines disagree about all others."""

from __future__ import annotations

import string
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.expressions.operands import bracket, demand_text, whole_literal
from sfumato.query.refusal import part
from sfumato.query.typed import LENGTH, Typed, integer, repeating, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.query.expressions.operands import Rules, Value

_LONGEST = 2**16
"""Characters of a text that is joined of others."""

_LETTERS = {
    exp.Upper: (string.ascii_lowercase, string.ascii_uppercase),
    exp.Lower: (string.ascii_uppercase, string.ascii_lowercase),
}


def letters(node: exp.Expr, value: Value) -> Typed:
    """UPPER(x) and LOWER(x)."""
    operand = demand_text(value(node.this), node.this)
    given, made = _LETTERS[type(node)]  # type: ignore[index]  # both are in the table of rules
    table = str.maketrans(given, made)
    tree = exp.Translate(
        this=operand.sql, from_=exp.Literal.string(given), to=exp.Literal.string(made)
    )
    return _mapped(operand, tree, lambda one: one.translate(table))


def slice_(node: exp.Expr, value: Value) -> Typed:
    """SUBSTRING(x, start, length) and LEFT(x, length), counted in characters."""
    operand = demand_text(value(node.this), node.this)
    if isinstance(node, exp.Left):
        start, length = 1, node.expression
    else:
        start = whole_literal(node.args.get("start"), range(1, 10_001), "The start")
        length = node.args.get("length")
    limit = whole_literal(length, range(10_001), "The length")
    tree = exp.Substring(this=operand.sql, start=exp.convert(start), length=exp.convert(limit))
    operand = replace(operand, length=min(limit, operand.length or limit))
    return _mapped(operand, tree, lambda one: one[start - 1 : start - 1 + limit])


def trimmed(node: exp.Expr, value: Value) -> Typed:
    """TRIM(x): without spaces around it."""
    if node.expression:
        raise QueryError("expression_not_allowed", f"Cannot use {part(node)}; write TRIM(x).")
    operand = demand_text(value(node.this), node.this)
    tree = exp.Trim(this=operand.sql, expression=exp.Literal.string(" "))
    return _mapped(operand, tree, lambda one: one.strip(" "))


def _mapped(operand: Typed, tree: exp.Expr, function: Callable[[str], str]) -> Typed:
    """A text made of another one; so are its declared values."""
    values = operand.values
    if values is not None:
        values = tuple(dict.fromkeys(function(str(one)) for one in values))
    return replace(operand, tree=tree, values=values, direct=None, unit=False)


def length(node: exp.Expr, value: Value) -> Typed:
    """LENGTH(x), in characters."""
    operand = demand_text(value(node.this), node.this)
    high = operand.length or LENGTH
    if operand.values is not None:
        high = max(len(str(one)) for one in operand.values)
    tree: exp.Expr = exp.Length(this=operand.sql)
    if operand.values is not None:
        # The data may hold longer texts than are declared.
        longer = exp.GT(this=tree.copy(), expression=exp.convert(high))
        tree = repeating(exp.case().when(longer, exp.convert(high)).else_(tree), node)
    return integer(exp.cast(tree, exp.DType.BIGINT), 0, high, nullable=operand.nullable)


def joined(node: exp.Expr, value: Value) -> Typed:
    """x || y; NULL where either is."""
    parts = [demand_text(value(one), one) for one in (node.this, node.expression)]
    left, right = parts
    length = sum(one.length or LENGTH for one in parts)
    if length > _LONGEST:
        raise QueryError(
            "text_too_long",
            f"Cannot compute {part(node)}: by what is declared it may have {length:,} characters; "
            f"at most {_LONGEST:,} are computed. Join fewer texts, cut them with LEFT(x, n), or "
            "declare their length.",
        )
    # What was joined just now stands nowhere else: copying it again would take quadratic time.
    fresh = isinstance(left.tree, exp.DPipe) and left.tree.parent is None
    first = left.tree if fresh else left.sql
    tree = exp.DPipe(this=bracket(first), expression=bracket(right.sql), safe=False)
    return text(tree, nullable=left.nullable or right.nullable, length=length)


RULES: Rules = {
    exp.Upper: letters,
    exp.Lower: letters,
    exp.Substring: slice_,
    exp.Left: slice_,
    exp.Trim: trimmed,
    exp.Length: length,
    exp.DPipe: joined,
}
