"""Where the tables of a release go: one into the file that is named, several into a folder.

Decision 0231.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from sfumato.engines.files.output import format_of
from sfumato.errors import OutputError
from sfumato.files import check_apart, check_target
from sfumato.release.sidecar import IN_FOLDER, is_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Places:
    """The file or folder of a release, and the file of each of its tables."""

    path: Path
    several: bool
    files: dict[str, str]

    @property
    def written(self) -> list[Path]:
        """Every path of it, the side-car last."""
        folder = self.path if self.several else self.path.parent
        beside = IN_FOLDER if self.several else f"{self.path.name}.json"
        return [folder / file for file in (*self.files.values(), beside)]


def places(path: Path, names: Sequence[str]) -> Places:
    """Where tables of these names go, wished for at `path`.

    One goes into the file. Several go into a folder of that name without its ending, which each of
    them has instead; so does a single one where there is no ending, as Parquet.
    """
    if not path.suffix or is_folder(path):
        return Places(path, True, _files(names, ".parquet"))
    format_of(path)  # or refused
    if len(names) == 1:
        return Places(path, False, dict.fromkeys(names, path.name))
    ending = "".join(path.suffixes[-2 if path.suffix.lower() == ".gz" else -1 :])
    return Places(path.with_name(path.name.removesuffix(ending)), True, _files(names, ending))


def _files(names: Sequence[str], ending: str) -> dict[str, str]:
    # Names come from columns, which may hold anything, a path's separator too.
    return {name: f"{quote(name, safe=' ,')}{ending}" for name in names}


def check_places(
    path: Path, names: Sequence[str], *, overwrite: bool = False, kept: Iterable[Path] = ()
) -> Places:
    """Where tables of these names, and their side-car, go; refused early if they cannot."""
    found = places(path, names)
    if found.several and not is_folder(found.path):
        if os.path.lexists(found.path):
            raise OutputError(
                "output_not_a_directory",
                f"Cannot write '{found.path}': {len(names)} tables go into a directory, and there "
                "is a file of that name. Choose another name.",
            )
        # A folder is made, for which there must be nothing in the way.
        for place in (found.path, *(found.path.with_name(one) for one in found.files.values())):
            check_target(place, overwrite=place != found.path)
    else:
        for place in found.written:
            check_target(place, overwrite=overwrite)
    for place in (found.path, *found.written):
        check_apart(place, kept)
    return found
