"""Where a release goes: a file with its side-car, or a directory of several, all or nothing."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sfumato.engines.files.output import format_of
from sfumato.errors import OutputError
from sfumato.files import Scratch, check_apart, check_target, whole
from sfumato.release.in_use import vault_files_around
from sfumato.release.release import holder_file, sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def check_outputs(
    path: Path,
    *pages: Path | None,
    several: bool,
    overwrite: bool,
    kept: Sequence[Path] = (),
) -> None:
    """Refuse what cannot be written, before any work is done for it; `kept` is what is in use."""
    places = [holder_file(path), *(page for page in pages if page is not None)]
    if several:
        _check_folder(path, overwrite=overwrite)
    else:
        format_of(path)
        places = [path, sidecar(path), *places]
    for place in places:
        check_target(place, overwrite=overwrite)
    if len({os.path.realpath(place) for place in places}) < len(places):
        raise OutputError(
            "outputs_same",
            "Two outputs would be the same file: the release, what lies beside it and each report "
            "need names of their own. Choose another name.",
        )
    for place in {path, sidecar(path), *places}:
        check_apart(
            place, (*kept, *vault_files_around(place)), with_all_in_it=several and place == path
        )


@contextmanager
def place(path: Path, *, several: bool, overwrite: bool) -> Iterator[Path]:
    """Give a path of the same name to write a release and its side-car to.

    At the end both take their places; after a failure or an interruption nothing is left behind.
    """
    try:
        scratch = Scratch(path.parent, f".{path.name}.")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise OutputError("output_unwritable", f"Cannot write '{path}': {reason}.") from None
    written = scratch.path / path.name
    try:
        if several:
            written.mkdir()
            yield written
            _move_folder(written, path, scratch.path)
            return
        yield written
        # The first to be opened is the last to appear: what is told comes after what it is of.
        with (
            whole(sidecar(path), overwrite=overwrite) as told,
            whole(path, overwrite=overwrite) as final,
        ):
            sidecar(written).replace(told)
            written.replace(final)
    finally:
        scratch.close()


def _check_folder(path: Path, *, overwrite: bool) -> None:
    """A directory is replaced only when asked to and when it holds a release."""
    if path.is_dir() and not overwrite and any(path.iterdir()):
        raise OutputError(
            "output_exists",
            f"Cannot write '{path}': it exists. Choose another name or pass --overwrite.",
        )
    if path.is_dir() and any(path.iterdir()) and not sidecar(path).is_file():
        raise OutputError(
            "output_not_a_release",
            f"Cannot replace the directory '{path}': it holds something else than a release. "
            "Choose another name.",
        )
    if os.path.lexists(path) and not path.is_dir():
        raise OutputError(
            "output_not_a_directory",
            f"Cannot write '{path}': this release is a directory, and there is a file of that "
            "name. Choose another name.",
        )
    if not path.parent.is_dir():
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{path}': there is no directory '{path.parent}'. Create it first.",
        )


def _move_folder(written: Path, path: Path, scratch: Path) -> None:
    """Put a directory into place; an earlier release that is there goes first."""
    with suppress(FileNotFoundError):
        path.rename(scratch / "replaced")
    written.rename(path)
