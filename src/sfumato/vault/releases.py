"""List, download and share the releases that jobs of a vault have produced.

The ledger stores a paid answer under its receipt; an anonymized table lies in the vault's folder.
Sharing a release is an entry of the ledger. Decision `jobs`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import LedgerError, ParameterError, SfumatoError
from sfumato.privacy.ledger.rules import damaged
from sfumato.vault.answer import Answer
from sfumato.vault.config import OWNER, PrivateSet, asking
from sfumato.vault.jobs.anonymize_job import ANONYMIZE, read_release
from sfumato.vault.jobs.job import families
from sfumato.vault.session import plan_digest
from sfumato.vault.stored_release import AnyRelease, AnyReleases, file_names, rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.privacy.ledger.base import Ledger
    from sfumato.release.release import Release
    from sfumato.vault.jobs.job import Job
    from sfumato.vault.principal_registry import PrincipalRegistry
    from sfumato.vault.principals import Principal
    from sfumato.vault.session import Asker
    from sfumato.vault.stored_release import ReleaseFile
    from sfumato.vault.vault import Vault

TOPIC = "release"
"""The topic of ledger records about the readers of releases."""
PUBLIC = "public"
"""A reader that stands for all principals who may download."""
_MOST_LISTED = 1000


@dataclass(frozen=True, repr=False)
class LocalRelease(AnyRelease):
    """A release of a local vault."""

    _releases: Releases = field(kw_only=True, compare=False)
    _job: Job = field(kw_only=True, compare=False)

    @cached_property
    def release(self) -> Release:
        """The release itself with its tables, guarantee and errors."""
        stored = self._releases.read(self._job)
        # Findings, the budget and the ledger's entry are for the owner's own releases alone.
        if self.is_own and self._job.principal == OWNER:
            return stored
        return _for_others(stored, is_own=self.is_own)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its files for download."""
        return file_names(self.release)

    def file(self, name: str) -> ReleaseFile:
        """One of its files, by name."""
        return rendered(self.release, arguments.text(name, "name"))

    def answer(self) -> Answer:
        """The release as the answer of its principal, with its cost and the present balance."""
        return self._releases.answer(self._job)

    def described(self) -> dict[str, Any]:
        """Its metadata, guarantee, errors, tables and files as JSON."""
        shown = self.release.public
        return {
            **self.to_json(),
            "guarantee": shown.guarantee.statement,
            "error": shown.error,
            "tables": {
                name: {"rows": table.num_rows, "columns": table.column_names}
                for name, table in shown.tables.items()
            },
            "files": list(file_names(shown)),
            **({"receipt": shown.receipt} if self.is_own else {}),
        }


