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
from sfumato.data.schema.hierarchy.tree import Tree
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
from sfumato.methods.synth.saved_model import UNLIKE, SavedModel, packed, to_file, unpacked
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

    def draw(
        self, rows: int | None = None, *, given: Mapping[str, object] | None = None
    ) -> pa.Table:
        """Draw rows, as many as the table is held to have unless said; only some, where `given`.

        `given={"sex": "F"}` draws rows that have these values.
        """
        wanted = wanted_rows(self, rows)
        check_memory(wanted, "Use write(), which takes any number.")
        return pa.concat_tables(_chunks(self, wanted, self._fixed(given), SystemEntropy()))

    def write(
        self,
        path: str | Path,
        rows: int | None = None,
        *,
        given: Mapping[str, object] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Draw any number of rows into a file, a chunk at a time: .parquet, .csv, ..."""
        wanted = wanted_rows(self, rows)
        chunks = _chunks(self, wanted, self._fixed(given), SystemEntropy())

        def opened() -> pa.RecordBatchReader:
            first = next(chunks)
            batches = (batch for one in chain([first], chunks) for batch in one.to_batches())
            return pa.RecordBatchReader.from_batches(first.schema, batches)

        layout = self.encoding.schema.layout
        write_file(opened, read.path(path, "path"), overwrite=overwrite, layout=layout)

    def _fixed(self, given: object) -> dict[str, object]:
        """Values that are given, by column, as rows have them."""
        allowed = "values by column, such as {'sex': 'F'}"
        found = dict(read.require({} if given is None else given, "given", dict, allowed))
        names = [axis.column for axis in self.encoding.axes if not isinstance(axis, Weekdays)]
        for name, value in found.items():
            read.require(name, "a column of given", str, "a text")
            if name not in names:
                raise ParameterError(
                    "column_unknown",
                    f"There is no drawn column {quoted(name)}; {suggestion(name, names)}",
                )
            found[name] = as_drawn(self.encoding.schema.column(name).kind, value)
        return found

    def marginal(self, columns: Sequence[str]) -> pa.Table:
        """The noisy counts of some columns that were measured together, each with its error.

        Columns `count` and `count_sd`; of bins the lowest value is told.
        """
        names = self.fitted.shape.names
        asked = read.names(columns, "columns")
        places = tuple(sorted(names.index(one) for one in asked if one in names))
        estimate = self.log.estimate([places])
        if len(set(places)) < len(asked) or not places or not estimate.known(places):
            named = ", ".join(map(quoted, asked)) or "(none named)"
            raise ParameterError(
                "marginal_not_measured",
                f"Columns {named} were not measured together. Measured were: "
                f"{'; '.join(', '.join(one) for one in self.measured)}.",
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
        """Read what `packed` is; a `ValueError` says that it is something else."""
        try:
            fitted, log, told = unpacked(table)
            schema = _declared_in(told["schema"])
            encoding = Encoding.from_record(schema, told["encoding"])
            if TableShape.of(encoding.axes) != fitted.shape:
                raise ValueError("other columns than its schema's")
        except UNLIKE as error:
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
    if any("file" in (one.get("hierarchy") or ()) for one in columns):
        raise ValueError("a file is named")
    return parse(text, "model", Path())


def drawn(model: SynthesisModel, rows: int, entropy: Entropy) -> pa.Table:
    """Draw rows from a given source of randomness."""
    return pa.concat_tables(_chunks(model, rows, {}, entropy))


def _chunks(
    model: SynthesisModel, wanted: int, fixed: Mapping[str, object], entropy: Entropy
) -> Iterator[pa.Table]:
    """Draw rows, some at a time: at least one table, which may have no rows."""
    fitted, decoder = _conditioned(model, fixed), RowDecoder(model.encoding, entropy, fixed)
    left, vain = wanted, 0
    while left == wanted or (left and vain < _TRIES):
        if vain == _EVEN_AFTER:
            fitted = _conditioned(model, fixed, even=True)
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


def _conditioned(
    model: SynthesisModel, fixed: Mapping[str, object], *, even: bool = False
) -> FittedModel:
    """The model given these values; its total is how many rows have them."""
    fitted = model.fitted.even if even else model.fitted
    axes = {axis.column: (place, axis) for place, axis in enumerate(model.encoding.axes)}
    codes = {}
    for name, value in fixed.items():
        place, axis = axes[name]
        codes[place] = code_of(axis, value)
    return conditioned(fitted, codes) if codes else fitted


def wanted_rows(model: SynthesisModel, rows: object) -> int:
    """How many rows to draw: those asked for, or the table's; no more than keys allow."""
    room = key_room(model.encoding)
    if rows is None:
        return model.rows if room is None else min(model.rows, room)
    found = _how_many(rows)
    if room is not None and found > room:
        raise too_many_for_keys(found, room)
    return found


def check_memory(rows: int, instead: str) -> None:
    """Refuse more rows than are drawn at once."""
    if rows > MOST_IN_MEMORY:
        raise ParameterError(
            "parameter_out_of_range",
            f"At most {MOST_IN_MEMORY:,} rows are drawn into memory, not {rows:,}. {instead}",
        )


def _how_many(rows: object) -> int:
    found = read.whole(rows, "rows")
    if found < 0:
        raise ParameterError("parameter_out_of_range", f"rows must be 0 or more, not {found:,}.")
    return found


def _plain(schema: Schema) -> Schema:
    """A schema without hierarchies that lie in files: bins are cut by rules alone.

    The leaves of such a one may be all that says which values there are.
    """
    columns = tuple(
        replace(one, hierarchy=None, domain=one.public_domain)
        if isinstance(one.hierarchy, Tree)
        else one
        for one in schema.columns
    )
    return replace(schema, columns=columns)


def _having(table: pa.Table, fixed: Mapping[str, object]) -> pa.Table:
    """Rows that have these values still, after repairs."""
    for name, value in fixed.items():
        column = table.column(name)
        wanted = pa.scalar(value, column.type)
        table = table.filter(pc.is_null(column) if value is None else pc.equal(column, wanted))
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
            place = _point(grid, value)
        else:
            values = [(type(one), one) for one in grid.values.to_pylist()]  # True is not 1
            place = values.index((type(value), value))
    except (ValueError, TypeError, ArithmeticError):
        place = -1
    if place < 0:
        raise ParameterError(
            "value_outside_domain",
            f"No row has {read.shown(value)} in column {quoted(axis.column)}; {_allowed(axis)}",
        )
    if isinstance(axis, Bins):
        missing = place >= axis.fine.points
        return axis.points if missing else int(np.searchsorted(axis.starts, place, "right")) - 1
    return place


def _allowed(axis: Axis) -> str:
    if not isinstance(axis, Grid):
        return suggestion("", map(str, axis.values.drop_null().to_pylist()))
    low, high, step = map(_words, (axis.bounds.low, axis.bounds.high, axis.bounds.grid_step))
    days = " days" if axis.kind is Kind.DATE else ""
    return f"allowed: from {low} to {high} in steps of {step}{days}."


def _words(one: object) -> str:
    return f"{one.normalize():f}" if isinstance(one, Decimal) else repr(one)


def _point(grid: Grid, value: Any) -> int:
    """The number of a point of a grid; -1 if it is none."""
    if value is None:
        return grid.points if grid.nullable else -1
    if isinstance(value, bool):
        return -1
    low: Any = grid.bounds.low
    distance = value - (float(low) if isinstance(value, float) else low)
    steps = float(getattr(distance, "days", distance)) / float(grid.bounds.grid_step or 1)
    place = round(steps)
    return place if abs(steps - place) < 1e-6 and 0 <= place < grid.points else -1
