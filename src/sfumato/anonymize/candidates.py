"""A ladder of anonymized releases of one table, from strict to loose, for its owner to choose from.

Only the number of rows that must look alike changes, or the number of values where no such number
is asked; all other criteria and the algorithm stay. Decision 0295.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.errors import OutputError, RefusedError
from sfumato.release.paths import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from sfumato.anonymize.problem_setup import CriteriaRequest
    from sfumato.anonymize.result import Anonymized

PAGE = "compare.html"
_LADDERS = {"k": (50, 20, 10, 5, 3, 2), "l": (8, 5, 4, 3, 2)}


@dataclass(frozen=True)
class Ladder:
    """The releases that were decided, by name, and what is told of those that cannot be."""

    decided: Mapping[str, Anonymized]
    remarks: tuple[str, ...]


def explore(asked: CriteriaRequest, decide: Callable[[CriteriaRequest], Anonymized]) -> Ladder:
    """Decide on a release for each rung; one that cannot be reached is told, unless all are."""
    name = "l" if asked.k is None and asked.l is not None else "k"
    given = getattr(asked, name)
    rungs = sorted({*_LADDERS[name], *([] if given is None else [given])}, reverse=True)
    decided, remarks, refused = {}, [], None
    for rung in rungs:
        try:
            decided[f"{name}{rung}"] = decide(replace(asked, **{name: rung}))
        except RefusedError as error:
            refused = error
            remarks.append(f"{name} = {rung} is not among the candidates: {error.message}")
    if not decided and refused is not None:
        raise refused
    return Ladder(decided, tuple(remarks))


def write_ladder(found: Ladder, folder: Path, ending: str, *, overwrite: bool) -> dict[str, Path]:
    """Write each release with its side-car into a folder, two tables into one inside it."""
    folder.mkdir(exist_ok=True)
    places = {}
    for name, one in found.decided.items():
        places[name] = folder / (name if one.values is not None else f"{name}{ending}")
        one.write(Output(places[name]), overwrite=overwrite)
    return places


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder to check what goes into it; it is gone again if that is refused."""
    made = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        yield
    except BaseException:
        if made:
            folder.rmdir()
        raise


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a place where candidates cannot lie, before any work is done for them."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(
            "output_not_a_directory",
            f"Cannot write candidates into '{folder}': it is a file. With --explore OUT is a "
            "folder; choose another name.",
        )
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise OutputError(
            "output_exists",
            f"The folder '{folder}' is not empty. Choose another name, or give --overwrite.",
        )
    if not folder.absolute().parent.is_dir():
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{folder}': there is no directory '{folder.parent}'. Create it first.",
        )
