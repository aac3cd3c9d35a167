"""Files out: whole or not at all, whatever happens on the way."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, BinaryIO, Protocol

import pyarrow as pa

from sfumato.engines.files.delimited import header_line, lines
from sfumato.errors import OutputError
from sfumato.files import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Batches(Protocol):
    """Rows on their way, batch by batch, as an Arrow reader gives them."""

    @property
    def schema(self) -> pa.Schema:
        """What the batches hold."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Each batch once."""
        ...


def write_file(open_reader: Callable[[], Batches], target: Path, *, overwrite: bool) -> None:
    """Write a query's result as CSV, CSV.gz or Parquet; the query starts after all checks."""
    write = format_of(target)
    with whole(target, overwrite=overwrite) as temporary, temporary.open("wb") as stream:
        write(open_reader(), stream)


def format_of(target: Path) -> Callable[[Batches, BinaryIO], None]:
    """Choose the format by the end of the name, or refuse a name that does not tell it."""
    name = target.name.lower()
    for ending, write in _FORMATS.items():
        if name.endswith(ending) and name != ending:
            return write
    raise OutputError(
        "output_format_unknown",
        f"Cannot tell the format of {str(target)!r}. Its name must end in {', '.join(_FORMATS)}.",
    )


def _write_csv(reader: Batches, stream: BinaryIO) -> None:
    stream.write(header_line(reader.schema.names))
    for batch in reader:
        text = lines(batch)
        if b"\0" in text:
            raise _nul(batch)
        stream.write(text)


def _nul(batch: pa.RecordBatch) -> OutputError:
    """No reader of CSV takes a NUL byte, ours neither; only the name of the column is told."""
    first = next(
        name
        for name, cells in zip(batch.schema.names, batch.columns, strict=True)
        if b"\0" in lines(pa.record_batch([cells], [name]))
    )
    return OutputError(
        "output_nul_byte",
        f"Column {first!r} holds text with a NUL byte, which no CSV file can hold. Choose a name "
        "that ends in .parquet.",
    )


def _write_gzip(reader: Batches, stream: BinaryIO) -> None:
    # No name and no time inside, so that equal tables give equal files.
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressed:
        _write_csv(reader, compressed)  # type: ignore[arg-type]  # it has the one method used


def _write_parquet(reader: Batches, stream: BinaryIO) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(stream, reader.schema, write_page_checksum=True) as writer:
        for batch in reader:
            writer.write_batch(batch)


_FORMATS: dict[str, Callable[[Batches, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".csv.gz": _write_gzip,
    ".parquet": _write_parquet,
}


def table_exists(name: str) -> OutputError:
    """Refuse to replace a table inside an engine."""
    return OutputError(
        "output_exists", f"The table {name!r} exists in the engine. Choose another name."
    )
