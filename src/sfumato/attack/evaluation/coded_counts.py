"""Both tables counted over the same small codes of their columns.

A column is coded by its declared values or points, or by bins of them, with the same rule inside
both engines, so that few combinations remain. Two more codes follow those of values: missing, and
any other value (outside the declared domain, or not among the commonest values of the original).
Tables of moderate size are counted once over all columns, and counts of fewer columns are sums of
these; larger tables are counted for each set of columns. The engine counts, so no row is loaded.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sqlglot import exp

from sfumato.data.counting.frequencies import count
from sfumato.data.engines.base import column as cell_of
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds, Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Scalar

    Counts = NDArray[np.int64]
    Codes = NDArray[np.integer]


MOST_POINTS = 128
"""Grids with at most this many points are compared point by point, others in bins."""


BINS = 50


MOST_VALUES = 1_000
"""At most this many declared values are compared one by one; else only the commonest ones."""


COMMONEST = 100


_OUTSIDE = -1


_ANY_OTHER = "(any other)"


# Just below the largest finite double: it excludes infinity and NaN in every engine.
_LARGEST = 1.7e308


@dataclass(frozen=True)
class Coding:
    """The coding of a column: the SQL expression of a key, and the values of codes."""

    name: str
    key: exp.Expr
    labels: tuple[str, ...]
    ordered: bool
    declared: bool
    nullable: bool
    places: Mapping[str, int] | None = None
    """The code of each key if keys are texts; otherwise a key is its code."""
    told: str = ""
    """A note for readers, such as that numbers were put into bins."""
    starts: tuple[float, ...] = ()
    """The lower end of each code on the number line, and the upper end of the last."""
    dates: bool = False
    """Whether the number line counts days since 1970-01-01."""

    @property
    def missing(self) -> int:
        """The code of a missing value."""
        return len(self.labels)

    @property
    def outside(self) -> int:
        """The code of any other value."""
        return len(self.labels) + 1

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.labels) + 2

    def label(self, code: int) -> str:
        """Return the meaning of a code, for people."""
        if code < len(self.labels):
            return self.labels[code]
        if code == self.missing:
            return "missing"
        return "a value that is not declared" if self.declared else "any other value"

    def codes(self, keys: Sequence[object]) -> NDArray[np.int16]:
        """Return the codes of keys that an engine returned."""
        code_of, outside = self.places, self.outside
        codes = (
            self.missing
            if key is None
            else code_of.get(str(key), outside)
            if code_of is not None
            else (int(key) if key != _OUTSIDE else outside)  # type: ignore[call-overload]
            for key in keys
        )
        return np.fromiter(codes, dtype=np.int16, count=len(keys))


def coding_of(column: Column, engine: Engine) -> Coding:
    """Choose the coding of a column: by its declared domain, else by its values in the original."""
    domain = column.public_domain
    if column.kind is Kind.BOOLEAN:
        value = cell_of(column.name)
        key = exp.case().when(value, _integer(1)).when(exp.not_(value.copy()), _integer(0))
        return _coding(column, key, ("false", "true"), declared=True)
    if isinstance(domain, Bounds):
        return _code_bounded(column, _Stretch.of(domain), declared=True)
    if isinstance(domain, Values) and domain.size <= MOST_VALUES:
        return _code_each_value(column, domain.values, declared=True)
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
    code_of: Mapping[str, int] | None = None,
    note: str = "",
) -> Coding:
    nullable = column.nullable
    return Coding(
        column.name, key, tuple(labels), ordered, declared, nullable, places=code_of, told=note
    )


def _code_each_value(
    column: Column, values: Sequence[Scalar], *, declared: bool, note: str = ""
) -> Coding:
    """Give each value its own code."""
    value, labels = cell_of(column.name), [str(value) for value in values]
    if column.kind is Kind.TEXT:
        known = value.copy().isin(*(exp.convert(label) for label in labels))
        key: exp.Expr = exp.case().when(value.copy().is_(exp.Null()), exp.Null())
        key = key.when(known, value.copy()).else_(exp.convert(_ANY_OTHER))  # type: ignore[attr-defined]
        code_of = {label: number for number, label in enumerate(labels)}
        return _coding(column, key, labels, declared=declared, code_of=code_of, note=note)
    key = exp.case().when(value.copy().is_(exp.Null()), exp.Null())
    for code, item in enumerate(values):
        key = key.when(value.copy().eq(_literal(item)), _integer(code))
    key = key.else_(_integer(_OUTSIDE))
    return _coding(column, key, labels, declared=declared, ordered=True, note=note)


class _Stretch(NamedTuple):
    """A range of values from `low`, `span` long; with a `step` only grid points are in it."""

    low: int | Decimal | date
    span: float
    step: int | Decimal | None
    points: int

    @classmethod
    def of(cls, bounds: Bounds) -> _Stretch:
        """Return the range of declared bounds."""
        return cls(bounds.low, float(bounds.span), bounds.grid_step, bounds.size or 0)


def _code_bounded(column: Column, stretch: _Stretch, *, declared: bool) -> Coding:
    """Code points of a grid one by one or in equal bins, and a continuum in equal bins."""
    low, span, step, points = stretch
    if step is not None:
        # Bins begin half a step below their first point, so that no rounding moves a point.
        points_per_bin = 1 if points <= MOST_POINTS else ceil(points / BINS)
        width, start, count = (
            points_per_bin * float(step),
            -float(step) / 2,
            ceil(points / points_per_bin),
        )
        ends = [
            (first, min(first + points_per_bin, points) - 1)
            for first in range(0, points, points_per_bin)
        ]
        labels = [_points(stretch, *end) for end in ends]
    else:
        points_per_bin, count = 0, BINS if span else 1
        width, start = span / count or 1.0, 0.0
        edges = [float(low) + number * width for number in range(count + 1)]  # type: ignore[arg-type]
        labels = [f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges)]
    bounds = "its bounds" if declared else "what the original has, as no bounds are declared"
    note = "" if points_per_bin == 1 else f"compared in {count} equal bins of {bounds}"
    distance = _distance(column, low)
    key = exp.case().when(cell_of(column.name).is_(exp.Null()), exp.Null())
    beyond = exp.or_(distance < _real(0.0), distance.copy() > _real(span))
    bin_index = exp.Floor(this=exp.Paren(this=distance.copy() - _real(start)) / _real(width))
    last = exp.Least(this=bin_index, expressions=[_real(float(count - 1))], ignore_nulls=True)
    key = key.when(beyond, _integer(_OUTSIDE)).else_(exp.cast(last, "BIGINT"))
    coding = _coding(column, key, labels, declared=declared, ordered=True, note=note)
    zero = float((low - date(1970, 1, 1)).days if isinstance(low, date) else low)
    starts = tuple(zero + start + width * number for number in range(count + 1))
    return replace(coding, starts=starts, dates=isinstance(low, date))


def _seen(column: Column, engine: Engine) -> Coding:
    """Code numbers and dates without bounds in bins between the extremes of the original."""
    cell = cell_of(column.name)
    ends = [end(this=cell.copy()).as_(name) for name, end in (("low", exp.Min), ("high", exp.Max))]
    query = exp.select(*ends).from_(engine.table.copy())
    if column.kind is Kind.REAL:  # infinity and NaN cannot be ends of bins
        query = query.where(cell.copy() <= _real(_LARGEST), cell.copy() >= _real(-_LARGEST))
    (extremes,) = engine.run(query).to_pylist()
    low, high = extremes["low"], extremes["high"]
    if low is None:
        return _code_each_value(column, (), declared=False)
    if column.kind is Kind.REAL:
        return _code_bounded(
            column, _Stretch(Decimal(repr(low)), high - low, None, 0), declared=False
        )
    span = (high - low).days if isinstance(low, date) else high - low
    return _code_bounded(column, _Stretch(low, float(span), 1, span + 1), declared=False)


def _commonest(column: Column, engine: Engine) -> Coding:
    """Code open text: the commonest values of the original, and one code for all others."""
    cell, rows = cell_of(column.name), exp.Count(this=exp.Star())
    query = (
        exp.select(cell.as_("value"), rows.as_("many"))
        .from_(engine.table.copy())
        .where(cell.copy().is_(exp.Null()).not_())
        .group_by(cell.copy())
        .order_by(exp.column("many").desc(), exp.column("value"))
        .limit(COMMONEST)
    )
    values = engine.run(query).column("value").to_pylist()
    note = f"compared by the {COMMONEST} values that the original has most often"
    note = note if len(values) == COMMONEST else ""
    return _code_each_value(column, sorted(values), declared=False, note=note)


def _distance(column: Column, low: int | Decimal | date) -> exp.Expr:
    """Return the distance of a value from the lower bound, in days for dates."""
    cell = cell_of(column.name)
    if isinstance(low, date):
        days = exp.DateDiff(this=cell, expression=_literal(low), unit=exp.var("DAY"))
        return exp.cast(days, "DOUBLE")
    return exp.Paren(this=exp.cast(cell, "DOUBLE") - _real(float(low)))


def _points(stretch: _Stretch, first: int, last: int) -> str:
    """Name the points of a bin."""
    low, step = stretch.low, stretch.step
    assert step is not None
    if isinstance(low, date):
        ends = [str(low + timedelta(days=int(step) * point)) for point in (first, last)]
    else:
        ends = [f"{low + step * point:,}" for point in (first, last)]
    return ends[0] if first == last else f"{ends[0]} to {ends[1]}"


def _literal(value: Scalar) -> exp.Expr:
    if isinstance(value, date):
        return exp.cast(exp.convert(value.isoformat()), "DATE")
    return _real(float(value)) if isinstance(value, Decimal) else exp.convert(value)


def _real(value: float) -> exp.Expr:
    return exp.cast(exp.convert(repr(value)), "DOUBLE")


def _integer(value: int) -> exp.Expr:
    return exp.cast(exp.convert(value), "BIGINT")


MOST_HELD = 2_000_000
"""Tables with at most this many rows or combinations are counted once, over all columns."""


_DENSE = 2
"""With at most this many cells for each row, a dense array is faster than sorting."""


@dataclass(frozen=True)
class Cells:
    """The cells of some columns that either table fills, and the rows of both in each."""

    codes: tuple[Codes, ...]
    original: Counts
    synthetic: Counts


@dataclass(frozen=True)
class CodedCounts:
    """Combinations of codes, and how often each occurs."""

    codes: tuple[Codes, ...]
    counts: Counts
    single: bool
    """Whether every combination occurs once."""

    def of(self, columns: Sequence[int]) -> CodedCounts:
        """Return some of the columns; combinations may then repeat."""
        return replace(self, codes=tuple(self.codes[column] for column in columns))

    def added(self, keys: Codes, size: int) -> Counts:
        """Return the rows of each key; float sums of counts are exact below 2^53."""
        weights = None if self.single else self.counts
        return np.bincount(keys, weights=weights, minlength=size).astype(np.int64, copy=False)


@dataclass(frozen=True)
class CodedTable:
    """One of the two tables: an engine with a view of its keys, and their codings."""

    engine: Engine
    view: exp.Table
    codings: tuple[Coding, ...]
    rows: int

    @cached_property
    def held(self) -> CodedCounts | None:
        """The counts of all columns; None if there may be too many combinations."""
        cells = prod(coding.size for coding in self.codings)
        if min(self.rows, cells) > MOST_HELD:
            return None
        return self.counted(range(len(self.codings)))

    def of(self, columns: Sequence[int]) -> CodedCounts:
        """Return the combinations of some columns."""
        return self.held.of(columns) if self.held is not None else self.counted(columns)

    def counted(self, columns: Sequence[int], *, one_in: int = 1) -> CodedCounts:
        """Count combinations of some columns in the engine; `one_in` takes a hashed sample."""
        chosen = [self.codings[column] for column in columns]
        where = None
        if one_in > 1:
            values = [exp.column(coding.name, quoted=True) for coding in chosen]
            hashed = exp.Mod(
                this=exp.Paren(this=self.engine.traits.hashed("sample", values)),
                expression=exp.convert(one_in),
            )
            where = hashed.eq(0)
        counted = count(self.engine, self.view, [coding.name for coding in chosen], where=where)
        single = bool(counted.counts.max(initial=1) == 1)
        return CodedCounts(_codes_of_keys(counted, chosen), counted.counts, single)

    def sample(self, most: int) -> CodedCounts:
        """Return combinations of all columns, for about `most` rows or more."""
        if self.held is not None:
            return self.held
        return self.counted(range(len(self.codings)), one_in=max(1, self.rows // most))


def _codes_of_keys(counted: Frequencies, codings: Sequence[Coding]) -> tuple[Codes, ...]:
    """Return the codes of counted keys."""
    return tuple(
        coding.codes(axis.decode(np.arange(axis.size)).to_pylist())[codes]
        for coding, axis, codes in zip(codings, counted.axes, counted.codes, strict=True)
    )


@contextmanager
def coded(engine: Engine, table: exp.Table, codings: Sequence[Coding]) -> Iterator[CodedTable]:
    """Open a view of a table with the keys of its columns, to be counted."""
    named = [exp.alias_(coding.key.copy(), coding.name, quoted=True) for coding in codings]
    rows = engine.run(exp.select(exp.Count(this=exp.Star()).as_("n")).from_(table.copy()))
    with engine.view(exp.select(*named).from_(table.copy())) as view:
        yield CodedTable(engine, view, tuple(codings), int(rows.column(0)[0].as_py()))


def cells(original: CodedTable, synthetic: CodedTable, columns: Sequence[int]) -> Cells:
    """Return the cells of up to three columns, with the rows of both tables in each."""
    sizes = [original.codings[column].size for column in columns]
    sides = [table.of(columns) for table in (original, synthetic)]
    keyed = [_keys(side.codes, sizes) for side in sides]
    radix, rows = prod(sizes), sum(map(len, keyed))
    present = None
    # Sort only if the dense table would be mostly empty.
    if radix > _DENSE * rows:
        present, places_of = np.unique(np.concatenate(keyed), return_inverse=True)
        keyed = np.split(places_of, [len(keyed[0])])
        radix = len(present)
    real, synthetic_rows = (side.added(key, radix) for side, key in zip(sides, keyed, strict=True))
    occupied = np.flatnonzero(real + synthetic_rows)
    flat = occupied if present is None else present[occupied]
    return Cells(tuple(np.unravel_index(flat, sizes)), real[occupied], synthetic_rows[occupied])


def _keys(codes: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """One number for each combination; of three columns it is far from 64 bits."""
    key = codes[0].astype(np.int64)
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        key *= size
        key += column
    return key
