"""Write files and folders of Parquet files atomically, in the layout of the input.

CSV lines are built column by column: a missing cell is empty, an empty text is a pair of quotes.
A folder is filled in a scratch folder beside the target and then renamed; the names of its files
are in the order of the rows. Decisions `what-travels` and `writing-releases`.
"""

from __future__ import annotations

import codecs
import gzip
import os
import re
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.engines.base import FolderTarget
from sfumato.data.engines.kinds import is_text
from sfumato.data.files.column_spelling import spelling_in, write_spelled
from sfumato.data.files.formats import EXCEL, PARQUET, TEXT, WRITTEN, ends_in, fixed_separator
from sfumato.data.schema.layout import DEFAULT_LAYOUT, FileLayout
from sfumato.errors import OutputError, option
from sfumato.filesystem import Scratch, check_room, check_target, sweep, sync, unwritable, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.data.engines.base import TableTarget
    from sfumato.data.files.cell_conversion import CellArray
    from sfumato.data.schema.spelling import Spelling

    Writing = Callable[["Batches", BinaryIO, FileLayout], FileLayout]


_SPECIAL = '"\r\n'

# Signs that are quoted in a file with commas: a reader may guess another separator.
_SEPARATORS = ",;|\t"

# Starts of cells that spreadsheets run as formulas (*attack*: formula injection).
#
# A leading apostrophe makes such a cell text. Cells with apostrophes get one more, so that removing
# one gives back the cell.
_FORMULA = "^'*[=+\\-@\\t\\r]"
_GUARDED = "^'+[=+\\-@\\t\\r]"


def header_line(names: Sequence[str], separator: str = ",") -> bytes:
    """Return the header as a line of CSV."""
    quoted = _quote_cells(pa.array(names, pa.large_string()), separator)
    return (separator.join(quoted.to_pylist()) + "\n").encode()


def lines(batch: pa.RecordBatch, separator: str = ",") -> bytes:
    """Return the rows of a batch as lines of CSV."""
    cells = (
        _text(array, spelling_in(field), separator)
        for array, field in zip(batch.columns, batch.schema, strict=True)
    )
    rows = _join_texts(*cells, separator=separator)
    ended = _join_texts(rows, "\n")
    # An Arrow array keeps its strings in one buffer: that buffer is the text of the file.
    _, offsets, data = ended.buffers()
    size = int(np.frombuffer(offsets, np.int64)[len(ended)]) if len(ended) else 0
    return bytes(data.slice(0, size)) if size else b""


def guarded_names(names: Sequence[str]) -> list[str]:
    """Headers guarded against formulas, for files that are not read as a data set again."""
    return [f"'{name}" if re.match(_FORMULA, name) else name for name in names]


def unguarded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Remove the apostrophes that guard text against formulas."""
    columns = []
    for cells in batch.columns:
        guarded = pc.match_substring_regex(cells, _GUARDED)
        bare = pc.utf8_slice_codeunits(cells, 1) if _any(guarded) else cells
        columns.append(pc.if_else(guarded, bare, cells))
    return pa.record_batch(columns, schema=batch.schema)


def _text(cells: CellArray, spelling: Spelling | None, separator: str) -> CellArray:
    """A column as text of the file; only text can need quotes."""
    if spelling is not None:
        return _quote_cells(write_spelled(cells, spelling), separator)
    text = pc.cast(cells, pa.large_string())
    if not is_text(cells.type):
        return text
    risky = pc.match_substring_regex(text, _FORMULA)
    guarded = pc.if_else(risky, _join_texts("'", text), text) if _any(risky) else text
    return _quote_cells(guarded, separator)


def _quote_cells(text: CellArray, separator: str) -> CellArray:
    """Quote the cells that need quotes."""
    signs = _SPECIAL + (_SEPARATORS if separator == "," else separator)
    special = "".join(f"\\x{ord(sign):02x}" for sign in signs)
    needed = pc.match_substring_regex(text, f"[{special}]|^$")
    if not _any(needed):
        return text
    quoted = _join_texts('"', pc.replace_substring(text, '"', '""'), '"')
    return pc.if_else(needed, quoted, text)


def _any(checks: CellArray) -> bool:
    return pc.any(checks).as_py() is True


def _join_texts(*texts: CellArray | str, separator: str = "") -> CellArray:
    """Join texts row by row; a missing text is empty."""
    large = [
        pa.scalar(text, pa.large_string()) if isinstance(text, str) else text
        for text in (*texts, separator)
    ]
    return pc.binary_join_element_wise(*large, null_handling="replace", null_replacement="")


class Batches(Protocol):
    """Batches of rows with their schema, such as an Arrow reader."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield each batch once."""
        ...


