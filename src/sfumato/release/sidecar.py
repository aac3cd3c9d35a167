"""Side-cars: the description beside a saved release (decision `what-travels`).

`OUT.json` travels with the tables: it depends on released data and public facts alone.
`OUT.holder.json` stays: it has facts about rows that were not released, and only its owner can read
it. A release is complete once its side-car, which is written last, is there and has the checksums
of all its files; anything else is refused.

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
from sfumato.data.schema.layout import DEFAULT_LAYOUT, FileLayout, separator_of
from sfumato.errors import SchemaError, SourceError
from sfumato.filesystem import unfinished
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.data.schema.column import Kind
    from sfumato.release.release import Release

Json = Any
"""A value that JSON can hold."""

PART_FILES = "*.parquet"
"""The file name of a table that has several files."""
_FORMAT = 2
_UNUSUAL = ("layout", "parts", "table")
_HELD = ("tables", "guarantee", "provenance", "error", "receipt")


class Saved(NamedTuple):
    """A saved table of a release, in a file, in several files, or in an engine.

    For several files `file` is a pattern, and the checksum covers all; see `parts_checksum`. A
    table in an engine has no file, and its checksum is a fingerprint of its rows in any order.
    """

    name: str
    file: str
    sha256: str
    columns: Mapping[str, Kind]
    written: Mapping[str, Mapping[str, Json]]
    """The spelling of columns in a text file, by the keys of a schema."""
    layout: FileLayout = DEFAULT_LAYOUT
    parts: Sequence[str] = ()
    table: Mapping[str, Json] | None = None
    """The engine, the table's name there, and its rows."""

    def entry(self) -> dict[str, Json]:
        """Return its entry in a side-car, without usual values."""
        entry = self._asdict() | {"layout": self.layout.facts(), "parts": list(self.parts)}
        return {key: value for key, value in entry.items() if value or key not in _UNUSUAL}


def sidecar_file(path: Path) -> Path:
    """Return the path of the side-car of a saved release."""
    return path / SIDECAR_NAME if is_folder(path) else path.with_name(path.name + ".json")


def holder_file(path: Path) -> Path:
    """Return the path of the holder's side-car, which is never inside the released folder."""
    return path.with_name(path.name + ".holder.json")


def is_folder(path: Path) -> bool:
    """Return whether there is a folder of that name."""
    try:
        return path.is_dir()
    except OSError:  # the name is too long for the file system
        return False


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def parts_checksum(checksums: Mapping[str, str]) -> str:
    """Return one checksum for all files of a table, from the name and checksum of each."""
    lines = (f"{digest}  {name}\n" for name, digest in sorted(checksums.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def describe(release: Release, saved: Sequence[Saved], files: Mapping[Path, str]) -> str:
    """Return the text of the side-car that travels with a saved release."""
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
    """Return the text of the side-car that stays with the holder."""
    return _json(
        {
            "format": _FORMAT,
            "stays": "This file has facts about rows that were not released. Do not share it.",
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

    Returns None without a side-car of Sfumato: the file is then a table like any other. Raises if a
    writing was interrupted there. A release of one file may have been renamed or copied with its
    side-car, which then describes the given file.
    """
    sidecar = _read_finished(path)
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
        raise _release_changed(path, path)
    tables = {Path(table["file"]).name for table in sidecar["tables"]}
    if not path.is_dir() and not tables <= {path.name}:  # the side-car describes other files
        raise unreadable(path)
    return sidecar


def read_table_sidecar(path: Path, engine: str) -> dict[str, Json] | None:
    """Read the side-car of a release that is a table of an engine."""
    sidecar = _read_finished(path)
    try:
        if sidecar is None or _marks(sidecar):
            return None
        [entry] = sidecar["tables"]
        return sidecar if entry["table"]["engine"] == engine else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _read_finished(path: Path) -> dict[str, Json] | None:
    if unfinished(path) or unfinished(sidecar_file(path)):  # a table has nothing else here
        raise SourceError(
            "release_unreadable",
            f"'{path}' is incomplete: it is still being written, or the writing was interrupted. "
            "Wait, or make the release again, which clears the remains.",
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
    """Return the layout of a released file; raise TypeError if the side-car was edited."""
    facts = dict(table.get("layout") or {})
    try:
        if "separator" in facts:
            facts["separator"] = separator_of(facts["separator"])
        return FileLayout(**facts)
    except (SchemaError, AttributeError, ValueError):
        raise TypeError from None


def layout_in_sidecar(file: Path) -> FileLayout | None:
    """Return the layout of a released file by its side-car; None without a side-car."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        sidecar = _read_own(release_of(file)) or {"tables": ()}
        tables = {Path(entry["file"]).name: entry for entry in sidecar["tables"]}
        # A release of one file may have been renamed with its side-car.
        [only] = tables.values() if len(tables) == 1 else [tables[file.name]]
        return layout_of(only)
    return None


def release_of(path: Path) -> Path:
    """Return the release that a path belongs to: itself, its link target, or its folder."""
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
    """Return the names of the files that a side-car lists."""
    return {*_marks(sidecar)}


def _read_own(path: Path) -> dict[str, Json] | None:
    """Read a side-car without checking files; None if it is not a side-car of Sfumato."""
    beside = sidecar_file(path)
    try:
        sidecar: Json = json.loads(beside.read_bytes()) if beside.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None
    ours = isinstance(sidecar, dict) and all(name in sidecar for name in _HELD)
    return sidecar if ours else None


def _marks(sidecar: Mapping[str, Json]) -> dict[str, str]:
    """Return each file of a release with its checksum.

    An edited side-car may hold anything, so every part is checked; a wrong shape raises ValueError,
    KeyError, TypeError or AttributeError.
    """
    guarantee, provenance = sidecar["guarantee"], sidecar["provenance"]
    # Later code relies on these being texts.
    texts = [guarantee["kind"], guarantee["statement"], provenance["method"]]
    texts += [] if sidecar["receipt"] is None else [sidecar["receipt"]]
    # And on these being mappings.
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
    """Return the error for a path without a release, or with an edited side-car."""
    return SourceError(
        "release_unreadable",
        f"'{path}' has no readable side-car '{sidecar_file(path).name}' beside it, so it is not a "
        "release of Sfumato. Name the file or directory that save() wrote.",
    )


def _elsewhere(path: Path, sidecar: Mapping[str, Json]) -> SourceError:
    lies = next(entry["table"] for entry in sidecar["tables"] if entry.get("table"))
    return SourceError(
        "release_unreadable",
        f"The release '{path}' is the table {lies['name']!r} of {lies['engine']}, not a file. "
        f"Read it there, by an address that ends in #{lies['name']}.",
    )


def _is(path: Path, mark: str) -> bool:
    return path.is_file() and checksum(path) == mark


def _check_file(path: Path, name: str, mark: str) -> None:
    file = (path if path.is_dir() else path.parent) / name
    try:
        missing = not file.is_file()
    except OSError:  # the name is too long for the file system
        missing = True
    if missing:
        raise SourceError(
            "release_unreadable",
            f"'{path}' is incomplete: its side-car '{sidecar_file(path).name}' lists a file "
            f"'{name}', which is missing. Put it back, or make the release again.",
        )
    if checksum(file) != mark:
        raise _release_changed(path, file)


def _release_changed(path: Path, file: Path) -> SourceError:
    return SourceError(
        "release_changed",
        f"'{file}' was changed after its release: it differs from what its side-car "
        f"'{sidecar_file(path).name}' describes. Put the released one back; or, to read it as a "
        "table like any other, move the side-car away.",
    )
