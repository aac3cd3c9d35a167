"""The error of each column of an answer, and the figures that are too noisy to use.

Standard deviations and margins are columns of the noisy table, beside the figures, so that `finish`
returns them in the order of the answer's rows. A total over all rows, `SUM(COUNT(*)) OVER ()`, is a
figure plus a remainder: the sum over all other rows. The noises of the remainder are independent if
no row was chosen by its noise, and its margin then follows from their variances; else its margin is
the sum of margins that hold for all rows together. Decision `answer-error-bars`.

Rows that are chosen by noisy figures have more noise than others (selection bias). Their intervals
hold for all rows that might have been chosen together, and so for the chosen ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.schema.names import free_prefix
from sfumato.methods.query.answer.figures import BETA, spread_factor
from sfumato.methods.query.answer.intervals import Figure, Spans, UnknownBarError
from sfumato.methods.query.plan import Function
from sfumato.methods.query.plan.outputs import total_of
from sfumato.methods.query.plan.statistics import statistics_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.arrays import BoolArray, FloatArray
    from sfumato.methods.query.plan import Measure, Plan
    from sfumato.methods.query.plan.allocation import Allocation


LEVEL = "level"
_JOINT, _UNION = "joint", "all"
_COUNTS = (Function.COUNT, Function.COUNT_PEOPLE, Function.COUNT_DISTINCT)
_ADDED = (*_COUNTS, Function.SUM)
_USEFUL_RATIO = 3
"""A figure is useful if its 95 % bound is at most a third of it."""
_NEAR_AN_END = 0.1
"""A mean at an end of its range is noise if its 95 % bound exceeds this part of the range."""


def error_column(plan: Plan, label: str, index: int | None = None) -> str:
    """The name of a column of the noisy table, or beside an answer, which no other column has."""
    keys, measures = ([entry.name for entry in entries] for entries in (plan.keys, plan.measures))
    prefix = free_prefix([*plan.columns, *keys, *measures])
    return f"{prefix}{label}" if index is None else f"{prefix}{label}_{index}"


def _computed_outputs(plan: Plan) -> dict[str, exp.Expr]:
    """The columns of the answer that are computed from figures."""
    measures = {measure.name for measure in plan.measures}
    return {
        column: node.unalias()
        for column, node in zip(plan.columns, plan.finish.expressions, strict=True)
        if not isinstance(node.unalias(), exp.Column)
        and any(column_node.name in measures for column_node in node.find_all(exp.Column))
    }


def _totalled_measures(nodes: Sequence[exp.Expr]) -> set[str]:
    """The measures whose total over all rows is used."""
    windows = [window for node in nodes for window in node.find_all(exp.Window)]
    return {column_node.name for window in windows for column_node in window.find_all(exp.Column)}


def chosen_by_noise(plan: Plan) -> bool:
    """Whether noisy figures decide which rows are in the answer."""
    measures = {measure.name for measure in plan.measures}
    clauses = ["where", "qualify"]
    if plan.finish.args.get("limit") or plan.finish.args.get("offset"):
        # ORDER BY chooses rows only together with LIMIT or OFFSET; alone it sorts all of them.
        clauses.append("order")
    clause_nodes = [
        clause_node
        for clause in clauses
        if (clause_node := plan.finish.args.get(clause)) is not None
    ]
    return any(
        column_node.name in measures
        for clause_node in clause_nodes
        for column_node in clause_node.find_all(exp.Column)
    )


def beta_of_rows(plan: Plan, rows: int, *, is_cut: bool = False) -> float:
    """The failure probability of one interval, so that 95 % hold among chosen rows too.

    If noise chose the rows, all `rows` candidates must hold together (union bound). `is_cut` says
    that a limit left out rows of small noisy counts, which is a choice too.
    """
    return BETA / max(rows, 1) if is_cut or chosen_by_noise(plan) else BETA


def joint_betas(plan: Plan, rows: int, *, is_cut: bool = False) -> Iterator[tuple[str, float]]:
    """The failure probability of each figure's margin, so that all figures of an output hold.

    Every output counts as made of as many figures as the one with the most.
    """
    measures = {measure.name for measure in plan.measures}
    figure_count = max(
        (
            len({column_node.name for column_node in node.find_all(exp.Column)} & measures)
            + len(_totalled_measures([node]))
            for node in _computed_outputs(plan).values()
        ),
        default=0,
    )
    if figure_count:
        # Union bound over the figures of one output: each may fail with an equal part of beta.
        yield _JOINT, beta_of_rows(plan, rows, is_cut=is_cut) / figure_count
        # The sum over all other rows needs the margins of all rows at once.
        yield _UNION, BETA / figure_count / max(rows, 1)


def error_outputs(plan: Plan, columns: Sequence[str]) -> list[exp.Expr]:
    """Further outputs of `finish`: errors, and the figures that outputs are computed from."""
    known = {*(key.name for key in plan.keys), *(measure.name for measure in plan.measures)}
    outputs: list[exp.Expr] = [_column(name) for name in columns if name not in known]
    computed = list(_computed_outputs(plan).values())
    if not computed and all(measure.function is not Function.QUANTILE for measure in plan.measures):
        return outputs
    totalled = _totalled_measures(computed)
    for index, measure in enumerate(plan.measures):
        figure = _column(measure.name)
        outputs.append(exp.alias_(figure, error_column(plan, "value", index), quoted=True))
        if measure.name not in totalled:
            continue
        sd = _column(error_column(plan, "sd", index))
        margin = _column(error_column(plan, _UNION, index))
        summed = {"sum": figure, "variance": sd * sd.copy(), "margin": margin}
        for name, tree in summed.items():
            outputs.append(exp.alias_(total_of(tree), error_column(plan, name, index), quoted=True))
    return outputs


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def total_rows(plan: Plan, allocation: Allocation, errors: pa.Table) -> dict[str, list[int]]:
    """By column, the rows of an answer in which NULL means all values of a key."""
    name = error_column(plan, LEVEL)
    if name not in errors.column_names:
        return {}
    levels = errors[name].to_numpy()
    rows_by_column = {}
    for column, node in zip(plan.columns, plan.finish.expressions, strict=True):
        used = {column_node.name for column_node in node.find_all(exp.Column)}
        key_positions = [position for position, key in enumerate(plan.keys) if key.name in used]
        if len(used) == len(key_positions) == 1:
            without = [
                level.number
                for level in allocation.levels
                if key_positions[0] not in level.positions
            ]
            rows_by_column[column] = np.flatnonzero(np.isin(levels, without)).tolist()
    return rows_by_column


def error_bars(
    plan: Plan,
    allocation: Allocation,
    answer: pa.Table,
    errors: pa.Table,
    ranks: Mapping[str, float],
) -> dict[str, Any]:
    """The error of each column of the answer that is made of figures: sd and bound95.

    One number where all rows have the same error, else one for each row, None where there is none.
    A quantile has the error of its rank, in rows: `ranks95`. `too_noisy` lists rows whose figure is
    of no use, `less_noise` tells how many times less noise would help.
    """
    indices = {measure.name: index for index, measure in enumerate(plan.measures)}
    computed = _computed_outputs(plan)
    spans = _spans(plan, allocation, errors) if computed else None
    bars: dict[str, Any] = {}
    for column, node in zip(plan.columns, plan.finish.expressions, strict=True):
        if not {column_node.name for column_node in node.find_all(exp.Column)} & indices.keys():
            continue
        values = _floats(answer, column)
        bars[column] = {"sd": None, "bound95": None}
        if column in computed:
            bar = None if spans is None else _computed_bars(computed[column], spans, values)
            is_useless = _is_too_noisy(values, bar)
        else:
            measure = plan.measures[indices[node.unalias().name]]
            bar = _figure_bars(plan, indices[measure.name], errors)
            low, high = _range(measure)
            is_useless = _is_too_noisy(values, bar)
            if measure.function in _ADDED:
                # Noise pushed the figure out of its possible range, so noise is at least as large
                # as the figure.
                is_useless |= (values < low) | (values > high)
            elif measure.name in ranks:
                bars[column]["ranks95"] = ranks[measure.name]
                is_useless |= _ranked_by_noise(plan, measure, values, errors, ranks[measure.name])
            elif measure.function is Function.AVERAGE and bar is not None:
                is_useless |= _is_at_end(values, low, high) & (bar[1] > _NEAR_AN_END * (high - low))
        if bar is not None:
            bars[column] |= dict(zip(("sd", "bound95"), map(_number_or_list, bar), strict=True))
        if is_useless.any():
            bars[column]["too_noisy"] = np.flatnonzero(is_useless).tolist()
            bars[column] |= dict(_less_noise(plan, node.unalias(), values, bar, is_useless))
    return bars


def _less_noise(
    plan: Plan,
    node: exp.Expr,
    values: FloatArray,
    bar: tuple[FloatArray, FloatArray] | None,
    is_useless: BoolArray,
) -> Iterator[tuple[str, float]]:
    """The factor by which noise must shrink for an error of a third of the largest noisy number.

    It follows for counts and sums, whose bars shrink with the noise. Those of other figures depend
    on how many rows there are, which may be none.
    """
    added = {
        measure.name: _range(measure) for measure in plan.measures if measure.function in _ADDED
    }
    if bar is None or not isinstance(node, exp.Column) or node.name not in added:
        return
    low, high = added[node.name]
    sizes = np.where(is_useless & (values >= low) & (values <= high), np.abs(values), 0.0)
    largest = int(np.argmax(sizes))
    if sizes[largest] > 0:
        yield "less_noise", float(_USEFUL_RATIO * bar[1][largest] / sizes[largest])


def _floats(table: pa.Table, column: str) -> FloatArray:
    """A column as floats, dates as their days; NaN where nothing is, or no number."""
    values = table[column]
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return np.full(len(values), np.nan)
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _figure_bars(plan: Plan, index: int, errors: pa.Table) -> tuple[FloatArray, FloatArray] | None:
    """The sd and the bound of a figure, as they stand beside it."""
    names = [error_column(plan, label, index) for label in ("sd", "bound")]
    if not set(names) <= set(errors.column_names):
        return None
    return errors[names[0]].to_numpy(), errors[names[1]].to_numpy()


def _computed_bars(
    node: exp.Expr, spans: Spans, values: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """The sd and the bound of an output; no sd is above the bound, which no error passes there."""
    try:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            span = spans.of(node)
            # The farther end of the interval, so that the bar is symmetric and still covers it.
            bound = np.fmax(np.fmax(span.high - values, values - span.low), 0.0)
            sd = np.fmin(spans.stddev(span), bound)
    except UnknownBarError:
        return None
    bound = np.where(np.isnan(values), np.nan, bound)
    return np.where(np.isfinite(bound), sd, np.nan), bound


def _spans(plan: Plan, allocation: Allocation, errors: pa.Table) -> Spans | None:
    """The figures that outputs are computed from, with margins that hold together."""
    if not errors.num_columns:
        return None
    figures: dict[str, Figure] = {}
    for index, measure in enumerate(plan.measures):

        def columns(*names: str, at: int = index) -> list[FloatArray]:
            named = (error_column(plan, name, at) for name in names)
            return [
                errors[name].to_numpy().astype(np.float64)
                for name in named
                if name in errors.column_names
            ]

        if not columns(_JOINT):
            continue
        value, sd, margin, rest_margin = columns("value", "sd", _JOINT, _UNION)
        figure = Figure(value, sd, margin, _range(measure))
        if totals := columns("sum", "variance", "margin"):
            total_, variance, total_margin = totals
            # Noises of different rows are independent, so the variance of the others is the
            # total's less its own.
            spread = np.sqrt(np.fmax(variance - sd**2, 0.0))
            rest_margin = np.fmax(total_margin - rest_margin, 0.0)
            factor = _independent_factor(plan, allocation, measure)
            if factor is not None:
                # Of two valid margins the smaller one: the sum of margins, or the tail of
                # independent noises.
                rest_margin = np.fmin(rest_margin, factor * spread)
            figure = replace(
                figure,
                remainder=total_ - value,
                remainder_stddev=spread,
                remainder_margin=rest_margin,
            )
        figures[measure.name] = figure
    return Spans(figures, partial(_possible, plan), errors.num_rows)


def _independent_factor(plan: Plan, allocation: Allocation, measure: Measure) -> float | None:
    """The bound of the summed noise of other rows, in standard deviations.

    None if the rows of the total were chosen by noise, which makes their noises dependent. QUALIFY
    and LIMIT choose after the total is computed, so that they do not matter.
    """
    level = allocation.levels[0]
    if level.groups is None or plan.finish.args.get("where"):
        return None
    mechanism = allocation.mechanisms[level.number, statistics_of(measure, plan.unit)[0]]
    betas = dict(joint_betas(plan, level.groups))
    return spread_factor(mechanism, betas[_JOINT])


def _possible(plan: Plan, upper: str, lower: str) -> tuple[float, float] | None:
    """The possible range of the quotient of two measures, if it is known."""
    above, below = (next(m for m in plan.measures if m.name == name) for name in (upper, lower))
    if below.function is not Function.COUNT or below.argument is not None:
        return None
    if above.function is Function.COUNT:
        return 0.0, 1.0
    if above.function is not Function.SUM:
        return None
    low, high = _declared(above)
    return min(low, 0.0), max(high, 0.0)


def _range(measure: Measure) -> tuple[float, float]:
    """The possible range of a figure; of a mean or quantile the declared bounds."""
    if measure.function in _COUNTS:
        return 0.0, np.inf
    if measure.function in (Function.VARIANCE, Function.STDDEV):
        return 0.0, np.inf
    low, high = _declared(measure)
    if measure.function is Function.SUM:
        return (0.0 if low >= 0 else -np.inf), (0.0 if high <= 0 else np.inf)
    return low, high


def _declared(measure: Measure) -> tuple[float, float]:
    argument = measure.argument
    assert argument is not None
    return float(argument.low * argument.step), float(argument.high * argument.step)


def _is_too_noisy(values: FloatArray, bars: tuple[FloatArray, FloatArray] | None) -> BoolArray:
    """Whether each figure is no larger than its bar."""
    if bars is None:
        return np.zeros(len(values), dtype=bool)
    return (bars[1] >= np.abs(values)) & (bars[1] > 0)


def _is_at_end(values: FloatArray, low: float, high: float) -> BoolArray:
    """Which values are at an end of their range, to a float's precision."""
    near = 1e-9 * (high - low)
    return (low < high) & ((values <= low + near) | (values >= high - near))


