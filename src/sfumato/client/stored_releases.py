"""Jobs and releases of a server: looked at, waited for and downloaded as those of a vault are."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from zipfile import BadZipFile, ZipFile

from msgspec import UNSET

from sfumato import arguments
from sfumato.client.admin import owners_only, reading
from sfumato.client.error_reader import unexpected
from sfumato.client.wire import answer_of
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, SfumatoError
from sfumato.filesystem import Scratch, temporary_folder
from sfumato.operations.fields import read, to_json
from sfumato.operations.jobs import CancelJob, JobRecord, ListJobs, ShowJob
from sfumato.operations.private_methods import METHOD_OF, Anonymize
from sfumato.operations.releases import ANSWER, ListReleases, OpenRelease, ShowRelease
from sfumato.release.release import Release
from sfumato.report.display import Card, CardTable, Shown
from sfumato.vault.families import FAMILIES
from sfumato.vault.jobs.anonymize_job import ANONYMIZE
from sfumato.vault.jobs.job import (
    COMPARE,
    Job,
    asked_plainly,
    check_request,
    family_named,
)
from sfumato.vault.principals import OWNER
from sfumato.vault.stored_release import MEDIA, AnyRelease, ReleaseFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.client.connection import Connection
    from sfumato.operations.fields import Request
    from sfumato.operations.jobs import JobList
    from sfumato.operations.operation import Call
    from sfumato.operations.releases import ReleaseList, ReleaseRecord, StoredRelease
    from sfumato.vault.answer import Answer
    from sfumato.vault.private import Private

    Admit = Callable[[str | None], object]
    """Refuses to ask in the name of somebody else than the token's holder."""

_PAUSE_SECONDS = 0.2
_BUNDLE = "release.zip"


@dataclass(frozen=True)
class RemoteShelf:
    """Where jobs and releases are fetched from, by whom, and who plans as the server does."""

    connection: Connection
    admit: Admit
    private: Callable[..., Private]
    call: Call


class RemoteJobs(Shown):
    """Long work of a server, of whoever holds the token; an owner sees all."""

    def __init__(self, kept: RemoteShelf) -> None:
        self._kept = kept

    def submit(
        self,
        family: str,
        dataset: str,
        *,
        principal: str | None = None,
        purpose: str | None = None,
        request_id: str | None = None,
        plan: str | None = None,
        **asked: object,
    ) -> Job:
        """Have something done that takes its time: publish, synthesize, above or anonymize.

        The server works on it, whoever waits; `wait` does, or look at it with `get`.
        """
        self._kept.admit(principal)
        name, why = arguments.text(dataset, "dataset"), arguments.maybe_text(purpose, "purpose")
        key = _key(request_id)
        plain = asked_plainly(arguments.text(family, "family"), asked)
        values = {**plain, "dataset": name, "purpose": why}
        if family == ANONYMIZE:
            with owners_only():
                return self._submitted(ANONYMIZE, read(Anonymize, _given(values)), key)
        if family == COMPARE:
            raise ParameterError(
                "choice_unknown",
                "Releases are compared where their vault is: in its console, or there with "
                "'sfumato job submit compare'.",
            )
        known = family_named(family)
        # What cannot be planned is refused here, in the words that it has everywhere.
        self._kept.private(name, purpose=why).prepare(known, **plain)
        method = METHOD_OF[family]
        values["plan"] = arguments.maybe_text(plan, "plan")
        return self._submitted(method.command, method.read(_given(values), text=True), key)

    def _submitted(self, path: str, request: Request, key: str) -> Job:
        return job_of(self._kept.connection.send("POST", path, to_json(request), key=key).json())

    def get(self, job: str | Job, *, principal: str | None = None) -> Job:
        """A job as it is now; one of somebody else is not there."""
        self._kept.admit(principal)
        name = job.id if isinstance(job, Job) else arguments.text(job, "job")
        record: JobRecord = self._kept.call(ShowJob, job=name)
        return record.described

    def list(self, *, principal: str | None = None, limit: int = 100) -> Sequence[Job]:
        """The newest jobs, the last first."""
        self._kept.admit(principal)
        listed: JobList = self._kept.call(ListJobs, limit=limit)
        return [record.described for record in listed.jobs]

    def cancel(self, job: str | Job, *, principal: str | None = None) -> Job:
        """End a job, whatever it is at. What was charged for it stays spent."""
        self._kept.admit(principal)
        name = job.id if isinstance(job, Job) else arguments.text(job, "job")
        record: JobRecord = self._kept.call(CancelJob, job=name)
        return record.described

    def wait(
        self, job: str | Job, *, principal: str | None = None, seconds: float | None = None
    ) -> Job:
        """Wait until a job has ended, at most so long, and give it as it is then."""
        end = None
        if seconds is not None:
            end = time.monotonic() + arguments.seconds(seconds, "seconds")
        while True:
            found = self.get(job, principal=principal)
            if found.is_over or (end is not None and time.monotonic() >= end):
                return found
            time.sleep(_PAUSE_SECONDS)

    def _card(self) -> Card:
        listed = self.list()
        rows = [(one.id, one.family, one.dataset, one.principal, str(one.state)) for one in listed]
        titles = ("Job", "What", "Data set", "Asked by", "State")
        table = CardTable(titles, rows[:10], len(rows[10:])) if rows else None
        waiting = sum(not one.is_over for one in listed)
        return Card(f"{len(listed)} kept, {waiting} not done yet", {}, table)


