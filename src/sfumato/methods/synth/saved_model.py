"""A fitted model and the log behind it as one Arrow table, with a header in JSON.

Rows are the conditionals in the order of drawing, then the noisy tables in the order of measuring.
Nothing of the data is in it. A file of it has a checksum, so that damage is noticed; whoever means
harm writes another, and is met by what is checked of every value.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato import arguments as read
from sfumato.data.files.file_identity import regular_file
from sfumato.errors import SfumatoError, SourceError
from sfumato.filesystem import whole
from sfumato.methods.synth.fitted_model import Conditional, FittedModel
from sfumato.methods.synth.measurement_log import MeasuredTable, MeasurementLog, TableShape
from sfumato.privacy.accounting.event_records import from_record, to_record
from sfumato.privacy.accounting.events import Event
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sfumato.arrays import FloatArray
    from sfumato.methods.synth.measurement_log import ColumnSet


_KEY = b"sfumato"
LINK = b"sfumato link"
"""Where a file of two models says how they belong together."""
_SUM, _NO_SUM = b"sfumato sha256", b"0" * 64
_VERSION = 1
_CONDITIONAL, _MEASURED = "conditional", "measured"
_HEAD = len("ARROW1") + 2
_MOST_ROWS = 1 << 53
_SCHEMA = pa.schema(
    {
        "part": pa.string(),
        "places": pa.list_(pa.int32()),
        "cells": pa.large_list(pa.float64()),
        "variance": pa.float64(),
        "event": pa.string(),
    }
)
_ROUNDING = 1e-6
"""How far probabilities may be from adding up to 1."""


def packed(model: FittedModel, log: MeasurementLog, extra: Mapping[str, Any]) -> pa.Table:
    """A model and its log as a table; `told` is whatever else is needed to draw from it."""
    shape, drawn, measured = model.shape, model.conditionals, log.tables
    header = {
        "version": _VERSION,
        "columns": shape.names,
        "sizes": shape.sizes,
        "total": model.total,
        "told": extra,
    }
    columns = [
        *((*conditional.parents, conditional.column) for conditional in drawn),
        *(conditional.columns for conditional in measured),
    ]
    cells = [
        *(conditional.table for conditional in drawn),
        *(conditional.counts for conditional in measured),
    ]
    no_noise: list[None] = [None] * len(drawn)
    return pa.table(
        {
            "part": [_CONDITIONAL] * len(drawn) + [_MEASURED] * len(measured),
            "places": columns,
            "cells": [array.ravel() for array in cells],
            "variance": [*no_noise, *(table.variance for table in measured)],
            "event": [*no_noise, *(dumps(to_record(table.event)) for table in measured)],
        },
        schema=_SCHEMA,
    ).replace_schema_metadata({_KEY: dumps(header).encode()})


def unpacked(table: pa.Table) -> tuple[FittedModel, MeasurementLog, dict[str, Any]]:
    """The model, the log and what else was told, as `packed` has them.

    A table of anybody's making is refused, with a `ValueError` or what Python says of it.
    """
    _require(table.schema.equals(_SCHEMA))  # columns of nothing are of any length
    table.validate(full=True)  # offsets that point elsewhere would be followed
    header = json.loads((table.schema.metadata or {})[_KEY])
    _require(header["version"] == _VERSION)
    shape = _shape(header["columns"], header["sizes"])
    total = header["total"]
    _require(type(total) is float and 0 < total <= _MOST_ROWS)
    log, conditionals = MeasurementLog(shape), list[Conditional]()
    cells = table.column("cells").combine_chunks()
    for number, row in enumerate(table.drop_columns(["cells"]).to_pylist()):
        columns = tuple(row["places"])
        _require(len(set(columns)) == len(columns) and set(columns) <= set(shape.columns))
        values = cells[number].values.to_numpy(zero_copy_only=False).astype(float)
        values = values.reshape(shape.of_set(columns))
        _require(bool(np.isfinite(values).all()))
        if row["part"] == _MEASURED:
            _require(0 < row["variance"] < float("inf"))
            event = from_record(json.loads(row["event"]))
            if not isinstance(event, Event):  # a purchase belongs to the ledger alone
                raise ValueError("a measurement has a pair")
            log.add(MeasuredTable(columns, values, row["variance"], event))
        else:
            conditionals.append(_conditional(columns, values, conditionals))
    _require(
        {conditional.column for conditional in conditionals} == set(shape.columns)
        and bool(log.tables)
    )
    return FittedModel(shape, tuple(conditionals), total), log, header["told"]


def _shape(names: list[str], sizes: list[int]) -> TableShape:
    _require(all(type(name) is str for name in names) and len(set(names)) == len(names))
    _require(all(type(size) is int and size > 0 for size in sizes) and len(names) == len(sizes))
    return TableShape(tuple(names), tuple(sizes))


def _conditional(columns: ColumnSet, cells: FloatArray, before: list[Conditional]) -> Conditional:
    """Probabilities that add up to 1, of a column that comes behind those it depends on."""
    *parents, column = columns
    known = {earlier.column for earlier in before}
    _require(known.issuperset(parents) and column not in known)
    sums = cells.sum(axis=-1)
    _require(bool((cells >= 0).all() and (np.abs(sums - 1) < _ROUNDING).all()))
    return Conditional(column, tuple(parents), cells)


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("not what a synthesis writes")


def to_file(table: pa.Table) -> bytes:
    """What `packed` made as the content of an Arrow file, in which stands its checksum."""
    placeholder = _sum(_arrow(table))  # to be found again: nothing else in the file is like it
    metadata = {**(table.schema.metadata or {}), _SUM: placeholder}
    content = _arrow(table.replace_schema_metadata(metadata))
    return content.replace(placeholder, _sum(content.replace(placeholder, _NO_SUM)))


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def from_content(content: bytes) -> pa.Table:
    """Read what `to_file` made; refused where a single bit of it is another.

    What a file holds is no larger than the file: nothing in it may be compressed.
    """
    stream = pa.py_buffer(content)[_HEAD:]  # what a file begins with; then it is as a stream
    for message in pa.ipc.MessageReader.open_stream(stream):
        _require(message.type in ("schema", "record batch") and not _compressed(message))
    table = pa.ipc.open_stream(stream).read_all()
    checksum = (table.schema.metadata or {}).get(_SUM, b"")
    _require(len(checksum) == len(_NO_SUM) and checksum == _sum(content.replace(checksum, _NO_SUM)))
    return table


def _compressed(message: pa.ipc.Message) -> bool:
    """Whether a message says of its body that it has to be unpacked, which Arrow does unasked.

    What it says is a flatbuffer: before each table stand the offsets of its fields, 0 for none.
    """
    metadata = memoryview(message.metadata)

    def number(position: int, size: int = 4) -> int:
        return int.from_bytes(metadata[position : position + size], "little")

    def field_of(table: int, field: int) -> int:
        offsets = table - int.from_bytes(metadata[table : table + 4], "little", signed=True)
        is_present = 4 + 2 * field < number(offsets, 2)
        offset = number(offsets + 4 + 2 * field, 2) if is_present else 0
        return table + offset if offset else 0

    header = field_of(number(0), 2)
    return bool(field_of(header + number(header), 3)) and message.type == "record batch"


class SavedModel(ABC):
    """A model that a file holds: written whole, and refused in one line where it is none."""

    of_two: ClassVar[bool]
    """Whether it is a model of two tables."""

    @property
    @abstractmethod
    def content(self) -> bytes:
        """What a file of it holds."""

    @classmethod
    @abstractmethod
    def unpacked(cls, table: pa.Table) -> Self:
        """Read what was in a file; a `ValueError`, or what Python says, if it is something else."""

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write it to a file (Arrow), whole or not at all: the model and the noisy tables."""
        with whole(read.path(path, "path"), overwrite=overwrite) as target:
            target.write_bytes(self.content)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        target = read.path(path, "path")
        try:
            with regular_file(target).open() as file:  # a pipe would be waited for
                table = from_content(file.read())
        except (OSError, ValueError, SourceError, pa.ArrowException):
            raise _unreadable(target) from None
        cls._check_how_many(table, target)
        try:
            return cls.unpacked(table)
        except UNREADABLE:
            raise _unreadable(target) from None

    @classmethod
    def _check_how_many(cls, table: pa.Table, path: Path) -> None:
        """Refuse a model of one table where two are asked for, and the other way round."""
        other_key = _KEY if cls.of_two else LINK
        if other_key in (table.schema.metadata or {}):
            tables, reader = ("one table", "load") if cls.of_two else ("two tables", "load_linked")
            raise SourceError(
                "file_malformed",
                f"{path.name} is a model of {tables}. Read it with SynthesisModel.{reader}.",
            )


UNREADABLE = (
    *(SfumatoError, KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError),
    *(RecursionError, MemoryError, pa.ArrowException),
)
"""What reading a table that is no model, or a hostile one, comes to."""


def _unreadable(path: Path) -> SourceError:
    return SourceError(
        "file_malformed",
        f"{path.name} is no model of a synthesis that this version can read. "
        "Give a file that it saved.",
    )
