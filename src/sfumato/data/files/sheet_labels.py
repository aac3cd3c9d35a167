"""Convert columns of labels to typed values for a sheet, where every label is a plain value.

A released column of labels is text, because a label may be a range. Where no label is, the sheet
has numbers, dates and booleans, as the input had. The metadata of the Arrow field says of which
column the labels are.

Decision `what-travels`.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.engines.kinds import STORED, is_text
from sfumato.data.files.column_spelling import marked
from sfumato.data.files.workbook import MOST_ROWS
from sfumato.data.schema.column import Column, Kind, from_text
from sfumato.data.schema.hierarchy import spell
from sfumato.data.schema.spelling import spelling_of
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sfumato.data.files.writers import Batches
    from sfumato.data.schema.domain import Scalar

_MARK = b"sfumato.labels"


def labelled(schema: pa.Schema, columns: Iterable[Column]) -> pa.Schema:
    """Add to fields of text the column whose labels they hold, as metadata."""
    known = {column.name: column for column in columns if column.kind is not Kind.TEXT}
    return pa.schema(
        [
            field.with_metadata({_MARK: _packed(known[field.name])})
            if field.name in known and is_text(field.type)
            else field
            for field in schema
        ]
    )


def _packed(column: Column) -> bytes:
    keys = {} if column.spelling is None else column.spelling.keys
    return json.dumps([column.kind, keys], allow_nan=False).encode()


def _column(field: pa.Field[Any]) -> Column | None:
    """The column whose labels a field holds."""
    mark = (field.metadata or {}).get(_MARK)
    if mark is None:
        return None
    kind, keys = json.loads(mark)
    return Column(field.name, Kind(kind), spelling=spelling_of(Kind(kind), keys))


def with_typed_labels(rows: Batches) -> Batches:
    """The rows with columns of labels converted where all labels are plain values."""
    labelled_columns = [(position, _column(field)) for position, field in enumerate(rows.schema)]
    if not any(column for _, column in labelled_columns):
        return rows
    table = pa.Table.from_batches(_until_too_many(rows), rows.schema)
    for position, column in labelled_columns:
        values = None if column is None else _values(table.column(position), column)
        if column is None or values is None:
            continue
        spellings = {} if column.spelling is None else {column.name: column.spelling}
        field = marked(pa.schema([(column.name, STORED[column.kind])]), spellings).field(0)
        table = table.set_column(position, field, values)
    reader: Batches = table.to_reader()
    return reader


def _until_too_many(rows: Batches) -> Iterator[pa.RecordBatch]:
    """Batches up to one with more rows than a sheet holds, which the writer then refuses."""
    seen = 0
    for batch in rows:
        yield batch
        seen += batch.num_rows
        if seen > MOST_ROWS:
            return


def _values(labels: pa.ChunkedArray[Any], column: Column) -> pa.Array[Any] | None:
    """The values of labels, each distinct label once; None where one is not a plain value."""
    coded = pc.dictionary_encode(labels.combine_chunks().cast(pa.large_string()))
    values = [_value(label, column) for label in coded.dictionary.to_pylist()]
    if any(value is None for value in values):
        return None
    plain = [float(value) if isinstance(value, Decimal) else value for value in values]
    try:
        return pa.array(plain, STORED[column.kind]).take(coded.indices)
    except (pa.ArrowInvalid, OverflowError):  # an integer beyond 64 bits
        return None


def _value(label: str, column: Column) -> Scalar | None:
    """The value of a label; None where writing the value would give another text."""
    spelling = column.spelling
    try:
        value = (
            from_text(label, column.kind) if spelling is None else spelling.read(label, column.kind)
        )
    except SchemaError:
        return None
    if value is None or (isinstance(value, Decimal) and not value.is_finite()):
        return None
    return value if label == (spell(value) if spelling is None else spelling.write(value)) else None
