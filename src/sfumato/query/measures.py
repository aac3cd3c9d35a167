"""The aggregates of a question: what is measured, of which argument."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.query.arguments import argument
from sfumato.query.expressions import compile_value
from sfumato.query.expressions.operands import demand_text
from sfumato.query.plan import Argument, Function, Measure
from sfumato.query.refusal import check_modifiers, part
from sfumato.query.typed import FIRST_DAY, LAST_DAY, Typed, literal
from sfumato.schema.column import Kind
from sfumato.schema.names import untaken

if TYPE_CHECKING:
    from sfumato.query.relation import RowScope

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
_LIMIT = 50


@dataclass
class Measures:
    """Collects the aggregates of one question, each once, and the arguments they share."""

    scope: RowScope
    found: list[Measure] = field(default_factory=list)
    arguments: dict[exp.Expr, Argument] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def ask(self, node: exp.Expr, name: str | None = None) -> Typed:
        """The value, above the aggregate, of an aggregate of the question."""
        function, given, quantile = self._read(node)
        same = [
            one
            for one in self.found
            if (one.function, one.argument, one.quantile) == (function, given, quantile)
        ]
        if same:
            return _above(same[0])
        if len(self.found) == _LIMIT:
            raise QueryError(
                "aggregates_too_many", f"At most {_LIMIT} aggregates fit one question. Ask two."
            )
        note = None
        if type(node) in _EXTREMES:
            note = f"{node.key.upper()} is answered as a private quantile: near it, not exactly."
        measure = Measure(
            self.reserve(name or str(node.meta.get("name", node.key))),
            function,
            given,
            quantile,
            note,
        )
        self.found.append(measure)
        return _above(measure)

    def reserve(self, wanted: str) -> str:
        """A name that no other column of the noisy table has."""
        name = untaken(wanted, self.names)
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
                f"Cannot release {part(node)}. Allowed are COUNT, COUNT(DISTINCT x), SUM, AVG, "
                "VARIANCE, STDDEV, MEDIAN, QUANTILE(x, q), MIN and MAX.",
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
                    "aggregate_not_allowed", f"Cannot count {part(node)}: name one column."
                )
            only = inner.expressions[0]
            if compile_value(only, self.scope).unit:
                return Function.COUNT_PEOPLE, None
            return Function.COUNT_DISTINCT, self._argument(Function.COUNT_DISTINCT, only)
        value = compile_value(inner, self.scope)
        if not value.nullable:
            return Function.COUNT, None
        missing = exp.Is(this=exp.Paren(this=value.sql), expression=exp.Null())
        tree = exp.case().when(missing, exp.Null()).else_(literal(1))
        return Function.COUNT, self._shared(
            tree, Argument("", 1, 1, Fraction(1), Kind.INTEGER, nullable=True)
        )

    def _argument(self, function: Function, node: exp.Expr) -> Argument:
        value = compile_value(node, self.scope)
        if value.kind is Kind.TEXT:
            value = demand_text(value, node)
        made, tree = argument(function, value, node, "")
        return self._shared(tree, made)

    def _shared(self, tree: exp.Expr, made: Argument) -> Argument:
        """The argument under the name of its column, one column for equal ones."""
        known = self.arguments.get(tree)
        if known is None:
            known = Argument(
                f"sf_argument_{len(self.arguments)}",
                made.low,
                made.high,
                made.step,
                made.kind,
                made.nullable,
            )
            self.arguments[tree] = known
        return known


def _fraction(node: exp.Quantile) -> Fraction:
    """The share of a quantile, from 0 to 1."""
    given = node.args.get("quantile")
    try:
        if not isinstance(given, exp.Literal) or given.is_string:
            raise InvalidOperation
        share = Fraction(Decimal(given.name))
        if 0 <= share <= 1 and share.denominator <= 10**12:
            return share
    except (InvalidOperation, ValueError):
        pass
    raise QueryError(
        "quantile_out_of_range",
        f"Cannot use {part(node)}: the share of a quantile is a number written out from 0 to 1.",
    )


def _above(measure: Measure) -> Typed:
    """A noisy figure."""
    tree = exp.column(exp.to_identifier(measure.name, quoted=True))
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
    whole = (certain and kind is Kind.INTEGER) or measure.function is Function.COUNT_DISTINCT
    return Typed(tree, Kind.INTEGER if whole else Kind.REAL, not certain, noisy=True)
