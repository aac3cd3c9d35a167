"""Check the zip package of a spreadsheet before it is read.

*Attack*: a small archive can expand to fill the memory, and the sizes it declares may be false. So
it is unpacked here in blocks that are dropped. The extent of the cells is checked too, because a
reader allocates the whole rectangle around them. Decision `reading-files`.
"""

from __future__ import annotations

import zipfile
import zlib
from string import ascii_uppercase, digits
from typing import TYPE_CHECKING, BinaryIO
from xml.parsers import expat

from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.data.files.file_identity import RegularFile

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
            raise _refusal(file, "file_damaged", "it does not start like one", "Save it as .xlsx")
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
_XLS = ("file_damaged", "it is an old .xls file", "Save it in the spreadsheet program as .xlsx")


def damaged(file: RegularFile) -> SourceError:
    """The error of a package that cannot be unpacked."""
    return _refusal(file, "file_damaged", "it is damaged", "Save or fetch it again")


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
        for block in _unpacked(stream, member):
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


def _unpacked(stream: BinaryIO, member: zipfile.ZipInfo) -> Iterator[bytes]:
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
    """The number of a column: A is 1, Z is 26, AA is 27."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number
