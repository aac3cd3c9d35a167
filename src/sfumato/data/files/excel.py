"""Read Excel files: one sheet with one header row, cells with the types they have there.

Decision `reading-files`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.data.files.cell_conversion import (
    as_text,
    check_names,
    natural_kind,
    read_cells,
    settled,
)
from sfumato.data.files.file_identity import regular_file
from sfumato.data.files.zip_check import check_package, damaged
from sfumato.data.schema.layout import USUAL, FileLayout
from sfumato.data.schema.names import quoted
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from python_calamine import CalamineSheet, CalamineWorkbook

    from sfumato.data.engines.kinds import Asked
    from sfumato.data.files.cell_conversion import Cell
    from sfumato.data.files.file_identity import RegularFile
    from sfumato.data.schema.column import Kind

# The largest number of rows above the header that are skipped.
_TITLE_ROWS = 50


class ExcelFile:
    """A sheet of an Excel file; empty cells are missing.

    The header is the row of the layout. Without one it is the first row that is not empty where
    columns are `declared`, else the first row that names every column.
    """

    def __init__(
        self,
        path: Path | str,
        layout: FileLayout = USUAL,
        *,
        declared: Collection[str] = (),
        strict: bool = True,
    ) -> None:
        self._file = regular_file(path)
        check_package(self._file)
        sheet, several = _sheet(self._file, layout.sheet, titles=bool(declared))
        rows: list[list[Any]] = sheet.to_python(skip_empty_area=False)
        while rows and not any(cell != "" for cell in rows[-1]):
            rows.pop()
        self._what = f"Sheet {quoted(sheet.name)} of {self._file.name!r}"
        first = next((n for n, row in enumerate(rows) if any(map(_has_content, row))), None)
        if first is None:
            raise SourceError(
                "table_malformed", f"{self._what} is empty.", hint="Name another with file.sheet."
            )
        at = first if layout.header_row is None else layout.header_row - 1
        if layout.header_row is None and not declared:
            at = _header(rows, first)
        if at >= len(rows):
            raise SourceError(
                "table_malformed",
                f"{self._what} has no row {at + 1:,}, which file.header_row names.",
            )
        self._first_row = at + 2
        self._columns = self._named(rows[at], rows[at + 1 :], strict=strict)
        if not declared:
            self._columns = {name: settled(cells) for name, cells in self._columns.items()}
        self.names = list(self._columns)
        self.layout = FileLayout(
            sheet=sheet.name if several else layout.sheet,
            header_row=layout.header_row if at == first else at + 1,
            found_sheet=sheet.name,
        )
        self._file.check_unchanged()

    @property
    def held(self) -> dict[str, Kind]:
        """The kind of each column; text where cells are of several kinds."""
        return {name: natural_kind(cells) for name, cells in self._columns.items()}

    def read(self, kinds: Mapping[str, Asked], *, strict: bool = True) -> Iterator[pa.RecordBatch]:
        """Read all rows as the given kinds."""
        return read_cells(self._columns, kinds, strict=strict)

    def close(self) -> None:
        """Release the cells."""
        self._columns = {}

    def _named(
        self, header: Sequence[Cell], rows: list[list[Any]], *, strict: bool
    ) -> dict[str, Sequence[Cell]]:
        """The columns by name; cells without a name are refused or, if not strict, dropped."""
        names = [" ".join((as_text(cell) or "").split()) for cell in header]
        empty = [n for n, row in enumerate(rows) if not any(cell != "" for cell in row)]
        if empty and strict:
            raise SourceError(
                "table_malformed",
                f"{self._what}: row {self._first_row + empty[0]:,} is empty but rows follow it.",
                hint="Remove it, or keep the table that follows in a sheet of its own.",
            )
        skipped = set(empty)
        table_rows = [row for n, row in enumerate(rows) if n not in skipped] if skipped else rows
        cells = list(zip(*table_rows, strict=True)) or [()] * len(names)
        columns = {
            position: [None if cell == "" else cell for cell in cells[position]]
            for position in range(len(names))
        }
        nameless = [
            p for p, name in enumerate(names) if not name and any(c is not None for c in columns[p])
        ]
        if nameless and strict:
            raise SourceError(
                "table_malformed",
                f"{self._what}: column {_letters(nameless[0])} has cells but no name in row "
                f"{self._first_row - 1:,}, which is taken for the header.",
                hint=(
                    "Name it there, or say which row has all names: file.header_row = 2 in the "
                    "schema."
                ),
            )
        named = [position for position, name in enumerate(names) if name]
        if not named:
            raise SourceError(
                "table_malformed",
                f"{self._what} names no column in row {self._first_row - 1:,}, which is taken for "
                "the header.",
                hint="Name them there, or say which row does: file.header_row = 2.",
            )
        check_names([names[position] for position in named])
        return {names[position]: columns[position] for position in named}


def _workbook(file: RegularFile) -> CalamineWorkbook:
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise SourceError(
            "package_missing",
            f"Cannot read {file.name!r}: Excel files need packages that are not installed.",
            hint="Install them with: pip install 'sfumato[excel]', or save it as CSV.",
        ) from None
    return CalamineWorkbook.from_path(str(file.path))


def _sheet(file: RegularFile, name: str | None, *, titles: bool) -> tuple[CalamineSheet, bool]:
    """The named sheet, or the first with content; and whether there are others.

    Unless `titles` count, a sheet with several rows is preferred to one with a single row.
    """
    try:
        return _choose_sheet(file, _workbook(file), name, titles=titles)
    except SourceError:
        raise
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001  a Rust panic is no Exception, and it may quote cells
        failed = True
    # Raised outside the handler, so that the error does not keep the panic as its context.
    assert failed
    raise damaged(file)


def _choose_sheet(
    file: RegularFile, book: CalamineWorkbook, name: str | None, *, titles: bool
) -> tuple[CalamineSheet, bool]:
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    sheets = [entry for entry in book.sheets_metadata if entry.typ == SheetTypeEnum.WorkSheet]
    names = [entry.name for entry in sheets]
    if name is not None:
        if name not in names:
            raise SourceError(
                "table_malformed",
                f"{file.name!r} has no sheet {quoted(name)}, which file.sheet names. It has "
                f"{', '.join(map(quoted, names))}.",
            )
        return book.get_sheet_by_name(name), len(names) > 1
    shown = [entry.name for entry in sheets if entry.visible == SheetVisibleEnum.Visible]
    title = None
    for sheet_name in shown:
        sheet = book.get_sheet_by_name(sheet_name)
        if sheet.start is not None and sheet.end is not None:
            if titles or sheet.end[0] > sheet.start[0]:
                return sheet, len(names) > 1
            title = title or sheet
    if title is not None:
        return title, len(names) > 1
    raise SourceError("table_malformed", f"{file.name!r} has no sheet with anything in it.")


def _header(rows: list[list[Any]], first: int) -> int:
    """The first row with a name for every column, below titles or group names; else the first."""
    width = max(
        (position for row in rows for position, cell in enumerate(row) if cell != ""), default=0
    )
    for position in range(first, min(first + _TITLE_ROWS, len(rows))):
        cells = rows[position][: width + 1]
        if all(cell != "" for cell in cells):
            return position if all(isinstance(cell, str) for cell in cells) else first
    return first


def _has_content(cell: object) -> bool:
    """Whether a cell is anything but spaces."""
    return not isinstance(cell, str) or cell.strip() != ""


def _letters(position: int) -> str:
    """The letters of a column position: 0 is A, 26 is AA."""
    letters = ""
    position += 1
    while position:
        position, digit = divmod(position - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters
