"""Excel out: one sheet, numbers as numbers, text as text and never a formula.

Decision `what-travels`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, BinaryIO

from sfumato.data.schema.layout import FileLayout
from sfumato.errors import OutputError
from sfumato.filesystem import Scratch, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlsxwriter import Workbook  # type: ignore[import-untyped]  # ships no types
    from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]

    from sfumato.data.files.writers import Batches

MOST_ROWS, MOST_COLUMNS, LONGEST_TEXT = 1_048_576, 16_384, 32_767
"""What a sheet can hold."""

_EXACT = 1 << 53
_FIRST_DAY = date(1900, 3, 1)
"""Programs do not agree on the days of a sheet before this one."""

_LOCAL_DAY = 14
"""The format of days that every program shows as its reader is used to."""

_RISKY = re.compile("[=+@-]|[\t\r]")
"""What a program might run when it is typed in again, or after another export."""

_SHEET_NAME = "Sheet1"
_CREATED = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""Equal tables give equal files."""


def write_sheet(reader: Batches, stream: BinaryIO, layout: FileLayout) -> FileLayout:
    """Write rows to a sheet, with the name and the row of the header that it had in the input."""
    from xlsxwriter import Workbook
    from xlsxwriter.exceptions import (  # type: ignore[import-untyped]
        FileCreateError,
        XlsxWriterException,
    )

    names = reader.schema.names
    if len(names) > MOST_COLUMNS:
        raise _too_large(f"{len(names):,} columns", f"{MOST_COLUMNS:,}")
    # Rows wait on disk for the end: for this user's eyes alone, and swept if we are killed.
    with Scratch(temporary_folder(), "sfumato-") as folder:
        options = {"constant_memory": True, "tmpdir": str(folder)}
        book = Workbook(stream, options)
        book.set_properties({"created": _CREATED})
        try:
            sheet = book.add_worksheet(layout.sheet or layout.found_sheet or _SHEET_NAME)
        except XlsxWriterException:  # a name of a sheet of another program
            sheet = book.add_worksheet(_SHEET_NAME)
        try:
            _write_rows(reader, sheet, _Formats(book), (layout.header_row or 1) - 1)
        except BaseException:
            with suppress(Exception):  # what waits on disk is let go of; the file is not kept
                book.close()
            raise
        try:
            book.close()
        except FileCreateError as error:  # what the system said of the disk is inside
            raise next(
                (cause for cause in error.args if isinstance(cause, OSError)), error
            ) from None
    return FileLayout(sheet=layout.sheet, header_row=layout.header_row)


class _Formats:
    """How cells are shown: days as days, risky text as if it was typed after an apostrophe."""

    def __init__(self, book: Workbook) -> None:
        self.day = book.add_format({"num_format": _LOCAL_DAY})
        self.guarded = book.add_format({"quote_prefix": True})
        self.name = book.add_format({"bold": True})


def _write_rows(reader: Batches, sheet: Worksheet, formats: _Formats, row: int) -> None:
    """Write the names into a row, from 0, and what there is below; above it nothing stands."""
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
    """Whoever writes the cells of a column, each by its own type."""

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