def write_file(
    open_reader: Callable[[], Batches],
    target: Path,
    *,
    overwrite: bool,
    layout: FileLayout = DEFAULT_LAYOUT,
) -> None:
    """Write a query's result in the format of the file name; the query starts after all checks."""
    write = format_of(target)
    with whole(target, overwrite=overwrite) as temporary, temporary.open("wb") as stream:
        write(open_reader(), stream, layout)


def check_letters(file: str, name: str, texts: Sequence[str], layout: FileLayout) -> None:
    """Refuse a file that cannot hold a column of these texts, before it is written."""
    if ends_in(file, TEXT):
        column = pa.table({name: pa.array(texts, pa.string())})
        _write_text(file, column.to_reader(), BytesIO(), layout)


def layout_for(table: pa.Table, layout: FileLayout) -> FileLayout:
    """Return the layout, changed to UTF-8 where its encoding lacks a letter of the table.

    For results that budget was spent on: they must not be lost to a letter.
    """
    text_columns = [column for column in table.columns if is_text(column.type)]
    columns = (pc.unique(column).drop_null().to_pylist() for column in text_columns)
    try:
        for texts in (table.column_names, *columns):
            "\n".join(texts).encode(layout.codec)
    except UnicodeEncodeError:
        return replace(layout, encoding=None)
    return layout


def format_of(target: Path) -> Writing:
    """Return the writer for the end of a file name; refuse other names.

    The writer takes batches, a stream and a layout, and returns the part of the layout it used.
    """
    name = target.name
    if ends_in(name, TEXT):
        return partial(_write_text, name)
    if ends_in(name, PARQUET):
        return _write_parquet
    if ends_in(name, EXCEL):
        if find_spec("xlsxwriter") is None:  # refused before any budget or time is spent
            raise OutputError(
                "package_missing",
                f"Cannot write {str(target)!r}: Excel files need packages that are not installed.",
                hint=(
                    "Install them with: pip install 'sfumato[excel]', or choose a name that ends "
                    "in .csv."
                ),
            )
        return _write_excel
    raise OutputError(
        "format_unknown",
        f"Cannot tell the format of {str(target)!r}. Its name must end in {', '.join(WRITTEN)}.",
    )


def _write_text(name: str, reader: Batches, stream: BinaryIO, layout: FileLayout) -> FileLayout:
    fixed = fixed_separator(name)
    separator = fixed or layout.separator or ","
    with ExitStack() as stack:
        if name.lower().endswith(".gz"):
            # No name and no time inside, so that equal tables give equal files.
            compressed = gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)
            stream = cast("BinaryIO", stack.enter_context(compressed))
        encoded = _encoding(layout)
        stream.write(encoded(header_line(reader.schema.names, separator), None))
        for batch in reader:
            text = lines(batch, separator)
            if b"\0" in text:
                raise _nul(batch)
            stream.write(encoded(text, batch))
    return FileLayout(layout.encoding, None if separator in (",", fixed) else separator)


