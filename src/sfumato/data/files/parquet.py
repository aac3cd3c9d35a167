"""Check Parquet files: their footers, and the checksums of their pages.

The engines do not verify page checksums and would read damaged pages as data.

Decision `reading-files`.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.data.engines.kinds import kinds_of
from sfumato.data.files.cell_conversion import CellArray, check_names
from sfumato.data.files.file_identity import RegularFile, regular_file
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from pyarrow.parquet import ColumnChunkMetaData, FileMetaData

# The longest page header in bytes; it holds a few numbers and perhaps two values.
_LONGEST_HEADER = 1 << 20

# Field numbers of a page header: compressed size and CRC-32.
_SIZE, _CHECKSUM = 3, 4

# Types of the Thrift compact protocol, in which page headers are encoded.
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12


def damaged_column(stream: BinaryIO, metadata: FileMetaData) -> str | None:
    """Return the first column with a page that does not match its checksum; None if all match.

    Checksums are optional: a file without them is accepted.
    """
    for group in range(metadata.num_row_groups):
        for position in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(position)
            try:
                if not _chunk_has_checksums(stream, chunk):
                    return None
            except (ValueError, IndexError):
                return str(chunk.path_in_schema)
    return None


def _chunk_has_checksums(stream: BinaryIO, chunk: ColumnChunkMetaData) -> bool:
    """Check the pages of a column chunk; return False where it has no checksums.

    Damage raises ValueError or IndexError.
    """
    pages = (chunk.dictionary_page_offset, chunk.data_page_offset)
    # The offset 0 means that there is no such page, as in a chunk without rows.
    start = min((offset for offset in pages if offset), default=0)
    end = start + chunk.total_compressed_size
    while start < end:
        stream.seek(start)
        header = _Fields(stream.read(min(_LONGEST_HEADER, end - start)))
        numbers = header.struct()
        size, checksum = numbers[_SIZE], numbers.get(_CHECKSUM)
        if checksum is None:
            return False
        start += header.position
        if not 0 <= size <= end - start:
            raise ValueError("a page beyond its chunk")
        stream.seek(start)
        if zlib.crc32(stream.read(size)) != checksum & 0xFFFFFFFF:
            raise ValueError("a page that does not match its checksum")
        start += size
    return True


class _Fields:
    """A minimal reader of the Thrift compact protocol: integers and the end of a struct."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def struct(self) -> dict[int, int]:
        """Read a struct; return its integer fields by field number."""
        numbers: dict[int, int] = {}
        field = 0
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            value = self._value(head & 0x0F)
            if value is not None:
                numbers[field] = value
        return numbers

    def _value(self, kind: int) -> int | None:
        """Read one value; return integers and skip everything else."""
        if kind in {_TRUE, _FALSE}:
            return None
        if _BYTE < kind <= _I64:
            return self._zigzag()
        if kind == _BYTE:
            self.position += 1
        elif kind == _DOUBLE:
            self.position += 8
        elif kind == _BINARY:
            length = self._varint()  # which moves the position itself
            self.position += length
        elif kind in {_LIST, _SET}:
            self._items()
        elif kind == _STRUCT:
            self.struct()
        else:
            raise ValueError("an unknown type")
        return None

    def _items(self) -> None:
        head = self._byte()
        count = head >> 4 if head >> 4 != 15 else self._varint()
        # *Attack*: a damaged count must not make the loop below run for hours.
        if count > len(self._data):
            raise ValueError("a list beyond the page header")
        for _ in range(count):
            if head & 0x0F in {_TRUE, _FALSE}:
                self.position += 1  # inside a list a boolean takes a byte
            else:
                self._value(head & 0x0F)

    def _byte(self) -> int:
        self.position += 1
        return self._data[self.position - 1]

    def _varint(self) -> int:
        result, shift = 0, 0
        while True:
            byte = self._byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7
            if shift > 63:
                raise ValueError("a number beyond 64 bits")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)


# Magic, footer length and magic again: nothing shorter is a Parquet file.
_SMALLEST = 12


def parquet_files(paths: Sequence[Path | str]) -> list[RegularFile]:
    """Check the files of one table: undamaged, of supported types, all with one schema."""
    files = [regular_file(path) for path in paths]
    _check_same(files, [_checked_schema(file) for file in files])
    return files


def check_alike(files: Sequence[RegularFile], *, ordered: bool = True) -> None:
    """Refuse files of one table whose footers have different columns, or another order."""
    _check_same(files, [footer_schema(file) for file in files], ordered=ordered)


