"""File formats by the end of the name, and the Parquet files that a path stands for."""

from __future__ import annotations

import os
import re
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
"""Separated text."""

PARQUET = (".parquet",)
EXCEL = (".xlsx",)
STATISTICS = (".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")
"""Files of SPSS, Stata and SAS."""

READ = (*TEXT, *PARQUET, *EXCEL, *STATISTICS)
WRITTEN = (*TEXT, *PARQUET, *EXCEL)

# Signs that separate cells in some files and are rare in names.
_SEPARATORS = ",;|~^:#"

_TABS = (".tsv", ".tsv.gz")


def ends_in(name: str, endings: tuple[str, ...]) -> bool:
    """Return whether a file name ends in one of these, with something before it."""
    small = name.lower()
    return small.endswith(endings) and small not in endings


def fixed_separator(name: str) -> str | None:
    """Return the separator that the end of a file name implies: a tab for .tsv."""
    return "\t" if name.lower().endswith(_TABS) else None


def separator_hint(name: str, columns: Sequence[str]) -> str | None:
    """A hint to the owner of a text file whose only column looks like several."""
    sign = next((sign for sign in _SEPARATORS if sign in columns[0]), None)
    if len(columns) != 1 or sign is None or not ends_in(name, TEXT):
        return None
    next_step = f'Add separator = "{sign}" under [file] in its schema, and name its columns there.'
    if fixed_separator(name):
        next_step = "In a .tsv the tab is: name the file .csv."
    return (
        f"The file has one column, and its header holds '{sign}': is it the separator? {next_step}"
    )


_PATTERN = re.compile(r"[*?\[]")


def is_parquet(path: Path) -> bool:
    """Return whether a path is read as Parquet: by its end, or because it is a folder."""
    return ends_in(path.name, PARQUET) or _holds(path, Path.is_dir)


def is_pattern(path: Path) -> bool:
    """Return whether a path is a pattern of Parquet files; an existing path is never a pattern."""
    named = ends_in(path.name, PARQUET) and _PATTERN.search(str(path)) is not None
    return named and not _holds(path, Path.exists)


def parquet_paths(path: Path) -> list[Path]:
    """The Parquet files of a table, in the order of their names; other paths are returned as is.

    Folders are read recursively, without names that begin with '.' or '_': programs that write
    folders use these for files that are not part of the table.
    """
    if is_pattern(path):
        matching = glob(str(path), recursive=True)  # noqa: PTH207  as a shell: nothing hidden
        return _table_files(map(Path, matching), path) or [path]
    if not _holds(path, Path.is_dir):
        return [path]
    parquet_files = (file for file in files_beneath(path) if file.name.endswith(".parquet"))
    return _table_files(parquet_files, path) or [path]


def files_beneath(folder: Path) -> Iterator[Path]:
    """Yield all files of a folder, recursively; files that vanish meanwhile are skipped."""
    for directory, _, names in os.walk(folder):
        yield from (file for name in names if (file := Path(directory, name)).is_file())


def partition_columns(paths: Iterable[Path]) -> list[str]:
    """Return the columns that only folder names hold, such as year=2024 beside year=2025."""
    folder_names = {frozenset(name for name in path.parent.parts if "=" in name) for path in paths}
    differing = frozenset.union(*folder_names) - frozenset.intersection(*folder_names)
    return sorted({name.partition("=")[0] for name in differing})


def _table_files(paths: Iterable[Path], path: Path) -> list[Path]:
    """Return the paths that are part of the table; a file that is linked twice counts once."""
    shown = [
        file
        for file in paths
        if not any(name[0] in "._" for name in file.parts if name not in path.parts)
    ]
    # Of several paths to one file the first by name stays: later entries replace earlier ones.
    return sorted({file.resolve(): file for file in sorted(shown, reverse=True)}.values())


def _holds(path: Path, test: Callable[[Path], bool]) -> bool:
    try:
        return test(path)
    except (OSError, ValueError):
        return False