class RemoteReleases(Shown):
    """What may be had of a server: own releases, and those that were opened to who asks."""

    def __init__(self, kept: RemoteShelf) -> None:
        self._kept = kept

    def list(self, *, principal: str | None = None) -> Sequence[RemoteRelease]:
        """The newest releases that the token's holder may have, the last first."""
        self._kept.admit(principal)
        listed: ReleaseList = self._kept.call(ListReleases)
        return [self._release(record) for record in listed.releases]

    def get(self, release: str, *, principal: str | None = None) -> RemoteRelease:
        """A release by its name; one that somebody may not have is not there."""
        self._kept.admit(principal)
        shown: StoredRelease = self._kept.call(ShowRelease, release=release)
        return self._release(shown.release)

    def open_to(
        self, release: str, to: Sequence[str] | str, *, operator: str = OWNER
    ) -> RemoteRelease:
        """Let others have a release: principals by name, or "public" for all who may download.

        `to` is everybody to whom it is open from now on.
        """
        names = arguments.names(to, "to")
        return self._release(self._kept.call(OpenRelease, operator, release=release, to=names))

    def shut(self, release: str, *, operator: str = OWNER) -> RemoteRelease:
        """Let nobody else have a release any more; copies stay where they are."""
        return self.open_to(release, (), operator=operator)

    def _release(self, record: ReleaseRecord) -> RemoteRelease:
        return RemoteRelease(
            record.release,
            record.family,
            record.dataset,
            record.made,
            record.own,
            record.principal or None,
            None if record.opened_to is UNSET else tuple(record.opened_to),
            _kept=self._kept,
        )

    def _card(self) -> Card:
        rows = [(one.id, one.family, one.dataset, one.made) for one in self.list()]
        table = CardTable(("Release", "What", "Data set", "Made"), rows[:10], len(rows[10:]))
        return Card(f"{len(rows)} kept", {}, table if rows else None)


@dataclass(frozen=True, repr=False)
class RemoteRelease(AnyRelease):
    """A release of a vault elsewhere."""

    _kept: RemoteShelf = field(kw_only=True, compare=False)

    @cached_property
    def release(self) -> Release:
        """The release itself, its tables, what it guarantees and how far off it is."""
        if not self.is_own or self.family not in FAMILIES:
            return self._bundled()
        answer, family = self.answer(), FAMILIES[self.family]
        record: JobRecord = self._kept.call(ShowJob, job=self.id)
        job = record.described
        try:
            private = self._kept.private(self.dataset, purpose=job.purpose)
            prepared = private.prepare(family, **job.asked)
        except SfumatoError:
            return answer
        # Where what is declared has changed since, nothing but the bare tables can be read.
        same = prepared.parameters == answer.provenance.parameters
        return family.read(answer, prepared) if same else answer

    def _bundled(self) -> Release:
        """It as everybody has it, from its files."""
        with Scratch(temporary_folder(), "sfumato-") as folder:
            try:
                with ZipFile(BytesIO(self.file(_BUNDLE).content)) as bundle:
                    bundle.extractall(folder)
            except BadZipFile as error:
                raise unexpected("a bundle that cannot be read") from error
            [about] = folder.glob("release*.json")
            found = Release.load(about.with_suffix(""))
            return Release(
                dict(found.tables), found.guarantee, found.provenance, found.error, found.receipt
            )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it can be had as."""
        return tuple(self.described()["files"])

    def file(self, name: str) -> ReleaseFile:
        """It as a file, by its name."""
        asked = arguments.text(name, "name")
        path = f"releases/{quote(self.id, safe='')}/{quote(asked, safe='')}"
        try:
            body = self._kept.connection.get(path, accept="*/*").body
            return ReleaseFile(asked, MEDIA[asked.rpartition(".")[2]], body)
        except SfumatoError as error:
            if error.code != "not_found":
                raise
        raise ParameterError(
            "release_unknown",
            f"This release has no file {quoted(asked)}; {suggestion(asked, self.files)}",
        )

    def answer(self) -> Answer:
        """It as an answer, for whom it was made: with what it cost, and what is left now."""
        path = f"releases/{quote(self.id, safe='')}"
        return answer_of(self._kept.connection.get(path, accept=ANSWER))

    def described(self) -> dict[str, Any]:
        """What it is, what it guarantees, how far off it is and which files there are."""
        shown: StoredRelease = self._kept.call(ShowRelease, release=self.id)
        return shown.to_json()


def job_of(told: Mapping[str, Any]) -> Job:
    """A job as a server told it."""
    with reading("a job"):
        return JobRecord.from_json(told).described


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _key(request_id: str | None) -> str:
    """Under which a job is submitted once, however often it is sent."""
    if request_id is None:
        return token_hex(8)
    check_request(arguments.text(request_id, "request_id"))
    return request_id
