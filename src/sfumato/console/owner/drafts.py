"""Tables that are still to be declared: sent or named by the owner, and not in the vault yet.

Each has a folder of its own in the vault's, with what is declared so far and what was seen, for the
owner's eyes alone. Once a table is added its folder stays, because the vault reads it from there.
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
"""In the server's folder for data: the databases that its operator lets owners add from."""
CONNECTION = "connection "
_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_NOTE, _SCHEMA, _SEEN = "draft.json", "schema.toml", "seen.toml"
_MOST_LISTED = 500


@dataclass(frozen=True)
class TableDraft:
    """A table in the making."""

    id: str
    folder: Path
    name: str
    """What it could be called."""
    source: str

    @property
    def schema_file(self) -> Path:
        """Where what is declared so far stands."""
        return self.folder / _SCHEMA

    @property
    def schema(self) -> Schema:
        """What is declared so far."""
        return load(self.schema_file)

    @property
    def seen(self) -> Schema:
        """The same with what was seen in the rows, which is not public unless somebody says so."""
        return load(self.folder / _SEEN)

    def declare(self, schema: Schema) -> None:
        """Let a schema be what is declared, whole or not at all."""
        save(schema, self.schema_file, overwrite=True, private=True)

    def settle(self) -> None:
        """No draft any more: the vault has it."""
        (self.folder / _NOTE).unlink()
        (self.folder / _SEEN).unlink()


class TableDrafts:
    """The drafts of one vault."""

    def __init__(self, vault: Path) -> None:
        self._folder = vault / TABLES

    def list(self) -> list[TableDraft]:
        """All of them, by name."""
        if not self._folder.is_dir():
            return []
        found = (self.get(one.name) for one in self._folder.iterdir())
        return sorted((one for one in found if one is not None), key=lambda one: (one.name, one.id))

    def get(self, name: str) -> TableDraft | None:
        """One by its id, or None."""
        folder = self._folder / name
        if not _ID.fullmatch(name) or not (folder / _NOTE).is_file():
            return None
        told = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        return TableDraft(name, folder, told["name"], told["source"])

    def from_upload(self, file: IO[bytes], file_name: str) -> TableDraft:
        """A draft of a table that came with a form."""
        return self._begun(
            suggested_name(file_name), lambda folder: str(keep_upload(file, file_name, folder))
        )

    def from_server(self, source: str, data: Path | None) -> TableDraft:
        """A draft of a table on the server: in its folder for data, or by a named connection."""
        if source.startswith(CONNECTION):
            name = source.removeprefix(CONNECTION)
            address = connections(data).get(name)
            if address is None:
                raise ParameterError(
                    "connection_unknown",
                    f"The server has no connection by that name. Its operator lists them in "
                    f"{CONNECTIONS} in its folder of data.",
                )
            return self._begun(suggested_name(name), lambda _folder: address)
        place = source_below(data, source)
        return self._begun(suggested_name(source), lambda _folder: place)

    def drop(self, one: TableDraft) -> None:
        """Throw a draft away, with the table if it was sent."""
        (one.folder / _NOTE).unlink(missing_ok=True)
        shutil.rmtree(one.folder)

    def _begun(self, name: str, place: Callable[[Path], str]) -> TableDraft:
        """Read and guess; what cannot be read leaves nothing behind."""
        made = token_hex(8)
        folder = self._folder / made
        self._folder.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
        try:
            source = place(folder)
            begun = draft(source, None)
            # What was seen in the rows names values that nobody has declared public.
            save(begun.schema, folder / _SCHEMA, private=True)
            save(begun.seen, folder / _SEEN, private=True)
            with whole(folder / _NOTE, private=True) as new:
                new.write_text(dumps({"name": name, "source": source}), encoding="utf-8")
        except SfumatoError as error:
            shutil.rmtree(folder, ignore_errors=True)
            # Where we keep it is no name that who sent it could know.
            raise type(error)(error.code, error.sentence.replace(f"{folder}/", "")) from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return TableDraft(made, folder, name, source)


