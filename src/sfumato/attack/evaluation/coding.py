"""The few codes as which a column is compared: its declared values or points, or bins of them.

Both tables are coded by the same rule inside their engines, so that what is counted there is small.
Behind the codes of values stand two more: one of what is missing, one of all else, which is outside
the declared domain or, where none is declared, was not among what the original has most often.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sqlglot import exp

from sfumato.data.engines.base import column as cell_of
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Scalar

MOST_POINTS = 128
"""So many points of a declared grid are compared one by one; more are put into bins."""
BINS = 50
MOST_VALUES = 1_000
"""So many declared values are compared one by one; of more, as of open text, the commonest."""
COMMONEST = 100
_OUTSIDE = -1
_OTHER = "(any other)"
_LARGEST = 1.7e308


@dataclass(frozen=True)
class Coding:
    """How a column is coded: the SQL of the key of a value, and what the codes stand for."""

    name: str
    key: exp.Expr
    labels: tuple[str, ...]
    ordered: bool
    declared: bool
    nullable: bool
    places: Mapping[str, int] | None = None
    """The code of each key where keys are texts; else a key is the code."""
    told: str = ""
    """What a reader must know of it, such as that numbers were put into bins."""
    starts: tuple[float, ...] = ()
    """Where the stretch of each code begins, and where the last ends, on a scale of numbers."""
    dates: bool = False
    """Whether that scale is one of days since the beginning of 1970."""

    @property
    def missing(self) -> int:
        """The code of a missing value."""
        return len(self.labels)

    @property
    def outside(self) -> int:
        """The code of a value that has no other."""
        return len(self.labels) + 1

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.labels) + 2

    def label(self, code: int) -> str:
        """What a code stands for, for people."""
        if code < len(self.labels):
            return self.labels[code]
        if code == self.missing:
            return "missing"
        return "a value that is not declared" if self.declared else "any other value"

    def codes(self, keys: Sequence[object]) -> NDArray[np.int16]:
        """The codes of keys as an engine has returned them."""
        places, outside = self.places, self.outside
        found = (
            self.missing
            if key is None
            else places.get(str(key), outside)
            if places is not None
            else (int(key) if key != _OUTSIDE else outside)  # type: ignore[call-overload]
            for key in keys
        )
        return np.fromiter(found, dtype=np.int16, count=len(keys))


def coding_of(column: Column, engine: Engine) -> Coding:
    """How a column is compared: by what is declared of it, else by what the original has."""
    domain = column.public_domain
    if column.kind is Kind.BOOLEAN:
        value = cell_of(column.name)
        key = exp.case().when(value, _whole(1)).when(exp.not_(value.copy()), _whole(0))
        return _coding(column, key, ("false", "true"), declared=True)
    if isinstance(domain, Bounds):
        return _bounded(column, _Stretch.of(domain), declared=True)
    if isinstance(domain, Values) and domain.size <= MOST_VALUES:
        return _listed(column, domain.values, declared=True)
    if column.kind is not Kind.TEXT and not isinstance(domain, Values):
        return _seen(column, engine)
    return _commonest(column, engine)


def _coding(
    column: Column,
    key: exp.Expr,
    labels: Sequence[str],
    *,
    declared: bool,
    ordered: bool = False,
    places: Mapping[str, int] | None = None,
    told: str = "",
) -> Coding:
    nullable = column.nullable
    return Coding(
        column.name, key, tuple(labels), ordered, declared, nullable, places=places, told=told
    )


def _listed(column: Column, values: Sequence[Scalar], *, declared: bool, told: str = "") -> Coding:
    """Each value has a code of its own."""
    value, labels = cell_of(column.name), [str(one) for one in values]
    if column.kind is Kind.TEXT:
        known = value.copy().isin(*(exp.convert(one) for one in labels))
        key: exp.Expr = exp.case().when(value.copy().is_(exp.Null()), exp.Null())
        key = key.when(known, value.copy()).else_(exp.convert(_OTHER))  # type: ignore[attr-defined]
        places = {one: place for place, one in enumerate(labels)}
        return _coding(column, key, labels, declared=declared, places=places, told=told)
    key = exp.case().when(value.copy().is_(exp.Null()), exp.Null())
    for place, one in enumerate(values):
        key = key.when(value.copy().eq(_literal(one)), _whole(place))
    key = key.else_(_whole(_OUTSIDE))
    return _coding(column, key, labels, declared=declared, ordered=True, told=told)


class _Stretch(NamedTuple):
    """Where values lie: from `low` on, by steps or, where there is none, anywhere within."""

    low: int | Decimal | date
    span: float
    step: int | Decimal | None
    points: int

    @classmethod
    def of(cls, bounds: Bounds) -> _Stretch:
        """That of declared bounds."""
        return cls(bounds.low, float(bounds.span), bounds.grid_step, bounds.size or 0)


def _bounded(column: Column, given: _Stretch, *, declared: bool) -> Coding:
    """Points of a grid one by one, or equal bins of them, or of a continuum."""
    low, span, step, points = given
    if step is not None:
        # Bins begin half a step below their first point, so that no rounding moves a point.
        each = 1 if points <= MOST_POINTS else ceil(points / BINS)
        width, start, count = each * float(step), -float(step) / 2, ceil(points / each)
        ends = [(first, min(first + each, points) - 1) for first in range(0, points, each)]
        labels = [_points(given, *end) for end in ends]
    else:
        each, count = 0, BINS if span else 1
        width, start = span / count or 1.0, 0.0
        edges = [float(low) + place * width for place in range(count + 1)]  # type: ignore[arg-type]
        labels = [f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges)]
    whose = "its bounds" if declared else "what the original has, as no bounds are declared"
    told = "" if each == 1 else f"compared in {count} equal bins of {whose}"
    distance = _distance(column, low)
    key = exp.case().when(cell_of(column.name).is_(exp.Null()), exp.Null())
    beyond = exp.or_(distance < _real(0.0), distance.copy() > _real(span))
    place = exp.Floor(this=exp.Paren(this=distance.copy() - _real(start)) / _real(width))
    last = exp.Least(this=place, expressions=[_real(float(count - 1))], ignore_nulls=True)
    key = key.when(beyond, _whole(_OUTSIDE)).else_(exp.cast(last, "BIGINT"))
    made = _coding(column, key, labels, declared=declared, ordered=True, told=told)
    zero = float((low - date(1970, 1, 1)).days if isinstance(low, date) else low)
    starts = tuple(zero + start + width * place for place in range(count + 1))
    return replace(made, starts=starts, dates=isinstance(low, date))


def _seen(column: Column, engine: Engine) -> Coding:
    """Numbers and dates without bounds: bins between the ends that the original has."""
    cell = cell_of(column.name)
    ends = [end(this=cell.copy()).as_(name) for name, end in (("low", exp.Min), ("high", exp.Max))]
    query = exp.select(*ends).from_(engine.table.copy())
    if column.kind is Kind.REAL:  # neither infinity nor NaN is an end of a bin
        query = query.where(cell.copy() <= _real(_LARGEST), cell.copy() >= _real(-_LARGEST))
    (found,) = engine.run(query).to_pylist()
    low, high = found["low"], found["high"]
    if low is None:
        return _listed(column, (), declared=False)
    if column.kind is Kind.REAL:
        return _bounded(column, _Stretch(Decimal(repr(low)), high - low, None, 0), declared=False)
    span = (high - low).days if isinstance(low, date) else high - low
    return _bounded(column, _Stretch(low, float(span), 1, span + 1), declared=False)


def _commonest(column: Column, engine: Engine) -> Coding:
    """Open text: the values that the original has most often, and one code for all else."""
    cell, many = cell_of(column.name), exp.Count(this=exp.Star())
    query = (
        exp.select(cell.as_("value"), many.as_("many"))
        .from_(engine.table.copy())
        .where(cell.copy().is_(exp.Null()).not_())
        .group_by(cell.copy())
        .order_by(exp.column("many").desc(), exp.column("value"))
        .limit(COMMONEST)
    )
    values = engine.run(query).column("value").to_pylist()
    told = f"compared by the {COMMONEST} values that the original has most often"
    told = told if len(values) == COMMONEST else ""
    return _listed(column, sorted(values), declared=False, told=told)


def _distance(column: Column, low: int | Decimal | date) -> exp.Expr:
    """How far a value is from the lower bound, in days for dates."""
    cell = cell_of(column.name)
    if isinstance(low, date):
        days = exp.DateDiff(this=cell, expression=_literal(low), unit=exp.var("DAY"))
        return exp.cast(days, "DOUBLE")
    return exp.Paren(this=exp.cast(cell, "DOUBLE") - _real(float(low)))


def _points(given: _Stretch, first: int, last: int) -> str:
    """The points of a bin in words."""
    low, step = given.low, given.step
    assert step is not None
    if isinstance(low, date):
        ends = [str(low + timedelta(days=int(step) * place)) for place in (first, last)]
    else:
        ends = [f"{low + step * place:,}" for place in (first, last)]
    return ends[0] if first == last else f"{ends[0]} to {ends[1]}"


def _literal(value: Scalar) -> exp.Expr:
    if isinstance(value, date):
        return exp.cast(exp.convert(value.isoformat()), "DATE")
    return _real(float(value)) if isinstance(value, Decimal) else exp.convert(value)


def _real(value: float) -> exp.Expr:
    return exp.cast(exp.convert(repr(value)), "DOUBLE")


def _whole(value: int) -> exp.Expr:
    return exp.cast(exp.convert(value), "BIGINT")
