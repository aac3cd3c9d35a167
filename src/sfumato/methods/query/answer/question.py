"""A planned question at a price: its cost, and its answer once the ledger has charged it.

Everything above the aggregate, HAVING, ORDER BY, LIMIT and arithmetic, runs over noisy figures.
Decision `sql-trees`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.schema.names import quoted
from sfumato.errors import QueryError
from sfumato.exact_numbers import EPSILON_MAXIMUM
from sfumato.methods import method
from sfumato.methods.query.answer.error_bars import (
    LEVEL,
    beta_of_rows,
    chosen_by_noise,
    error_bars,
    error_column,
    error_outputs,
    joint_betas,
    row_counts,
    total_rows,
)
from sfumato.methods.query.answer.explain import Explanation, explain
from sfumato.methods.query.answer.figures import Estimates, estimates
from sfumato.methods.query.answer.noisy_aggregates import NoisyLevel, release
from sfumato.methods.query.answer.size import answer_size, observed_cap
from sfumato.methods.query.plan import NOISY, Function
from sfumato.methods.query.plan.allocation import Allocation, QueryPrice, allocate, query_price
from sfumato.methods.query.sql.tables import substitute_tables
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys
from sfumato.release.release import Provenance, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from sfumato.data.counting.axes import Axis
    from sfumato.data.engines.base import Engine
    from sfumato.methods.method import AnswerLimit, AnswerSize, Dataset
    from sfumato.methods.query.answer.exact_aggregates import LevelGroups
    from sfumato.methods.query.plan import Plan
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.release import Guarantee

    OpenTable = Callable[[pa.Table], Engine]


def noisy_table(
    plan: Plan,
    axes: Mapping[int, Axis],
    levels: Sequence[tuple[LevelGroups, Sequence[Estimates]]],
    margins: Mapping[str, Sequence[Sequence[Estimates]]],
) -> pa.Table:
    """The figures of all levels as one table, with columns of error for each measure.

    `margins` has wider estimates of the same figures, by what their bounds are called.
    """
    columns: dict[str, pa.Array] = {}
    for position, key in enumerate(plan.keys):
        columns[key.name] = _stack([_key(axes[position], position, groups) for groups, _ in levels])
    estimates_by_level = [of_level for _, of_level in levels]
    for index, measure in enumerate(plan.measures):
        columns[measure.name] = _stack(
            [level_estimates[index].values for level_estimates in estimates_by_level]
        )
        errors = {"sd": [level_estimates[index].stddev for level_estimates in estimates_by_level]}
        for name, margin_estimates in {"bound": estimates_by_level, **margins}.items():
            errors[name] = [level_estimates[index].bound for level_estimates in margin_estimates]
        for name, of_levels in errors.items():
            known_errors = [error for error in of_levels if error is not None]
            if known_errors:
                columns[error_column(plan, name, index)] = pa.array(np.concatenate(known_errors))
    if len(levels) > 1:
        numbers = np.repeat(np.arange(len(levels)), [groups.count for groups, _ in levels])
        columns[error_column(plan, LEVEL)] = pa.array(numbers)
    return pa.table(columns)


def _key(axis: Axis, position: int, groups: LevelGroups) -> pa.Array:
    """The values of a key; all NULL for a level that does not group by it."""
    if position not in groups.level.positions:
        return pa.nulls(groups.count, axis.decode(np.zeros(0, dtype=np.int64)).type)
    return axis.decode(groups.codes[groups.level.positions.index(position)])


def _stack(arrays: Sequence[pa.Array]) -> pa.ChunkedArray:
    """Arrays of several levels as one; integers become floats where one level has floats."""
    types = {array.type for array in arrays}
    target = arrays[0].type if len(types) == 1 else pa.float64()
    return pa.chunked_array([array.cast(target) for array in arrays], target)


def run_finish(plan: Plan, noisy: pa.Table, open_table: OpenTable) -> tuple[pa.Table, pa.Table]:
    """Run the part above the aggregate over noisy figures; return the answer and its errors.

    If rows are merged again (DISTINCT), their errors are unknown.
    """
    query = plan.finish.copy()
    if not (query.args.get("distinct") or query.args.get("group")):
        query = query.select(*error_outputs(plan, noisy.column_names), copy=False)
    result = _select_columns(query, noisy)
    if result is None:
        engine = _open_engine(open_table, os.getpid())
        with engine.lend(noisy) as table:
            result = engine.run(substitute_tables(query, {NOISY: table}))
    shown = len(plan.columns)
    answer = result.select(list(range(shown))).rename_columns(list(plan.columns))
    return answer, result.select(list(range(shown, result.num_columns)))


def _select_columns(query: exp.Select, noisy: pa.Table) -> pa.Table | None:
    """Run a query that only selects columns of the noisy table, perhaps sorted by keys.

    None if it does more: then an engine runs it, which takes longer than all other steps.
    """
    clauses = {clause for clause, value in query.args.items() if value}
    order = query.args["order"].expressions if "order" in clauses else []
    keys = [
        entry.this
        for entry in order
        if entry.args.get("nulls_first") and not entry.args.get("desc")
    ]
    outputs = [output.unalias() for output in query.expressions]
    if clauses - {"expressions", "from_", "order"} or len(keys) < len(order):
        return None
    if not all(isinstance(node, exp.Column) for node in (*outputs, *keys)):
        return None
    # Engines order NaN and -0.0 in their own ways.
    if any(pa.types.is_floating(noisy.column(key.name).type) for key in keys):
        return None
    if keys:
        noisy = noisy.take(_sort_rows([noisy.column(key.name) for key in keys]))
    columns = [noisy.column(output.name) for output in outputs]
    return pa.table(columns, names=[output.alias_or_name for output in query.expressions])


def _sort_rows(keys: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The positions of rows in the order of their keys, missing ones first."""
    pairs = [column for key in keys for column in (key.is_valid(), key)]
    names = [str(index) for index in range(len(pairs))]
    return pc.sort_indices(
        pa.table(pairs, names), sort_keys=[(name, "ascending") for name in names]
    )


