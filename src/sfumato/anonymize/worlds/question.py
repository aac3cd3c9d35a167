"""One aggregate over released rows, read from SQL, and the condition on its rows.

The condition has comparisons of single columns, joined by AND, OR and NOT. Its truth is that of
SQL: true, false, or unknown for missing values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any, Literal

from sfumato.data.schema.column import Kind, from_text
from sfumato.errors import QueryError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import exp

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema

    Truth = bool | None
    Test = Callable[[Any], Truth]
    Atom = tuple[str, Test, tuple[Any, ...]]
    Aggregate = Literal["count", "sum", "avg", "min", "max"]

_FLIPPED = {"eq": "eq", "neq": "neq", "lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": eq, "neq": ne, "lt": lt, "lte": le, "gt": gt, "gte": ge,
}  # fmt: skip


@dataclass(frozen=True)
class Formula:
    """Tests of single columns, and how the truth of all follows from the truth of each.

    Each test has the constants that a column is compared with: between them it is always the same.
    """

    atoms: tuple[Atom, ...]
    joined: Callable[[Sequence[Truth]], Truth]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are tested."""
        return tuple(dict.fromkeys(column for column, _, _ in self.atoms))

    def constants(self, column: str) -> set[Any]:
        """Return the constants that a column is compared with."""
        return {
            constant
            for name, _, constants in self.atoms
            if name == column
            for constant in constants
        }


def conjunction(formulas: Sequence[Formula]) -> Formula:
    """Join formulas by AND; without any, the result is always true."""
    return _join(formulas, _all_true)


def not_null(column: str) -> Formula:
    """Return the formula that a column is not missing."""
    return _single(column, lambda value: value is not None)


def parse_predicate(tree: exp.Expr, schema: Schema) -> Formula:
    """Read a condition."""
    from sqlglot import exp

    match tree:
        case exp.Paren():
            return parse_predicate(tree.this, schema)
        case exp.And():
            return _join([parse_predicate(side, schema) for side in _sides(tree)], _all_true)
        case exp.Or():
            return _join([parse_predicate(side, schema) for side in _sides(tree)], _any_true)
        case exp.Not():
            inner = parse_predicate(tree.this, schema)
            return Formula(inner.atoms, lambda truths: _not(inner.joined(truths)))
    return _atom(tree, schema)


