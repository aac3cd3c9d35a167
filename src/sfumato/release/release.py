"""A release: what leaves the building, with what it guarantees and where it came from.

Beside its tables lie two files (decision 0190). `OUT.json` travels with them: it is a function of
what was released and of public facts alone. `OUT.holder.json` stays: it has what tells of rows that
were not released, and only its owner can read it.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from sfumato import __version__
from sfumato.engines.files.csv import CsvFile
from sfumato.engines.files.output import format_of
from sfumato.engines.kinds import STORED, kinds_of
from sfumato.errors import OutputError, SourceError
from sfumato.files import check_apart, check_target, whole
from sfumato.schema.column import Kind
from sfumato.texts import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa

Json = Any
"""Whatever JSON can hold."""

_FORMAT = 2
_TOLD_OF_OLD = {"rows", "suppressed", "levels", "reference"}
"""What side-cars of format 1 told of the original among the parameters of a syntactic guarantee."""


@dataclass(frozen=True)
class Guarantee:
    """What a release promises: one sentence for people, parameters for programs."""

    kind: str
    statement: str
    parameters: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """Where a release came from; the fingerprint is that of the original, keyed, or empty."""

    method: str
    parameters: Mapping[str, Json]
    fingerprint: str
    version: str = __version__


@dataclass(frozen=True)
class Release:
    """One or more tables with their guarantee, provenance, expected error and receipt.

    `holder` has what only the holder of the original may see, as JSON. Where there is such a thing,
    the error and the fingerprint are about the original too, and do not travel either.
    """

    tables: Mapping[str, pa.Table]
    guarantee: Guarantee
    provenance: Provenance
    error: Mapping[str, Json] | None = None
    receipt: str | None = None
    holder: Mapping[str, Json] | None = None
    kept: tuple[Path, ...] = field(default=(), kw_only=True, compare=False, repr=False)
    """Files that it was made from, which saving must not replace."""

    @property
    def table(self) -> pa.Table:
        """The released table, the first where there are several."""
        return next(iter(self.tables.values()))

    @property
    def public(self) -> Release:
        """The same as a receiver has it: without what stays with the holder."""
        if self.holder is None:
            return self
        unmarked = replace(self.provenance, fingerprint="")
        return replace(self, provenance=unmarked, error=None, holder=None)

    def to_pandas(self) -> pd.DataFrame:
        """The released table for pandas."""
        return self.table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The released table for polars."""
        import polars as pl

        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def save(self, path: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write each table and, beside it, what it is; return the paths that travel.

        Several tables go into a directory, one Parquet file each; so does a single one where the
        path has no ending. The side-car is the last of the paths; what stays with the holder is
        beside, in a file for its owner alone.
        """
        target = Path(path)
        check_places(target, list(self.tables), overwrite=overwrite, kept=self.kept)
        places, beside = _places(target, list(self.tables))
        if beside.parent == target:
            target.mkdir(exist_ok=True)
        mine = holder_file(target)
        if self.holder is not None:
            check_target(mine, overwrite=overwrite, kept=self.kept)
        with ExitStack() as stack:
            # The first to be opened is the last to appear: a table is no release without them.
            told = stack.enter_context(whole(beside, overwrite=overwrite))
            saved = []
            if self.holder is not None:
                mine = stack.enter_context(whole(mine, overwrite=overwrite, private=True))
            for name, place in places.items():
                written = stack.enter_context(whole(place, overwrite=overwrite))
                with written.open("wb") as stream:
                    format_of(place)(self.tables[name].to_reader(), stream)
                kinds = kinds_of(self.tables[name].schema)
                saved.append(Saved(name, place.name, checksum(written), kinds))
            told.write_text(describe(saved, self), encoding="utf-8")
            if self.holder is not None:
                mine.write_text(describe_to_holder(saved, self), encoding="utf-8")
        return [*places.values(), beside]

    def report(self, path: str | Path, *, public: bool = False, overwrite: bool = False) -> None:
        """Write a page for people: what is guaranteed, what it cost, where it came from.

        It is the holder's, whose eyes alone it is for, where it tells of the original; a public
        one may travel.
        """
        from sfumato.report.release import page

        check_target(Path(path), overwrite=overwrite, kept=self.kept)
        private = self.holder is not None and not public
        with whole(Path(path), overwrite=overwrite, private=private) as temporary:
            temporary.write_text(page(self.public if public else self), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a saved release; a table that was changed since is refused.

        What stays with the holder is read where it is beside the release.
        """
        target = Path(path)
        try:
            described = json.loads(sidecar(target).read_text(encoding="utf-8"))
            recorded = described["tables"]
            guarantee = Guarantee(**described["guarantee"])
            provenance = Provenance(**described["provenance"])
        except (OSError, ValueError, KeyError, TypeError):
            raise SourceError(
                "release_unreadable",
                f"'{target}' has no readable side-car '{sidecar(target).name}' beside it, so it is "
                "no release of Sfumato. Name the file or directory that save() was given.",
            ) from None
        folder = target if target.is_dir() else target.parent
        tables = {}
        for entry in recorded:
            place = folder / Path(entry["file"]).name
            if not place.is_file() or checksum(place) != entry["sha256"]:
                raise SourceError(
                    "release_changed",
                    f"'{place}' is not the file that was released. Put the original back.",
                )
            tables[entry["name"]] = _read(place, entry["columns"])
        loaded = cls(tables, guarantee, provenance, described["error"], described["receipt"])
        if described.get("format") == 1 and guarantee.kind == "syntactic":
            return _parted(loaded)
        return _with_kept(loaded, holder_file(target), {one["sha256"] for one in recorded})


def _parted(old: Release) -> Release:
    """A release of format 1, whose one side-car told everything."""
    facts = dict(old.guarantee.parameters)
    told = {name: facts.pop(name) for name in _TOLD_OF_OLD & facts.keys()}
    reference = told.pop("reference", {})
    travels = replace(old.guarantee, parameters=facts)
    return replace(old, guarantee=travels, holder={"figures": told, "reference": reference})


def _with_kept(release: Release, path: Path, checksums: set[str]) -> Release:
    """The release with what its holder keeps, where that is at hand; another's is left alone."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if set(kept.pop("tables").values()) != checksums:
            return release
        provenance = replace(release.provenance, fingerprint=kept.pop("fingerprint"))
        error = kept.pop("error")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return release
    holder = {name: one for name, one in kept.items() if name not in ("format", "stays")}
    return replace(release, provenance=provenance, error=error, holder=holder)


def check_places(
    path: Path, names: Sequence[str], *, overwrite: bool = False, kept: Iterable[Path] = ()
) -> None:
    """Refuse early a place where tables of these names, and their side-car, cannot be saved."""
    places, beside = _places(path, names)
    if _is_file(path):
        format_of(path)
    if beside.parent == path and not _is_folder(path):
        if os.path.lexists(path):
            raise OutputError(
                "output_not_a_directory",
                f"Cannot write '{path}': {len(names)} tables go into a directory, and there is a "
                "file of that name. Choose another name.",
            )
        if path.suffix:
            raise OutputError(
                "output_of_several",
                f"Cannot write '{path}': the release has {len(names)} tables, which go into a "
                "folder and not into one file. Give a name without an ending, e.g. "
                f"'{path.with_name(path.name.partition('.')[0])}'.",
            )
        # A folder is made, for which there must be nothing in the way.
        for place in (path, *(path.with_name(place.name) for place in places.values())):
            check_target(place, overwrite=place != path)
    else:
        for place in (*places.values(), beside):
            check_target(place, overwrite=overwrite)
    for place in (path, *places.values(), beside):
        check_apart(place, kept)


def _places(path: Path, names: Sequence[str]) -> tuple[dict[str, Path], Path]:
    """Where each table goes, and the side-car."""
    if len(names) == 1 and _is_file(path):
        return dict.fromkeys(names, path), path.with_name(path.name + ".json")
    # Names come from columns, which may hold anything, a path's separator too.
    inside = {name: path / f"{quote(name, safe=' ,')}.parquet" for name in names}
    return inside, path / "release.json"


def _is_file(path: Path) -> bool:
    return bool(path.suffix) and not _is_folder(path)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long to ask about
        return False


class Saved(NamedTuple):
    """A table of a release as it lies in a file."""

    name: str
    file: str
    sha256: str
    columns: Mapping[str, Kind]


def describe(saved: Sequence[Saved], release: Release) -> str:
    """The side-car of a saved release, which lets it be loaded again and tells what it is."""
    travels = release.public
    return _json(
        {
            "format": _FORMAT,
            "tables": [table._asdict() for table in saved],
            "guarantee": asdict(travels.guarantee),
            "provenance": asdict(travels.provenance),
            "error": travels.error,
            "receipt": travels.receipt,
        }
    )


def describe_to_holder(saved: Sequence[Saved], release: Release) -> str:
    """What stays with the holder of a saved release, for a file that never travels."""
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


def sidecar(path: Path) -> Path:
    """Where the description of a saved release lies."""
    return path / "release.json" if _is_folder(path) else path.with_name(path.name + ".json")


def holder_file(path: Path) -> Path:
    """Where what stays with the holder of a saved release lies: never inside what travels."""
    return path.with_name(path.name + ".holder.json")


def _read(path: Path, columns: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import parquet

    if path.name.lower().endswith(".parquet"):
        return parquet.read_table(path)
    kinds = {name: Kind(kind) for name, kind in columns.items()}
    schema = pa.schema([(name, STORED[kind]) for name, kind in kinds.items()])
    with closing(CsvFile(path)) as file:
        return pa.Table.from_batches(file.read(kinds, ours=True), schema)


def checksum(path: Path) -> str:
    """The SHA-256 of a file, as the side-car of a release has it."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
