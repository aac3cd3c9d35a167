"""A release: what leaves the building, with what it guarantees and where it came from."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from sfumato import __version__
from sfumato.engines.files.csv import CsvFile
from sfumato.engines.files.output import format_of, write_file
from sfumato.engines.kinds import STORED, kinds_of
from sfumato.errors import SourceError
from sfumato.files import check_apart, check_target, write_text
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa

Json = Any
"""Whatever JSON can hold."""

_FORMAT = 1


@dataclass(frozen=True)
class Guarantee:
    """What a release promises: one sentence for people, parameters for programs."""

    kind: str
    statement: str
    parameters: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """Where a release came from. The fingerprint is keyed: it tells outsiders nothing."""

    method: str
    parameters: Mapping[str, Json]
    fingerprint: str
    version: str = __version__


@dataclass(frozen=True)
class Release:
    """One or more tables with their guarantee, provenance, expected error and receipt."""

    tables: Mapping[str, pa.Table]
    guarantee: Guarantee
    provenance: Provenance
    error: Mapping[str, Json] | None = None
    receipt: str | None = None
    kept: tuple[Path, ...] = field(default=(), kw_only=True, compare=False, repr=False)
    """Files that it was made from, which saving must not replace."""

    @property
    def table(self) -> pa.Table:
        """The released table, the first where there are several."""
        return next(iter(self.tables.values()))

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
        """Write each table and, beside it, what it is; return the paths, the side-car last.

        Several tables go into a directory, one Parquet file each; so does a single one where the
        path has no ending.
        """
        target = Path(path)
        check_place(target, overwrite=overwrite, kept=self.kept)
        if len(self.tables) == 1 and _is_file(target):
            places = dict.fromkeys(self.tables, target)
        else:
            target.mkdir(exist_ok=True)
            # Names come from columns, which may hold anything, a path's separator too.
            places = {name: target / f"{quote(name, safe=' ,')}.parquet" for name in self.tables}
        beside = sidecar(target)
        for place in (*places.values(), beside):
            check_target(place, overwrite=overwrite, kept=self.kept)
        for name, place in places.items():
            write_file(self.tables[name].to_reader, place, overwrite=overwrite)
        saved = [
            Saved(name, place.name, checksum(place), kinds_of(self.tables[name].schema))
            for name, place in places.items()
        ]
        text = describe(saved, self.guarantee, self.provenance, self.error, self.receipt)
        write_text(beside, text, overwrite=overwrite)
        return [*places.values(), beside]

    def report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a page for people: what is guaranteed, what it cost, where it came from."""
        from sfumato.report.release import page

        check_target(Path(path), overwrite=overwrite, kept=self.kept)
        text = page(self.guarantee, self.provenance, self.error, self.tables)
        write_text(Path(path), text, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a saved release; a table that was changed since is refused."""
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
        return cls(tables, guarantee, provenance, described["error"], described["receipt"])


def check_place(path: Path, *, overwrite: bool = False, kept: Iterable[Path] = ()) -> None:
    """Refuse early a place where no release can be saved, however many tables it has."""
    if _is_file(path):
        format_of(path)
        check_target(path, overwrite=overwrite)
    elif not path.is_dir():
        # A folder is made, for which there must be nothing in the way.
        check_target(path)
    for place in (path, sidecar(path)):
        check_apart(place, kept)


def _is_file(path: Path) -> bool:
    return bool(path.suffix) and not path.is_dir()


class Saved(NamedTuple):
    """A table of a release as it lies in a file."""

    name: str
    file: str
    sha256: str
    columns: Mapping[str, Kind]


def describe(
    saved: Sequence[Saved],
    guarantee: Guarantee,
    provenance: Provenance,
    error: Mapping[str, Json] | None = None,
    receipt: str | None = None,
) -> str:
    """The side-car of a saved release, which lets it be loaded again and tells what it is."""
    description = {
        "format": _FORMAT,
        "tables": [table._asdict() for table in saved],
        "guarantee": asdict(guarantee),
        "provenance": asdict(provenance),
        "error": error,
        "receipt": receipt,
    }
    return json.dumps(description, indent=2, ensure_ascii=False) + "\n"


def sidecar(path: Path) -> Path:
    """Where the description of a saved release lies."""
    return path / "release.json" if path.is_dir() else path.with_name(path.name + ".json")


def _read(path: Path, columns: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import parquet

    if path.name.lower().endswith(".parquet"):
        return parquet.read_table(path)
    kinds = {name: Kind(kind) for name, kind in columns.items()}
    schema = pa.schema([(name, STORED[kind]) for name, kind in kinds.items()])
    with closing(CsvFile(path)) as file:
        return pa.Table.from_batches(file.read(kinds), schema)


def checksum(path: Path) -> str:
    """The SHA-256 of a file, as the side-car of a release has it."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
