"""Read Excel files: one sheet with one header row, cells with the types they have there.

The zip package is checked before it is read. *Attack*: a small archive can expand to fill the
memory, and the sizes it declares may be false. So it is unpacked here in blocks that are dropped.
The extent of the cells is checked too, because a reader allocates the whole rectangle around them.

Decision `reading-files`.
"""

from __future__ import annotations

import zipfile
import zlib
from string import ascii_uppercase, digits
from typing import TYPE_CHECKING, Any, BinaryIO
from xml.parsers import expat

from sfumato.data.files.cell_conversion import (
    as_text,
    check_names,
    natural_kind,
    read_cells,
    settled,
)
from sfumato.data.files.file_identity import regular_file
from sfumato.data.schema.layout import DEFAULT_LAYOUT, FileLayout
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


MOST_EXPANSION = 200
"""The largest expansion of a package; sheets about people expand far less."""

EXPANSION_FREE = 64 << 20
"""Bytes below which the expansion is not limited."""

MOST_BYTES = 1 << 30
"""The largest unpacked size, because a reader holds all of it in memory."""

MOST_CELLS = 20_000_000
"""The largest number of cells in the rectangle of a sheet, empty ones included."""

# A workbook has a few members per sheet; archives of more members are refused unread.
_MOST_MEMBERS = 10_000
_BLOCK = 1 << 20
# The flag of encryption, and the two compression methods that spreadsheets use.
_ENCRYPTED, _STORED, _DEFLATED = 1, 0, 8
# First bytes of a zip archive, and of the container of .xls and of password-protected files.
_PACKAGE, _OLD = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_LOCKED = "EncryptedPackage".encode("utf-16-le")


def check_package(file: RegularFile) -> None:
    """Refuse a file that is no package, or is locked, damaged or expands too far."""
    with file.open() as stream:
        first = stream.read(len(_PACKAGE))
        if first == _OLD:
            locked = _LOCKED in stream.read()
            raise _refusal(file, *(_PASSWORD if locked else _XLS))
        if first != _PACKAGE:
            raise _refusal(file, "file_malformed", "it does not start like one", "Save it as .xlsx")
        try:
            _check_members(stream, file)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError):
            failed = True
        else:
            failed = False
    if failed:
        raise damaged(file)


_PASSWORD = (
    "excel_locked",
    "it is protected by a password",
    "Save it in the spreadsheet program without a password",
)
_XLS = ("file_malformed", "it is an old .xls file", "Save it in the spreadsheet program as .xlsx")


def damaged(file: RegularFile) -> SourceError:
    """Return the error of a package that cannot be unpacked."""
    return _refusal(file, "file_malformed", "it is damaged", "Save or fetch it again")


def _refusal(file: RegularFile, code: str, reason: str, remedy: str) -> SourceError:
    return SourceError(
        code, f"Cannot read {file.name!r} as an Excel file: {reason}. {remedy}, or save it as CSV."
    )


def _check_members(stream: BinaryIO, file: RegularFile) -> None:
    members = zipfile.ZipFile(stream).infolist()
    if len(members) > _MOST_MEMBERS:
        raise _bomb(file)
    limit = min(max(EXPANSION_FREE, MOST_EXPANSION * file.version.size), MOST_BYTES)
    for member in members:
        if member.flag_bits & _ENCRYPTED:
            raise _refusal(file, *_PASSWORD)
        sheet = _Extent()
        for block in _unpack_member(stream, member):
            limit -= len(block)
            sheet.look(block)
            if limit < 0:
                raise _bomb(file)
            if sheet.cells > MOST_CELLS:
                raise _refusal(
                    file,
                    "file_too_large",
                    f"a sheet of it reaches over more than {MOST_CELLS:,} cells",
                    "Remove stray cells far from the table",
                )


def _bomb(file: RegularFile) -> SourceError:
    return _refusal(
        file,
        "file_too_large",
        f"it grows beyond {MOST_BYTES >> 30} GiB or more than {MOST_EXPANSION} times when it is "
        "unpacked",
        "Save it again if you trust it",
    )


def _unpack_member(stream: BinaryIO, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of a member; sizes that the archive declares are not trusted."""
    stream.seek(member.header_offset)
    head = stream.read(30)
    if len(head) < 30 or head[:4] != _PACKAGE:
        raise zipfile.BadZipFile
    stream.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), 1)
    bytes_left = member.compress_size
    if member.compress_type == _STORED:
        while bytes_left and (block := stream.read(min(_BLOCK, bytes_left))):
            bytes_left -= len(block)
            yield block
        return
    if member.compress_type != _DEFLATED:
        raise zipfile.BadZipFile
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    while bytes_left and not inflating.eof and (packed := stream.read(min(_BLOCK, bytes_left))):
        bytes_left -= len(packed)
        while packed:
            yield inflating.decompress(packed, _BLOCK)
            packed = inflating.unconsumed_tail


class _Extent:
    """The extent of the cells of a sheet; zero for other members."""

    def __init__(self) -> None:
        self._rows = self._columns = self._row = self._column = 0
        self._root: str | None = None
        self._places: list[str] = []
        self._parser: expat.XMLParserType | None = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EntityDeclHandler = self._refuse

    @property
    def cells(self) -> int:
        """The number of cells in the rectangle, empty ones included."""
        return self._rows * self._columns

    def look(self, block: bytes) -> None:
        """Parse the next block."""
        if self._parser is None:
            return
        try:
            self._parser.Parse(block, False)
        except expat.ExpatError:
            if self._root == "worksheet" or b"sheetData" in block:
                raise ValueError("a sheet that is no XML") from None
            self._parser = None
        if self._places:
            columns = {reference.rstrip(digits) for reference in self._places}
            rows = {reference.lstrip(ascii_uppercase) for reference in self._places}
            self._columns = max(self._columns, *map(_number, columns))
            self._rows = max(self._rows, *map(int, rows))
            self._places.clear()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if self._root is None:
            self._root = local
        if self._root != "worksheet":
            return
        if local == "c":
            self._column += 1
            if reference := attributes.get("r"):
                self._places.append(reference)
            elif self._column > self._columns:
                self._columns = self._column
        elif local == "row":
            self._row += 1
            self._column = 0
            self._rows = max(self._rows, self._row)

    def _refuse(self, *_: object) -> None:
        raise ValueError("a package declares no entities")


def _number(letters: str) -> int:
    """Return the number of a column: A is 1, Z is 26, AA is 27."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


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
        layout: FileLayout = DEFAULT_LAYOUT,
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
        self._columns = self._name_columns(rows[at], rows[at + 1 :], strict=strict)
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

    def _name_columns(
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
    """Return the named sheet, or the first with content; and whether there are others.

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
    """Return the row with a name for every column, below titles or group names; else the first."""
    width = max(
        (position for row in rows for position, cell in enumerate(row) if cell != ""), default=0
    )
    for position in range(first, min(first + _TITLE_ROWS, len(rows))):
        cells = rows[position][: width + 1]
        if all(cell != "" for cell in cells):
            return position if all(isinstance(cell, str) for cell in cells) else first
    return first


def _has_content(cell: object) -> bool:
    """Return whether a cell is anything but spaces."""
    return not isinstance(cell, str) or cell.strip() != ""


def _letters(position: int) -> str:
    """Return the letters of a column position: 0 is A, 26 is AA."""
    letters = ""
    position += 1
    while position:
        position, digit = divmod(position - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters
