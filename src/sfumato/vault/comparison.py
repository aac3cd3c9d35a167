"""Candidates of a release compared by attacks and utility, for the owner of the data.

A comparison is computed from rows of people, outside of any mechanism. So its result lies in the
vault's folder and is shown to the owner alone. Decision `release-gate`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.attack.case import HeldTable
from sfumato.attack.comparison.compare import ComparedOriginal, compare_held
from sfumato.attack.comparison.page import comparison_blocks, page
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import plain
from sfumato.filesystem import whole
from sfumato.privacy.accounting.balance import describe_costs
from sfumato.report.page import fragment
from sfumato.vault.jobs.anonymize_job import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sfumato.attack.comparison.result import Comparison
    from sfumato.methods.method import Plan
    from sfumato.vault.families import Family
    from sfumato.vault.jobs.job import Job
    from sfumato.vault.private import Private
    from sfumato.vault.releases import KeptRelease
    from sfumato.vault.vault import Vault

    Progress = Callable[[float, float], None]


RUNGS = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(1))


def rungs(private: Private, family: Family, asked: Mapping[str, Any]) -> dict[str, Plan]:
    """The same request at each price, by name, from public facts alone."""
    if asked.get("child") is not None:
        raise ParameterError(
            "option_not_applicable",
            f"Candidates of two linked tables are not compared. Leave {option('child')} and "
            f"{option('key')} out, or leave out {option('explore', True)}.",
        )
    full_request: Any = private.prepare(family, **asked)
    name = "rho" if full_request.price.epsilon is None else "epsilon"
    amount: Fraction = getattr(full_request.price, name)
    requests = {}
    for rung in RUNGS:
        price = {"epsilon": None, "rho": None, name: amount * rung}
        requests[f"{name}-{plain(amount * rung, digits=6)}"] = private.prepare(
            family, **{**asked, **price}
        )
    return requests


def cost_of_all(private: Private, requests: Mapping[str, Plan]) -> str:
    """What all rungs cost together, in words; refused if the budget does not hold it."""
    charges = private.check_all(list(requests.values()))
    return describe_costs(charges) if charges else "nothing: all were paid for before"


def compare_twins(
    private: Private, paths: Mapping[str, Path], progress: Progress | None = None
) -> Comparison:
    """Set synthetic tables beside the rows that they were made from, for the owner."""
    with private.owners_rows() as rows:
        held = rows.engine.columns(rows.table)
        columns = tuple(column for column in rows.schema.columns if column.name in held)
        people = HeldTable(rows.engine, rows.table, columns)
        return compare_held(dict(paths), ComparedOriginal(rows.schema, people), progress)


PAGE, PART = "comparison.html", "comparison.part"
"""The whole page as a file, and the same as a part of another page."""
MOST_CANDIDATES = 8
_ASKED = "releases"


def check_candidates(vault: Vault, job: Job) -> None:
    """Refuse what could not be compared, before the job is kept."""
    _candidates(vault, job)


def compare_candidates(vault: Vault, job: Job, beginning: Callable[[], None]) -> None:
    """Attack and count releases against the rows that they were made from."""
    candidates = _candidates(vault, job)
    beginning()
    private = vault.private(job.dataset, principal=job.principal, purpose=job.purpose)
    with private.owners_rows() as rows:
        held = rows.engine.columns(rows.table)
        columns = tuple(column for column in rows.schema.columns if column.name in held)
        original = ComparedOriginal(rows.schema, HeldTable(rows.engine, rows.table, columns))
        compared = compare_held(
            {name: candidate.release for name, candidate in candidates.items()}, original
        )
    folder = folder_of(vault.config.folder, job.id)
    for candidate in (folder.parent, folder):
        candidate.mkdir(mode=0o700, exist_ok=True)
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
    asked = {name: value for name, value in job.asked.items() if name != _ASKED}
    if asked:
        raise ParameterError(
            "option_unknown",
            f"Comparing takes no {next(iter(asked))!r}; {suggestion(next(iter(asked)), [_ASKED])}",
        )
    names = arguments.names(job.asked.get(_ASKED, ()), _ASKED)
    if not 1 <= len(names) <= MOST_CANDIDATES:
        raise ParameterError(
            "comparison_impossible",
            f"{len(names)} releases are named to be compared. Name 1 to {MOST_CANDIDATES} of them.",
        )
    candidates = {}
    for name in names:
        release = vault.releases.get(name, principal=job.principal)
        if release.dataset != job.dataset:
            raise ParameterError(
                "comparison_impossible",
                f"The release {quoted(name)} is of {quoted(release.dataset)}, not of "
                f"{quoted(job.dataset)}. Compare releases of one data set.",
            )
        release_job = vault.jobs.get(name, principal=job.principal)
        candidates[f"{_request_in_words(release.family, release_job.asked)}, {name[:6]}"] = release
    return candidates


def _request_in_words(family: str, asked: Mapping[str, Any]) -> str:
    """What was asked for, in a few words: the plain values alone."""
    options = [
        f"{name} {value}" for name, value in asked.items() if isinstance(value, str | int | float)
    ]
    return " ".join((family, *options[:4]))
