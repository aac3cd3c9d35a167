"""A fitted model with all that is needed to draw rows of the table's own columns from it.

It is made of what was paid for alone: drawing from it, ever so often, costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from sfumato import given as read
from sfumato.cards import Card, Shown
from sfumato.counting.axes import Grid
from sfumato.errors import ParameterError, SchemaError
from sfumato.files import whole
from sfumato.noise.entropy import SystemEntropy
from sfumato.schema.file import dump, parse
from sfumato.schema.hierarchy.tree import Tree
from sfumato.schema.names import quoted, suggestion
from sfumato.synth.condition import conditioned
from sfumato.synth.draw import draw
from sfumato.synth.encode.bins import Bins
from sfumato.synth.encode.decoder import RowDecoder
from sfumato.synth.encode.encoding import Encoding
from sfumato.synth.saved import packed, read_packed, unpacked, unreadable, write_packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.counting.axes import Axis
    from sfumato.noise.entropy import Entropy
    from sfumato.schema.schema import Schema
    from sfumato.synth.log import MeasurementLog
    from sfumato.synth.model import FittedModel

CHUNK = 1 << 18
"""So many rows are drawn at once."""
_TRIES = 64
"""How often rows that fell to a constraint, or beside a given value in its bin, are drawn again."""


@dataclass(frozen=True, repr=False)
class SynthesisModel(Shown):
    """A distribution of rows that was paid for, and the noisy tables that it explains.

    *Guarantee*: that of the release that it came with; nothing more is read or paid.
    *Error*: `marginal` tells that of measured sets of columns.
    *Edges*: a table may come out with fewer rows than asked for where a unique key allows no more.
    """

    encoding: Encoding
    fitted: FittedModel
    log: MeasurementLog

    def _card(self) -> Card:
        columns = ", ".join(one.name for one in self.encoding.kept)
        line = f"of {self.encoding.schema.table}, about {self.fitted.total:,.0f} rows of {columns}"
        return Card(line, {"Measured": [", ".join(one) for one in self.measured]})

    @property
    def measured(self) -> list[tuple[str, ...]]:
        """The sets of columns that were measured, in the order of measuring."""
        names = self.fitted.shape.names
        sets = dict.fromkeys(one.places for one in self.log.tables)
        return [tuple(names[place] for place in one) for one in sets]

    @property
    def rows(self) -> int:
        """How many rows the table is held to have: declared, or by the noisy tables."""
        known = self.encoding.rows
        return max(round(self.fitted.total), 1) if known is None else known

    @read.in_python
    def draw(
        self, rows: int | None = None, *, given: Mapping[str, object] | None = None
    ) -> pa.Table:
        """Draw rows, as many as the table is held to have unless said; only some, where `given`.

        `given={"sex": "F"}` draws rows that have these values.
        """
        wanted = self.rows if rows is None else how_many(rows)
        return pa.concat_tables(_chunks(self, wanted, _fixed(given), SystemEntropy()))

    @read.in_python
    def write(
        self,
        path: str | Path,
        rows: int | None = None,
        *,
        given: Mapping[str, object] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Draw any number of rows into a Parquet file, a chunk at a time."""
        wanted = self.rows if rows is None else how_many(rows)
        chunks = _chunks(self, wanted, _fixed(given), SystemEntropy())
        with whole(read.path(path, "path"), overwrite=overwrite) as target:
            first = next(chunks)
            with parquet.ParquetWriter(target, first.schema) as writer:
                writer.write_table(first)
                for one in chunks:
                    writer.write_table(one)

    @read.in_python
    def marginal(self, columns: Sequence[str]) -> pa.Table:
        """The noisy counts of some columns that were measured together, each with its error.

        Columns `count` and `count_sd`; of bins the lowest value is told.
        """
        names = self.fitted.shape.names
        asked = read.names(columns, "columns")
        places = tuple(sorted(names.index(one) for one in asked if one in names))
        estimate = self.log.estimate([places])
        if len(set(places)) < len(asked) or not places or not estimate.known(places):
            raise ParameterError(
                "marginal_not_measured",
                f"Columns {', '.join(map(quoted, asked))} were not measured together. Measured "
                f"were: {'; '.join(', '.join(one) for one in self.measured)}.",
            )
        counts = estimate.table(places)
        codes = np.indices(counts.shape).reshape(len(places), -1)
        axes = [self.encoding.axes[place] for place in places]
        values = {axis.column: axis.decode(code) for axis, code in zip(axes, codes, strict=True)}
        deviation = np.full(counts.size, estimate.variance(places) ** 0.5)
        return pa.table({**values, "count": counts.ravel(), "count_sd": deviation})

    @cached_property
    def packed(self) -> pa.Table:
        """It as one Arrow table."""
        schema = _plain(self.encoding.schema)
        told = {"schema": dump(schema, folder=Path()), "encoding": self.encoding.to_record()}
        return packed(self.fitted, self.log, told)

    @classmethod
    def unpacked(cls, table: pa.Table) -> SynthesisModel:
        """Read what `packed` is."""
        return cls._of(*unpacked(table))

    @read.in_python
    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write it to a file (Arrow), whole or not at all: the model and the noisy tables."""
        with whole(read.path(path, "path"), overwrite=overwrite) as target:
            write_packed(self.packed, target)

    @classmethod
    @read.in_python
    def load(cls, path: str | Path) -> SynthesisModel:
        """Read what `save` wrote."""
        target = read.path(path, "path")
        try:
            return cls._of(*read_packed(target))
        except (SchemaError, KeyError, TypeError):
            raise unreadable(target) from None

    @classmethod
    def _of(
        cls, fitted: FittedModel, log: MeasurementLog, told: Mapping[str, Any]
    ) -> SynthesisModel:
        schema = parse(told["schema"], "model", Path())
        return cls(Encoding.from_record(schema, told["encoding"]), fitted, log)


def drawn(model: SynthesisModel, rows: int, entropy: Entropy) -> pa.Table:
    """Draw rows from a given source of randomness."""
    return pa.concat_tables(_chunks(model, rows, {}, entropy))


def _chunks(
    model: SynthesisModel, wanted: int, fixed: Mapping[str, object], entropy: Entropy
) -> Iterator[pa.Table]:
    """Draw rows, some at a time: at least one table, which may have no rows."""
    fitted, decoder = _conditioned(model, fixed), RowDecoder(model.encoding, entropy)
    left, vain = wanted, 0
    while left == wanted or (left and vain < _TRIES):
        kept = _having(decoder.rows(draw(fitted, min(left, CHUNK), entropy)), fixed)
        left -= kept.num_rows
        vain = 0 if kept.num_rows else vain + 1
        if kept.num_rows or not wanted:
            yield kept
        if not wanted:
            return
        if left == wanted and vain == _TRIES:
            said = " and ".join(f"{name} = {value}" for name, value in fixed.items())
            raise ParameterError(
                "given_impossible",
                f"No rows{said and f' with {said}'} can be drawn: the constraints of the schema "
                "exclude them. Give other values.",
            )


def _conditioned(model: SynthesisModel, fixed: Mapping[str, object]) -> FittedModel:
    """The model given these values; its total is how many rows have them."""
    names, codes = model.fitted.shape.names, {}
    for name, value in fixed.items():
        if name not in names:
            raise ParameterError(
                "given_unknown",
                f"There is no drawn column {quoted(name)}; {suggestion(name, names)}",
            )
        place = names.index(name)
        codes[place] = _code(model.encoding.axes[place], value)
    return conditioned(model.fitted, codes) if codes else model.fitted


def _fixed(given: object) -> dict[str, object]:
    allowed = "values by column, such as {'sex': 'F'}"
    found = dict(read.require({} if given is None else given, "given", dict, allowed))
    for name in found:
        read.require(name, "a column of given", str, "a text")
    return found


def how_many(rows: object) -> int:
    """A number of rows that was asked for."""
    found = read.whole(rows, "rows")
    if found < 0:
        raise ParameterError("rows_negative", f"rows must be 0 or more, not {found:,}.")
    return found


def _plain(schema: Schema) -> Schema:
    """A schema without hierarchies that lie in files: bins are cut by rules alone."""
    columns = tuple(
        replace(one, hierarchy=None) if isinstance(one.hierarchy, Tree) else one
        for one in schema.columns
    )
    return replace(schema, columns=columns)


def _having(table: pa.Table, fixed: Mapping[str, object]) -> pa.Table:
    """Rows that have these values; a bin has others beside them."""
    for name, value in fixed.items():
        column = table.column(name)
        same = pc.is_null(column) if value is None else pc.equal(column, _scalar(value, column))
        table = table.filter(same)
    return table


def _scalar(value: object, column: pa.ChunkedArray) -> pa.Scalar:
    return pa.scalar(value, column.type)


def _code(axis: Axis, value: object) -> int:
    """The code that a value has."""
    grid = axis.fine if isinstance(axis, Bins) else axis
    try:
        if isinstance(grid, Grid):
            place = _point(grid, value)
        else:
            values = [(type(one), one) for one in grid.values.to_pylist()]  # True is not 1
            place = values.index((type(value), value))
    except (ValueError, TypeError, ArithmeticError):
        place = -1
    if place < 0:
        raise ParameterError(
            "given_outside_domain",
            f"{read.shown(value)} is no declared value of column {quoted(axis.column)}. "
            "Give one that its schema allows.",
        )
    if isinstance(axis, Bins):
        missing = place >= axis.fine.points
        return axis.points if missing else int(np.searchsorted(axis.starts, place, "right")) - 1
    return place


def _point(grid: Grid, value: Any) -> int:
    """The number of a point of a grid; -1 if it is none."""
    if value is None:
        return grid.points if grid.nullable else -1
    low: Any = grid.bounds.low
    distance = value - (float(low) if isinstance(value, float) else low)
    steps = float(getattr(distance, "days", distance)) / float(grid.bounds.grid_step or 1)
    place = round(steps)
    return place if abs(steps - place) < 1e-6 and 0 <= place < grid.points else -1
