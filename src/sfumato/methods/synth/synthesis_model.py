"""A fitted model with all that is needed to draw rows of the table's own columns from it.

It is made of what was paid for alone: drawing from it, ever so often, costs nothing.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato import arguments as read
from sfumato.data.counting.axes import Grid
from sfumato.data.files.writers import write_file
from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy import Tree
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.schema_file import dump, parse
from sfumato.errors import ParameterError
from sfumato.methods.synth.encode.axes import Bins, Weekdays
from sfumato.methods.synth.encode.decoder import RowDecoder
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.methods.synth.encode.identifiers import key_room, too_many_for_keys
from sfumato.methods.synth.junction_tree import conditioned
from sfumato.methods.synth.measurement_log import TableShape
from sfumato.methods.synth.row_sampling import draw
from sfumato.methods.synth.saved_model import UNREADABLE, SavedModel, packed, to_file, unpacked
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.data.counting.axes import Axis
    from sfumato.data.schema.schema import Schema
    from sfumato.methods.synth.fitted_model import FittedModel
    from sfumato.methods.synth.linked_model import LinkedModel
    from sfumato.methods.synth.measurement_log import MeasurementLog
    from sfumato.privacy.noise.entropy import Entropy


CHUNK = 1 << 18
"""So many rows are drawn at once."""
_TRIES = 64
"""How often rows that fell to a constraint, or beside a given value in its bin, are drawn again."""
_EVEN_AFTER = 8
"""After so many times in vain they are drawn evenly: noise may have left nothing possible."""
MOST_IN_MEMORY = 1 << 30
"""The most rows that are drawn at once; a file takes more."""


@dataclass(frozen=True, repr=False)
class SynthesisModel(SavedModel, Shown):
    """A distribution of rows that was paid for, and the noisy tables that it explains.

    *Guarantee*: that of the release that it came with; nothing more is read or paid.
    *Error*: `marginal` tells that of measured sets of columns.
    *Edges*: a table may come out with fewer rows than asked for where a unique key allows no more.
    """

    encoding: Encoding
    fitted: FittedModel
    log: MeasurementLog

    of_two = False

    def _card(self) -> Card:
        columns = ", ".join(column.name for column in self.encoding.output_columns)
        line = f"of {self.encoding.schema.table}, about {self.fitted.total:,.0f} rows of {columns}"
        return Card(line, {"Measured": [", ".join(names) for names in self.measured]})

    @property
    def measured(self) -> list[tuple[str, ...]]:
        """The sets of columns that were measured, in the order of measuring."""
        names = self.fitted.shape.names
        sets = dict.fromkeys(table.columns for table in self.log.tables)
        return [tuple(names[column] for column in columns) for columns in sets]

    @property
    def rows(self) -> int:
        """How many rows the table is held to have: declared, or by the noisy tables."""
        known = self.encoding.rows
        return max(round(self.fitted.total), 1) if known is None else known

    def draw(
        self, rows: int | None = None, *, given: Mapping[str, object] | None = None
    ) -> pa.Table:
        """Draw rows, as many as the table is held to have unless said; only some, where `given`.

        `given={"sex": "F"}` draws rows that have these values.
        """
        row_count = rows_to_draw(self, rows)
        check_memory(row_count, "Use write(), which takes any number.")
        return pa.concat_tables(_chunks(self, row_count, self._fixed(given), SystemEntropy()))

    def write(
        self,
        path: str | Path,
        rows: int | None = None,
        *,
        given: Mapping[str, object] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Draw any number of rows into a file, a chunk at a time: .parquet, .csv, ..."""
        row_count = rows_to_draw(self, rows)
        chunks = _chunks(self, row_count, self._fixed(given), SystemEntropy())

        def opened() -> pa.RecordBatchReader:
            first = next(chunks)
            batches = (batch for table in chain([first], chunks) for batch in table.to_batches())
            return pa.RecordBatchReader.from_batches(first.schema, batches)

        layout = self.encoding.schema.layout
        write_file(opened, read.path(path, "path"), overwrite=overwrite, layout=layout)

    def _fixed(self, given_values: object) -> dict[str, object]:
        """Values that are given, by column, as rows have them."""
        allowed = "values by column, such as {'sex': 'F'}"
        values = dict(
            read.require({} if given_values is None else given_values, "given", dict, allowed)
        )
        names = [axis.column for axis in self.encoding.axes if not isinstance(axis, Weekdays)]
        for name, value in values.items():
            read.require(name, "a column of given", str, "a text")
            if name not in names:
                raise ParameterError(
                    "column_unknown",
                    f"There is no drawn column {quoted(name)}; {suggestion(name, names)}",
                )
            values[name] = as_drawn(self.encoding.schema.column(name).kind, value)
        return values

    def marginal(self, columns: Sequence[str]) -> pa.Table:
        """The noisy counts of some columns that were measured together, each with its error.

        Columns `count` and `count_sd`; of bins the lowest value is told.
        """
        names = self.fitted.shape.names
        asked = read.names(columns, "columns")
        indices = tuple(sorted(names.index(name) for name in asked if name in names))
        estimate = self.log.estimate([indices])
        if len(set(indices)) < len(asked) or not indices or not estimate.known(indices):
            named = ", ".join(map(quoted, asked)) or "(none named)"
            raise ParameterError(
                "columns_invalid",
                f"Columns {named} were not measured together. Measured were: "
                f"{'; '.join(', '.join(measured) for measured in self.measured)}.",
            )
        counts = estimate.table(indices)
        codes = np.indices(counts.shape).reshape(len(indices), -1)
        axes = [self.encoding.axes[column] for column in indices]
        values = {axis.column: axis.decode(code) for axis, code in zip(axes, codes, strict=True)}
        deviation = np.full(counts.size, estimate.variance(indices) ** 0.5)
        return pa.table({**values, "count": counts.ravel(), "count_sd": deviation})

    @cached_property
    def packed(self) -> pa.Table:
        """It as one Arrow table."""
        schema = _plain(self.encoding.schema)
        extra = {"schema": dump(schema, folder=Path()), "encoding": self.encoding.to_record()}
        return packed(self.fitted, self.log, extra)

    @classmethod
    def unpacked(cls, table: pa.Table) -> SynthesisModel:
        """Read what `packed` is; a `ValueError` says that it is something else."""
        try:
            fitted, log, extra = unpacked(table)
            schema = _declared_in(extra["schema"])
            encoding = Encoding.from_record(schema, extra["encoding"])
            if TableShape.of(encoding.axes) != fitted.shape:
                raise ValueError("other columns than its schema's")
        except UNREADABLE as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        return cls(encoding, fitted, log)

    @property
    def content(self) -> bytes:
        """What a file of it holds."""
        return to_file(self.packed)

    @staticmethod
    def load_linked(path: str | Path) -> LinkedModel:
        """Read a model of a parent and a child table, which a synthesis of both wrote."""
        from sfumato.methods.synth.linked_model import LinkedModel  # which is made of two of these

        return LinkedModel.load(path)


