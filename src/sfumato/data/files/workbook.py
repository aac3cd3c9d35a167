"""Write Excel files: one sheet with numbers as numbers and text as text, never as a formula.

A released column of labels is text, because a label may be a range. Where every label is a plain
value, the sheet has numbers, dates and booleans, as the input had. The metadata of the Arrow field
names the column that the labels belong to.

Decision `what-travels`.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.engines.kinds import STORED, is_text
from sfumato.data.files.column_spelling import marked
from sfumato.data.schema.column import Column, Kind, from_text
from sfumato.data.schema.hierarchy import spell
from sfumato.data.schema.layout import FileLayout
from sfumato.data.schema.spelling import spelling_of
from sfumato.errors import OutputError, SchemaError
from sfumato.filesystem import Scratch, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from xlsxwriter import Workbook  # type: ignore[import-untyped]  # ships no types
    from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]

    from sfumato.data.files.writers import Batches
    from sfumato.data.schema.domain import Scalar


_MARK = b"sfumato.labels"


def labelled(schema: pa.Schema, columns: Iterable[Column]) -> pa.Schema:
    """Add to fields of text the column whose labels they hold, as metadata."""
    known = {column.name: column for column in columns if column.kind is not Kind.TEXT}
    return pa.schema(
        [
            field.with_metadata({_MARK: _pack_column(known[field.name])})
            if field.name in known and is_text(field.type)
            else field
            for field in schema
        ]
    )


def _pack_column(column: Column) -> bytes:
    keys = {} if column.spelling is None else column.spelling.keys
    return json.dumps([column.kind, keys], allow_nan=False).encode()


def _column(field: pa.Field[Any]) -> Column | None:
    """Return the column whose labels a field holds."""
    mark = (field.metadata or {}).get(_MARK)
    if mark is None:
        return None
    kind, keys = json.loads(mark)
    return Column(field.name, Kind(kind), spelling=spelling_of(Kind(kind), keys))


def with_typed_labels(rows: Batches) -> Batches:
    """Return the rows with columns of labels converted where all labels are plain values."""
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
    """Return the value of a label; None where writing the value would give another text."""
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


MOST_ROWS, MOST_COLUMNS, LONGEST_TEXT = 1_048_576, 16_384, 32_767
"""The limits of a sheet."""

# Integers beyond 2^53 are not exact in a sheet, so they are written as text.
_EXACT = 1 << 53

# The first date on which spreadsheet programs agree; earlier dates are written as text.
_FIRST_DAY = date(1900, 3, 1)

# The built-in date format, which each program shows in the local form.
_LOCAL_DAY = 14

# Starts of text that a program may run as a formula when it is edited or exported again.
_RISKY = re.compile("[=+@-]|[\t\r]")

_SHEET_NAME = "Sheet1"

# A fixed time of creation, so that equal tables give equal files.
_CREATED = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def write_sheet(reader: Batches, stream: BinaryIO, layout: FileLayout) -> FileLayout:
    """Write rows to a sheet; its name and header row are those of the input."""
    from xlsxwriter import Workbook
    from xlsxwriter.exceptions import (  # type: ignore[import-untyped]
        FileCreateError,
        XlsxWriterException,
    )

    names = reader.schema.names
    if len(names) > MOST_COLUMNS:
        raise _too_large(f"{len(names):,} columns", f"{MOST_COLUMNS:,}")
    # Rows are kept on disk until the end: only this user can read the folder, and a later process
    # removes it if this one is killed.
    with Scratch(temporary_folder(), "sfumato-") as folder:
        options = {"constant_memory": True, "tmpdir": str(folder)}
        book = Workbook(stream, options)
        book.set_properties({"created": _CREATED})
        try:
            sheet = book.add_worksheet(layout.sheet or layout.found_sheet or _SHEET_NAME)
        except XlsxWriterException:  # a sheet name that another program allowed
            sheet = book.add_worksheet(_SHEET_NAME)
        try:
            _write_rows(reader, sheet, _Formats(book), (layout.header_row or 1) - 1)
        except BaseException:
            with suppress(Exception):  # releases the files on disk; the target is not kept
                book.close()
            raise
        try:
            book.close()
        except FileCreateError as error:  # it wraps the OSError of the disk
            raise next(
                (cause for cause in error.args if isinstance(cause, OSError)), error
            ) from None
    return FileLayout(sheet=layout.sheet, header_row=layout.header_row)


class _Formats:
    """Cell formats: dates, risky text as if typed after an apostrophe, and the header."""

    def __init__(self, book: Workbook) -> None:
        self.day = book.add_format({"num_format": _LOCAL_DAY})
        self.guarded = book.add_format({"quote_prefix": True})
        self.name = book.add_format({"bold": True})


def _write_rows(reader: Batches, sheet: Worksheet, formats: _Formats, row: int) -> None:
    """Write the header into a row, counted from 0, and the rows below it."""
    most = MOST_ROWS - 1 - row
    for column, name in enumerate(reader.schema.names):
        sheet.write_string(row, column, name, formats.name)
    for batch in reader:
        if row + batch.num_rows >= MOST_ROWS:
            raise _too_large("too many rows", f"{most:,} below its header")
        columns = [cells.to_pylist() for cells in batch.columns]
        writes = [_cell_writer(sheet, formats, name) for name in batch.schema.names]
        for cells in zip(*columns, strict=True):
            row += 1
            for column, cell in enumerate(cells):
                if cell is not None:
                    writes[column](row, column, cell)


def _cell_writer(
    sheet: Worksheet, formats: _Formats, name: str
) -> Callable[[int, int, object], None]:
    """Return the function that writes a cell of a column by its type."""

    def text(row: int, column: int, cell: str) -> None:
        if len(cell) > LONGEST_TEXT or "\0" in cell:
            raise OutputError(
                "output_text_unfit",
                f"Column {name!r} holds text with a NUL byte or of more than {LONGEST_TEXT:,} "
                "letters, which no Excel file can hold.",
                hint="Choose a name that ends in .parquet.",
            )
        sheet.write_string(row, column, cell, formats.guarded if _RISKY.match(cell) else None)

    def write(row: int, column: int, cell: object) -> None:
        match cell:
            case bool():
                sheet.write_boolean(row, column, cell)
            case int() | float() if abs(cell) <= _EXACT:  # not NaN, not infinite
                sheet.write_number(row, column, cell)
            case float() if abs(cell) < float("inf"):
                sheet.write_number(row, column, cell)
            case date() if cell >= _FIRST_DAY:
                sheet.write_datetime(row, column, datetime.combine(cell, time()), formats.day)
            case date():
                text(row, column, cell.isoformat())
            case _:
                text(row, column, str(cell))

    return write


def _too_large(size: str, allowed: str) -> OutputError:
    return OutputError(
        "file_too_large",
        f"The table has {size}, but an Excel sheet holds at most {allowed}.",
        hint="Choose a name that ends in .csv or .parquet.",
    )