@cache
def _open_engine(open_table: OpenTable, process: int) -> Engine:  # noqa: ARG001  # part of the key
    """An engine that stays open, because opening one takes longer than the query.

    Each process has its own, as a connection does not survive a fork.
    """
    return open_table(pa.table({"nothing": pa.array([0])}))


BIAS = (
    "Error bars count the noise alone, not what clamping values into their bounds and bounding "
    "each person's rows took away."
)
_CHOOSING = ("where", "qualify", "limit", "offset")
_ADDITIVE = (Function.COUNT, Function.SUM)


def prepare(
    plan: Plan,
    *,
    open_table: OpenTable,
    epsilon: object = None,
    rho: object = None,
    delta: object = 0,
    weights: Mapping[str, object] | None = None,
    maximum: Fraction = EPSILON_MAXIMUM,
    limit: AnswerLimit | None = None,
) -> Question:
    """Make a plan ready to be charged and run at a cost: epsilon or rho, with or without delta.

    `open_table` opens an engine on a table in memory; `finish` runs there, over noisy figures.
    `maximum` is the largest epsilon that the owner of the data allows, `limit` the largest answer.
    """
    price = query_price(epsilon=epsilon, rho=rho, delta=delta, weights=weights, maximum=maximum)
    return Question(plan, price, allocate(plan, price), open_table, limit)