def conjuncts(tree: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that a top-level AND joins."""
    from sqlglot import exp

    if tree is None:
        return []
    if isinstance(tree, exp.Paren):
        return conjuncts(tree.this)
    if isinstance(tree, exp.And):
        return [condition for side in _sides(tree) for condition in conjuncts(side)]
    return [tree]


def _atom(tree: exp.Expr, schema: Schema) -> Formula:
    """Read a test of one column against constants."""
    from sqlglot import exp

    if isinstance(tree, exp.Column):
        return _comparison(tree, "eq", exp.true(), schema)
    if tree.key in _COMPARE:
        left_side, right = _sides(tree)
        if isinstance(right, exp.Column):
            return _comparison(right, _FLIPPED[tree.key], left_side, schema)
        return _comparison(left_side, tree.key, right, schema)
    column = _column(tree.this, schema)
    match tree:
        case exp.Is() if isinstance(tree.expression, exp.Null):
            return _single(column.name, lambda value: value is None)
        case exp.In() if tree.expressions:
            allowed = [_constant(constant, column) for constant in tree.expressions]
            return _single(column.name, _known(lambda value: value in allowed), *allowed)
        case exp.Between():
            low, high = (_constant(tree.args[end], column) for end in ("low", "high"))
            return _single(column.name, _known(lambda value: low <= value <= high), low, high)
        case exp.Like() if column.kind is Kind.TEXT:
            pattern = re.escape(str(_constant(tree.expression, column)))
            matcher = re.compile(pattern.replace("%", ".*").replace("_", "."), re.DOTALL)
            return _single(column.name, _known(lambda value: bool(matcher.fullmatch(value))))
    raise _unreadable()


def _comparison(side: exp.Expr, key: str, literal: exp.Expr, schema: Schema) -> Formula:
    column = _column(side, schema)
    constant, compare = _constant(literal, column), _COMPARE[key]
    return _single(column.name, _known(lambda value: compare(value, constant)), constant)


def _column(tree: object, schema: Schema) -> Column:
    from sqlglot import exp

    if not isinstance(tree, exp.Column):
        raise _unreadable()
    return schema.column(tree.name)


def _constant(tree: exp.Expr, column: Column) -> Any:
    """Read a constant as a value that is comparable with those of the column."""
    from sqlglot import exp

    if isinstance(tree, exp.Cast):
        tree = tree.this
    if isinstance(tree, exp.Boolean) and column.kind is Kind.BOOLEAN:
        return bool(tree.this)
    sign = "-" if isinstance(tree, exp.Neg) else ""
    literal = tree.this if isinstance(tree, exp.Neg) else tree
    if not isinstance(literal, exp.Literal):
        raise _unreadable()
    try:
        if column.kind in (Kind.INTEGER, Kind.REAL):
            return Decimal(sign + literal.name)
        return from_text(literal.name, column.kind)
    except (SchemaError, InvalidOperation):
        raise QueryError(
            "kind_mismatch",
            f"A constant that column {column.name!r} is compared with is no {column.kind}. Write "
            "it as the column's values are written.",
        ) from None


def _unreadable() -> QueryError:
    return QueryError(
        "question_not_supported",
        "A condition cannot be read. Allowed are =, <>, <, <=, >, >=, IN, BETWEEN, LIKE and IS "
        "NULL of a column and constants, joined by AND, OR and NOT.",
    )


def _sides(tree: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    return tree.this, tree.args["expression"]


def _single(column: str, test: Test, *constants: Any) -> Formula:
    return Formula(((column, test, constants),), lambda truths: truths[0])


def _known(test: Callable[[Any], bool]) -> Test:
    """Return a test that is unknown for missing values, as in SQL."""
    return lambda value: None if value is None else test(value)


def _join(formulas: Sequence[Formula], how: Callable[[Sequence[Truth]], Truth]) -> Formula:
    atoms = tuple(atom for formula in formulas for atom in formula.atoms)
    ends = [0]
    for formula in formulas:
        ends.append(ends[-1] + len(formula.atoms))

    def joined(truths: Sequence[Truth]) -> Truth:
        results = [
            formula.joined(truths[start:end])
            for formula, start, end in zip(formulas, ends, ends[1:], strict=False)
        ]
        return how(results)

    return Formula(atoms, joined)


def _all_true(truths: Sequence[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def _any_true(truths: Sequence[Truth]) -> Truth:
    return True if True in truths else None if None in truths else False


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


ALLOWED = (
    "Allowed is SELECT COUNT(*) | COUNT(c) | SUM(c) | AVG(c) | MIN(c) | MAX(c) FROM t [WHERE ...]."
)


@dataclass(frozen=True)
class AggregateQuestion:
    """A question: an aggregate, its column, and a condition on the rows."""

    aggregate: Aggregate
    measure: str | None
    conjuncts: tuple[Formula, ...]

    @property
    def where(self) -> Formula:
        """The condition that a row must satisfy."""
        return conjunction(self.conjuncts)


def parse(sql: str, schema: Schema) -> AggregateQuestion:
    """Read a question, or refuse it."""
    from sqlglot import exp

    # The same reader as for private questions, so the same limits on length and depth.
    from sfumato.methods.query.sql.parse import parse as parse_select

    parsed = parse_select(sql)
    tree = parsed.tree
    if parsed.options != type(parsed.options)():
        raise QueryError(
            "question_not_supported",
            "A released table is queried without noise, so options of privacy do not apply. "
            f"{ALLOWED}",
        )
    extra = {name for name, argument in tree.args.items() if argument} - {
        "kind", "expressions", "from", "from_", "where",
    }  # fmt: skip
    tables = list(tree.find_all(exp.Table))
    if extra or len(tree.expressions) != 1 or len(tables) != 1:
        raise QueryError(
            "question_not_supported", f"The question is not one aggregate of one table. {ALLOWED}"
        )
    aggregate, measure = _aggregate(tree.expressions[0].unalias(), schema)
    where = tree.args.get("where")
    conditions = [
        parse_predicate(condition, schema) for condition in conjuncts(where and where.this)
    ]
    if measure is not None:
        conditions.append(not_null(measure))
    return AggregateQuestion(
        aggregate, None if aggregate == "count" else measure, tuple(conditions)
    )


def _aggregate(expression: exp.Expr, schema: Schema) -> tuple[Aggregate, str | None]:
    from sqlglot import exp

    kinds: dict[type[exp.Expr], Aggregate] = {
        exp.Count: "count",
        exp.Sum: "sum",
        exp.Avg: "avg",
        exp.Min: "min",
        exp.Max: "max",
    }
    aggregate = kinds.get(type(expression))
    inner = expression.this if aggregate else None
    if aggregate == "count" and isinstance(inner, exp.Star):
        return aggregate, None
    if aggregate is None or not isinstance(inner, exp.Column) or expression.expressions:
        raise QueryError(
            "question_not_supported", f"The question is not one aggregate of one table. {ALLOWED}"
        )
    column = schema.column(inner.name)
    if aggregate != "count" and column.kind not in (Kind.INTEGER, Kind.REAL):
        raise QueryError(
            "column_unsuitable",
            f"{aggregate.upper()} needs a column of numbers, and {column.name!r} is {column.kind}. "
            "Ask it of an integer or real column.",
        )
    return aggregate, column.name