class Releases(AnyReleases):
    """The releases of a vault. A principal sees their own and those that were opened to them."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def list(self, *, principal: str | None = None) -> Sequence[LocalRelease]:
        """List the releases that a principal may download, the newest first."""
        person, opened = self._person(principal), self._opened()
        own = self._vault.jobs.list_done(None if person.is_owner else person.name, _MOST_LISTED)
        known = {job.id for job in own}
        opened_jobs = [self._vault.jobs.get_of_anyone(name) for name in opened if name not in known]
        listed = [
            job for job in (*own, *opened_jobs) if job is not None and _may(job, person, opened)
        ]
        newest = sorted(listed, key=lambda job: (str(job.ended), job.id), reverse=True)
        return [self._visible_release(job, person, opened) for job in newest]

    def get(self, release: str, *, principal: str | None = None) -> LocalRelease:
        """A release by its name; one that the principal may not have is reported as unknown."""
        stored = self.look_up(arguments.text(release, "release"), principal=principal)
        if stored is None:
            raise ParameterError(
                "release_unknown", f"There is no release {quoted(release)} for you."
            )
        return stored

    def look_up(self, release: str, *, principal: str | None = None) -> LocalRelease | None:
        """A release by its name, or None; a principal without downloads is refused instead."""
        person, opened = self._person(principal), self._opened()
        job = self._vault.jobs.get_of_anyone(arguments.text(release, "release"))
        if job is not None and _may(job, person, opened):
            return self._visible_release(job, person, opened)
        if not _is_own(job, person):
            person.check("download")
        return None

    def open_to(self, release: str, to: Sequence[str] | str, *, operator: str) -> LocalRelease:
        """Set the readers of a release: principals by name, or "public" for all who may download.

        Readers who are not in `to` lose access. The ledger records `operator` as who decided.
        """
        stored = self.get(release)
        names = sorted(set(arguments.names(to, "to")))
        check_readers(names, self._vault.principal_registry)
        decided_by = arguments.text(operator, "operator")
        self._vault.ledger.record(
            TOPIC, stored.id, {"to": names} if names else None, operator=decided_by
        )
        return self.get(stored.id)

    def shut(self, release: str, *, operator: str) -> LocalRelease:
        """Stop sharing a release; downloaded copies stay with their readers."""
        return self.open_to(release, (), operator=operator)

    def read(self, job: Job) -> Release:
        """The release of a job; its family reads it further if the same plan can be made today."""
        if job.family == ANONYMIZE:
            release = read_release(self._vault.config.folder, job.id)
            if release is None:
                raise LedgerError(
                    "release_elsewhere",
                    "The files of this release are not in the folder of this server: another one "
                    "made them. Ask that one, or let the operator copy its folder 'releases'.",
                )
            return replace(release, kept=self._vault.kept)
        asker = self._asker(OWNER, job)
        stored = stored_answer(self._vault.ledger, str(job.result["receipt"]))
        answer = self._vault.gatekeeper.read(stored, asker, charged=False)
        answer = replace(answer, kept=self._vault.kept)
        family = families()[job.family]
        try:
            private = self._vault.private(job.dataset, purpose=job.purpose)
            prepared = private.prepare(family, **job.asked)
        except SfumatoError:
            return answer
        # After a change of declarations only the tables themselves can be read.
        return family.read(answer, prepared) if plan_digest(prepared) == job.plan else answer

    def answer(self, job: Job) -> Answer:
        """The answer of a job, as its principal received it."""
        if job.family == ANONYMIZE:
            raise ParameterError(
                "comparison_impossible",
                "An anonymized release was paid for by no budget and is no answer. Take one of its "
                "files.",
            )
        stored = stored_answer(self._vault.ledger, str(job.result["receipt"]))
        charged = bool(job.result["charged"])
        asker = self._asker(job.principal, job)
        return self._vault.gatekeeper.read(stored, asker, charged=charged)

    def _asker(self, principal: str, job: Job) -> Asker:
        held = self._vault.config.datasets.get(job.dataset)
        populations = (held.population,) if isinstance(held, PrivateSet) else ()
        return self._vault.principal_registry.asker(principal, job.purpose, populations)

    def _person(self, principal: str | None) -> Principal:
        return self._vault.principal_registry.admitted(asking(principal))

    def _opened(self) -> Mapping[str, Sequence[str]]:
        records = self._vault.ledger.records(TOPIC)
        return {name: tuple(record["to"]) for name, record in records.items()}

    def _visible_release(
        self, job: Job, person: Principal, opened: Mapping[str, Sequence[str]]
    ) -> LocalRelease:
        own = job.principal == person.name
        return LocalRelease(
            job.id,
            job.family,
            job.dataset,
            None if job.ended is None else job.ended.date().isoformat(),
            own,
            job.principal if own or person.is_owner else None,
            tuple(opened.get(job.id, ())) if person.is_owner else None,
            _releases=self,
            _job=job,
        )


def _for_others(release: Release, *, is_own: bool) -> Release:
    """A release for other readers than the vault's owner: without budget and ledger entry.

    Its own principal keeps the receipt without the entry's number, since numbers would show how
    many entries others make.
    """
    if isinstance(release, Answer):
        release = replace(release, entry="", charged=False, remaining={}, balance="")
    receipt = (release.receipt or "").rpartition(":")[2] if is_own else ""
    return replace(release, receipt=receipt or None)


def _is_own(job: Job | None, person: Principal) -> bool:
    return job is not None and (person.is_owner or job.principal == person.name)


def _may(job: Job, person: Principal, opened: Mapping[str, Sequence[str]]) -> bool:
    """Whether a principal may have a job's release: as their own answer, or as a download."""
    if job.release is None:
        return False
    if _is_own(job, person):
        known = families().get(job.family)
        return person.is_owner or bool(person.shapes & {"download", known and known.shape})
    to = opened.get(job.id, ())
    return "download" in person.shapes and (PUBLIC in to or person.name in to)


def check_readers(names: Iterable[str], registry: PrincipalRegistry) -> None:
    """Refuse readers that are neither a principal nor "public"."""
    known = [PUBLIC, *(principal.name for principal in registry.list())]
    for name in names:
        if name not in known:
            raise ParameterError(
                "reader_unknown",
                f"There is no principal {quoted(name)} to open it to; {suggestion(name, known)}",
                parameter="to",
            )


def stored_answer(ledger: Ledger, receipt: str) -> bytes:
    """Read the stored answer of a receipt."""
    charge, _, proof = receipt.partition(":")
    entry = ledger.entry(int(charge))
    # The hash in the receipt: a ledger that was replaced has other entries under the same numbers.
    if entry is None or entry.hash != proof:
        raise damaged(f"entry {charge}, under which a release is kept, is gone or another")
    charge_record = json.loads(entry.body)
    answer = ledger.answer(
        principal=charge_record["principal"],
        request_id=charge_record["request"],
        body_digest=charge_record["body"],
    )
    if answer is None:
        raise damaged(f"entry {charge}, under which a release is kept, has no request")
    return answer
