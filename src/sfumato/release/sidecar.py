"""Side-cars: the description that lies beside a saved release (decision `what-travels`).

`OUT.json` travels with the tables: it is a function of what was released and of public facts alone.
`OUT.holder.json` stays: it has what tells of rows that were not released, and only its owner can
read it. A release stands once its side-car, which is written last, is there and has the checksums
of all its files; whatever else lies there is refused.

Decision `writing-releases`.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.data.files.writers import SIDECAR_NAME
from sfumato.data.schema.layout import USUAL, FileLayout, separator_of
from sfumato.errors import SchemaError, SourceError
from sfumato.filesystem import unfinished
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.data.schema.column import Kind
    from sfumato.release.release import Release

Json = Any
"""Whatever JSON can hold."""

PART_FILES = "*.parquet"
"""What stands for the files of a table that has several."""
_FORMAT = 2
_UNUSUAL = ("layout", "parts", "table")
_HELD = ("tables", "guarantee", "provenance", "error", "receipt")


class Saved(NamedTuple):
    """A table of a release as it lies in a file, in several, or where the data lies.

    Of several files `file` is the pattern, and the checksum that of all; see `parts_checksum`. Of
    a table in an engine there is no file, and the checksum is that of its rows in any order.
    """

    name: str
    file: str
    sha256: str
    columns: Mapping[str, Kind]
    written: Mapping[str, Mapping[str, Json]]
    """How columns are spelled in a file of text: the keys of a schema."""
    layout: FileLayout = USUAL
    parts: Sequence[str] = ()
    table: Mapping[str, Json] | None = None
    """The engine, the table's name there, and its rows."""

    def entry(self) -> dict[str, Json]:
        """Its entry in a side-car; usual values are left out."""
        entry = self._asdict() | {"layout": self.layout.facts(), "parts": list(self.parts)}
        return {key: value for key, value in entry.items() if value or key not in _UNUSUAL}


def sidecar_file(path: Path) -> Path:
    """Where the description of a saved release lies."""
    return path / SIDECAR_NAME if is_folder(path) else path.with_name(path.name + ".json")


def holder_file(path: Path) -> Path:
    """Where what stays with the holder of a saved release lies: never inside what travels."""
    return path.with_name(path.name + ".holder.json")


def is_folder(path: Path) -> bool:
    """Whether there is a folder of that name."""
    try:
        return path.is_dir()
    except OSError:  # a name that is too long to ask about
        return False


def checksum(path: Path) -> str:
    """The SHA-256 of a file, as the side-car of a release has it."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def parts_checksum(checksums: Mapping[str, str]) -> str:
    """One checksum for all files of a table, from the checksum of each, by its name."""
    lines = (f"{digest}  {name}\n" for name, digest in sorted(checksums.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def describe(release: Release, saved: Sequence[Saved], files: Mapping[Path, str]) -> str:
    """The text of the side-car that travels with a saved release."""
    travels = release.public
    return _json(
        {
            "format": _FORMAT,
            "tables": [table.entry() for table in saved],
            "guarantee": asdict(travels.guarantee),
            "provenance": asdict(travels.provenance),
            "error": travels.error,
            "receipt": travels.receipt,
            "files": {
                file.name: {"sha256": mark, "bytes": file.stat().st_size}
                for file, mark in files.items()
            },
        }
    )


def describe_to_holder(release: Release, saved: Sequence[Saved]) -> str:
    """The text of the side-car that stays with the holder."""
    return _json(
        {
            "format": _FORMAT,
            "stays": "This file tells of rows that were not released. Keep it; do not send it.",
            "tables": {table.name: table.sha256 for table in saved},
            "fingerprint": release.provenance.fingerprint,
            "error": release.error,
            **(release.holder or {}),
        }
    )


def _json(described: Mapping[str, Json]) -> str:
    return dumps(described, indent=2, ensure_ascii=False) + "\n"


def read_sidecar(path: Path) -> dict[str, Json] | None:
    """Read the side-car of a release, and check all files against it.

    Without a side-car of ours there is nothing to be said, unless a writing was broken off there:
    the file of somebody else is a table like any other. A release of one file may have been renamed
    or copied with its side-car; what the side-car tells of is then the file that was asked for.
    """
    sidecar = _finished(path)
    if sidecar is None:
        return None
    try:
        # Reading the shape first makes an edited side-car fail here, before any file is trusted.
        marks = _marks(sidecar)
        if any(entry.get("table") for entry in sidecar["tables"]):
            raise _elsewhere(path, sidecar)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise unreadable(path) from None
    if path.is_dir() or path.name in marks:
        for name, mark in marks.items():
            _check_file(path, name, mark)
    elif len(marks) == 1 and _is(path, *marks.values()):  # a copy under another name
        sidecar["tables"] = [{**table, "file": path.name} for table in sidecar["tables"]]
    else:
        raise _changed(path, path)
    tables = {Path(table["file"]).name for table in sidecar["tables"]}
    if not path.is_dir() and not tables <= {path.name}:  # what is read is the file asked for
        raise unreadable(path)
    return sidecar


def read_table_sidecar(path: Path, engine: str) -> dict[str, Json] | None:
    """Read the side-car of a release that is a table of an engine."""
    sidecar = _finished(path)
    try:
        if sidecar is None or _marks(sidecar):
            return None
        [entry] = sidecar["tables"]
        return sidecar if entry["table"]["engine"] == engine else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _finished(path: Path) -> dict[str, Json] | None:
    if unfinished(path) or unfinished(sidecar_file(path)):  # a table has nothing else here
        raise SourceError(
            "release_unreadable",
            f"'{path}' is not all there: whoever writes it has not ended, or was ended. Wait for "
            "it, or make the release again, which clears what is left.",
        )
    sidecar = _read_own(path)
    if sidecar is not None and sidecar.get("format") != _FORMAT:
        raise SourceError(
            "release_unreadable",
            f"'{path}' was released by another version of Sfumato, as its side-car "
            f"'{sidecar_file(path).name}' says. Make the release again, or, to "
            "read it as a table like any other, move the side-car away.",
        )
    return sidecar


def layout_of(table: Mapping[str, Json]) -> FileLayout:
    """How a table of a release lies in its file; TypeError where the side-car was edited."""
    facts = dict(table.get("layout") or {})
    try:
        if "separator" in facts:
            facts["separator"] = separator_of(facts["separator"])
        return FileLayout(**facts)
    except (SchemaError, AttributeError, ValueError):
        raise TypeError from None


def layout_in_sidecar(file: Path) -> FileLayout | None:
    """The layout of a released file by its side-car; None where it has none."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        sidecar = _read_own(release_of(file)) or {"tables": ()}
        tables = {Path(entry["file"]).name: entry for entry in sidecar["tables"]}
        # A release of one file may have been renamed with its side-car.
        [only] = tables.values() if len(tables) == 1 else [tables[file.name]]
        return layout_of(only)
    return None


