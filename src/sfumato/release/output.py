"""The output of a release, a file, a folder or a table of an engine, and whether it is allowed.

One table goes into the file that is named, several go into a folder.

Decision `writing-releases`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sfumato.data.engines.base import FolderTarget, TableTarget
from sfumato.data.files.writers import SIDECAR_NAME, format_of
from sfumato.errors import OutputError, SourceError, option
from sfumato.filesystem import check_apart, check_target, sweep
from sfumato.release.files_in_use import vault_files_around
from sfumato.release.sidecar import (
    holder_file,
    is_folder,
    read_sidecar,
    release_files,
    sidecar_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.data.engines.base import Target
    from sfumato.release.writer import ReleaseWriter

_NAME_PART = re.compile(r'"(?:[^"\0]|"")+"|\w+')
"""A part of the name of a table: quoted, or letters, digits and _."""
_DEEPEST = 3
"""Catalog, schema and name: no engine has more parts."""


@dataclass(frozen=True)
class OutputFiles:
    """The file or folder of a release, and the file of each of its tables."""

    path: Path
    several: bool
    files: dict[str, str]

    @property
    def written(self) -> list[Path]:
        """Every path that is written, the side-car last."""
        folder = self.path if self.several else self.path.parent
        beside = SIDECAR_NAME if self.several else f"{self.path.name}.json"
        return [folder / file for file in (*self.files.values(), beside)]


@dataclass(frozen=True)
class Output:
    """The target of a release: a file, a folder of Parquet files, or a table."""

    target: Target

    @classmethod
    def parse(cls, text: str | Path) -> Output:
        """Read a path, OUT/ for a folder, or table:NAME for a table in the engine of the data."""
        if isinstance(text, Path):
            return cls(text)
        scheme, _, name = text.partition(":")
        if scheme == "table":
            return cls(_table_named(name))
        if name.startswith("//"):
            raise OutputError(
                "output_unwritable",
                f"Cannot write '{text}': the side-car of a release lies in its folder, so the "
                "folder must be on this machine. Name a local folder, such as OUT/, or a table "
                "beside the data, table:NAME.",
            )
        if text.endswith("/") and text.strip("/"):
            return cls(FolderTarget(text.rstrip("/")))
        return cls(Path(text))

    @property
    def path(self) -> Path:
        """The path after which side-cars are named; for a table its name in this directory."""
        if isinstance(self.target, TableTarget):
            return Path(quote(str(self.target), safe=" ,"))
        return Path(self.target.path) if isinstance(self.target, FolderTarget) else self.target

    @property
    def is_table(self) -> bool:
        """Whether it is a table of the engine that has the data."""
        return isinstance(self.target, TableTarget)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder that the engine writes."""
        return isinstance(self.target, FolderTarget)

    @property
    def by_engine(self) -> bool:
        """Whether the engine writes it, so that rows do not pass through this process."""
        return not isinstance(self.target, Path)

    def in_words(self, *, tables: int = 1) -> str:
        """Return the output in words."""
        if self.is_table:
            return f"the table {self.target}, and its side-car {self.path.name}.json"
        if self.is_folder:
            return f"the folder {self.path} of Parquet files"
        return f"the folder {self.path} with two tables" if tables > 1 else str(self.path)


def _table_named(name: str) -> TableTarget:
    pieces = re.findall(_NAME_PART, name)
    if pieces and len(pieces) <= _DEEPEST and ".".join(pieces) == name:
        names = (piece[1:-1].replace('""', '"') if piece[0] == '"' else piece for piece in pieces)
        return TableTarget(*reversed([*names]))
    raise OutputError(
        "address_malformed",
        f"Cannot read {name!r} as the name of a table. Write table:NAME or table:SCHEMA.NAME.",
    )


def output_files(path: Path, names: Sequence[str]) -> OutputFiles:
    """Return the files of the tables of these names, for an output at `path`.

    One table goes into the file. Several go into a folder with the name of the path without its
    ending, and each file has that ending. Without an ending every table is a Parquet file in the
    folder.
    """
    if not path.suffix or is_folder(path):
        return OutputFiles(path, True, _files(names, ".parquet"))
    format_of(path)  # refuses unknown endings
    if len(names) == 1:
        return OutputFiles(path, False, dict.fromkeys(names, path.name))
    ending = "".join(path.suffixes[-2 if path.suffix.lower() == ".gz" else -1 :])
    return OutputFiles(path.with_name(path.name.removesuffix(ending)), True, _files(names, ending))


