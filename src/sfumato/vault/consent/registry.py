"""Registries of consent as their owner uses them: give, withdraw, import, export, show.

There is one for each population, because it is people who agree and not tables. It stands in a file
of the vault's folder, or in the ledger's PostgreSQL; everything in it is the owner's to see alone.

Decision 0353.
"""

from __future__ import annotations

import csv
import threading
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.privacy.ledger.rules import check_name
from sfumato.release.files_in_use import CONSENT, consent_head, vault_files
from sfumato.vault.config import PrivateSet, load
from sfumato.vault.consent.consent_filter import Register
from sfumato.vault.consent.import_file import ANSWERS, COLUMNS
from sfumato.vault.consent.person_ids import check_person_kinds, person_kinds, written
from sfumato.vault.consent.registry_api import AnyRegistry, no_registry
from sfumato.vault.folder import note_ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from sfumato.data.schema.column import Kind
    from sfumato.vault.config import Config
    from sfumato.vault.consent.consent_record import Said
    from sfumato.vault.consent.log import ConsentLog


class Consents:
    """All registries of a vault; the log that they share is opened when it is first needed."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._log: ConsentLog | None = None
        self._lock = threading.Lock()

    @property
    def log(self) -> ConsentLog:
        """The log, begun where there is none."""
        with self._lock:
            if self._log is None:
                self._log = open_log(self.config)
            return self._log

    @property
    def populations(self) -> tuple[str, ...]:
        """The populations whose people are asked."""
        return tuple(sorted(purposes_of(self.config)))

    def register(self, population: str) -> Register:
        """What questions about a population need; nothing is opened yet."""
        kind = check_person_kinds(person_kinds(self.config, population))
        return Register(lambda: self.log, population, kind)

    def registry(self, name: str | None = None) -> ConsentRegistry:
        """The registry of a population, or of a data set's; the only one where none is named."""
        known = purposes_of(self.config)
        wanted = arguments.maybe_text(name, "name")
        held = self.config.datasets.get(wanted) if wanted is not None else None
        if isinstance(held, PrivateSet) and held.purposes:
            wanted = held.population
        if wanted is None and len(known) == 1:
            [wanted] = known
        if wanted not in known:
            raise no_registry(wanted, sorted(known))
        kind = check_person_kinds(person_kinds(self.config, wanted))
        return ConsentRegistry(self, wanted, known[wanted], kind)

    def acknowledge(self, *, operator: str) -> int | None:
        """Accept a log that lost changes: every yes is void. None where nothing was lost."""
        check_name(arguments.text(operator, "operator"), "operator")
        return self.log.acknowledge(operator=operator)

    def verify(self) -> dict[str, Any]:
        """Walk every change; raises where the log is not whole."""
        found = self.log.verify()
        return {"version": found.seq, "head": found.hash}

    def close(self) -> None:
        """Let go of the log."""
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None


class ConsentRegistry(AnyRegistry):
    """Who of a population agreed to which purpose, in the log of a vault at hand."""

    def __init__(
        self, consents: Consents, population: str, purposes: tuple[str, ...], kind: Kind
    ) -> None:
        super().__init__(population, purposes, kind)
        self._consents = consents

    @property
    def version(self) -> int:
        """How many entries the log has; it stands beside every answer in the ledger."""
        return self._log.check().seq

    def to_csv(self) -> str:
        """All that stands, as a CSV that can be imported."""
        words = {agreed: word for word, agreed in ANSWERS.items()}
        stream = StringIO()
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(COLUMNS)
        lines.writerows(
            (who, what, words[agreed], time)
            for who, what, agreed, time in self._log.rows(self.population)
        )
        return stream.getvalue()

    def show(self, person: str | int | None = None) -> dict[str, Any]:
        """How many agree to each purpose; or how one person stands, and all that they said."""
        told: dict[str, Any] = {"population": self.population, "version": self.version}
        if person is None:
            counts = self._log.counts(self.population)
            told["purposes"] = {
                one: {word: counts.get((one, agreed), 0) for word, agreed in ANSWERS.items()}
                for one in self.purposes
            }
            return told
        history = self._log.history(self.population, written(person, self.kind))
        words = {agreed: word for word, agreed in ANSWERS.items()}
        standing = {purpose: words[agreed] for _, purpose, agreed, _ in history}
        told["purposes"] = {one: standing.get(one, "never asked") for one in self.purposes}
        told["history"] = [
            {"version": version, "purpose": purpose, "agreed": words[agreed], "time": time}
            for version, purpose, agreed, time in history
        ]
        return told

    @property
    def _log(self) -> ConsentLog:
        return self._consents.log

    @property
    def _in_use(self) -> Iterable[Path]:
        return vault_files(self._consents.config.folder)

    def _record(self, said: Sequence[Said], operator: str) -> dict[str, Any]:
        check_name(arguments.text(operator, "operator"), "operator")
        found = self._log.record(self.population, said, operator=operator)
        return {
            "population": self.population,
            "changed": found.changed,
            "unchanged": len(said) - found.changed - found.older,
            "older": found.older,
            "version": found.version,
        }


def purposes_of(config: Config) -> dict[str, tuple[str, ...]]:
    """What the people of each population are asked, by all data sets about them."""
    found: dict[str, dict[str, None]] = {}
    for held in config.datasets.values():
        if isinstance(held, PrivateSet) and held.purposes:
            found.setdefault(held.population, {}).update(dict.fromkeys(held.purposes))
    return {population: tuple(purposes) for population, purposes in found.items()}


def open_log(config: Config) -> ConsentLog:
    """The log of a vault: beside a ledger in a file in a file, else in the ledger's database."""
    from sfumato.privacy.ledger.commit import OutsideHead
    from sfumato.privacy.ledger.failure import closed_on_failure
    from sfumato.vault.consent.log import ConsentLog  # it needs a database at hand

    tell = partial(note_ledger, config.folder)
    head = consent_head(config.head)
    with closed_on_failure(tell):
        if config.database.startswith(("postgresql://", "postgres://")):
            from sfumato.privacy.ledger.sql.postgres import PostgresDialect, postgres_engine

            engine, dialect = postgres_engine(config.database), PostgresDialect()
            return ConsentLog(engine, dialect, OutsideHead(head), tell_operator=tell)
        from sfumato.privacy.ledger.sql.sqlite import SqliteDialect, sqlite_engine

        # One that is gone or was never finished is begun anew: nobody has agreed in it.
        lite = sqlite_engine(config.folder / CONSENT, create=True)
        return ConsentLog(lite, SqliteDialect(), OutsideHead(head), tell_operator=tell)


def opened_consents(folder: Path) -> Consents:
    """The registries of a vault, whatever has become of its ledger: to withdraw is always open."""
    return Consents(load(folder))