def _encoding(layout: FileLayout) -> Callable[[bytes, pa.RecordBatch | None], bytes]:
    """Return the function that converts blocks of UTF-8 to the encoding of a layout."""
    codec = layout.codec
    if codec == "utf-8":
        return lambda text, _batch: text
    encoder = codecs.getincrementalencoder(codec)()

    def encoded(text: bytes, batch: pa.RecordBatch | None) -> bytes:
        with suppress(UnicodeEncodeError):
            return encoder.encode(text.decode("utf-8"))
        raise _unencodable(batch, codec, layout)

    return encoded


def _unencodable(batch: pa.RecordBatch | None, codec: str, layout: FileLayout) -> OutputError:
    """Return the error of a letter that the encoding lacks; it names only the column."""
    title = "The header"
    for name, cells in zip(batch.schema.names, batch.columns, strict=True) if batch else ():
        try:
            lines(pa.record_batch([cells], [name])).decode("utf-8").encode(codec)
        except UnicodeEncodeError:
            title = f"Column {name!r}"
            break
    return OutputError(
        "output_text_unfit",
        f"{title} has letters that {layout.encoding}, the encoding of the input, does not have.",
        hint=(
            "Save the input as UTF-8 and remove file.encoding from its schema, or choose a name "
            "that ends in .parquet or .xlsx."
        ),
    )


def _nul(batch: pa.RecordBatch) -> OutputError:
    """Return the error of a NUL byte, which no CSV reader accepts; it names only the column."""
    first = next(
        name
        for name, cells in zip(batch.schema.names, batch.columns, strict=True)
        if b"\0" in lines(pa.record_batch([cells], [name]))
    )
    return OutputError(
        "output_text_unfit",
        f"Column {first!r} holds text with a NUL byte, which no CSV file can hold.",
        hint="Choose a name that ends in .parquet.",
    )


def _write_parquet(reader: Batches, stream: BinaryIO, _layout: FileLayout) -> FileLayout:
    from pyarrow import parquet

    with parquet.ParquetWriter(stream, reader.schema, write_page_checksum=True) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return DEFAULT_LAYOUT


def _write_excel(reader: Batches, stream: BinaryIO, layout: FileLayout) -> FileLayout:
    from sfumato.data.files.workbook import write_sheet

    return write_sheet(reader, stream, layout)


def table_exists(target: TableTarget) -> OutputError:
    """Return the refusal to replace an existing table of an engine."""
    return OutputError(
        "output_exists",
        f"The table {str(target)!r} exists where the data lies.",
        hint=f"Choose another name or pass {option('overwrite', True)}.",
    )


def table_in_use(target: TableTarget) -> OutputError:
    """Return the refusal to replace a table that the source or other relations need."""
    return OutputError(
        "file_in_use",
        f"Cannot replace the table {str(target)!r}: it is the source, is read by it, is no plain "
        "table, or others are made from it.",
        hint="Choose another name.",
    )


RELEASE = "A release of Sfumato."
"""The comment, or property, that marks a table of an engine as a release."""


def table_not_a_release(target: TableTarget) -> OutputError:
    """Return the refusal to replace a table that is not a release."""
    return OutputError(
        "output_not_a_release",
        f"Cannot replace the table {str(target)!r}: it is not a release.",
        hint="Choose another name.",
    )


def table_unresolved(target: TableTarget) -> OutputError:
    """Return the refusal to replace a table where the source may read any table."""
    return OutputError(
        "file_in_use",
        f"Cannot replace the table {str(target)!r}: the source is a view or a foreign table, and "
        "may read that table.",
        hint=f"Choose another name, and leave {option('overwrite', True)} out.",
    )


PART_BYTES = 128 << 20
"""Bytes after which a part is closed and the next one begins."""

SIDECAR_NAME = "release.json"
"""The file name of the side-car in a folder of a release."""


def part_name(number: int) -> str:
    """Return the file name of a part by its number, from 0."""
    return f"part-{number:05}.parquet"


