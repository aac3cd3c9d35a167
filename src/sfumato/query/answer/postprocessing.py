"""Everything above the aggregate: HAVING, ORDER BY, LIMIT and arithmetic, over noisy figures."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.query.plan import NOISY
from sfumato.schema.names import free_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.counting.axes import Axis
    from sfumato.engines.base import Engine
    from sfumato.query.answer.exact import LevelGroups
    from sfumato.query.answer.figures import Estimates
    from sfumato.query.plan import Plan

    OpenTable = Callable[[pa.Table], Engine]


def noisy_table(
    plan: Plan, axes: Mapping[int, Axis], levels: Sequence[tuple[LevelGroups, Sequence[Estimates]]]
) -> pa.Table:
    """The figures of all levels as one table, with two columns of error for each measure."""
    columns: dict[str, pa.Array] = {}
    for position, key in enumerate(plan.keys):
        columns[key.name] = _stacked(
            [_key(axes[position], position, groups) for groups, _ in levels]
        )
    for place, measure in enumerate(plan.measures):
        of_measure = [made[place] for _, made in levels]
        columns[measure.name] = _stacked([one.values for one in of_measure])
        for name, errors in zip(
            error_columns(plan, place),
            zip(*((one.stddev, one.bound) for one in of_measure), strict=True),
            strict=True,
        ):
            if errors[0] is not None:
                columns[name] = pa.array(np.concatenate(errors))
    return pa.table(columns)


def error_columns(plan: Plan, place: int) -> tuple[str, str]:
    """The names of a measure's sd and 95 % bound in the noisy table, which no other column has."""
    keys, measures = ([one.name for one in some] for some in (plan.keys, plan.measures))
    prefix = free_prefix([*plan.columns, *keys, *measures])
    return f"{prefix}sd_{place}", f"{prefix}bound_{place}"


def _key(axis: Axis, position: int, groups: LevelGroups) -> pa.Array:
    """The values of a key; a level that does not group by it has none."""
    if position not in groups.level.positions:
        return pa.nulls(groups.count, axis.decode(np.zeros(0, dtype=np.int64)).type)
    return axis.decode(groups.codes[groups.level.positions.index(position)])


def _stacked(parts: Sequence[pa.Array]) -> pa.ChunkedArray:
    """Arrays of several levels as one; integers become floats where one level has floats."""
    types = {part.type for part in parts}
    target = parts[0].type if len(types) == 1 else pa.float64()
    return pa.chunked_array([part.cast(target) for part in parts], target)


def finished(plan: Plan, noisy: pa.Table, open_table: OpenTable) -> tuple[pa.Table, pa.Table]:
    """Run what stands above the aggregate; give the answer, and beside it the errors by row.

    Where rows are merged once more (DISTINCT) the errors of none of them are known.
    """
    query = plan.finish.copy()
    known = {*(key.name for key in plan.keys), *(measure.name for measure in plan.measures)}
    errors = [name for name in noisy.column_names if name not in known]
    if query.args.get("distinct") or query.args.get("group"):
        errors = []
    query = query.select(*(exp.column(name, quoted=True) for name in errors))
    engine = _opened(open_table, os.getpid())
    with engine.lend(noisy) as table:
        result = engine.run(placed(query, {NOISY: table}))
    shown = len(plan.columns)
    answer = result.select(list(range(shown))).rename_columns(list(plan.columns))
    return answer, result.select(list(range(shown, result.num_columns)))


@cache
def _opened(open_table: OpenTable, process: int) -> Engine:  # noqa: ARG001  # part of the key
    """An engine that stays open: opening one takes longer than all that is asked of it here.

    Each process has its own, as a connection does not survive a fork.
    """
    return open_table(pa.table({"nothing": pa.array([0])}))


def error_bars(plan: Plan, errors: pa.Table, ranks: Mapping[str, float]) -> dict[str, Any]:
    """The error of each column of the answer that is made of figures: sd and bound95.

    One number where all rows have the same error, else one for each row. A quantile has the error
    of its rank, in rows; what is computed from several figures has none that is known.
    """
    places = {measure.name: place for place, measure in enumerate(plan.measures)}
    bars: dict[str, Any] = {}
    for column, node in zip(plan.columns, plan.finish.expressions, strict=True):
        used = {found.name for found in node.find_all(exp.Column)} & places.keys()
        if not used:
            continue
        shown = node.unalias()
        bars[column] = {"sd": None, "bound95": None}
        if not isinstance(shown, exp.Column):
            continue
        names = error_columns(plan, places[shown.name])
        if shown.name in ranks:
            bars[column]["ranks95"] = ranks[shown.name]
        elif names[0] in errors.column_names:
            both = (errors[one].to_pylist() for one in names)
            bars[column] = dict(zip(bars[column], map(_one_or_all, both), strict=True))
    return bars


def _one_or_all(numbers: list[float]) -> float | list[float] | None:
    return (numbers[0] if numbers else None) if len(set(numbers)) <= 1 else numbers


def placed(query: exp.Query, tables: Mapping[str, exp.Table]) -> exp.Query:
    """A query with the tables of these names put in place, under the aliases they had."""
    changed = query.copy()
    for table in list(changed.find_all(exp.Table)):
        if table.name in tables:
            put = tables[table.name].copy()
            alias = exp.to_identifier(table.alias_or_name, quoted=True)
            put.set("alias", exp.TableAlias(this=alias))
            table.replace(put)
    return changed
