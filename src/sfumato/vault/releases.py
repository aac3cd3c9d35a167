"""The releases of a vault: list, download and share what its jobs have produced.

The ledger itself stores a paid answer, under its receipt; an anonymized table lies in the vault's
folder. That the owner opens a release to others is an entry of the ledger. Decision `jobs`.
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
from sfumato.vault.jobs.anonymize_job import ANONYMIZE, anonymized
from sfumato.vault.jobs.job import families
from sfumato.vault.session import plan_digest
from sfumato.vault.stored_release import AnyRelease, AnyReleases, file_names, rendered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.privacy.ledger.base import Ledger
    from sfumato.release.release import Release
    from sfumato.vault.jobs.job import Job
    from sfumato.vault.principals import Principal
    from sfumato.vault.session import Asker
    from sfumato.vault.stored_release import ReleaseFile
    from sfumato.vault.vault import Vault

TOPIC = "release"
"""The records of the ledger that say to whom releases are open."""
PUBLIC = "public"
"""To whoever may download here at all."""
_MOST_LISTED = 1000


@dataclass(frozen=True, repr=False)
class KeptRelease(AnyRelease):
    """A release of a vault at hand."""

    _releases: Releases = field(kw_only=True, compare=False)
    _job: Job = field(kw_only=True, compare=False)

    @cached_property
    def release(self) -> Release:
        """The release itself, its tables, what it guarantees and how far off it is."""
        stored = self._releases.read(self._job)
        if self.is_own and self._job.principal == OWNER:
            return stored
        return _for_others(stored, is_own=self.is_own)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its files for download."""
        return file_names(self.release)

    def file(self, name: str) -> ReleaseFile:
        """It as a file, by its name."""
        return rendered(self.release, arguments.text(name, "name"))

    def answer(self) -> Answer:
        """It as an answer, for whom it was made: with what it cost, and what is left now."""
        return self._releases.answer(self._job)

    def described(self) -> dict[str, Any]:
        """What it is, what it guarantees, how far off it is and which files there are."""
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
    """What jobs of a vault released. A principal sees their own and what was opened to them."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def list(self, *, principal: str | None = None) -> Sequence[KeptRelease]:
        """The newest releases that a principal may download, the latest first."""
        person, opened = self._person(principal), self._opened()
        own = self._vault.jobs.done(None if person.is_owner else person.name, _MOST_LISTED)
        known = {job.id for job in own}
        opened_jobs = [self._vault.jobs.find(name) for name in opened if name not in known]
        listed = [
            job for job in (*own, *opened_jobs) if job is not None and _may(job, person, opened)
        ]
        newest = sorted(listed, key=lambda job: (str(job.ended), job.id), reverse=True)
        return [self._kept(job, person, opened) for job in newest]

    def get(self, release: str, *, principal: str | None = None) -> KeptRelease:
        """A release by its name; one that somebody may not have is not there."""
        stored = self.look_up(arguments.text(release, "release"), principal=principal)
        if stored is None:
            raise ParameterError(
                "release_unknown", f"There is no release {quoted(release)} for you."
            )
        return stored

    def look_up(self, release: str, *, principal: str | None = None) -> KeptRelease | None:
        """A release by its name, or None; who may download nothing hears that first."""
        person, opened = self._person(principal), self._opened()
        job = self._vault.jobs.find(arguments.text(release, "release"))
        if job is not None and _may(job, person, opened):
            return self._kept(job, person, opened)
        if not _is_own(job, person):
            person.check("download")
        return None

    def open_to(self, release: str, to: Sequence[str] | str, *, operator: str) -> KeptRelease:
        """Let others have a release: principals by name, or "public" for all who may download.

        `to` is everybody to whom it is open from now on; `operator` is who decided it.
        """
        stored = self.get(release)
        names = sorted(set(arguments.names(to, "to")))
        known = [PUBLIC, *(principal.name for principal in self._vault.principal_registry.list())]
        for name in names:
            if name not in known:
                raise ParameterError(
                    "reader_unknown",
                    f"There is no principal {quoted(name)} to open it to; "
                    + suggestion(name, known),
                    parameter="to",
                )
        decided_by = arguments.text(operator, "operator")
        self._vault.ledger.record(
            TOPIC, stored.id, {"to": names} if names else None, operator=decided_by
        )
        return self.get(stored.id)

    def shut(self, release: str, *, operator: str) -> KeptRelease:
        """Stop sharing a release; copies that were downloaded stay."""
        return self.open_to(release, (), operator=operator)

    def read(self, job: Job) -> Release:
        """The release of a job, read by its family if the same could be asked today."""
        if job.family == ANONYMIZE:
            release = anonymized(self._vault.config.folder, job.id)
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
        # Where what is declared has changed since, nothing but the bare tables can be read.
        return family.read(answer, prepared) if plan_digest(prepared) == job.plan else answer

    def answer(self, job: Job) -> Answer:
        """What a job gave, as the gatekeeper gave it to whom it was made for."""
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

    def _kept(
        self, job: Job, person: Principal, opened: Mapping[str, Sequence[str]]
    ) -> KeptRelease:
        own = job.principal == person.name
        return KeptRelease(
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
    """A release as others than the vault's owner have it: without the budget and its entry.

    The receipt, short of the entry's number, is told to whom it was made for.
    """
    if isinstance(release, Answer):
        release = replace(release, entry="", charged=False, remaining={}, balance="")
    receipt = (release.receipt or "").rpartition(":")[2] if is_own else ""
    return replace(release, receipt=receipt or None)


def _is_own(job: Job | None, person: Principal) -> bool:
    return job is not None and (person.is_owner or job.principal == person.name)


def _may(job: Job, person: Principal, opened: Mapping[str, Sequence[str]]) -> bool:
    """Whether somebody may have what a job gave: as an answer of theirs, or as a download."""
    if job.release is None:
        return False
    if _is_own(job, person):
        known = families().get(job.family)
        return person.is_owner or bool(person.shapes & {"download", known and known.shape})
    to = opened.get(job.id, ())
    return "download" in person.shapes and (PUBLIC in to or person.name in to)


def stored_answer(ledger: Ledger, receipt: str) -> bytes:
    """The answer that a receipt stands for."""
    charge, _, proof = receipt.partition(":")
    entry = ledger.entry(int(charge))
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
