"""A stored release: its metadata, and its files for download.

Local vault and HTTP client share `AnyRelease`. Tables are written by the same writer as `save`, so
a file is the same by every door. No file holds what only the holder of the original may see.
"""

from __future__ import annotations

import zipfile
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.filesystem import Scratch, check_target, temporary_folder, whole
from sfumato.methods.publish.box_maps import smallest, to_geojson
from sfumato.release.output import output_files
from sfumato.report.display import Card, CardTable, Shown
from sfumato.text import dumps
from sfumato.vault.publications import Published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sfumato.release.release import Release


@dataclass(frozen=True, repr=False)
class AnyRelease(Shown, ABC):
    """A stored release, for the principal it was made for and for those it was opened to."""

    id: str
    family: str
    dataset: str
    made: str | None
    is_own: bool
    principal: str | None = None
    """The principal it was made for; only that principal and the vault's owner see it."""
    opened_to: tuple[str, ...] | None = None
    """Its readers; only the vault's owner sees them."""

    @property
    @abstractmethod
    def release(self) -> Release:
        """The release itself with its tables, guarantee and errors."""

    @abstractmethod
    def file(self, name: str) -> ReleaseFile:
        """One of its files, by name."""

    def save(self, path: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write it in the form of the ending: tables as `Release.save`, .arrow, .html or .zip."""
        target = arguments.path(path, "path")
        kind = {".html": "report.html", ".zip": "release.zip", ".arrow": "release.arrow"}
        name = kind.get(target.suffix.lower())
        if name is None:
            return self.release.public.save(target, overwrite=overwrite)
        file = self.file(name)
        check_target(target, overwrite=overwrite, kept=self.release.kept)
        with whole(target, overwrite=overwrite) as new:
            new.write_bytes(file.content)
        return [target]

    def to_json(self) -> dict[str, Any]:
        """Its metadata, without reading the release."""
        record: dict[str, Any] = {
            "release": self.id,
            "family": self.family,
            "dataset": self.dataset,
            "made": self.made,
            "own": self.is_own,
        }
        if self.principal is not None:
            record["principal"] = self.principal
        if self.opened_to is not None:
            record["opened_to"] = list(self.opened_to)
        return record

    def _card(self) -> Card:
        to = {} if self.opened_to is None else {"Open to": ", ".join(self.opened_to) or "nobody"}
        facts = {"Made": self.made or "", **to}
        return Card(f"{self.id}, {self.family} of {self.dataset}", facts)


_STEM = "release"
_PAGE, _BUNDLE, _MAP = "report.html", f"{_STEM}.zip", f"{_STEM}.geojson"
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a bundle, so that the same release gives the same bytes."""
MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "geojson": "application/geo+json",
    "html": "text/html; charset=utf-8",
    "zip": "application/zip",
}
"""The kinds of files by their endings."""


class AnyReleases(Shown, ABC):
    """The releases that jobs of a vault have produced, local or behind a server."""

    @abstractmethod
    def list(self, *, principal: str | None = None) -> Sequence[AnyRelease]:
        """List the newest releases that a principal may download, the last first."""

    def _card(self) -> Card:
        rows = [
            (release.id, release.family, release.dataset, release.made) for release in self.list()
        ]
        table = CardTable(("Release", "What", "Data set", "Made"), rows[:10], len(rows[10:]))
        return Card(f"{len(rows)} kept", {}, table if rows else None)


@dataclass(frozen=True)
class ReleaseFile:
    """A file of a release: its name, media type and content."""

    name: str
    media: str
    content: bytes


def file_names(release: Release) -> tuple[str, ...]:
    """The names of a release's files. They depend on its form and not on its figures."""
    return tuple(_makers(release))


def rendered(release: Release, name: str) -> ReleaseFile:
    """Render one of the files of a release."""
    makers = _makers(release)
    if name not in makers:
        raise ParameterError(
            "release_unknown",
            f"This release has no file {quoted(name)}; {suggestion(name, makers)}",
        )
    return ReleaseFile(name, MEDIA[name.rpartition(".")[2]], makers[name]())


def _makers(release: Release) -> dict[str, Callable[[], bytes]]:
    shown, makers = release.public, {}
    for table, stem in _stems(shown).items():
        for ending in ("csv", "parquet"):
            makers[f"{stem}.{ending}"] = _saved_maker(shown, table, ending)
        makers[f"{stem}.arrow"] = _arrow_maker(shown, table)
    if isinstance(shown, Published) and (boxes := _map_boxes(shown)) is not None:
        axes = shown.publication.request.axes
        makers[_MAP] = lambda: dumps(to_geojson(boxes, axes)).encode()
    makers[_PAGE] = lambda: _page(shown)
    makers[_BUNDLE] = lambda: _bundle(shown)
    return makers


def _stems(release: Release) -> dict[str, str]:
    """By table, the name of its file without the ending."""
    names = list(release.tables)
    if len(names) == 1:
        return {names[0]: _STEM}
    # Names come from columns, which may hold anything, a path's separator too.
    return {name: quote(name, safe=" ,") for name in names}


def _saved_maker(release: Release, table: str, ending: str) -> Callable[[], bytes]:
    def render() -> bytes:
        with _scratch() as folder:
            target = folder / f"{_STEM}.{ending}"
            release.save(target)
            saved = output_files(target, list(release.tables))
            inside = saved.path if saved.several else saved.path.parent
            return (inside / saved.files[table]).read_bytes()

    return render


def _arrow_maker(release: Release, table: str) -> Callable[[], bytes]:
    def render() -> bytes:
        sink, rows = pa.BufferOutputStream(), release.tables[table]
        with pa.ipc.new_file(sink, rows.schema) as stream:
            stream.write_table(rows)
        return bytes(sink.getvalue())

    return render


def _map_boxes(published: Published) -> pa.Table | None:
    """The boxes of a map; None unless they lie in two columns of numbers or dates."""
    request = published.publication.request
    boxes = smallest(published.tables, request.columns)
    if boxes is None or len(request.axes) != 2:
        return None
    kinds = [boxes.column(f"{column}_low").type for column in request.columns]
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_date)
    return boxes if all(any(test(kind) for test in tests) for kind in kinds) else None


def _page(release: Release) -> bytes:
    from sfumato.release.page import page  # templates are loaded when a page is asked for

    return page(release).encode()


def _bundle(release: Release) -> bytes:
    """All tables as CSV, the side-car and the page, in one ZIP file."""
    packed = BytesIO()
    with (
        _scratch() as folder,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle,
    ):
        release.save(folder / f"{_STEM}.csv", report=folder / _PAGE)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            # Fixed time and mode: nothing of this machine, and the same bytes each time.
            about = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _EARLIEST)
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            bundle.writestr(about, path.read_bytes())
    return packed.getvalue()


@contextmanager
def _scratch() -> Iterator[Path]:
    """A temporary folder for one release, in a locked one that no other process sweeps."""
    with Scratch(temporary_folder(), "sfumato-") as outer:
        folder = outer / _STEM
        folder.mkdir()
        yield folder