def release_of(path: Path) -> Path:
    """The release that a path is of: itself, what it links to, or a folder that tells of it."""
    real = Path(os.path.realpath(path))
    for candidate in (path, real):
        if sidecar_file(candidate).is_file():
            return candidate
    sidecar = None if is_folder(real) else _read_own(real.parent)
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        if sidecar is not None and real.name in _marks(sidecar):
            return real.parent
    return path


def release_files(sidecar: Mapping[str, Json]) -> set[str]:
    """The names of the files that a side-car lists."""
    return {*_marks(sidecar)}


def _read_own(path: Path) -> dict[str, Json] | None:
    """Read a side-car without checking files; None where the file is no side-car of Sfumato."""
    beside = sidecar_file(path)
    try:
        sidecar: Json = json.loads(beside.read_bytes()) if beside.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None
    ours = isinstance(sidecar, dict) and all(name in sidecar for name in _HELD)
    return sidecar if ours else None


def _marks(sidecar: Mapping[str, Json]) -> dict[str, str]:
    """Each file of a release and its checksum.

    A side-car that somebody edited may hold anything: what is of another shape raises.
    """
    guarantee, provenance = sidecar["guarantee"], sidecar["provenance"]
    texts = [guarantee["kind"], guarantee["statement"], provenance["method"]]
    texts += [] if sidecar["receipt"] is None else [sidecar["receipt"]]
    maps = [guarantee.get("parameters", {}), provenance["parameters"]]
    maps += [] if sidecar["error"] is None else [sidecar["error"]]
    files = dict((sidecar.get("files") or {}).items())
    for entry in sidecar["tables"]:
        texts += [entry["name"], entry["sha256"], *entry["columns"].values()]
        if entry.get("table"):
            texts += [entry["table"]["engine"], entry["table"]["name"]]
        elif entry.get("parts"):
            if entry["sha256"] != parts_checksum(
                {name: files[name]["sha256"] for name in entry["parts"]}
            ):
                raise ValueError
        elif files.setdefault(entry["file"], entry)["sha256"] != entry["sha256"]:
            raise ValueError
    marks = {Path(name).name: entry["sha256"] for name, entry in files.items()}
    if not all(isinstance(text, str) for text in (*texts, *marks.values())) or "" in marks:
        raise TypeError
    if not all(isinstance(mapping, dict) for mapping in maps):
        raise TypeError
    return marks


def unreadable(path: Path) -> SourceError:
    """The error for a path without a release, or with a side-car that was edited."""
    return SourceError(
        "release_unreadable",
        f"'{path}' has no readable side-car '{sidecar_file(path).name}' beside it, so it is no "
        "release of Sfumato. Name the file or directory that save() was given.",
    )


def _elsewhere(path: Path, sidecar: Mapping[str, Json]) -> SourceError:
    lies = next(entry["table"] for entry in sidecar["tables"] if entry.get("table"))
    return SourceError(
        "release_unreadable",
        f"The release '{path}' is the table {lies['name']!r} of {lies['engine']}, and no file. "
        f"Read it there, by an address that ends in #{lies['name']}.",
    )


def _is(path: Path, mark: str) -> bool:
    return path.is_file() and checksum(path) == mark


def _check_file(path: Path, name: str, mark: str) -> None:
    file = (path if path.is_dir() else path.parent) / name
    try:
        missing = not file.is_file()
    except OSError:  # a name that is too long to ask about
        missing = True
    if missing:
        raise SourceError(
            "release_unreadable",
            f"'{path}' is not all there: its side-car '{sidecar_file(path).name}' tells of a file "
            f"'{name}', which is missing. Put it back, or make the release again.",
        )
    if checksum(file) != mark:
        raise _changed(path, file)


def _changed(path: Path, file: Path) -> SourceError:
    return SourceError(
        "release_changed",
        f"'{file}' is not the file that was released: it is another than its side-car "
        f"'{sidecar_file(path).name}' tells of. Put the released one back; or, to read it as a "
        "table like any other, move the side-car away.",
    )
