"""Jobs that anonymize a data set for its owner, without a budget, by rows of people who agreed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.anonymize.cost import named
from sfumato.anonymize.criteria.request import CriteriaRequest
from sfumato.anonymize.pipeline import check_options, criteria_of, seconds_of
from sfumato.anonymize.problem import no_criterion
from sfumato.anonymize.search import SEARCHES, require_weighted
from sfumato.attack.requirements import attacks_wanted, check_fitting, read_requirements
from sfumato.data.engines.base import everything
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import suggestion
from sfumato.errors import ParameterError
from sfumato.exact_numbers import probability
from sfumato.release.files_in_use import RELEASES
from sfumato.release.open_table import Table, read
from sfumato.release.release import Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from sfumato.data.schema.schema import Schema
    from sfumato.vault.jobs.job import Job
    from sfumato.vault.private import Private
    from sfumato.vault.vault import Vault

ANONYMIZE = "anonymize"
RELEASE_FILE = "release.parquet"
_CRITERIA = (
    *("k", "l", "diversity", "c", "t", "distance", "delta_disclosure", "beta"),
)  # fmt: skip
_SEARCH = (
    *("algorithm", "cost", "suppress", "suppressed", "refine", "weights", "limit_seconds"),
)  # fmt: skip
_FURTHER = ("sensitive", "by", "attacks", "require", "publish_findings")
OPTIONS = (*_CRITERIA, *_SEARCH, *_FURTHER)
"""The options of a job: those of `Table.anonymize` except a second table of people."""


def check_option_names(asked: Iterable[str]) -> None:
    """Refuse options that anonymizing does not have."""
    for name in asked:
        if name not in OPTIONS:
            raise ParameterError(
                "option_unknown", f"Anonymizing takes no {name!r}; {suggestion(name, OPTIONS)}"
            )


def check_request_options(vault: Vault, job: Job) -> None:
    """Refuse a job that cannot succeed, before it is stored; only the schema is read."""
    asked = job.asked
    schema = vault.private(job.dataset, principal=job.principal, purpose=job.purpose).schema
    _check_attacks(asked, schema)
    arguments.maybe_text(asked.get("by"), "by")
    numbers = CriteriaRequest(**{name: asked[name] for name in _CRITERIA if name in asked})
    columns = arguments.names(asked.get("sensitive", ()), "sensitive")
    algorithm = arguments.text(asked.get("algorithm", "optimal"), "algorithm")
    criteria, _ = criteria_of(schema, numbers, columns, algorithm)
    limit, share = seconds_of(asked.get("limit_seconds")), asked.get("suppress", 0)
    options = {name: asked.get(name) for name in _SEARCH if name != "algorithm"}
    options |= {"sensitive": columns or None, "limit_seconds": limit}
    # None where an option has no effect, as `check_options` refuses each that an algorithm ignores.
    options |= {"suppress": share if probability(share, "suppress") else None}
    options |= {"refine": arguments.flag(asked.get("refine", False), "refine") or None}
    check_options(algorithm, options, criteria)
    if not criteria:
        raise no_criterion()
    if algorithm in SEARCHES:
        weights = arguments.amounts(asked.get("weights"), "weights")
        named(arguments.maybe_text(asked.get("cost"), "cost") or SEARCHES[algorithm].cost, weights)
        require_weighted(
            [column.name for column in schema.columns if column.role is Role.QUASI], weights
        )


def _check_attacks(asked: Mapping[str, Any], schema: Schema) -> None:
    required = read_requirements(asked.get("require", ()))
    check_fitting(required, schema)
    publish = arguments.flag(asked.get("publish_findings", False), "publish_findings")
    attacks = arguments.maybe_flag(asked.get("attacks"), "attacks")
    attacks_wanted(attacks, required, publish=publish, off="attacks=False")


def anonymize_dataset(vault: Vault, job: Job, beginning: Callable[[], None]) -> None:
    """Write an anonymized release into the job's folder; replace that of an earlier attempt."""
    private = vault.private(job.dataset, principal=job.principal, purpose=job.purpose)
    beginning()
    target = folder_of(vault.config.folder, job.id)
    with owners_table(private) as table:
        release = table.anonymize(**job.asked)
        for folder in (target.parent, target):
            folder.mkdir(mode=0o700, exist_ok=True)
        release.save(target / RELEASE_FILE, overwrite=True)
        # Readable by the owner alone until the release is opened to others, which a server serves.
        for path in target.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)


def folder_of(vault: Path, job: str) -> Path:
    """The folder with the files of a job's release or comparison."""
    return vault / RELEASES / job


def read_release(vault: Path, job: str) -> Release | None:
    """The release of a job without the owner's findings; None if its files are not here."""
    single_file = folder_of(vault, job) / RELEASE_FILE
    several = single_file.with_suffix("")
    path = next((candidate for candidate in (single_file, several) if candidate.exists()), None)
    return None if path is None else Release.load(path).public


@contextmanager
def owners_table(private: Private) -> Iterator[Table]:
    """Open a data set as a table for its owner, without people who did not agree."""
    with private.owners_rows() as rows:
        # Nothing was filtered, so the search may run in the data set's own engine, without a copy.
        if rows.table == rows.engine.table:
            reasons = ("declared in the schema",) * len(rows.schema.columns)
            yield Table(rows.engine, rows.schema, reasons)
            return
        with read(rows.engine.run(everything(rows.table)), rows.schema) as table:
            yield table