def row_counts(plan: Plan) -> list[int]:
    """The positions of measures that count the rows of a group."""
    return [
        index
        for index, measure in enumerate(plan.measures)
        if measure.function is Function.COUNT and measure.argument is None
    ]


def _ranked_by_noise(
    plan: Plan, measure: Measure, values: FloatArray, errors: pa.Table, ranks: float
) -> BoolArray:
    """Which values at a rank say little: those whose rank may be any, by the noise, in their group.

    Where the answer does not count its rows, those at an end of the declared bounds; but the least
    and the greatest value may well be there.
    """
    assert measure.quantile is not None
    share = float(min(measure.quantile, 1 - measure.quantile))
    counts = [error_column(plan, "value", index) for index in row_counts(plan)]
    if counts and counts[0] in errors.column_names:
        return np.asarray(ranks >= (share or 1.0) * errors[counts[0]].to_numpy())
    if not share:
        return np.zeros(len(values), dtype=bool)
    assert measure.argument is not None
    has_inner_values = (
        measure.argument.high - measure.argument.low > 1
    )  # else every value is at an end
    return _is_at_end(values, *_range(measure)) & has_inner_values


def _number_or_list(numbers: FloatArray) -> float | list[float | None] | None:
    """One number if all rows have the same, else one for each row; None if not finite."""
    finite = np.isfinite(numbers)
    if not finite.any():
        return None
    if finite.all():
        is_constant = bool((numbers == numbers[0]).all())
        return float(numbers[0]) if is_constant else numbers.tolist()
    return [
        number if known else None for number, known in zip(numbers.tolist(), finite, strict=True)
    ]
