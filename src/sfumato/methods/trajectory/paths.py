"""Paths as arrays, and how they are read from an engine with a bound per person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.counting.contribution import PERSON
from sfumato.data.counting.hashing import Keyed
from sfumato.data.engines.base import REAL
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from typing import Self

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.data.schema.schema import Points, Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.publish.request import FormRows


@dataclass(frozen=True)
class Paths:
    """Points of paths, path after path, in order of time within each path."""

    owners: IntArray
    """The person of each path, numbered from 0."""
    lengths: IntArray
    """How many points each path has, at least one."""
    times: FloatArray
    x: FloatArray
    y: FloatArray

    @classmethod
    def of(
        cls, owners: IntArray, paths: IntArray, times: FloatArray, x: FloatArray, y: FloatArray
    ) -> Self:
        """Gather points in any order. A path is identified by its owner and its number."""
        order = np.lexsort((y, x, times, paths, owners))
        owners, paths = owners[order], paths[order]
        new = np.ones(len(owners), dtype=bool)
        new[1:] = (np.diff(owners) != 0) | (np.diff(paths) != 0)
        first = np.flatnonzero(new)
        _, people = np.unique(owners[first], return_inverse=True)
        lengths = np.diff(first, append=len(owners))
        return cls(people, lengths, times[order], x[order], y[order])

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def first(self) -> IntArray:
        """Where the points of each path begin."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def path_of(self) -> IntArray:
        """The path of each point."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def steps(self) -> IntArray:
        """The points that are not the last of their path. A step leads from each to the next."""
        inner = np.ones(len(self.x), dtype=bool)
        inner[self.first + self.lengths - 1] = False
        return np.flatnonzero(inner)

    def thinned(self, every: float) -> Paths:
        """Keep the first point of each interval of `every` seconds.

        Intervals begin at the first point of the path itself, so the result for one path depends
        on this path alone and sensitivity stays as it was.
        """
        if not len(self.x):
            return self
        path = self.path_of
        slot = np.floor((self.times - self.times[self.first][path]) / every)
        is_kept = np.ones(len(path), dtype=bool)
        is_kept[1:] = (np.diff(path) != 0) | (np.diff(slot) != 0)
        lengths = np.bincount(path[is_kept], minlength=len(self.lengths)).astype(np.int64)
        return Paths(self.owners, lengths, self.times[is_kept], self.x[is_kept], self.y[is_kept])

    def subset(self, chosen: BoolArray) -> Paths:
        """Return the chosen paths."""
        points = np.repeat(chosen, self.lengths)
        return Paths(
            self.owners[chosen],
            self.lengths[chosen],
            self.times[points],
            self.x[points],
            self.y[points],
        )


# Points of paths out of any engine, bounded by person where the data lies.
#
# Of a person with more rows than the unit allows, paths are kept whole as far as rows last: in
# the order of a keyed hash of the path, and within a path in order of time. What is kept is a
# function of that person's own rows and of a secret salt that is drawn for each release. Rows
# without a person, a path, a time or a place are left out. Decision `trajectories`.
#
# Every number becomes a float64 in the engine, which rounds 2^53 + 1. Arrow refuses to convert
# it, so that one row would decide whether a release fails. Decision `integer-ranges`.


_COORDINATES = ("sf_x", "sf_y")
_NAMES = ("sf_path", "sf_time", *_COORDINATES)
# Times and places beyond are moved there; declared bounds have at most 15 digits.
_FARTHEST = 2.0**53
_WRITTEN = (
    "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d",
)  # fmt: skip


def read_paths(rows: FormRows, form: Points) -> Paths:
    """Return the paths of a data set, of no person more rows than the unit allows."""
    data = rows.data
    table = data.engine.stream(
        kept_rows(data.table, form, data.schema, data.unit, rows.salt)
    ).read_all()
    person, path = (dense_ranks(table.column(name)) for name in (PERSON, "sf_path"))
    figures = [
        parse_times(table.column("sf_time")),
        *(to_float64(table.column(values)) for values in _COORDINATES),
    ]
    is_complete = np.logical_and.reduce([np.isfinite(values) for values in figures])
    # No declared bound is so far out, and differences of what is left are finite.
    near = (np.clip(values[is_complete], -_FARTHEST, _FARTHEST) for values in figures)
    return Paths.of(person[is_complete], path[is_complete], *near)


def kept_rows(table: exp.Table, form: Points, schema: Schema, unit: Unit, salt: str) -> exp.Select:
    """Select person, path, time and place of everybody's first rows, as many as the unit allows."""
    [person] = unit.columns
    named = zip((person, form.path, form.time, form.x, form.y), (PERSON, *_NAMES), strict=True)
    columns = [
        exp.alias_(
            exp.cast(exp.column(column_name, quoted=True), REAL)
            if name in _COORDINATES
            or (name == "sf_time" and schema.column(column_name).kind is Kind.INTEGER)
            else exp.column(column_name, quoted=True),
            name,
        )
        for column_name, name in named
    ]
    present = [exp.column(name).is_(exp.Null()).not_() for name in (PERSON, *_NAMES)]
    rows = exp.select(*columns).from_(table.copy())
    owned = exp.select(exp.Star()).from_(rows.subquery("sf_all")).where(*present)
    order = [Keyed(salt).order([PERSON, "sf_path"]), *map(exp.column, _NAMES)]
    row_number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(PERSON)],
        order=exp.Order(
            expressions=[exp.Ordered(this=column_name, nulls_first=False) for column_name in order]
        ),
    )
    ranked = exp.select(exp.Star(), exp.alias_(row_number, "sf_place")).from_(
        owned.subquery("sf_owned")
    )
    return (
        exp.select(*map(exp.column, (PERSON, *_NAMES)))
        .from_(ranked.subquery("sf_ranked"))
        .where(exp.column("sf_place") <= exp.convert(unit.max_rows))
    )


def parse_times(values: pa.ChunkedArray) -> FloatArray:
    """Times as seconds since 1970, numbers unchanged; NaN where a time cannot be read."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Fractions of a second and a trailing Z are dropped.
        plain = pc.replace_substring_regex(values.cast(pa.string()), r"(\.\d+)?Z?$", "")
        read = [
            pc.strptime(plain, time_format, unit="s", error_is_null=True)
            for time_format in _WRITTEN
        ]
        seconds = pc.coalesce(*read).cast(pa.int64())
    elif pa.types.is_temporal(kind):
        seconds = values.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    else:
        seconds = values
    return to_float64(seconds)


def to_float64(values: pa.ChunkedArray) -> FloatArray:
    """Numbers as the nearest float64. No value fails, so a failure cannot reveal a row."""
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def dense_ranks(values: pa.ChunkedArray) -> IntArray:
    """Dense ranks of values, from 1."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    return np.asarray(pc.rank(values, tiebreaker="dense"), dtype=np.int64)
