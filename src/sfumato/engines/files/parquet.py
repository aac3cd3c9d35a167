"""Parquet in: what can be told from the footers, before any engine touches the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.engines.files.names import check_names
from sfumato.engines.files.pages import damaged_column
from sfumato.engines.files.regular import RegularFile, regular_file
from sfumato.engines.kinds import kinds_of
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyarrow.parquet import FileMetaData

_SMALLEST = 12
"""Magic, footer length and magic again: nothing shorter is a Parquet file."""


def parquet_files(paths: Sequence[Path | str]) -> list[RegularFile]:
    """Check the files of one table: whole, readable, of types we know, all with one schema."""
    files = [regular_file(path) for path in paths]
    schemas = [_schema(file) for file in files]
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        differences = _differences(schemas[0], schema)
        if differences:
            raise SourceError(
                "schemas_differ",
                f"{file.given!r} does not have the columns of {files[0].given!r}: "
                f"{'; '.join(differences[:10])}. All files of a table must agree.",
            )
    return files


def rows_of(files: Sequence[RegularFile]) -> Iterator[pa.RecordBatch]:
    """The rows of checked files, read by Arrow: DuckDB fails at a time beyond its own range."""
    from pyarrow import parquet

    for file in files:
        with file.open() as stream:
            for batch in parquet.ParquetFile(stream).iter_batches():
                batch.validate(full=True)
                yield batch
        file.check_unchanged()


def schema_told(file: RegularFile) -> pa.Schema:
    """Read the schema of one file from its footer, whatever its rows are."""
    _check_frame(file)
    schema = _metadata(file).schema.to_arrow_schema()
    check_names(schema.names)
    kinds_of(schema)
    return schema


def _schema(file: RegularFile) -> pa.Schema:
    """Read the schema of one file, or say why it cannot be read."""
    schema, metadata = schema_told(file), _metadata(file)
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
        raise _refusal(file, "parquet_damaged", "its footer claims rows that it does not hold")
    with file.open() as stream:
        damaged = damaged_column(stream, metadata)
    if damaged is not None:
        raise _refusal(file, "parquet_damaged", f"a page of column {damaged!r} is damaged")
    return schema


def _metadata(file: RegularFile) -> FileMetaData:
    from pyarrow import parquet

    try:
        with file.open() as stream:
            metadata: FileMetaData = parquet.read_metadata(stream)
            metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, OverflowError):
        raise _refusal(file, "parquet_damaged", "its footer is damaged") from None
    return metadata


def _check_frame(file: RegularFile) -> None:
    """Check the magic at both ends and the claimed length of the footer."""
    size = file.version.size
    with file.open() as stream:
        first = stream.read(4)
        if size >= _SMALLEST:
            stream.seek(-8, 2)
        last = stream.read(8)
    if first == b"PARE" or last[4:] == b"PARE":
        raise _refusal(file, "parquet_encrypted", "it is encrypted")
    if first != b"PAR1":
        raise _refusal(file, "not_parquet", "it does not start like a Parquet file")
    if size < _SMALLEST or last[4:] != b"PAR1":
        raise _refusal(file, "parquet_truncated", "its end is missing")
    if int.from_bytes(last[:4], "little") > size - _SMALLEST:
        raise _refusal(file, "parquet_damaged", "its footer claims to be longer than the file")


def _differences(expected: pa.Schema, found: pa.Schema) -> list[str]:
    """List how two schemas differ in names, order and types."""
    missing = [f"{name!r} is missing" for name in expected.names if name not in found.names]
    extra = [f"{name!r} is new" for name in found.names if name not in expected.names]
    types = [
        f"{field.name!r} is {found.field(field.name).type} instead of {field.type}"
        for field in expected
        if field.name in found.names and found.field(field.name).type != field.type
    ]
    if not missing + extra + types and expected.names != found.names:
        return ["the columns are in another order"]
    return missing + extra + types


def _refusal(file: RegularFile, code: str, reason: str) -> SourceError:
    return SourceError(
        code, f"Cannot read {file.given!r} as Parquet: {reason}. Write or fetch the file again."
    )
