"""Write a folder of Parquet files atomically; file names are in the order of the rows.

A scratch folder beside the target is filled and then renamed.
Decision `writing-releases`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.data.engines.base import FolderTarget
from sfumato.data.files.formats import PARQUET, ends_in
from sfumato.errors import OutputError, option
from sfumato.filesystem import Scratch, check_room, check_target, sweep, sync, unwritable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from sfumato.data.files.writers import Batches

PART_BYTES = 128 << 20
"""Bytes after which a part is closed and the next one begins."""

SIDECAR_NAME = "release.json"
"""The file name of the side-car in a folder of a release."""


def part_name(number: int) -> str:
    """The file name of a part by its number, from 0."""
    return f"part-{number:05}.parquet"


def parts_in(folder: Path) -> list[Path]:
    """The parts of a folder, in the order of their rows."""
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
    """The folder on this machine; refuse addresses, which only Spark writes to."""
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
