"""Jobs and releases of a server: looked at, waited for and downloaded as those of a vault are."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from zipfile import BadZipFile, ZipFile

from sfumato import given
from sfumato.cards import Card, CardTable, Shown
from sfumato.errors import ParameterError, SfumatoError
from sfumato.files import Scratch, temporary_folder
from sfumato.gate.answers import ANSWER
from sfumato.gate.client.refusals import unexpected
from sfumato.gate.client.wire import answer_of
from sfumato.release.release import Release
from sfumato.schema.names import quoted, suggestion
from sfumato.vault.config import OWNER
from sfumato.vault.families import FAMILIES
from sfumato.vault.jobs.job import STAGES, Job, JobState
from sfumato.vault.rendering import MEDIA, ReleaseFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.gate.client.connection import Connection
    from sfumato.gate.client.reading import Received
    from sfumato.vault.answer import Answer
    from sfumato.vault.private import Private

    Admit = Callable[[str], object]
    """Refuses to ask in the name of somebody else than the token's holder."""

_PAUSE_SECONDS = 0.2
_BUNDLE = "release.zip"


@dataclass(frozen=True)
class RemoteShelf:
    """Where jobs and releases are fetched from, by whom, and who plans as the server does."""

    connection: Connection
    admit: Admit
    private: Callable[..., Private]

    def get(self, kind: str, name: str, *, accept: str = "application/json") -> Received:
        """A job or a release as it is now; one that is not there for who asks is refused."""
        try:
            return self.connection.get(f"{kind}s/{quote(name, safe='')}", accept=accept)
        except SfumatoError as error:
            if error.code != "not_found":
                raise
        raise _unknown(kind, name)


class RemoteJobs(Shown):
    """Long work of a server, of whoever holds the token; an owner sees all."""

    def __init__(self, kept: RemoteShelf) -> None:
        self._kept = kept

    def get(self, job: str | Job, *, principal: str = OWNER) -> Job:
        """A job as it is now; one of somebody else is not there."""
        self._kept.admit(principal)
        name = job.id if isinstance(job, Job) else given.text(job, "job")
        return job_of(self._kept.get("job", name).json())

    def list(self, *, principal: str = OWNER, limit: int = 100) -> Sequence[Job]:
        """The newest jobs, the last first."""
        self._kept.admit(principal)
        number = given.whole(limit, "limit")
        told = self._kept.connection.get(f"jobs?limit={number}").json()
        return [job_of(one) for one in told.get("jobs", ())]

    def cancel(self, job: str | Job, *, principal: str = OWNER) -> Job:
        """End a job, whatever it is at. What was charged for it stays spent."""
        found = self.get(job, principal=principal)
        return job_of(self._kept.connection.send("DELETE", f"jobs/{found.id}").json())

    def wait(self, job: str | Job, *, principal: str = OWNER, seconds: float | None = None) -> Job:
        """Wait until a job has ended, at most so long, and give it as it is then."""
        end = None
        if seconds is not None:
            end = time.monotonic() + given.seconds(seconds, "seconds")
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

    def list(self, *, principal: str = OWNER) -> Sequence[RemoteRelease]:
        """The newest releases that the token's holder may have, the last first."""
        self._kept.admit(principal)
        told = self._kept.connection.get("releases").json()
        return [self._release(one) for one in told.get("releases", ())]

    def get(self, release: str, *, principal: str = OWNER) -> RemoteRelease:
        """A release by its name; one that somebody may not have is not there."""
        self._kept.admit(principal)
        return self._release(self._kept.get("release", given.text(release, "release")).json())

    def _release(self, told: Mapping[str, Any]) -> RemoteRelease:
        try:
            opened = told.get("opened_to")
            return RemoteRelease(
                told["release"],
                told["family"],
                told["dataset"],
                told["made"],
                told["own"],
                told.get("principal"),
                None if opened is None else tuple(opened),
                _kept=self._kept,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise unexpected("a release that cannot be read") from error

    def _card(self) -> Card:
        rows = [(one.id, one.family, one.dataset, one.made) for one in self.list()]
        table = CardTable(("Release", "What", "Data set", "Made"), rows[:10], len(rows[10:]))
        return Card(f"{len(rows)} kept", {}, table if rows else None)


@dataclass(frozen=True, repr=False)
class RemoteRelease(Shown):
    """A release that can be had again, by whom it was made for or opened to."""

    id: str
    family: str
    dataset: str
    made: str | None
    is_own: bool
    principal: str | None = None
    opened_to: tuple[str, ...] | None = None
    _kept: RemoteShelf = field(kw_only=True, compare=False)

    @cached_property
    def release(self) -> Release:
        """The release itself, its tables, what it guarantees and how far off it is."""
        if not self.is_own or self.family not in FAMILIES:
            return self._bundled()
        answer, family = self.answer(), FAMILIES[self.family]
        job = job_of(self._kept.get("job", self.id).json())
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
        asked = given.text(name, "name")
        path = f"releases/{quote(self.id, safe='')}/{quote(asked, safe='')}"
        try:
            body = self._kept.connection.get(path, accept="*/*").body
            return ReleaseFile(asked, MEDIA[asked.rpartition(".")[2]], body)
        except SfumatoError as error:
            if error.code != "not_found":
                raise
        raise ParameterError(
            "release_file_unknown",
            f"This release has no file {quoted(asked)}; {suggestion(asked, self.files)}",
        )

    def answer(self) -> Answer:
        """It as an answer, for whom it was made: with what it cost, and what is left now."""
        return answer_of(self._kept.get("release", self.id, accept=ANSWER))

    def described(self) -> dict[str, Any]:
        """What it is, what it guarantees, how far off it is and which files there are."""
        return self._kept.get("release", self.id).json()

    def _card(self) -> Card:
        to = {} if self.opened_to is None else {"Open to": ", ".join(self.opened_to) or "nobody"}
        return Card(f"{self.id}, {self.family} of {self.dataset}", {"Made": self.made or "", **to})


def job_of(told: Mapping[str, Any]) -> Job:
    """A job as a server told it."""
    try:
        return Job(
            told["job"],
            told["family"],
            told["dataset"],
            told["principal"],
            told["asked"],
            told["request_id"],
            purpose=told["purpose"],
            state=JobState(told["state"]),
            stage=STAGES.index(told["progress"]["stage"]),
            submitted=_moment(told["submitted"]),
            started=_moment(told["started"]),
            ended=_moment(told["ended"]),
            error=told["error"],
        )
    except (KeyError, ValueError, TypeError) as error:
        raise unexpected("a job that cannot be read") from error


def _moment(told: str | None) -> datetime | None:
    return None if told is None else datetime.fromisoformat(told)


def _unknown(kind: str, name: str) -> ParameterError:
    if kind == "job":
        return ParameterError("job_unknown", f"There is no job {quoted(name)} of yours.")
    return ParameterError("release_unknown", f"There is no release {quoted(name)} for you.")
