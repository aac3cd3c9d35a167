"""Attacks on a vault's releases, for its owner: before a release leaves, and to compare several.

A finding is computed from the original rows without any mechanism. So only the owner sees it, and
a comparison is stored in the vault's folder. A charge stays, whatever attacks find. A release that
was let through because of its findings says that no guarantee covers this choice. Decisions
`findings` and `release-gate`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato import arguments
from sfumato.attack.case import HeldTable
from sfumato.attack.comparison.compare import ComparedOriginal, compare_held
from sfumato.attack.comparison.page import comparison_blocks, page
from sfumato.attack.release_check import attacked_counts, attacked_rows, read_as_rows
from sfumato.attack.requirements import TriedAttacks, check, check_paid, read_requirements
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, PolicyError, option
from sfumato.exact_numbers import plain
from sfumato.filesystem import whole
from sfumato.methods.method import KindPlan
from sfumato.methods.publish.publication import Publication
from sfumato.methods.synth.request import SynthesisRequest
from sfumato.privacy.accounting.balance import describe_costs
from sfumato.report.page import fragment
from sfumato.vault.answer import Answer
from sfumato.vault.jobs.anonymize_job import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sfumato.attack.comparison.result import Comparison
    from sfumato.attack.finding import Findings
    from sfumato.attack.requirements import Requirement
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.methods.method import Plan
    from sfumato.vault.families import Family
    from sfumato.vault.jobs.job import Job
    from sfumato.vault.private import Private
    from sfumato.vault.releases import LocalRelease
    from sfumato.vault.session import AskerOf, Session
    from sfumato.vault.vault import Vault

    Progress = Callable[[float, float], None]


A = TypeVar("A", bound=Answer)

CHOSEN = (
    "It was released because attacks, scored on the original rows, found no more than its owner "
    "allows: that choice is not covered by this guarantee."
)
_MEND = (
    "The charge stays: the answer is stored, and the same without requirements is free. Ask for "
    "less epsilon, or for fewer columns; or require less."
)


@dataclass(frozen=True)
class ReleaseGate:
    """The requirements that attacks on a release must meet, and whether findings are published."""

    requirements: tuple[Requirement, ...] = ()
    publish: bool = False

    @classmethod
    def asked(cls, require: Sequence[str] | str, *, publish: bool) -> ReleaseGate:
        """Read the requirements from texts such as "link<0.05"."""
        return cls(read_requirements(require), publish)

    def check(self, session: Session, asker_of: AskerOf, prepared: Plan) -> None:
        """Refuse, before any charge, askers other than the owner and releases without attacks."""
        if not asker_of(prepared.datasets).is_owner:
            raise PolicyError(
                "permission_missing",
                "Findings of attacks are computed from the original rows, so only the vault's "
                f"owner may see them. Leave out {option('require')}, "
                f"{option('owner_report', True)} and {option('publish_findings', True)}, or ask as "
                "the owner.",
            )
        if len(prepared.datasets) > 1:
            raise PolicyError(
                "requirement_failed",
                "Attacks take one table, so a pair of tables cannot be attacked. Leave out "
                f"{option('require')} and {option('owner_report', True)}, and try each with "
                "sfumato attack.",
            )
        schema = session.facts(asker_of, prepared.datasets[0]).declared.schema
        check_paid(self.requirements, _attacked_columns(prepared, schema))

    def attack(self, session: Session, asker_of: AskerOf, prepared: Plan, answer: A) -> A:
        """Attack an answer; return it with the findings, or refuse it if they exceed a limit."""
        purpose = asker_of(prepared.datasets).purpose
        # After the charge and the stored answer: a refused release is not lost and can be read
        # again free.
        findings = _run_attacks(session, prepared, answer, self.requirements, purpose)
        check(self.requirements, findings, mend=_MEND)
        texts = tuple(requirement.text for requirement in self.requirements)
        attacks = TriedAttacks(findings, texts, self.publish)
        promised = answer.guarantee
        parameters = {**promised.parameters, **attacks.sidecar_record}
        if attacks.notes:
            parameters["notes"] = [*parameters.get("notes", ()), *attacks.notes]
        # Which release leaves now depends on the rows: readers of the guarantee must know.
        stated = f"{promised.statement} {CHOSEN}" if texts else promised.statement
        guarantee = replace(promised, statement=stated, parameters=parameters)
        return replace(answer, guarantee=guarantee, holder=attacks.holder_record)


def _attacked_columns(prepared: Plan, schema: Schema) -> list[Column] | None:
    """The columns that attacks use; None if the release has no rows that they could read."""
    if isinstance(prepared, Publication):
        read = read_as_rows(prepared.method.tables, prepared.request.columns)
        if read is None:
            return None
        names = read[0].column_names
    elif isinstance(prepared, KindPlan):  # a graph, trajectories or itemsets
        return None
    else:
        assert isinstance(prepared, SynthesisRequest)
        names = [column.name for column in prepared.columns[prepared.dataset]]
    return [
        column
        for column in schema.columns
        if column.name in names and column.role is not Role.IDENTIFIER
    ]


def _run_attacks(
    session: Session,
    prepared: Plan,
    answer: Answer,
    requirements: Sequence[Requirement],
    purpose: str | None,
) -> Findings:
    with session.store.together(prepared.datasets, (), purpose=purpose) as datasets:
        [data] = datasets.values()
        original = data.engine, data.table
        if isinstance(prepared, Publication):
            columns = prepared.request.columns
            return attacked_counts(answer.tables, columns, data.schema, original, requirements)
        return attacked_rows(answer.table, data.schema, original, requirements)


RUNGS = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(1))


def rungs(private: Private, family: Family, asked: Mapping[str, Any]) -> dict[str, Plan]:
    """Plan the same request at a part of its price: an eighth, a quarter, a half and all of it."""
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
    """The cost of all plans together, in words; refused if the budget could not pay for it."""
    charges = private.check_all(list(requests.values()))
    return describe_costs(charges) if charges else "nothing: all were paid for before"


def compare_twins(
    private: Private, releases: Mapping[str, Any], progress: Progress | None = None
) -> Comparison:
    """Compare releases, as objects or paths, with the rows that they were made from.

    The original rows are read without noise: the comparison is for the owner and in no release.
    """
    with private.owners_rows() as rows:
        held = rows.engine.columns(rows.table)
        columns = tuple(column for column in rows.schema.columns if column.name in held)
        people = HeldTable(rows.engine, rows.table, columns)
        return compare_held(dict(releases), ComparedOriginal(rows.schema, people), progress)


PAGE, FRAGMENT = "comparison.html", "comparison.part"
"""The file of the whole page, and that of its content for another page."""
MOST_CANDIDATES = 8
_ASKED = "releases"


def compare_candidates(vault: Vault, job: Job, beginning: Callable[[], None]) -> None:
    """Measure privacy and utility of releases against the original rows; write the report."""
    candidates = named_candidates(vault, job)
    beginning()
    private = vault.private(job.dataset, principal=job.principal, purpose=job.purpose)
    releases = {name: candidate.release for name, candidate in candidates.items()}
    compared = compare_twins(private, releases)
    folder = folder_of(vault.config.folder, job.id)
    for candidate in (folder.parent, folder):
        candidate.mkdir(mode=0o700, exist_ok=True)
    texts = {PAGE: page(compared), FRAGMENT: fragment(comparison_blocks(compared))}
    for name, text in texts.items():
        with whole(folder / name, overwrite=True, private=True) as new:
            new.write_text(text, encoding="utf-8")


def read_comparison(vault: Path, job: str, name: str) -> str | None:
    """Read a file of a comparison; None if it is not in this folder."""
    file = folder_of(vault, job) / name
    return file.read_text(encoding="utf-8") if file.exists() else None


def named_candidates(vault: Vault, job: Job) -> dict[str, LocalRelease]:
    """The named releases, each under a title; refused if they cannot be compared."""
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
    """Family and up to four plain options, as a title."""
    options = [
        f"{name} {value}" for name, value in asked.items() if isinstance(value, str | int | float)
    ]
    return " ".join((family, *options[:4]))
