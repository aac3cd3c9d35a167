"""Which Parquet files a path stands for: one, all in a folder, or those that match a pattern."""

from __future__ import annotations

import re
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.engines.files.endings import PARQUET, ends_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PATTERN = re.compile(r"[*?\[]")


def is_parquet(path: Path) -> bool:
    """Whether a path is to be read as Parquet: by its ending, or as a folder."""
    return ends_in(path.name, PARQUET) or _is(path, Path.is_dir)


def is_pattern(path: Path) -> bool:
    """Whether it stands for the files that match it; what there is stands for itself."""
    named = ends_in(path.name, PARQUET) and _PATTERN.search(str(path)) is not None
    return named and not _is(path, Path.exists)


def parquet_paths(path: Path) -> list[Path]:
    """The files that make one table, in the order of their names; what is none stays as it is.

    Of a folder those in folders within count too, but not what is hidden or begins with '_', which
    is how those that write folders name what is not yet, or not, part of the table.
    """
    if is_pattern(path):
        matching = glob(str(path), recursive=True)  # noqa: PTH207  as a shell: nothing hidden
        return sorted(map(Path, matching)) or [path]
    if not _is(path, Path.is_dir):
        return [path]
    found = (one for one in path.rglob("*.parquet") if one.is_file())
    return sorted(one for one in found if not _apart(one.relative_to(path))) or [path]


def partition_columns(paths: Iterable[Path]) -> list[str]:
    """The columns that only the names of folders tell, year=2024 beside year=2025."""
    told = {frozenset(part for part in path.parent.parts if "=" in part) for path in paths}
    differing = frozenset.union(*told) - frozenset.intersection(*told)
    return sorted({part.partition("=")[0] for part in differing})


def _apart(path: Path) -> bool:
    return any(part[0] in "._" for part in path.parts)


def _is(path: Path, asked: Callable[[Path], bool]) -> bool:
    try:
        return asked(path)
    except (OSError, ValueError):
        return False
