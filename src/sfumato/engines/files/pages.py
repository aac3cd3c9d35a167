"""Page checksums of Parquet files, which the engines do not check: they read damage as data."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

    from pyarrow.parquet import ColumnChunkMetaData, FileMetaData

_LONGEST_HEADER = 1 << 20
"""Page headers hold a few numbers and perhaps a smallest and a largest value."""

_SIZE, _CHECKSUM = 3, 4
"""Fields of a page header: compressed size and CRC-32."""

_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
"""Types of Thrift's compact protocol, in which page headers are written."""


def damaged_column(stream: BinaryIO, metadata: FileMetaData) -> str | None:
    """Name the first column with a page that does not match its checksum; None if all do.

    Checksums are optional. A file that starts without them is taken as it is.
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
    """Check all pages of a chunk; raise ValueError or IndexError at damage."""
    first = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    start = min(first or chunk.data_page_offset, chunk.data_page_offset)
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
    """Just enough of Thrift's compact protocol to find integers and the end of a struct."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def struct(self) -> dict[int, int]:
        """Read a struct and keep the integers directly inside it."""
        numbers: dict[int, int] = {}
        field = 0
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            value = self._value(head & 0x0F)
            if value is not None:
                numbers[field] = value
        return numbers

    def _value(self, kind: int) -> int | None:
        """Read or pass over one value; only integers are told."""
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
