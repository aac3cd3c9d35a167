"""Files out: whole or not at all, whatever happens on the way.

Lines of CSV are built column-wise: a missing cell is empty, empty text is "\"\"".
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.files.spelled import spelling_in, write_spelled
from sfumato.engines.kinds import is_text
from sfumato.errors import OutputError
from sfumato.files import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sfumato.engines.files.cells import CellArray
    from sfumato.schema.spelling import Spelling

_NEEDS_QUOTES = '[",;\\t\\r\\n]|^$'

_FORMULA = "^'*[=+\\-@\\t\\r]"
"""Spreadsheets run a cell that starts so; a leading apostrophe makes it text.

Cells that have apostrophes there already get one more, so that it can be taken away again.
"""
_GUARDED = "^'+[=+\\-@\\t\\r]"


def header_line(names: Sequence[str]) -> bytes:
    """Write the header."""
    quoted = _quoted(pa.array(names, pa.large_string()))
    return (",".join(quoted.to_pylist()) + "\n").encode()


def lines(batch: pa.RecordBatch) -> bytes:
    """Write the rows of a batch."""
    spelled = map(spelling_in, batch.schema)
    rows = _joined(*map(_text, batch.columns, spelled), separator=",")
    ended = _joined(rows, "\n")
    # The strings of an Arrow array lie one after the other: together they are the file.
    _, offsets, data = ended.buffers()
    size = int(np.frombuffer(offsets, np.int64)[len(ended)]) if len(ended) else 0
    return bytes(data.slice(0, size)) if size else b""


def unguarded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Text as it was before it was written: without the apostrophe that guards spreadsheets."""
    columns = []
    for cells in batch.columns:
        guarded = pc.match_substring_regex(cells, _GUARDED)
        bare = pc.utf8_slice_codeunits(cells, 1) if _any(guarded) else cells
        columns.append(pc.if_else(guarded, bare, cells))
    return pa.record_batch(columns, schema=batch.schema)


def _text(cells: CellArray, spelling: Spelling | None) -> CellArray:
    """Turn a column into text as it stands in the file; only text can need quotes."""
    if spelling is not None:
        return _quoted(write_spelled(cells, spelling))
    text = pc.cast(cells, pa.large_string())
    if not is_text(cells.type):
        return text
    risky = pc.match_substring_regex(text, _FORMULA)
    return _quoted(pc.if_else(risky, _joined("'", text), text) if _any(risky) else text)


def _quoted(text: CellArray) -> CellArray:
    """Put quotes around the cells that need them."""
    needed = pc.match_substring_regex(text, _NEEDS_QUOTES)
    if not _any(needed):
        return text
    quoted = _joined('"', pc.replace_substring(text, '"', '""'), '"')
    return pc.if_else(needed, quoted, text)


def _any(checks: CellArray) -> bool:
    return pc.any(checks).as_py() is True


def _joined(*parts: CellArray | str, separator: str = "") -> CellArray:
    """Join text row by row; a missing part is empty."""
    large = [
        pa.scalar(part, pa.large_string()) if isinstance(part, str) else part
        for part in (*parts, separator)
    ]
    return pc.binary_join_element_wise(*large, null_handling="replace", null_replacement="")


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
