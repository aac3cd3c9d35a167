"""Error bars of counts on synthetic rows, from the measurement log where it tells.

A count over some columns is a sum of cells of a measured table that has them all; each cell has
its noise. The noisy sum is right on average and its deviation is known, but it is not what rows
say: these know of no negative counts, keep constraints, and are whole. So the square of a bar is
that of the deviation and of how far rows are from the noisy sum, together: whatever took them
there, at most 0.092 of all true counts are more than 1.96 bars away.

Where as many rows were drawn as somebody asked for, the true count is that among so many rows: the
true share of people times the rows. Of how many people there are only a noisy number is known,
which is made of the same tables, so that what is in both is off by less.

Which cells a count adds up is found by asking the same of the table of all combinations of values,
which is public. A cell of bins has several of them: a question that takes some and leaves others
cuts the cell, and how many rows lie on which side nobody measured.

Decision `synthetic-rows`.
"""

from __future__ import annotations

from collections import Counter
from math import hypot, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.data.schema.names import free_prefix, quoted, untaken
from sfumato.errors import EngineError, QueryError, SourceError
from sfumato.methods.synth.encode.axes import Bins
from sfumato.methods.synth.encode.encoding import nan_as_missing
from sfumato.methods.synth.junction_tree import summed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis
    from sfumato.methods.synth.synthesis_model import SynthesisModel

    Ask = Callable[[exp.Select, pa.Table], pa.Table]
    """Answers a question on a table in memory, under the name that the question gives it."""

_MOST_COMBINATIONS = 1 << 20
_BAR = "_sd"
_OF_THE_MACHINE = {"current_setting"}


def parsed(sql: str, table: str) -> exp.Select:
    """One SELECT from the synthetic table alone, with nothing that would be overlooked."""
    question = _read(sql)
    named = [] if question is None else list(question.find_all(exp.Table))
    alone = {source.name.lower() for source in named} == {table.lower()} and all(map(_plain, named))
    if not isinstance(question, exp.Select) or not alone or question.find(exp.Join, exp.With):
        raise QueryError(
            "question_not_supported",
            f"A synthetic table answers one SELECT from {table} alone, without joins, WITH and "
            f"samples. Write, say, SELECT COUNT(*) FROM {table}.",
        )
    if any(
        function.name.lower() in _OF_THE_MACHINE for function in question.find_all(exp.Anonymous)
    ):
        raise QueryError(
            "question_not_supported",
            "A synthetic table does not tell settings of this machine. Ask for its columns.",
        )
    return question


def table_named(sql: str, tables: Sequence[str]) -> str:
    """The first of some tables that a question names; the first of all where it names none."""
    question = _read(sql)
    named = (
        set()
        if question is None
        else {source.name.lower() for source in question.find_all(exp.Table)}
    )
    return next((name for name in tables if name.lower() in named), tables[0])


def _read(sql: str) -> exp.Expr | None:
    """What a question says; None where it is no SQL."""
    try:
        return sqlglot.parse_one(sql, read="duckdb")
    except SqlglotError:
        return None
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> QueryError:
    return QueryError(
        "question_not_supported",
        "This SELECT is nested too deeply. Leave out brackets, and write IN (...) for long chains "
        "of OR.",
    )


def _plain(table: exp.Table) -> bool:
    """Whether a table is a name and perhaps another name for it, but no sample, say."""
    arguments = {name for name, value in table.args.items() if value}
    return arguments <= {"this", "alias"} and not table.alias_column_names


def answered(sql: str, rows: pa.Table, model: SynthesisModel, ask: Ask) -> pa.Table:
    """The answer of synthetic rows; behind each COUNT(*) stands its deviation, or NULL."""
    question = parsed(sql, model.encoding.schema.table)
    try:
        answer = ask(question, rows)
    except RecursionError:  # it can be read, but not be written down for the engine
        raise _too_deep() from None
    except (EngineError, SourceError) as error:
        raise QueryError(
            "question_not_supported",
            "The synthetic table cannot answer this SELECT. It has the columns "
            f"{', '.join(map(quoted, rows.column_names))}, and DuckDB's functions.",
            detail=error.detail,
        ) from None
    has_column_per_select = len(question.selects) == answer.num_columns  # a star stands for several
    counted = [has_column_per_select and _counts(expression) for expression in question.selects]
    if not any(counted):
        return answer
    noisy = _noisy_counts(question, answer, model, ask) or [None] * answer.num_rows
    counts = answer.column(counted.index(True)).to_pylist()
    bars = pa.array(
        [
            None if noisy_count is None else _bar(noisy_count, count, rows.num_rows, model)
            for noisy_count, count in zip(noisy, counts, strict=True)
        ],
        pa.float64(),
    )
    names: list[str] = []
    columns: list[pa.ChunkedArray | pa.Array] = []
    for name, column, is_count in zip(answer.column_names, answer.columns, counted, strict=True):
        names.append(name)
        columns.append(column)
        if is_count:
            names.append(untaken(f"{name}{_BAR}", [*answer.column_names, *names]))
            columns.append(bars)
    return pa.Table.from_arrays(columns, names=names)


class _NoisyCount(NamedTuple):
    """What a measured table tells of a count: right on average, with a known deviation."""

    estimate: float
    variance: float
    weight: float
    """The part of the noisy number of all rows that its table decides."""