def _files(names: Sequence[str], ending: str) -> dict[str, str]:
    # Names come from columns, which may hold anything, a path's separator too.
    return {name: f"{quote(name, safe=' ,')}{ending}" for name in names}


def check_places(
    path: Path, names: Sequence[str], *, overwrite: bool = False, kept: Iterable[Path] = ()
) -> OutputFiles:
    """Return the files of tables and their side-car; raise early if they cannot be written."""
    files = output_files(path, names)
    if files.several and not is_folder(files.path):
        if os.path.lexists(files.path):
            raise OutputError(
                "output_unwritable",
                f"Cannot write '{files.path}': {len(names)} tables go into a directory, and a file "
                "of that name exists. Choose another name.",
            )
        # The folder is new, so nothing may exist at its path.
        for target in (files.path, *(files.path.with_name(file) for file in files.files.values())):
            check_target(target, overwrite=target != files.path)
    else:
        for target in files.written:
            check_target(target, overwrite=overwrite)
    new_folder = files.several and not is_folder(files.path)
    for target in (files.path, *files.written):
        check_apart(target, kept, folder=new_folder and target == files.path)
    return files


def digests_by_name(writer: ReleaseWriter) -> dict[str, str]:
    """Return the SHA-256 of each file of a release, by its name beside the release."""
    inside = f"{writer.path.name}/" if writer.several else ""
    return {f"{inside}{file.name}": mark for file, mark in writer.files.items()}


def check_outputs(
    out: Output | Path,
    *pages: Path | None,
    several: bool,
    overwrite: bool,
    kept: Sequence[Path] = (),
) -> None:
    """Raise if an output cannot be written, before any work is done; `kept` are files in use.

    The engine checks the name of a table itself; here only the files beside it are checked.
    """
    output = out if isinstance(out, Output) else Output(out)
    path, several = output.path, several or output.is_folder
    targets = [holder_file(path), *(page for page in pages if page is not None)]
    if several:
        if overwrite:
            # Replacing a folder removes all in it, so nothing in use may lie inside.
            check_apart(path, (*kept, *vault_files_around(path)), with_all_in_it=True)
        _check_folder(path, overwrite=overwrite)
        _check_outside(path, targets)
    elif output.is_table:
        targets = [path.with_name(f"{path.name}.json"), *targets]
    else:
        format_of(path)
        targets = [path, sidecar_file(path), *targets]
    for target in targets:
        check_target(target, overwrite=overwrite)
    # Real paths: two names may lead to one file through a link.
    if len({os.path.realpath(target) for target in targets}) < len(targets):
        raise OutputError(
            "outputs_same",
            "Two outputs would be the same file: the release, its side-cars and each report need "
            "different names. Choose another name.",
        )
    for target in {path, sidecar_file(path), *targets}:
        in_use = (*kept, *vault_files_around(target))
        check_apart(target, in_use, with_all_in_it=several and target == path)


def _check_outside(folder: Path, pages: Sequence[Path]) -> None:
    """Refuse pages inside the directory of the release, which is replaced as a whole."""
    real = Path(os.path.realpath(folder))
    for page in pages:
        if real in (final := Path(os.path.realpath(page))).parents or real == final:
            raise OutputError(
                "outputs_same",
                f"Cannot write '{page}': '{folder}' is the release, and only its tables may be in "
                "it. Choose a name outside it.",
            )


def _check_folder(path: Path, *, overwrite: bool) -> None:
    """Refuse a directory that exists, unless `overwrite` is set and it holds a release."""
    if path.is_dir() and not overwrite and any(path.iterdir()):
        raise OutputError(
            "output_exists",
            f"Cannot write '{path}': it exists. Choose another name or pass "
            f"{option('overwrite', True)}.",
        )
    if path.is_dir():
        check_replaceable(path)
    if os.path.lexists(path) and not path.is_dir():
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': this release is a directory, and a file of that name exists. "
            "Choose another name.",
        )
    if not path.parent.is_dir():
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': there is no directory '{path.parent}'. Create it first.",
        )


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a directory that holds anything but a whole release and its side-car."""
    # Files of an interrupted writing are no reason to refuse: they are cleared first.
    for directory in (folder.parent, folder):
        sweep(directory, again=True)
    try:
        sidecar = read_sidecar(folder)
    except SourceError:
        sidecar = None
    present = {entry.name for entry in folder.iterdir()}
    if present and (sidecar is None or present != {*release_files(sidecar), SIDECAR_NAME}):
        raise OutputError(
            "output_not_a_release",
            f"Cannot replace the directory '{folder}': it holds something other than a release. "
            "Choose another name.",
        )
