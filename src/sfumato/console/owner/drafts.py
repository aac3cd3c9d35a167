"""Drafts of tables: uploaded or named by the owner, and not yet added to the vault.

Each draft has its own folder inside the vault, with the schema so far and the domains observed in
rows, readable by the owner alone. When a table is added its folder stays: the vault reads it there.

Nothing of an uploaded file's name becomes a path. A file that would unpack to more than a server
can hold (a decompression bomb) is refused by its header or index, before any row is read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from secrets import token_hex
from typing import IO, TYPE_CHECKING

from sfumato.data.schema.schema_file import load, save
from sfumato.errors import ParameterError, SfumatoError
from sfumato.filesystem import whole
from sfumato.operations.datasets import source_below
from sfumato.operations.schema_draft import draft
from sfumato.release.files_in_use import TABLES
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.data.schema.schema import Schema

CONNECTIONS = "connections.toml"
"""In the server's data folder: the databases that owners may add tables from."""
CONNECTION = "connection "
MOST_BYTES = 256 * 1024**2
"""The largest upload. Larger files are added from the server's data folder."""
MOST_COLUMNS = 1000  # the form of a schema has about 20 fields for each
ENDINGS = (".csv", ".tsv", ".parquet")
_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_NOTE, _SCHEMA, _SEEN = "draft.json", "schema.toml", "seen.toml"
_MOST_LISTED = 500  # entries of a list to choose from; other files can be typed
# A Parquet file of a megabyte can claim a billion equal rows.
_MOST_ROWS = 100_000_000
_MOST_UNPACKED_BYTES = 16 * MOST_BYTES
_LONGEST_HEADER = 1024**2
_BLOCK_BYTES = 1024**2
_COMPRESSED = (
    b"\x1f\x8b",  # gzip
    b"PK\x03\x04",  # zip
    b"\x28\xb5\x2f\xfd",  # zstandard
    b"BZh",
    b"\xfd7zXZ",
    b"\x04\x22\x4d\x18",  # lz4
)
_PARQUET = b"PAR1"


@dataclass(frozen=True)
class TableDraft:
    """A table that is not yet in the vault."""

    id: str
    folder: Path
    name: str
    """The suggested name of the data set."""
    source: str

    @property
    def schema_file(self) -> Path:
        """The file with the schema so far."""
        return self.folder / _SCHEMA

    @property
    def schema(self) -> Schema:
        """The schema so far."""
        return load(self.schema_file)

    @property
    def seen(self) -> Schema:
        """The schema with domains observed in rows. They are private unless the owner says else."""
        return load(self.folder / _SEEN)

    def declare(self, schema: Schema) -> None:
        """Replace the schema so far, in one step."""
        save(schema, self.schema_file, overwrite=True, private=True)

    def finish(self) -> None:
        """Remove the draft after its table was added; the table and its schema stay."""
        (self.folder / _NOTE).unlink()
        (self.folder / _SEEN).unlink()


class TableDrafts:
    """The drafts of one vault."""

    def __init__(self, vault: Path) -> None:
        self._folder = vault / TABLES

    def list(self) -> list[TableDraft]:
        """All drafts, by name."""
        if not self._folder.is_dir():
            return []
        drafts = (self.get(folder.name) for folder in self._folder.iterdir())
        return sorted(
            (draft for draft in drafts if draft is not None),
            key=lambda draft: (draft.name, draft.id),
        )

    def get(self, name: str) -> TableDraft | None:
        """The draft with this id, or None."""
        folder = self._folder / name
        # The id comes from an address: its pattern keeps paths such as ../.. out.
        if not _ID.fullmatch(name) or not (folder / _NOTE).is_file():
            return None
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        return TableDraft(name, folder, note["name"], note["source"])

    def from_upload(self, file: IO[bytes], file_name: str) -> TableDraft:
        """Begin a draft with an uploaded file."""
        return self._begin(
            suggest_name(file_name), lambda folder: str(store_upload(file, file_name, folder))
        )

    def from_server(self, source: str, data: Path | None) -> TableDraft:
        """Begin a draft with a file of the server's data folder or with a named connection."""
        if source.startswith(CONNECTION):
            name = source.removeprefix(CONNECTION)
            address = connections(data).get(name)
            if address is None:
                raise ParameterError(
                    "connection_unknown",
                    f"The server has no connection of that name. Its operator lists connections "
                    f"in {CONNECTIONS} in the data folder.",
                )
            return self._begin(suggest_name(name), lambda _folder: address)
        path = source_below(data, source)
        return self._begin(suggest_name(source), lambda _folder: path)

    def drop(self, table: TableDraft) -> None:
        """Delete a draft, and its table if it was uploaded."""
        # First the note: without it the folder is no draft, even if its removal is interrupted.
        (table.folder / _NOTE).unlink(missing_ok=True)
        shutil.rmtree(table.folder)

    def _begin(self, name: str, store: Callable[[Path], str]) -> TableDraft:
        """Read a table and guess its schema. A table that cannot be read leaves nothing behind."""
        draft_id = token_hex(8)  # random: no name of the file becomes a path
        folder = self._folder / draft_id
        self._folder.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
        try:
            source = store(folder)
            guessed = draft(source, None)
            # Observed domains hold values of people, which nobody has declared public yet.
            save(guessed.schema, folder / _SCHEMA, private=True)
            save(guessed.seen, folder / _SEEN, private=True)
            with whole(folder / _NOTE, private=True) as new:
                new.write_text(dumps({"name": name, "source": source}), encoding="utf-8")
        except SfumatoError as error:
            shutil.rmtree(folder, ignore_errors=True)
            # A visitor must not learn the paths of the server.
            raise type(error)(error.code, error.sentence.replace(f"{folder}/", "")) from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return TableDraft(draft_id, folder, name, source)