def _bar(noisy: _NoisyCount, count: int, rows: int, model: SynthesisModel) -> float:
    """The bar of a count on so many rows."""
    total, variance = model.fitted.total, noisy.variance
    scale = rows / total
    if rows != max(round(total), 1):  # it is about a share of them
        share = min(max(noisy.estimate / total, 0.0), 1.0)
        of_total = 1 / sum(1 / table.total_variance for table in model.log.tables)
        variance += share**2 * of_total - 2 * share * noisy.weight * variance
    return hypot(scale * max(variance, 0.0) ** 0.5, count - scale * noisy.estimate)


def _noisy_counts(
    question: exp.Select, answer: pa.Table, model: SynthesisModel, ask: Ask
) -> list[_NoisyCount | None] | None:
    """The count in each row of an answer by the log; None where that tells nothing."""
    shape = model.fitted.shape
    keys = [
        position
        for position, expression in enumerate(question.selects)
        if expression.find(exp.AggFunc) is None
    ]
    cell = f"{free_prefix(shape.names)}cell"
    domain = _domain_question(question, keys, cell)
    if domain is None:
        return None
    used = {column.name for column in domain.find_all(exp.Column)} - {cell}
    if not used <= set(shape.names):
        return None
    columns = tuple(sorted(map(shape.names.index, used)))
    best = _best_table(model, columns)
    axes = [model.encoding.axes[column] for column in columns]
    sizes = [(axis.fine if isinstance(axis, Bins) else axis).size for axis in axes]
    if best is None or prod(sizes) > _MOST_COMBINATIONS:
        return None
    combinations, cells = _combinations(axes, sizes)
    try:
        points_by_cell = ask(domain, pa.table({**combinations, cell: cells}))
    except (
        EngineError,
        SourceError,
        RecursionError,
    ):  # a value that no row has may be what it fails at
        return None
    *chosen, added, points = (column.combine_chunks() for column in points_by_cell.columns)
    groups = _groups([chosen[position] for position in keys], points_by_cell.num_rows)
    is_whole_cell = np.asarray(points) == np.bincount(cells)[np.asarray(added)]
    cut = {group for group, is_whole in zip(groups, is_whole_cell, strict=True) if not is_whole}
    counts, variance, weight = best
    by_group: dict[str, _NoisyCount] = {}
    for group, count in zip(groups, counts[np.asarray(added)].tolist(), strict=True):
        before = by_group.get(group, _NoisyCount(0.0, 0.0, weight))
        by_group[group] = _NoisyCount(before.estimate + count, before.variance + variance, weight)
    asked = _groups([answer.column(position) for position in keys], answer.num_rows)
    several = Counter(asked)
    return [
        by_group.get(group) if group not in cut and several[group] == 1 else None for group in asked
    ]


def _combinations(
    axes: Sequence[Axis], sizes: Sequence[int]
) -> tuple[dict[str, pa.Array], IntArray]:
    """Every combination of the values of some axes, and the number of the cell that it is in."""
    codes = np.indices(sizes, dtype=np.int64).reshape(len(sizes), prod(sizes))
    cells = np.zeros(prod(sizes), dtype=np.int64)
    values = {}
    for axis, code in zip(axes, codes, strict=True):
        fine, within = (axis.fine, axis.bins_of(code)) if isinstance(axis, Bins) else (axis, code)
        values[axis.column] = nan_as_missing(fine.decode(code))
        cells = cells * axis.size + within
    return values, cells


def _domain_question(question: exp.Select, keys: list[int], cell: str) -> exp.Select | None:
    """How many combinations of each cell a row of an answer counts; None if that is not plain.

    What is no key of a group becomes NULL and keeps its place, which GROUP BY may number.
    """
    group = question.args.get("group")
    beyond = {
        name
        for name, argument in question.args.items()
        if argument
        and name not in ("expressions", "from_", "where", "group", "order", "limit", "offset")
    }
    unclear = beyond or len(list(question.find_all(exp.Query))) > 1
    if group is not None:
        several = any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets"))
        unclear = unclear or several or len(group.expressions) > len(keys)
    if unclear:
        return None
    plain = question.copy()
    selects = [
        expression if position in keys else exp.Null()
        for position, expression in enumerate(plain.selects)
    ]
    counted = exp.alias_(exp.Count(this=exp.Star()), "sf_points")
    number = exp.column(cell, quoted=True)
    plain.set("expressions", [*selects, number, counted])
    for clause in ("order", "limit", "offset"):
        plain.set(clause, None)
    return plain if group is not None and group.args.get("all") else plain.group_by(number.copy())


def _best_table(
    model: SynthesisModel, columns: tuple[int, ...]
) -> tuple[FloatArray, float, float] | None:
    """The cells of some columns by the measured table that tells them best, their variance, and
    the weight of that table in the number of all rows."""
    shape, tables = model.fitted.shape, model.log.merged().values()
    precision = sum(1 / table.total_variance for table in tables)
    if not columns:  # of all rows, all tables tell
        return np.array([model.log.total()]), 1 / precision, 1.0
    candidates = [
        (table.variance * prod(shape.of_set(set(table.columns) - set(columns))), table)
        for table in tables
        if set(columns) <= set(table.columns)
    ]
    if not candidates:
        return None
    variance, best = min(candidates, key=lambda table: table[0])
    weight = 1 / (best.total_variance * precision)
    return summed(best.counts, best.columns, columns).ravel(), variance, weight


def _groups(columns: Sequence[pa.ChunkedArray | pa.Array], rows: int) -> list[str]:
    """What tells each row's group from others, of lists and structures too."""
    if not columns:
        return [""] * rows
    return list(map(repr, zip(*(column.to_pylist() for column in columns), strict=True)))


def _counts(expression: exp.Expr) -> bool:
    counted = expression.unalias()
    return isinstance(counted, exp.Count) and isinstance(counted.this, exp.Star)
