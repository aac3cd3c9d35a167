"""CSV in: header, separator and shape found by us, cells as text, all in one pass over the file.

Decision 0060.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from sfumato.engines.files.cells import check_count, check_names, conform
from sfumato.engines.files.output import unguarded
from sfumato.engines.files.records import Records
from sfumato.engines.files.regular import regular_file
from sfumato.engines.kinds import STORED
from sfumato.errors import InternalError, SourceError
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sfumato.engines.files.regular import RegularFile
    from sfumato.engines.kinds import Asked

SEPARATORS = ",;\t"

ROWS_COMPARED = 100
"""How many rows the header's separator is compared with."""

MOST_EXPANSION = 200
"""A compressed file may grow by this factor; text about people compresses far less."""

EXPANSION_FREE = 64 << 20
"""Below this size no file is a bomb, whatever its factor."""

_MARK = b"\xef\xbb\xbf"
"""What some programs write before UTF-8."""

_MAGIC = {
    b"PK\x03\x04": "a zip archive or a spreadsheet (xlsx, ods)",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet (xls)",
    b"%PDF": "a PDF",
    b"PAR1": "a Parquet file; name it .parquet",
    b"\x1f\x8b": "a gzip file; name it .csv.gz",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


class CsvFile:
    """A CSV or CSV.gz that was opened and whose header was read; close it in the end."""

    def __init__(self, path: Path | str) -> None:
        self._file = regular_file(path)
        self._stream = _opened(self._file)
        self._records = Records(self._stream)
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _read_header(self) -> None:
        self._refuse_other_formats()
        header = self._records.header()
        if not header.strip():
            raise SourceError(
                "no_header",
                f"{self._file.given!r} has no header. The first line must name the columns.",
            )
        self.separator = detect_separator(header, self._records.peek())
        check_count(header.count(self.separator.encode()) + 1)
        self.names = split_row(header, self.separator)
        check_names(self.names)

    def read(
        self, kinds: Mapping[str, Asked], *, ours: bool = False, strict: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Read all rows, once, as the given kinds; columns without a kind are text.

        In a file that we wrote ourselves text is guarded against spreadsheets.
        """
        every = {name: kinds.get(name, Kind.TEXT) for name in self.names}
        texts = map(unguarded, self._texts()) if ours else self._texts()
        yield from conform(texts, every, strict=strict)
        self._file.check_unchanged()

    def _texts(self) -> Iterator[pa.RecordBatch]:
        """Parse block after block into text columns: nothing there is NULL, `""` is empty."""
        from pyarrow import csv as arrow_csv

        convert_options = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(self.names, STORED[Kind.TEXT]),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
        )
        rows = 0
        for block in self._records.blocks(ord(self.separator), len(self.names)):
            parse_options = arrow_csv.ParseOptions(
                delimiter=self.separator,
                newlines_in_values=b'"' in block,
                ignore_empty_lines=len(self.names) > 1,
            )
            read_options = arrow_csv.ReadOptions(column_names=self.names, block_size=len(block) + 1)
            table = arrow_csv.read_csv(
                pa.py_buffer(block),
                read_options=read_options,
                parse_options=parse_options,
                convert_options=convert_options,
            )
            rows += table.num_rows
            yield from table.to_batches()
        if rows != self._records.rows:
            raise InternalError(
                "rows_lost", f"Read {rows:,} rows of {self._records.rows:,}; nothing was kept."
            )

    def _refuse_other_formats(self) -> None:
        first = self._records.peek()[:16]
        for magic, what in _MAGIC.items():
            if first.startswith(magic):
                raise SourceError(
                    "not_csv",
                    f"{self._file.given!r} is named as a CSV but is {what}. "
                    "Export it as CSV in UTF-8.",
                )
        if first.startswith(_MARK):
            self._records.skip(len(_MARK))


class _Expanding:
    """A gzip stream that refuses to be a bomb."""

    def __init__(self, raw: BinaryIO, given: str) -> None:
        self._raw = raw
        self._given = given
        self._expanded = 0
        self._stream = gzip.GzipFile(fileobj=raw, mode="rb")

    def read(self, size: int) -> bytes:
        """Read exactly this many bytes, fewer only at the end."""
        try:
            data = self._stream.read(size)
        except (EOFError, OSError, zlib.error):
            raise SourceError(
                "gzip_damaged",
                f"{self._given!r} is not a whole gzip file. Compress or fetch it again.",
            ) from None
        self._expanded += len(data)
        if self._expanded > max(EXPANSION_FREE, MOST_EXPANSION * self._raw.tell()):
            raise SourceError(
                "gzip_bomb",
                f"{self._given!r} grows more than {MOST_EXPANSION} times when it is expanded. "
                "Expand it yourself if you trust it.",
            )
        return data

    def close(self) -> None:
        """Close the stream and the file under it."""
        self._stream.close()
        self._raw.close()


def names_told(path: Path | str) -> list[list[str]]:
    """The names in a header under each separator: which one it is, only the rows can tell."""
    file = regular_file(path)
    with closing(_opened(file)) as stream:
        records = Records(stream)
        if records.peek().startswith(_MARK):
            records.skip(len(_MARK))
        header = records.header()
    found: list[list[str]] = []
    for separator in SEPARATORS:
        with suppress(SourceError):  # a name in quotes ends where only its own separator follows
            found.append(split_row(header, separator))
    return found or [split_row(header, SEPARATORS[0])]


def _opened(file: RegularFile) -> BinaryIO:
    raw = file.open()
    if file.path.suffix.lower() == ".gz":
        return cast("BinaryIO", _Expanding(raw, file.given))
    return raw


def split_row(row: bytes, separator: str) -> list[str]:
    """Split the header into its names."""
    try:
        return next(csv.reader([row.decode("utf-8")], delimiter=separator, strict=True))
    except csv.Error:
        raise SourceError(
            "header_malformed",
            "Line 1, the header, has a quote in the middle of a name or a name beyond "
            f"{csv.field_size_limit():,} letters. Quote whole names and double quotes inside them.",
        ) from None


def detect_separator(header: bytes, ahead: bytes) -> str:
    """Find the separator that the header and the next rows agree on."""
    whole_rows = ahead.split(b"\n", ROWS_COMPARED)[:-1]
    unquoted = [b"".join(row.split(b'"')[0::2]) for row in (header, *whole_rows)]

    def agreement(separator: str) -> tuple[float, int]:
        counts = [row.count(separator.encode()) for row in unquoted]
        same = sum(count == counts[0] for count in counts) / len(counts)
        return (same if counts[0] else 0.0, counts[0])

    return max(SEPARATORS, key=agreement)