def connections(data: Path | None) -> dict[str, str]:
    """The addresses of databases in the server's data folder, by name."""
    if data is None or not (data / CONNECTIONS).is_file():
        return {}
    try:
        addresses = tomllib.loads((data / CONNECTIONS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ParameterError(
            "connection_unknown",
            f"{CONNECTIONS} of the server is not readable as lines such as visits = "
            '"postgresql://host/clinic#visits". Its operator must mend it.',
        ) from None
    return {
        name: address
        for name, address in addresses.items()
        if isinstance(address, str) and "://" in address
    }


def server_sources(data: Path | None) -> list[str]:
    """The connections and files of the server that an owner may choose from."""
    if data is None:
        return []
    endings = {".csv", ".tsv", ".parquet", ".xlsx", ".duckdb"}
    files = (
        str(path.relative_to(data))
        for path in data.rglob("*")
        if path.suffix.lower() in endings and path.is_file()
    )
    named = [f"{CONNECTION}{name}" for name in connections(data)]
    return [*named, *sorted(files)[:_MOST_LISTED]]


def suggest_name(file_name: str) -> str:
    """A name for the data set of a file: a letter, then letters, digits, _ and -."""
    stem = PurePosixPath(PureWindowsPath(file_name).name).stem
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_-")
    return re.sub(r"^[^A-Za-z]+", "", plain)[:63] or "table"


def store_upload(file: IO[bytes], file_name: str, folder: Path) -> Path:
    """Write an uploaded table into a folder under a fixed name; refuse it if it is no table."""
    ending = PurePosixPath(file_name.lower()).suffix
    if ending not in ENDINGS:
        raise ParameterError(
            "request_malformed",
            f"A file must end in {', '.join(ENDINGS)} and must not be compressed. Save the table "
            "in one of these formats.",
        )
    path = folder / f"table{ending}"
    # O_EXCL: an existing file or symbolic link of this name is never written through.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as stored:
        _copy(file, stored)
    if ending == ".parquet":
        _check_parquet(path)
    else:
        _check_text(path)
    return path


def _copy(file: IO[bytes], stored: IO[bytes]) -> None:
    byte_count = 0
    while block := file.read(_BLOCK_BYTES):
        byte_count += len(block)
        if byte_count > MOST_BYTES:
            raise ParameterError(
                "request_too_large",
                f"An upload may have at most {MOST_BYTES:,} bytes. Put a larger file into the "
                "server's data folder and add it from there.",
            )
        stored.write(block)
    if not byte_count:
        raise ParameterError("request_malformed", "The file is empty. Choose a file with a table.")


def _check_text(path: Path) -> None:
    # Limited: a line without end would fill the memory.
    with path.open("rb") as stream:
        header = stream.readline(_LONGEST_HEADER)
    if header.startswith((*_COMPRESSED, _PARQUET)):
        raise ParameterError(
            "request_malformed",
            "The file is compressed, or its content does not match its ending. Send it "
            "uncompressed and with the right ending.",
        )
    separator_count = max(header.count(sign) for sign in (b",", b";", b"\t", b"|"))
    if separator_count >= MOST_COLUMNS or len(header) == _LONGEST_HEADER:
        raise _too_wide()


def _check_parquet(path: Path) -> None:
    """Compare the size that the file's index states with what a server can hold."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        index = pq.read_metadata(path)
    except (pa.ArrowException, OSError, MemoryError):
        raise ParameterError(
            "request_malformed",
            "The file is not Parquet, or it is damaged. Save it again and send that.",
        ) from None
    if index.num_columns > MOST_COLUMNS:
        raise _too_wide()
    groups = (index.row_group(number) for number in range(index.num_row_groups))
    unpacked_bytes = sum(group.total_byte_size for group in groups)
    if index.num_rows > _MOST_ROWS or not 0 <= unpacked_bytes <= _MOST_UNPACKED_BYTES:
        raise ParameterError(
            "request_malformed",
            f"The file unpacks to {index.num_rows:,} rows and {unpacked_bytes:,} bytes; the limits "
            f"are {_MOST_ROWS:,} rows and {_MOST_UNPACKED_BYTES:,} bytes. Send a part of it, or "
            "add it from the server's data folder.",
        )


def _too_wide() -> ParameterError:
    return ParameterError(
        "request_malformed",
        f"The table has more than {MOST_COLUMNS:,} columns. Send only the columns that you need.",
    )
