"""Anonymizing a data set of a vault, for its owner: no budget, but rows of people who agreed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.engines.base import everything
from sfumato.errors import ParameterError
from sfumato.release.in_use import RELEASES
from sfumato.release.release import Release
from sfumato.schema.names import suggestion
from sfumato.steward.anonymize import check_options
from sfumato.steward.problem import CriteriaRequest
from sfumato.steward.table import Table, read
from sfumato.steward.wishes import criteria_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sfumato.vault.jobs.job import Job
    from sfumato.vault.private import Private
    from sfumato.vault.vault import Vault

ANONYMIZE = "anonymize"
WRITTEN = "release.parquet"
_CRITERIA = (
    *("k", "l", "diversity", "c", "t", "distance", "delta_disclosure", "beta"),
)  # fmt: skip
_SEARCH = (
    *("algorithm", "cost", "suppress", "suppressed", "refine", "weights", "limit_seconds"),
)  # fmt: skip
_OTHERS = ("sensitive", "by", "attacks", "require", "publish_findings")
WISHES = (*_CRITERIA, *_SEARCH, *_OTHERS)
"""What may be wished of it: what `anonymize` of a table takes, but for another table of people."""


def check_wish_names(asked: Iterable[str]) -> None:
    """Refuse what cannot be wished at all."""
    for name in asked:
        if name not in WISHES:
            raise ParameterError(
                "wish_unknown", f"Anonymizing takes no {name!r}; {suggestion(name, WISHES)}"
            )


def check_wishes(vault: Vault, job: Job) -> None:
    """Refuse what could not be done, before the job is kept."""
    asked = job.asked
    schema = vault.private(job.dataset, principal=job.principal, purpose=job.purpose).schema
    numbers = CriteriaRequest(**{name: asked[name] for name in _CRITERIA if name in asked})
    sensitive = asked.get("sensitive", ())
    columns = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    algorithm = asked.get("algorithm", "optimal")
    criteria, _ = criteria_of(schema, numbers, columns, algorithm)
    wished = {name: asked.get(name) for name in _SEARCH if name != "algorithm"}
    check_options(algorithm, {**wished, "sensitive": columns or None}, criteria)


def anonymize_dataset(vault: Vault, job: Job, beginning: Callable[[], None]) -> None:
    """Write an anonymized release into the vault's folder; what is there already is replaced."""
    private = vault.private(job.dataset, principal=job.principal, purpose=job.purpose)
    beginning()
    place = folder_of(vault.config.folder, job.id)
    with _rows(private) as table:
        release = table.anonymize(**job.asked)
        for folder in (place.parent, place):
            folder.mkdir(mode=0o700, exist_ok=True)
        release.save(place / WRITTEN, overwrite=True)


def folder_of(vault: Path, job: str) -> Path:
    """Where what a job anonymized is kept."""
    return vault / RELEASES / job


def anonymized(vault: Path, job: str) -> Release | None:
    """What a job anonymized, as anybody may have it; None where it is not in this folder."""
    one = folder_of(vault, job) / WRITTEN
    several = one.with_suffix("")
    found = next((place for place in (one, several) if place.exists()), None)
    return None if found is None else Release.load(found).public


@contextmanager
def _rows(private: Private) -> Iterator[Table]:
    """A data set as a table of its steward, without people who did not agree."""
    with private.owners_rows() as rows:
        if rows.table == rows.engine.table:
            reasons = ("declared in the schema",) * len(rows.schema.columns)
            yield Table(rows.engine, rows.schema, reasons)
            return
        with read(rows.engine.run(everything(rows.table)), rows.schema) as table:
            yield table
