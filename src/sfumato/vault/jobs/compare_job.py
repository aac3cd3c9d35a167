"""Releases of a data set beside each other, for its owner: what attackers get, what each is for.

It is a job because attacks take their time. It releases nothing: what it finds is computed from
rows of people, lies in the vault's folder and is given to nobody else. Decision 0285.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.attack.case import HeldTable
from sfumato.attack.comparison.page import comparison_blocks, page
from sfumato.attack.comparison.runner import ComparedOriginal, compare_held
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.filesystem import whole
from sfumato.report.page import fragment
from sfumato.vault.jobs.anonymize_job import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sfumato.vault.jobs.job import Job
    from sfumato.vault.releases import KeptRelease
    from sfumato.vault.vault import Vault

PAGE, PART = "comparison.html", "comparison.part"
"""The whole page as a file, and the same as a part of another page."""
MOST_CANDIDATES = 8
_ASKED = "releases"


def check_candidates(vault: Vault, job: Job) -> None:
    """Refuse what could not be compared, before the job is kept."""
    _candidates(vault, job)


def compare_candidates(vault: Vault, job: Job, beginning: Callable[[], None]) -> None:
    """Attack and count releases against the rows that they were made from."""
    found = _candidates(vault, job)
    beginning()
    private = vault.private(job.dataset, principal=job.principal, purpose=job.purpose)
    with private.owners_rows() as rows:
        held = rows.engine.columns(rows.table)
        columns = tuple(one for one in rows.schema.columns if one.name in held)
        original = ComparedOriginal(rows.schema, HeldTable(rows.engine, rows.table, columns))
        compared = compare_held({name: one.release for name, one in found.items()}, original)
    folder = folder_of(vault.config.folder, job.id)
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, exist_ok=True)
    texts = {PAGE: page(compared), PART: fragment(comparison_blocks(compared))}
    for name, text in texts.items():
        with whole(folder / name, overwrite=True, private=True) as new:
            new.write_text(text, encoding="utf-8")


def compared(vault: Path, job: str, name: str) -> str | None:
    """What a job of comparing wrote; None where it is not in this folder."""
    file = folder_of(vault, job) / name
    return file.read_text(encoding="utf-8") if file.exists() else None


def _candidates(vault: Vault, job: Job) -> dict[str, KeptRelease]:
    """The releases that are named, each under what tells it from others."""
    asked = {name: one for name, one in job.asked.items() if name != _ASKED}
    if asked:
        raise ParameterError(
            "wish_unknown",
            f"Comparing takes no {next(iter(asked))!r}; {suggestion(next(iter(asked)), [_ASKED])}",
        )
    names = arguments.names(job.asked.get(_ASKED, ()), _ASKED)
    if not 1 <= len(names) <= MOST_CANDIDATES:
        raise ParameterError(
            "candidates_none",
            f"{len(names)} releases are named to be compared. Name 1 to {MOST_CANDIDATES} of them.",
        )
    found = {}
    for name in names:
        kept = vault.releases.get(name, principal=job.principal)
        if kept.dataset != job.dataset:
            raise ParameterError(
                "candidate_foreign",
                f"The release {quoted(name)} is of {quoted(kept.dataset)}, not of "
                f"{quoted(job.dataset)}. Compare releases of one data set.",
            )
        made = vault.jobs.get(name, principal=job.principal)
        found[f"{_in_words(kept.family, made.asked)}, {name[:6]}"] = kept
    return found


def _in_words(family: str, asked: Mapping[str, Any]) -> str:
    """What was asked for, in a few words: the plain values alone."""
    told = [f"{name} {one}" for name, one in asked.items() if isinstance(one, str | int | float)]
    return " ".join((family, *told[:4]))