@dataclass(frozen=True, repr=False)
class Question(method.Plan):
    """A planned question at a price."""

    plan: Plan
    price: QueryPrice
    allocation: Allocation
    open_table: OpenTable
    limit: AnswerLimit | None = None

    name = "query"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets it reads."""
        return self.plan.datasets

    @property
    def public(self) -> tuple[str, ...]:
        """The public data sets that it reads."""
        return self.plan.public

    @property
    def event(self) -> Event:
        """The cost, from public facts alone."""
        return self.allocation.event

    @cached_property
    def answer_size(self) -> AnswerSize:
        """At most how large the answer is, from public facts alone."""
        return answer_size(self.plan, self.allocation.levels, self.limit)

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines the answer, in canonical JSON form."""
        return {"plan": self.plan.canonical, "cost": self.price.to_record()}

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Read bounded aggregates, add noise, and give the answer with its error bars."""
        engine, source = locate_tables(self.plan, datasets)
        cap = observed_cap(self.plan, self.allocation.levels, self.limit)
        axes, levels = release(self.plan, self.allocation, engine, source, entropy, cap)
        # Intervals hold for all groups that a limit chose among, and so for the shown ones.
        rows = sum(level.released for level in levels)
        is_cut = any(level.released > level.groups.count for level in levels)
        beta = beta_of_rows(self.plan, rows, is_cut=is_cut)
        estimated = [(level.groups, self._estimates(level, beta)) for level in levels]
        joint_estimates = {
            name: [self._estimates(level, joint) for level in levels]
            for name, joint in joint_betas(self.plan, rows, is_cut=is_cut)
        }
        # From here on everything is post-processing of noisy figures.
        noisy = noisy_table(self.plan, axes, estimated, joint_estimates)
        table, errors = run_finish(self.plan, noisy, self.open_table)
        ranks = {
            measure.name: max(level[index].ranks or 0.0 for _, level in estimated)
            for index, measure in enumerate(self.plan.measures)
            if measure.function is Function.QUANTILE
        }
        totals = total_rows(self.plan, self.allocation, errors)
        parameters = {**self.parameters, "all": totals} if totals else self.parameters
        return Release(
            {"answer": table},
            self.guarantee,
            Provenance(self.name, parameters, fingerprint=""),
            error_bars(self.plan, self.allocation, table, errors, ranks),
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Remarks for readers of the answer."""
        return tuple(_notes(self.plan, self.allocation, self.limit))

    def explain(self) -> Explanation:
        """Cost, expected error and advice, without spending anything."""
        return explain(self)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the answer."""
        return self._promise(self.price, self.plan.unit, notes=list(self.notes))

    def _estimates(self, level: NoisyLevel, beta: float) -> list[Estimates]:
        """The measures of one level, with bounds that are passed with probability beta."""
        adjusted = {**level.noisy, **level.consistent}
        return [
            estimates(
                measure,
                self.plan.unit,
                adjusted if measure.function in _ADDITIVE else level.noisy,
                beta,
            )
            for measure in self.plan.measures
        ]


def locate_tables(plan: Plan, datasets: Mapping[str, Dataset]) -> tuple[Engine, exp.Query]:
    """The engine of a plan's data sets, and its source with their tables in place."""
    engines = {id(dataset.engine): dataset.engine for dataset in datasets.values()}
    if len(engines) != 1:
        raise QueryError(
            "join_not_allowed",
            "The data sets of one question must lie in the same database, but "
            f"{', '.join(map(quoted, datasets))} lie in {len(engines)}. Ask about each apart.",
        )
    tables = {name: dataset.table for name, dataset in datasets.items()}
    return next(iter(engines.values())), substitute_tables(plan.source, tables)


def _notes(plan: Plan, chosen: Allocation, limit: AnswerLimit | None) -> Iterator[str]:
    if plan.joined_row_cap is not None:
        yield (
            f"Of people with more than {plan.joined_row_cap:,} rows in a table that is joined only "
            "some rows are joined, drawn by a secret hash."
        )
    for level in chosen.levels:
        names = ", ".join(quoted(key.name) for key in level.keys)
        if not level.declared:
            mechanism = chosen.mechanisms[level.number, chosen.carrier]
            assert isinstance(mechanism, ThresholdKeys)
            yield (
                f"The values of {names} are not all declared: a group is shown only if its noisy "
                f"count reaches {mechanism.threshold}, so small groups are missing."
            )
            if (cap := observed_cap(plan, chosen.levels, limit)) is not None:
                yield (
                    f"Of these groups at most {cap:,} are shown, those of the largest noisy "
                    "counts. Where more pass, these tend to be too high; their bounds allow for it."
                )
        elif level.grouped:
            chosen_from = any(plan.finish.args.get(clause) for clause in _CHOOSING)
            choice_note = "; HAVING and LIMIT choose among them" if chosen_from else ""
            groups = f"All {level.groups:,} declared groups of {names}"
            yield f"{groups} are answered, empty ones too{choice_note}."
    if chosen_by_noise(plan):
        yield (
            "Rows are chosen by their noisy figures, so rows with much noise are shown more often; "
            "bars are wider to allow for that."
        )
    ranked = [
        quoted(measure.name) for measure in plan.measures if measure.function is Function.QUANTILE
    ]
    if ranked and not row_counts(plan):
        yield (
            f"The answer does not tell how many rows {', '.join(ranked)} "
            f"{'are' if len(ranked) > 1 else 'is'} chosen from; there may be none: add COUNT(*) to "
            "know."
        )
    for measure in plan.measures:
        if measure.note:
            yield measure.note
    yield BIAS
