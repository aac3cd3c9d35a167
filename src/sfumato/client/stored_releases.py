"""The jobs and releases of a server, with the methods of a local vault."""

from __future__ import annotations

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
from sfumato.vault.families import FAMILIES
from sfumato.vault.jobs.anonymize_job import ANONYMIZE
from sfumato.vault.jobs.job import (
    COMPARE,
    AnyJobs,
    Job,
    asked_plainly,
    check_request,
    family_named,
)
from sfumato.vault.principals import OWNER
from sfumato.vault.stored_release import MEDIA, AnyRelease, AnyReleases, ReleaseFile

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
    """Raises if the caller names another principal than the holder of the token."""

_BUNDLE = "release.zip"


@dataclass(frozen=True)
class RemoteShelf:
    """The connection, holder and planning that jobs and releases of a server share."""

    connection: Connection
    admit: Admit
    private: Callable[..., Private]
    call: Call


class RemoteJobs(AnyJobs):
    """The jobs of the token's holder on a server; an owner sees all."""

    _pause_seconds = 0.2

    def __init__(self, shelf: RemoteShelf) -> None:
        self._shelf = shelf

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
        """Submit a job: publish, synthesize, above, learn, run or anonymize.

        The server runs it; `wait` for it, or look at it with `get`.
        """
        self._shelf.admit(principal)
        name = arguments.text(dataset, "dataset")
        stated_purpose = arguments.maybe_text(purpose, "purpose")
        # A key of our own if none is given: a submission that got lost is sent again, once charged.
        key = _key(request_id)
        plain = asked_plainly(arguments.text(family, "family"), asked)
        values = {**plain, "dataset": name, "purpose": stated_purpose}
        if family == ANONYMIZE:
            with owners_only():
                return self._submitted(ANONYMIZE, read(Anonymize, _without_none(values)), key)
        if family == COMPARE:
            raise ParameterError(
                "choice_unknown",
                "Releases are compared where their vault is: in its console, or there with "
                "'sfumato job submit compare'.",
            )
        known = family_named(family)
        # A request that cannot be planned is refused here, with the same error as a local vault's.
        self._shelf.private(name, purpose=stated_purpose).prepare(known, **plain)
        method = METHOD_OF[family]
        values["plan"] = arguments.maybe_text(plan, "plan")
        return self._submitted(method.command, method.read(_without_none(values), text=True), key)

    def _submitted(self, path: str, request: Request, key: str) -> Job:
        return job_of(self._shelf.connection.send("POST", path, to_json(request), key=key).json())

    def get(self, job: str | Job, *, principal: str | None = None) -> Job:
        """Get the present state of a job; a job of another principal is unknown."""
        self._shelf.admit(principal)
        name = job.id if isinstance(job, Job) else arguments.text(job, "job")
        record: JobRecord = self._shelf.call(ShowJob, job=name)
        return record.described

    def list(self, *, principal: str | None = None, limit: int = 100) -> Sequence[Job]:
        """List the newest jobs, the last first."""
        self._shelf.admit(principal)
        listed: JobList = self._shelf.call(ListJobs, limit=limit)
        return [record.described for record in listed.jobs]

    def cancel(self, job: str | Job, *, principal: str | None = None) -> Job:
        """Cancel a job, whatever its state. What was charged stays spent."""
        self._shelf.admit(principal)
        name = job.id if isinstance(job, Job) else arguments.text(job, "job")
        record: JobRecord = self._shelf.call(CancelJob, job=name)
        return record.described