def parts_in(folder: Path) -> list[Path]:
    """Return the parts of a folder, in the order of their rows."""
    return sorted(folder.glob("part-*.parquet"))


def write_folder(
    engine: str, open_reader: Callable[[], Batches], target: FolderTarget, *, overwrite: bool
) -> None:
    """Write a query's result to parts; the query starts after all checks."""
    path = _local_folder(engine, target)
    with whole_folder(path, overwrite=overwrite, known_as=str(target)) as temporary:
        temporary.mkdir()
        _write_parts(open_reader(), temporary)


def check_local(engine: str, target: Path | FolderTarget, *, overwrite: bool) -> None:
    """Refuse a file or folder that this process cannot write."""
    if isinstance(target, FolderTarget):
        path = _local_folder(engine, target)
        _check_replaceable(path, Path(os.path.realpath(path)), overwrite=overwrite)
    else:
        check_target(target, overwrite=overwrite)


def _local_folder(engine: str, target: FolderTarget) -> Path:
    """Return the folder on this machine; refuse addresses, which only Spark writes to."""
    if target.local is None:
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{target}': {engine} hands its rows to this machine, which writes to "
            "its own folders alone.",
            hint="Name one of them, such as OUT/.",
        )
    return target.local


def _write_parts(rows: Batches, folder: Path) -> None:
    from pyarrow import parquet

    arriving = iter(rows)
    batch: pa.RecordBatch | None = next(arriving, None)
    for number in count():
        with (
            (folder / part_name(number)).open("wb") as stream,
            parquet.ParquetWriter(stream, rows.schema, write_page_checksum=True) as writer,
        ):
            size = 0
            while batch is not None and size < PART_BYTES:
                writer.write_batch(batch)
                batch, size = next(arriving, None), stream.tell()
        if batch is None:
            return


@contextmanager
def whole_folder(path: Path, *, overwrite: bool, known_as: str = "") -> Iterator[Path]:
    """Yield a scratch path; at the end that folder is synced and renamed to `path`.

    Errors call the target `known_as`. On any failure, an interruption included, the scratch folder
    is removed and an old folder stays as it was.
    """
    final, known = Path(os.path.realpath(path)), Path(known_as or path)
    try:
        _check_replaceable(known, final, overwrite=overwrite)
        with Scratch(final.parent, f".{final.name}.") as scratch:
            temporary, old = scratch / "whole", scratch / "old"
            yield temporary
            for path_inside in (*temporary.iterdir(), temporary):
                sync(path_inside)
            # Checked again: what has come to this name since the first check would be lost.
            _check_replaceable(known, final, overwrite=overwrite)
            # The old folder is kept until the new one has its name, and restored if that fails.
            if final.exists():
                final.rename(old)
            try:
                temporary.rename(final)
            except BaseException:
                if old.exists() and not final.exists():
                    old.rename(final)
                raise
            sync(final.parent)
    except OSError as error:
        raise unwritable(known, error) from None


def _check_replaceable(path: Path, final: Path, *, overwrite: bool) -> None:
    """Refuse a target that exists, unless it is a folder of parts to overwrite."""
    if not final.parent.is_dir():
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': there is no directory '{path.parent}'. Create it first.",
        )
    sweep(final.parent)
    check_room(path, final.parent)
    if not os.path.lexists(final):
        return
    inside = [entry.name for entry in final.iterdir()] if final.is_dir() else None
    if inside is None or not all(ends_in(name, PARQUET) or name == SIDECAR_NAME for name in inside):
        raise OutputError(
            "output_not_a_release",
            f"Cannot replace '{path}': it is something else than a folder of Parquet files.",
            hint="Choose another name.",
        )
    if inside and not overwrite:
        raise OutputError(
            "output_exists",
            f"Cannot write '{path}': it exists.",
            hint=f"Choose another name or pass {option('overwrite', True)}.",
        )