def _check_same(
    files: Sequence[RegularFile], schemas: Sequence[pa.Schema], *, ordered: bool = True
) -> None:
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        differences = _differences(schemas[0], schema, ordered=ordered)
        if differences:
            raise SourceError(
                "schema_differs",
                f"{file.name!r} does not have the columns of {files[0].name!r}: "
                f"{'; '.join(differences[:10])}. All files of a table must agree.",
            )


def rows_of(files: Sequence[RegularFile], *, batch_rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
    """Yield the rows of checked files, read by Arrow; DuckDB fails at times beyond its range.

    A column with text that is not UTF-8 is returned as bytes.
    """
    from pyarrow import parquet

    for file in files:
        with file.open() as stream:
            for batch in parquet.ParquetFile(stream).iter_batches(batch_rows):
                arrays = [_valid_cells(cells) for cells in batch.columns]
                yield pa.record_batch(arrays, names=batch.schema.names)
        file.check_unchanged()


_AS_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def _valid_cells(cells: CellArray) -> CellArray:
    """Validate cells; return text that is not UTF-8 as bytes."""
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        if isinstance(cells, pa.DictionaryArray):
            cells = cells.dictionary_decode()
        if cells.type not in _AS_BYTES:
            raise
        return cells.view(_AS_BYTES[cells.type])
    return cells


def footer_schema(file: RegularFile) -> pa.Schema:
    """Return the schema in the footer of a file; rows are not read."""
    _check_frame(file)
    schema = _metadata(file).schema.to_arrow_schema()
    check_names(schema.names)
    kinds_of(schema)
    return schema


def _checked_schema(file: RegularFile) -> pa.Schema:
    """Return the schema of a file after checking footer and pages."""
    schema, metadata = footer_schema(file), _metadata(file)
    old = [
        name
        for position, name in enumerate(schema.names)
        if metadata.schema.column(position).physical_type == "INT96"
    ]
    if old:
        raise _refusal(
            file,
            "column_type_unsupported",
            f"column {old[0]!r} holds INT96 timestamps; write it as DATE or TIMESTAMP",
        )
    groups = [metadata.row_group(position) for position in range(metadata.num_row_groups)]
    if any(group.num_rows < 0 for group in groups) or metadata.num_rows != sum(
        group.num_rows for group in groups
    ):
        raise _refusal(file, "file_malformed", "its footer claims rows that it does not hold")
    with file.open() as stream:
        damaged = damaged_column(stream, metadata)
    if damaged is not None:
        raise _refusal(file, "file_malformed", f"a page of column {damaged!r} is damaged")
    return schema


def _metadata(file: RegularFile) -> FileMetaData:
    from pyarrow import parquet

    try:
        with file.open() as stream:
            metadata: FileMetaData = parquet.read_metadata(stream)
            metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, OverflowError):
        raise _refusal(file, "file_malformed", "its footer is damaged") from None
    return metadata


def _check_frame(file: RegularFile) -> None:
    """Check the magic numbers at both ends and the length of the footer."""
    size = file.version.size
    with file.open() as stream:
        first = stream.read(4)
        if size >= _SMALLEST:
            stream.seek(-8, 2)
        last = stream.read(8)
    if first == b"PARE" or last[4:] == b"PARE":
        raise _refusal(file, "file_malformed", "it is encrypted")
    if first != b"PAR1":
        raise _refusal(file, "file_malformed", "it does not start like a Parquet file")
    if size < _SMALLEST or last[4:] != b"PAR1":
        raise _refusal(file, "file_malformed", "its end is missing")
    if int.from_bytes(last[:4], "little") > size - _SMALLEST:
        raise _refusal(file, "file_malformed", "its footer claims to be longer than the file")


def _differences(expected: pa.Schema, actual: pa.Schema, *, ordered: bool) -> list[str]:
    """List how two schemas differ in names, order and types."""
    missing = [f"{name!r} is missing" for name in expected.names if name not in actual.names]
    extra = [f"{name!r} is new" for name in actual.names if name not in expected.names]
    types = [
        f"{field.name!r} is {actual.field(field.name).type} instead of {field.type}"
        for field in expected
        if field.name in actual.names and actual.field(field.name).type != field.type
    ]
    if ordered and not missing + extra + types and expected.names != actual.names:
        return ["the columns are in another order"]
    return missing + extra + types


def _refusal(file: RegularFile, code: str, reason: str) -> SourceError:
    return SourceError(
        code, f"Cannot read {file.name!r} as Parquet: {reason}. Write or fetch the file again."
    )