class RemoteReleases(AnyReleases):
    """The releases of the token's holder, and those that were opened to them."""

    def __init__(self, shelf: RemoteShelf) -> None:
        self._shelf = shelf

    def list(self, *, principal: str | None = None) -> Sequence[RemoteRelease]:
        """List the newest releases that the token's holder may download, the last first."""
        self._shelf.admit(principal)
        listed: ReleaseList = self._shelf.call(ListReleases)
        return [self._release(record) for record in listed.releases]

    def get(self, release: str, *, principal: str | None = None) -> RemoteRelease:
        """Get a release by its name; one that the holder may not download is unknown."""
        self._shelf.admit(principal)
        shown: StoredRelease = self._shelf.call(ShowRelease, release=release)
        return self._release(shown.release)

    def open_to(
        self, release: str, to: Sequence[str] | str, *, operator: str = OWNER
    ) -> RemoteRelease:
        """Open a release to principals by name, or to "public", which is all who may download.

        `to` names everybody to whom it is open from now on.
        """
        names = arguments.names(to, "to")
        return self._release(self._shelf.call(OpenRelease, operator, release=release, to=names))

    def shut(self, release: str, *, operator: str = OWNER) -> RemoteRelease:
        """Stop sharing a release; copies that were downloaded stay."""
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
            _shelf=self._shelf,
        )


@dataclass(frozen=True, repr=False)
class RemoteRelease(AnyRelease):
    """A release of a vault behind a server."""

    _shelf: RemoteShelf = field(kw_only=True, compare=False)

    @cached_property
    def release(self) -> Release:
        """The release itself: its tables, its guarantee and its errors."""
        # Readers get no plan and no receipt; an anonymized table has no plan at all.
        if not self.is_own or self.family not in FAMILIES:
            return self._bundled()
        answer, family = self.answer(), FAMILIES[self.family]
        record: JobRecord = self._shelf.call(ShowJob, job=self.id)
        job = record.described
        try:
            private = self._shelf.private(self.dataset, purpose=job.purpose)
            prepared = private.prepare(family, **job.asked)
        except SfumatoError:
            return answer
        # With other declarations than those of the release, its tables would be misread.
        is_same = prepared.parameters == answer.provenance.parameters
        return family.read(answer, prepared) if is_same else answer

    def _bundled(self) -> Release:
        """The release as its readers get it, from its files."""
        with Scratch(temporary_folder(), "sfumato-") as folder:
            try:
                with ZipFile(BytesIO(self.file(_BUNDLE).content)) as bundle:
                    bundle.extractall(folder)
            except BadZipFile as error:
                raise unexpected("a bundle that cannot be read") from error
            [about] = folder.glob("release*.json")
            loaded = Release.load(about.with_suffix(""))
            return Release(
                dict(loaded.tables),
                loaded.guarantee,
                loaded.provenance,
                loaded.error,
                loaded.receipt,
            )

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its files."""
        return tuple(self.described()["files"])

    def file(self, name: str) -> ReleaseFile:
        """Download a file, by its name."""
        file = arguments.text(name, "name")
        path = f"releases/{quote(self.id, safe='')}/{quote(file, safe='')}"
        try:
            body = self._shelf.connection.get(path, accept="*/*").body
            return ReleaseFile(file, MEDIA[file.rpartition(".")[2]], body)
        except SfumatoError as error:
            if error.code != "not_found":
                raise
        raise ParameterError(
            "release_unknown",
            f"This release has no file {quoted(file)}; {suggestion(file, self.files)}",
        )

    def answer(self) -> Answer:
        """The release as an answer, only for its own principal: its cost, and the budget left."""
        path = f"releases/{quote(self.id, safe='')}"
        return answer_of(self._shelf.connection.get(path, accept=ANSWER))

    def described(self) -> dict[str, Any]:
        """The facts of the release: its guarantee, its errors and its files."""
        shown: StoredRelease = self._shelf.call(ShowRelease, release=self.id)
        return shown.to_json()


def job_of(data: Mapping[str, Any]) -> Job:
    """Read a job that a server sent."""
    with reading("a job"):
        return JobRecord.from_json(data).described


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _key(request_id: str | None) -> str:
    """The request id under which a job is submitted once, however often it is sent."""
    if request_id is None:
        return token_hex(8)
    check_request(arguments.text(request_id, "request_id"))
    return request_id