def connections(data: Path | None) -> dict[str, str]:
    """The databases that the server's operator named, by name."""
    if data is None or not (data / CONNECTIONS).is_file():
        return {}
    try:
        told = tomllib.loads((data / CONNECTIONS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ParameterError(
            "connection_unknown",
            f"{CONNECTIONS} of the server is not readable as lines such as visits = "
            '"postgresql://host/clinic#visits". Its operator must mend it.',
        ) from None
    return {name: one for name, one in told.items() if isinstance(one, str) and "://" in one}


def offered(data: Path | None) -> list[str]:
    """What an owner may name on the server: files below its folder for data, and connections."""
    if data is None:
        return []
    endings = {".csv", ".tsv", ".parquet", ".xlsx", ".duckdb"}
    files = (
        str(one.relative_to(data))
        for one in data.rglob("*")
        if one.suffix.lower() in endings and one.is_file()
    )
    named = [f"{CONNECTION}{one}" for one in connections(data)]
    return [*named, *sorted(files)[:_MOST_LISTED]]


# A table that came with a form: kept for its owner's eyes alone, once it is what it says.
#
# Nothing of the name that a browser gives becomes a path. What would unfold into more than a server
# can hold is refused by what its own index says, before a row is read: packed files, and Parquet of
# too many rows, columns or bytes. Decision `console`.


MOST_BYTES = 256 * 1024**2
"""The largest file that is taken; larger ones are added from the server's folder for data."""
MOST_COLUMNS = 1000
_MOST_ROWS = 100_000_000
_MOST_UNFOLDED = 16 * MOST_BYTES
_LONGEST_HEADER = 1024**2
_BLOCK = 1024**2
ENDINGS = (".csv", ".tsv", ".parquet")
_PACKED = (
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"\x28\xb5\x2f\xfd",
    b"BZh",
    b"\xfd7zXZ",
    b"\x04\x22\x4d\x18",
)
_PARQUET = b"PAR1"


def suggested_name(file_name: str) -> str:
    """What a data set could be called whose file had this name: a letter, then plain signs."""
    stem = PurePosixPath(PureWindowsPath(file_name).name).stem
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_-")
    return re.sub(r"^[^A-Za-z]+", "", plain)[:63] or "table"


def keep_upload(file: IO[bytes], file_name: str, folder: Path) -> Path:
    """Write an uploaded table into a folder, under a name of ours; refused if it is none."""
    ending = PurePosixPath(file_name.lower()).suffix
    if ending not in ENDINGS:
        raise ParameterError(
            "upload_invalid",
            f"Only files that end in {', '.join(ENDINGS)} are taken, as they are and not packed. "
            "Save the table as one of these.",
        )
    place = folder / f"table{ending}"
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as kept:
        _copy(file, kept)
    if ending == ".parquet":
        _check_parquet(place)
    else:
        _check_text(place)
    return place


def _copy(file: IO[bytes], kept: IO[bytes]) -> None:
    taken = 0
    while block := file.read(_BLOCK):
        taken += len(block)
        if taken > MOST_BYTES:
            raise ParameterError(
                "request_too_large",
                f"A file of at most {MOST_BYTES:,} bytes can be sent. Put a larger one into "
                "the server's folder of data and add it from there.",
            )
        kept.write(block)
    if not taken:
        raise ParameterError("upload_invalid", "The file is empty. Choose one that has a table.")


def _check_text(place: Path) -> None:
    with place.open("rb") as stream:
        header = stream.readline(_LONGEST_HEADER)
    if header.startswith((*_PACKED, _PARQUET)):
        raise ParameterError(
            "upload_invalid",
            "The file is packed, or of another kind than its name says. Send it unpacked, under a "
            "name that ends as what it is.",
        )
    most = max(header.count(sign) for sign in (b",", b";", b"\t", b"|"))
    if most >= MOST_COLUMNS or len(header) == _LONGEST_HEADER:
        raise _too_wide()


def _check_parquet(place: Path) -> None:
    """Compare what the file's own index says of it with what a server can hold."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        index = pq.read_metadata(place)
    except (pa.ArrowException, OSError, MemoryError):
        raise ParameterError(
            "upload_invalid",
            "The file is no Parquet, or a broken one. Save it again and send that.",
        ) from None
    if index.num_columns > MOST_COLUMNS:
        raise _too_wide()
    groups = (index.row_group(place) for place in range(index.num_row_groups))
    unfolded = sum(group.total_byte_size for group in groups)
    if index.num_rows > _MOST_ROWS or not 0 <= unfolded <= _MOST_UNFOLDED:
        raise ParameterError(
            "upload_invalid",
            f"The file says that it unfolds to {index.num_rows:,} rows and {unfolded:,} bytes; "
            f"at most {_MOST_ROWS:,} rows and {_MOST_UNFOLDED:,} bytes are taken. Send a part of "
            "it, or add it from the server's folder for data.",
        )


def _too_wide() -> ParameterError:
    return ParameterError(
        "upload_invalid",
        f"The table has more than {MOST_COLUMNS:,} columns. Send those that matter.",
    )
