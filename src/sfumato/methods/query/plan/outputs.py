"""The outputs of a query: its aggregates, each once, and the query over released figures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import untaken
from sfumato.errors import QueryError
from sfumato.methods.query.expressions import compile_value
from sfumato.methods.query.expressions.typed_values import (
    FIRST_DAY,
    LAST_DAY,
    Typed,
    integer_literal,
    literal,
    released_number,
    require_kind,
    require_text,
)
from sfumato.methods.query.plan import NOISY, Argument, Function, Measure
from sfumato.methods.query.plan.columns import plan_argument
from sfumato.methods.query.sql.parse import check_modifiers, quote_sql
from sfumato.methods.query.sql.relation import AGGREGATES

if TYPE_CHECKING:
    from sfumato.methods.query.plan.columns import PlannedKey
    from sfumato.methods.query.sql.relation import GroupedScope, RowScope


_FUNCTIONS: dict[type[exp.Expr], Function] = {
    exp.Sum: Function.SUM,
    exp.Avg: Function.AVERAGE,
    exp.Variance: Function.VARIANCE,
    exp.Stddev: Function.STDDEV,
    exp.StddevSamp: Function.STDDEV,
    exp.Quantile: Function.QUANTILE,
    exp.Min: Function.QUANTILE,
    exp.Max: Function.QUANTILE,
}
_EXTREMES: dict[type[exp.Expr], Fraction] = {exp.Min: Fraction(0), exp.Max: Fraction(1)}
_MEASURES_LIMIT = 50


@dataclass
class QuestionMeasures:
    """Collects the aggregates of one question, each once, and the arguments they share."""

    scope: RowScope
    levels: int = 1
    measures: list[Measure] = field(default_factory=list)
    arguments: dict[exp.Expr, Argument] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def collect(self, node: exp.Expr, name: str | None = None) -> Typed:
        """The value, above the aggregate, of an aggregate of the question, or of its total."""
        if isinstance(node, exp.Window):
            return self._total(node)
        function, planned_argument, quantile = self._read(node)
        # Equal aggregates share one measure, so that their noise is paid for once.
        equal_measures = [
            measure
            for measure in self.measures
            if (measure.function, measure.argument, measure.quantile)
            == (function, planned_argument, quantile)
        ]
        if equal_measures:
            return _figure_value(equal_measures[0])
        if len(self.measures) == _MEASURES_LIMIT:
            raise QueryError(
                "sql_too_complex",
                f"At most {_MEASURES_LIMIT} aggregates fit one question. Ask two.",
            )
        note = None
        if type(node) in _EXTREMES:
            note = f"{node.key.upper()} is answered as a private quantile: near it, not exactly."
        measure = Measure(
            self.reserve(name or str(node.meta.get("name", node.key))),
            function,
            planned_argument,
            quantile,
            note,
        )
        self.measures.append(measure)
        return _figure_value(measure)

    def _total(self, node: exp.Window) -> Typed:
        """SUM(aggregate) OVER (): the sum of a released figure over all groups of the answer."""
        modifiers = {key for key, value in node.args.items() if value} - {"this", "over"}
        inner = node.this.this if isinstance(node.this, exp.Sum) else None
        if modifiers or not isinstance(inner, exp.Count | exp.Sum):
            raise QueryError(
                "expression_not_allowed",
                f"Cannot use {quote_sql(node)}: the one window allowed is the total of a released "
                "count "
                "or sum over all groups. Write COUNT(*) / SUM(COUNT(*)) OVER () for shares of a "
                "total.",
            )
        # Rows of several levels overlap: a total would count people several times.
        if self.levels > 1:
            raise QueryError(
                "expression_not_allowed",
                f"Cannot use {quote_sql(node)} with ROLLUP, CUBE or GROUPING SETS: it would count "
                "every row once for each set of keys. Group by plain columns.",
            )
        figure = self.collect(inner)
        return released_number(total_of(figure.tree), nullable=False)

    def reserve(self, requested: str) -> str:
        """A name that no other column of the noisy table has."""
        name = untaken(requested, self.names)
        self.names.add(name)
        return name

    def _read(self, node: exp.Expr) -> tuple[Function, Argument | None, Fraction | None]:
        """What an aggregate measures, of what, at which quantile."""
        if isinstance(node, exp.Count):
            return *self._count(node), None
        function = _FUNCTIONS.get(type(node))
        inner = node.this
        if function is None or isinstance(inner, exp.Distinct):
            raise QueryError(
                "aggregate_not_allowed",
                f"Cannot release {quote_sql(node)}. Allowed are COUNT, COUNT(DISTINCT x), SUM, "
                "AVG, VARIANCE, STDDEV, MEDIAN, QUANTILE(x, q), MIN and MAX.",
            )
        check_modifiers(node, {"this", "quantile"})
        quantile = _EXTREMES.get(type(node))
        if isinstance(node, exp.Quantile):
            quantile = _fraction(node)
        return function, self._argument(function, inner), quantile

    def _count(self, node: exp.Count) -> tuple[Function, Argument | None]:
        check_modifiers(node, {"this", "big_int"})
        inner: exp.Expr = node.this
        if isinstance(inner, exp.Star):
            return Function.COUNT, None
        if isinstance(inner, exp.Distinct):
            if len(inner.expressions) != 1:
                raise QueryError(
                    "aggregate_not_allowed", f"Cannot count {quote_sql(node)}: name one column."
                )
            counted = inner.expressions[0]
            # Counting people has sensitivity one in each group, whatever the bound on rows.
            if compile_value(counted, self.scope).unit:
                return Function.COUNT_PEOPLE, None
            return Function.COUNT_DISTINCT, self._argument(Function.COUNT_DISTINCT, counted)
        value = compile_value(inner, self.scope)
        # COUNT(x) of a column without NULL counts rows: the two share one noisy count.
        if not value.nullable:
            return Function.COUNT, None
        missing = exp.Is(this=exp.Paren(this=value.sql), expression=exp.Null())
        tree = exp.case().when(missing, exp.Null()).else_(literal(1))
        return Function.COUNT, self._share_argument(
            tree, Argument("", 1, 1, Fraction(1), Kind.INTEGER, nullable=True)
        )

    def _argument(self, function: Function, node: exp.Expr) -> Argument:
        value = compile_value(node, self.scope)
        if value.kind is Kind.TEXT:
            value = require_text(value, node)
        planned_argument, tree = plan_argument(function, value, node, "")
        return self._share_argument(tree, planned_argument)

    def _share_argument(self, tree: exp.Expr, planned_argument: Argument) -> Argument:
        """The argument under the name of its column, one column for equal ones."""
        shared = self.arguments.get(tree)
        if shared is None:
            shared = replace(planned_argument, column=f"sf_argument_{len(self.arguments)}")
            self.arguments[tree] = shared
        return shared


def total_of(figure: exp.Expr) -> exp.Window:
    """The sum of a released figure over all rows of the answer."""
    summed = exp.Sum(this=exp.cast(figure.copy(), exp.DType.DOUBLE))
    return exp.Window(this=summed, over="OVER")


def _fraction(node: exp.Quantile) -> Fraction:
    """The share of a quantile, from 0 to 1."""
    share_node = node.args.get("quantile")
    try:
        if not isinstance(share_node, exp.Literal) or share_node.is_string:
            raise InvalidOperation
        share = Fraction(Decimal(share_node.name))
        if 0 <= share <= 1 and share.denominator <= 10**12:
            return share
    except (InvalidOperation, ValueError):
        pass
    raise QueryError(
        "parameter_out_of_range",
        f"Cannot use {quote_sql(node)}: the share of a quantile is a number written out from 0 to "
        "1.",
        parameter="quantile",
    )


def _figure_value(measure: Measure) -> Typed:
    """A noisy figure."""
    tree = exp.column(exp.to_identifier(measure.name, quoted=True))
    # Counts and sums exist also for empty groups; averages and quantiles of no rows are NULL.
    certain = measure.function in (
        Function.COUNT,
        Function.COUNT_PEOPLE,
        Function.COUNT_DISTINCT,
        Function.SUM,
    )
    kind = measure.argument.kind if measure.argument else Kind.INTEGER
    if measure.function is Function.QUANTILE and kind is Kind.DATE:
        ends = Fraction(FIRST_DAY), Fraction(LAST_DAY)
        return Typed(tree, Kind.DATE, True, *ends, noisy=True)
    is_integer = (certain and kind is Kind.INTEGER) or measure.function is Function.COUNT_DISTINCT
    return Typed(tree, Kind.INTEGER if is_integer else Kind.REAL, not certain, noisy=True)


_ROWS_LIMIT = 10**12


def output_names(select: exp.Select) -> dict[str, exp.Expr]:
    """The outputs by the names they are released under, no two equal without regard to case."""
    names: dict[str, exp.Expr] = {}
    for node in select.expressions:
        inner = node.unalias()
        star = inner.this if isinstance(inner, exp.Column) else inner
        if isinstance(star, exp.Star):
            raise QueryError(
                "column_not_aggregated",
                f"Cannot release {quote_sql(inner)}: rows never leave. Ask for aggregates: "
                "COUNT(*), SUM, AVG, ...",
            )
        requested = node.alias or (
            inner.name if isinstance(inner, exp.Column) else _function_name(inner)
        )
        names[untaken(requested, names)] = inner
    return names


def _function_name(node: exp.Expr) -> str:
    """The name of an output without an alias: its function, as written."""
    return str(node.meta.get("name", node.key))


@dataclass(frozen=True)
class Outputs:
    """Builds the query over the noisy table."""

    select: exp.Select
    names: dict[str, exp.Expr]
    scope: GroupedScope
    measures: QuestionMeasures
    keys: list[PlannedKey]

    def query(self) -> exp.Select:
        """SELECT ... FROM the noisy table, sorted so that no private order leaks."""
        outputs = {name: self._output(name, node) for name, node in self.names.items()}
        query = exp.select(
            *(exp.alias_(value.sql, name, quoted=True) for name, value in outputs.items())
        ).from_(exp.table_(NOISY))
        above = _OutputScope(self.scope, outputs)
        having = self.select.args.get("having")
        if having is not None:
            condition = require_kind(
                compile_value(having.this, above), (Kind.BOOLEAN,), having.this
            )
            # A total exists only when all groups are known: QUALIFY runs after windows.
            if condition.tree.find(exp.Window):
                query.set("qualify", exp.Qualify(this=condition.sql))
            else:
                query = query.where(condition.sql)
        order = self._order(above)
        query = query.order_by(*order) if order else query
        for clause in ("limit", "offset"):
            clause_node = self.select.args.get(clause)
            if clause_node is None:
                continue
            check_modifiers(clause_node, {"expression"})
            rows = integer_literal(clause_node.expression, range(_ROWS_LIMIT), clause.upper())
            query = query.limit(rows) if clause == "limit" else query.offset(rows)
        return query

    def _output(self, name: str, node: exp.Expr) -> Typed:
        """An output; an aggregate that stands alone is measured under the output's name."""
        if isinstance(node, AGGREGATES):
            return self.measures.collect(node, name)
        return compile_value(node, self.scope)

    def _order(self, above: _OutputScope) -> list[exp.Expr]:
        """The requested order, then the keys, so that only released values break ties."""
        order: list[exp.Expr] = []
        clause = self.select.args.get("order")
        for entry in clause.expressions if clause is not None else ():
            if not isinstance(entry, exp.Ordered) or entry.args.get("with_fill"):
                raise QueryError("clause_not_allowed", f"Cannot order by {quote_sql(entry)}.")
            flags = {name: entry.args.get(name) for name in ("desc", "nulls_first")}
            order.append(exp.Ordered(this=_order_value(entry.this, above), **flags))
        # Without a complete order, ties would keep the order of the engine, which is private.
        for key in self.keys:
            name = exp.column(exp.to_identifier(key.key.name, quoted=True))
            order.append(exp.Ordered(this=name, nulls_first=True))
        for figure in [
            column_node for entry in order for column_node in entry.find_all(exp.Column)
        ]:
            self._qualify_figure(figure, above.outputs)
        return order

    def _qualify_figure(self, figure: exp.Column, outputs: dict[str, Typed]) -> None:
        """Name the table of a figure where another output has its name, which ORDER BY prefers."""
        folded = {name.casefold(): value.tree for name, value in outputs.items()}
        if folded.get(figure.name.casefold(), figure) != figure:
            figure.set("table", exp.to_identifier(NOISY))


def _order_value(node: exp.Expr, above: _OutputScope) -> exp.Expr:
    """What an entry of ORDER BY means: the place of an output, or a value."""
    if isinstance(node, exp.Literal) and not node.is_string:
        positions = range(1, len(above.outputs) + 1)
        position = integer_literal(node, positions, "The place in ORDER BY")
        return list(above.outputs.values())[position - 1].sql
    return compile_value(node, above).sql


@dataclass(frozen=True)
class _OutputScope:
    """The scope of HAVING and ORDER BY: outputs by name, then keys and aggregates."""

    scope: GroupedScope
    outputs: dict[str, Typed]

    def resolve(self, node: exp.Expr) -> Typed | None:
        named = {name.casefold(): value for name, value in self.outputs.items()}
        if isinstance(node, exp.Column):
            output = None if node.table else named.get(node.name.casefold())
            return self.scope.resolve(node) if output is None else output
        uses_outputs = any(
            column_node.name.casefold() in named for column_node in node.find_all(exp.Column)
        )
        if uses_outputs and not isinstance(node, (*AGGREGATES, exp.Window)):
            return None  # it is not a key as a whole, but may be made of outputs
        return self.scope.resolve(node)