def _declared_in(text: str) -> Schema:
    """A schema from a model, which reads no file: a stranger's would name one of ours."""
    columns = tomllib.loads(text, parse_float=Decimal)["columns"].values()
    if any("file" in (column.get("hierarchy") or ()) for column in columns):
        raise ValueError("a file is named")
    return parse(text, "model", Path())


def drawn(model: SynthesisModel, rows: int, entropy: Entropy) -> pa.Table:
    """Draw rows from a given source of randomness."""
    return pa.concat_tables(_chunks(model, rows, {}, entropy))


def _chunks(
    model: SynthesisModel, row_count: int, fixed: Mapping[str, object], entropy: Entropy
) -> Iterator[pa.Table]:
    """Draw rows, some at a time: at least one table, which may have no rows."""
    fitted, decoder = _conditioned(model, fixed), RowDecoder(model.encoding, entropy, fixed)
    remaining, vain = row_count, 0
    while remaining == row_count or (remaining and vain < _TRIES):
        if vain == _EVEN_AFTER:
            fitted = _conditioned(model, fixed, even=True)
        matching = _having(decoder.rows(draw(fitted, min(remaining, CHUNK), entropy)), fixed)
        remaining -= matching.num_rows
        vain = 0 if matching.num_rows else vain + 1
        if matching.num_rows or not row_count:
            yield matching
        if not row_count:
            return
        if remaining == row_count and vain == _TRIES:
            conditions = " and ".join(f"{name} = {value}" for name, value in fixed.items())
            subject = f"No rows with {conditions}" if conditions else "No rows"
            raise ParameterError(
                "value_outside_domain",
                f"{subject} can be drawn: the constraints of the schema exclude them. "
                "Give other values.",
            )


