"""One aggregate over released rows, read from SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.anonymize.worlds.predicate import conjunction, conjuncts, not_null, parse_predicate
from sfumato.errors import QueryError
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from sqlglot import exp

    from sfumato.anonymize.worlds.predicate import Formula
    from sfumato.schema.schema import Schema

    Aggregate = Literal["count", "sum", "avg", "min", "max"]

ALLOWED = (
    "Allowed is SELECT COUNT(*) | COUNT(c) | SUM(c) | AVG(c) | MIN(c) | MAX(c) FROM t [WHERE ...]."
)


@dataclass(frozen=True)
class Question:
    """What is asked: an aggregate, the column it is of, and which rows it is over."""

    aggregate: Aggregate
    measure: str | None
    conjuncts: tuple[Formula, ...]

    @property
    def where(self) -> Formula:
        """What a row must satisfy."""
        return conjunction(self.conjuncts)


def parse(sql: str, schema: Schema) -> Question:
    """Read a question, or refuse it."""
    from sqlglot import exp

    # The same reader as for private questions, so the same limits on length and depth.
    from sfumato.query.parse import parse as parse_select

    parsed = parse_select(sql)
    tree = parsed.tree
    if parsed.options != type(parsed.options)():
        raise QueryError(
            "worlds_not_private",
            f"A released table is asked without noise, so no privacy can be asked for. {ALLOWED}",
        )
    extra = {name for name, part in tree.args.items() if part} - {
        "kind", "expressions", "from", "from_", "where",
    }  # fmt: skip
    tables = list(tree.find_all(exp.Table))
    if extra or len(tree.expressions) != 1 or len(tables) != 1:
        raise QueryError(
            "worlds_not_one_aggregate", f"The question is not one aggregate of one table. {ALLOWED}"
        )
    aggregate, measure = _aggregate(tree.expressions[0].unalias(), schema)
    where = tree.args.get("where")
    parts = [parse_predicate(part, schema) for part in conjuncts(where and where.this)]
    if measure is not None:
        parts.append(not_null(measure))
    return Question(aggregate, None if aggregate == "count" else measure, tuple(parts))


def _aggregate(found: exp.Expr, schema: Schema) -> tuple[Aggregate, str | None]:
    from sqlglot import exp

    kinds: dict[type[exp.Expr], Aggregate] = {
        exp.Count: "count",
        exp.Sum: "sum",
        exp.Avg: "avg",
        exp.Min: "min",
        exp.Max: "max",
    }
    aggregate = kinds.get(type(found))
    inner = found.this if aggregate else None
    if aggregate == "count" and isinstance(inner, exp.Star):
        return aggregate, None
    if aggregate is None or not isinstance(inner, exp.Column) or found.expressions:
        raise QueryError(
            "worlds_not_one_aggregate", f"The question is not one aggregate of one table. {ALLOWED}"
        )
    column = schema.column(inner.name)
    if aggregate != "count" and column.kind not in (Kind.INTEGER, Kind.REAL):
        raise QueryError(
            "measure_not_number",
            f"{aggregate.upper()} needs a column of numbers, and {column.name!r} is {column.kind}. "
            "Ask it of an integer or real column.",
        )
    return aggregate, column.name
