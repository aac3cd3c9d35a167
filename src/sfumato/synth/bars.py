"""Error bars of counts on synthetic rows, from the measurement log where it tells.

A count over some columns is a sum of cells of a measured table that has them all; each cell has
its noise. How many cells a count adds up is found by asking the same of the table of all
combinations of values, which is public.
"""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from sfumato.errors import EngineError, QueryError
from sfumato.schema.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.synth.generator import SynthesisModel

    Ask = Callable[[exp.Select, pa.Table], pa.Table]
    """Answers a question on a table in memory, under the name that the question gives it."""

_MOST_CELLS = 1 << 20
_BAR = "_sd"


def parsed(sql: str, table: str) -> exp.Select:
    """One SELECT from the synthetic table alone."""
    try:
        found = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.ParseError:
        found = None
    named = [] if found is None else [one.name.lower() for one in found.find_all(exp.Table)]
    if not isinstance(found, exp.Select) or set(named) != {table.lower()}:
        raise QueryError(
            "synthetic_query_wrong",
            f"A synthetic table answers one SELECT from {table}. Write, say, SELECT COUNT(*) FROM "
            f"{table}.",
        )
    return found


def table_named(sql: str, tables: Sequence[str]) -> str:
    """The first of some tables that a question names; the first of all where it names none."""
    with suppress(sqlglot.ParseError):
        found = sqlglot.parse_one(sql, read="duckdb")
        named = {one.name for one in found.find_all(exp.Table)}
        return next((one for one in tables if one in named), tables[0])
    return tables[0]


def answered(sql: str, rows: pa.Table, model: SynthesisModel, ask: Ask) -> pa.Table:
    """The answer of synthetic rows; behind each COUNT(*) stands its deviation, or NULL."""
    question = parsed(sql, model.encoding.schema.table)
    try:
        answer = ask(question, rows)
    except EngineError as error:
        raise QueryError(
            "synthetic_query_wrong",
            "The synthetic table cannot answer this SELECT. It has the columns "
            f"{', '.join(map(quoted, rows.column_names))}, and DuckDB's functions.",
            detail=error.detail,
        ) from None
    told = len(question.selects) == answer.num_columns  # a star stands for several
    counted = [told and _counts(one) for one in question.selects]
    if not any(counted):
        return answer
    scale = rows.num_rows / model.fitted.total
    variances = _variances(question, answer, model, ask) or [None] * answer.num_rows
    bars = pa.array([None if one is None else scale * one**0.5 for one in variances], pa.float64())
    names: list[str] = []
    columns: list[pa.ChunkedArray | pa.Array] = []
    for name, column, is_count in zip(answer.column_names, answer.columns, counted, strict=True):
        names += [name, f"{name}{_BAR}"] if is_count else [name]
        columns += [column, bars] if is_count else [column]
    return pa.Table.from_arrays(columns, names=names)


def _variances(
    question: exp.Select, answer: pa.Table, model: SynthesisModel, ask: Ask
) -> list[float | None] | None:
    """The variance of the count in each row of an answer; None where the log tells nothing."""
    keys = [place for place, one in enumerate(question.selects) if one.find(exp.AggFunc) is None]
    domain = _domain_question(question, keys)
    if domain is None:
        return None
    shape = model.fitted.shape
    used = {one.name for one in domain.find_all(exp.Column)}
    if not used <= set(shape.names):
        return None
    places = tuple(sorted(map(shape.names.index, used)))
    each = _cell_variance(model, places)
    if each is None or shape.cells(places) > _MOST_CELLS:
        return None
    axes = [model.encoding.axes[place] for place in places]
    codes = np.indices(shape.of_set(places)).reshape(len(places), shape.cells(places))
    cells = {axis.column: axis.decode(code) for axis, code in zip(axes, codes, strict=True)}
    found = ask(domain, pa.table(cells or {shape.names[0]: pa.nulls(1)}))
    *groups, added = found.columns
    known = dict(zip(_tuples(groups, len(added)), added.to_pylist(), strict=True))
    asked = _tuples([answer.column(place) for place in keys], answer.num_rows)
    return [each * known[key] if key in known else None for key in asked]


def _domain_question(question: exp.Select, keys: list[int]) -> exp.Select | None:
    """How many combinations of values each row of an answer counts; None if that is not plain."""
    group = question.args.get("group")
    beyond = {
        name
        for name, one in question.args.items()
        if one
        and name not in ("expressions", "from_", "where", "group", "order", "limit", "offset")
    }
    unclear = beyond or len(list(question.find_all(exp.Query))) > 1
    if group is not None:
        several = any(group.args.get(one) for one in ("rollup", "cube", "grouping_sets"))
        unclear = unclear or several or len(group.expressions) > len(keys)
    if unclear:
        return None
    plain = question.copy()
    selects = [plain.selects[place] for place in keys]
    plain.set("expressions", [*selects, exp.alias_(exp.Count(this=exp.Star()), "sf_cells")])
    for one in ("order", "limit", "offset"):
        plain.set(one, None)
    return plain


def _cell_variance(model: SynthesisModel, places: tuple[int, ...]) -> float | None:
    """The variance that a cell of some columns has by the best measured table that has them."""
    shape = model.fitted.shape
    found = [
        one.variance * prod(shape.of_set(set(one.places) - set(places)))
        for one in model.log.merged().values()
        if set(places) <= set(one.places)
    ]
    return min(found, default=None)


def _tuples(columns: list[pa.ChunkedArray], rows: int) -> list[tuple[object, ...]]:
    if not columns:
        return [()] * rows
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _counts(one: exp.Expr) -> bool:
    counted = one.unalias()
    return isinstance(counted, exp.Count) and isinstance(counted.this, exp.Star)