def _conditioned(
    model: SynthesisModel, fixed: Mapping[str, object], *, even: bool = False
) -> FittedModel:
    """The model given these values; its total is how many rows have them."""
    fitted = model.fitted.even if even else model.fitted
    axes = {axis.column: (index, axis) for index, axis in enumerate(model.encoding.axes)}
    codes = {}
    for name, value in fixed.items():
        index, axis = axes[name]
        codes[index] = code_of(axis, value)
    return conditioned(fitted, codes) if codes else fitted


def rows_to_draw(model: SynthesisModel, rows: object) -> int:
    """How many rows to draw: those asked for, or the table's; no more than keys allow."""
    room = key_room(model.encoding)
    if rows is None:
        return model.rows if room is None else min(model.rows, room)
    row_count = read.whole(rows, "rows")
    if row_count < 0:
        raise ParameterError(
            "parameter_out_of_range",
            f"rows must be 0 or more, not {row_count:,}.",
            parameter="rows",
            given=row_count,
        )
    if room is not None and row_count > room:
        raise too_many_for_keys(row_count, room)
    return row_count


def check_memory(rows: int, instead: str) -> None:
    """Refuse more rows than are drawn at once."""
    if rows > MOST_IN_MEMORY:
        raise ParameterError(
            "parameter_out_of_range",
            f"At most {MOST_IN_MEMORY:,} rows are drawn into memory, not {rows:,}. {instead}",
            parameter="rows",
            given=rows,
        )


def _plain(schema: Schema) -> Schema:
    """A schema without hierarchies that lie in files: bins are cut by rules alone.

    The leaves of such a one may be all that says which values there are.
    """
    columns = tuple(
        replace(column, hierarchy=None, domain=column.public_domain)
        if isinstance(column.hierarchy, Tree)
        else column
        for column in schema.columns
    )
    return replace(schema, columns=columns)


def _having(table: pa.Table, fixed: Mapping[str, object]) -> pa.Table:
    """Rows that have these values still, after repairs."""
    for name, value in fixed.items():
        column = table.column(name)
        scalar = pa.scalar(value, column.type)
        table = table.filter(pc.is_null(column) if value is None else pc.equal(column, scalar))
    return table


# Values that drawn rows are to have: read as their column has them, and found among its codes.


def as_drawn(kind: Kind, value: object) -> object:
    """A value as rows have it: a whole number for a real column, a date as text; else as it is."""
    match kind, value:
        case (Kind.REAL | Kind.INTEGER, bool()) | (_, None):
            return value
        case Kind.REAL, int() | float() | Decimal():
            return float(value)
        case Kind.INTEGER, float() if value.is_integer():
            return int(value)
        case Kind.DATE, datetime():
            return value.date()
        case Kind.DATE, str():
            try:
                return date.fromisoformat(value)
            except ValueError:
                return value
    return value


def code_of(axis: Axis, value: object) -> int:
    """The code of a value; refused where its column has no such value."""
    grid = axis.fine if isinstance(axis, Bins) else axis
    try:
        if isinstance(grid, Grid):
            position = _point(grid, value)
        else:
            values = [
                (type(element), element) for element in grid.values.to_pylist()
            ]  # True is not 1
            position = values.index((type(value), value))
    except (ValueError, TypeError, ArithmeticError):
        position = -1
    if position < 0:
        raise ParameterError(
            "value_outside_domain",
            f"No row has {read.shown(value)} in column {quoted(axis.column)}; {_allowed(axis)}",
        )
    if isinstance(axis, Bins):
        missing = position >= axis.fine.points
        return axis.points if missing else int(np.searchsorted(axis.starts, position, "right")) - 1
    return position


def _allowed(axis: Axis) -> str:
    if not isinstance(axis, Grid):
        return suggestion("", map(str, axis.values.drop_null().to_pylist()))
    low, high, step = map(_number_text, (axis.bounds.low, axis.bounds.high, axis.bounds.grid_step))
    days = " days" if axis.kind is Kind.DATE else ""
    return f"allowed: from {low} to {high} in steps of {step}{days}."


def _number_text(number: object) -> str:
    return f"{number.normalize():f}" if isinstance(number, Decimal) else repr(number)


def _point(grid: Grid, value: Any) -> int:
    """The number of a point of a grid; -1 if it is none."""
    if value is None:
        return grid.points if grid.nullable else -1
    if isinstance(value, bool):
        return -1
    low: Any = grid.bounds.low
    distance = value - (float(low) if isinstance(value, float) else low)
    steps = float(getattr(distance, "days", distance)) / float(grid.bounds.grid_step or 1)
    position = round(steps)
    return position if abs(steps - position) < 1e-6 and 0 <= position < grid.points else -1
