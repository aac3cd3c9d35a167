"""A vault: data sets under one roof, with a durable budget for the people in them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import BudgetError, ParameterError, PolicyError
from sfumato.ledger.flight import Flights
from sfumato.query.sql.tables import PrivateRows, PublicRows
from sfumato.release.in_use import ANSWERS, vault_files
from sfumato.schema.file import load as load_schema
from sfumato.schema.names import quoted
from sfumato.steward.table import read
from sfumato.system import needs_locks
from sfumato.vault.accounts import account_of, open_accounts, open_ledger, source_of
from sfumato.vault.config import OWNER, Config, PrivateSet, load
from sfumato.vault.datastore import DataStore, Location, address, check_consent
from sfumato.vault.families import FAMILIES
from sfumato.vault.folder import AnswerIndex, note_charge
from sfumato.vault.gatekeeper import Asker, Gatekeeper
from sfumato.vault.private import Private, Questions
from sfumato.vault.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from sfumato.query.answer.explain import Explanation
    from sfumato.query.sql.tables import Catalogue
    from sfumato.schema.schema import Schema
    from sfumato.vault.answer import Answer
    from sfumato.vault.private import QueryCost, QueryOptions
    from sfumato.vault.questions import Asked


class Vault:
    """An open vault. Safe for any number of threads; each process opens its own."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._closed = False
        schemas = {name: _schema(config, name) for name in config.datasets}
        self.ledger = open_ledger(config)
        try:
            open_accounts(self.ledger, config)
        except BaseException:
            self.ledger.close()
            raise
        gatekeeper = Gatekeeper(
            self.ledger,
            AnswerIndex(config.folder / ANSWERS),
            Flights(config.folder / ANSWERS),
            snapshot=config.snapshot,
            tick_seconds=config.tick_seconds,
            deadline_seconds=config.deadline_seconds,
            tell_operator=partial(note_charge, config.folder),
        )
        self._store = DataStore({name: _location(config, name, schemas[name]) for name in schemas})
        kept = self.kept = vault_files(config.folder)
        catalogue = _catalogue(config, schemas)
        self._session = Session(catalogue, self._store, gatekeeper, config.max_epsilon, kept)

    def query(
        self,
        asked: Asked,
        *,
        principal: str = OWNER,
        purpose: str | None = None,
        **options: Unpack[QueryOptions],
    ) -> Answer:
        """Answer a question about any data sets of the vault, as `Questions.query` does."""
        return self.questions(principal=principal, purpose=purpose).query(asked, **options)

    def explain(
        self, asked: Asked, *, principal: str = OWNER, **cost: Unpack[QueryCost]
    ) -> Explanation:
        """Say what a question would cost and how far its answer would be off; spends nothing."""
        return self.questions(principal=principal).explain(asked, **cost)

    def questions(self, *, principal: str = OWNER, purpose: str | None = None) -> Questions:
        """What a principal may ask of all data sets, for one purpose."""
        return Questions(self._session, partial(self._asker, principal, purpose))

    def private(self, name: str, *, principal: str = OWNER, purpose: str | None = None) -> Private:
        """One private data set of the vault, to ask and to publish from."""
        asker_of = partial(self._asker, principal, purpose)
        private = Private(self._session, asker_of, name)
        _ = private.schema  # refuses a name that is none of a private data set
        return private

    if not TYPE_CHECKING:  # else every misspelt method would pass for one

        def __getattr__(self, name: str) -> Any:
            """The method of a family that names its data sets and has no words of its own here."""
            if name not in FAMILIES or FAMILIES[name].of_dataset:
                raise AttributeError(f"'Vault' has no method {name!r}")
            return getattr(self.questions(), name)

    def __repr__(self) -> str:
        """Where it is and what is in it."""
        return f"Vault('{self.config.folder}': {', '.join(self.config.datasets) or 'empty'})"

    def _asker(self, principal: str, purpose: str | None, datasets: tuple[str, ...]) -> Asker:
        """Who pays for a question of a principal about data sets."""
        if self._closed:
            raise ParameterError(
                "vault_closed", "A vault that was closed answers nothing. Open it again."
            )
        sets = [self.config.datasets[name] for name in datasets]
        populations = sorted({one.population for one in sets if isinstance(one, PrivateSet)})
        shared = tuple(populations)
        if principal == OWNER:
            return Asker(principal, shared, purpose=purpose)
        if principal not in self.config.principals:
            raise PolicyError(
                "principal_unknown",
                f"{quoted(principal)} may not ask here. Ask the vault's owner for a budget.",
            )
        for population in populations:
            if population not in self.config.principals[principal]:
                raise BudgetError(
                    "budget_missing",
                    f"{quoted(principal)} has no budget for {quoted(population)}. Ask its owner "
                    "for one.",
                )
        own = tuple(account_of(population, principal) for population in populations)
        return Asker(principal, shared, own, purpose)

    def close(self) -> None:
        """Let go of engines and of the ledger."""
        self._closed = True
        self._store.close()
        self.ledger.close()

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_vault(path: str | Path) -> Vault:
    """Open a vault's folder: durable ledger, several data sets."""
    needs_locks("A vault")
    return Vault(load(Path(path)))


def _schema(config: Config, name: str) -> Schema:
    """The schema of a data set, under the name and with the unit that the vault gives it."""
    held = config.datasets[name]
    schema = replace(load_schema(config.folder / held.schema), table=name)
    if not isinstance(held, PrivateSet):
        return schema
    if held.consent is not None:
        check_consent(schema, held.consent)
    return replace(schema, unit=held.unit)


def _location(config: Config, name: str, schema: Schema) -> Location:
    held = config.datasets[name]
    source = source_of(config.folder, held.source)
    unit = held.unit if isinstance(held, PrivateSet) else None
    file = None if "://" in source else Path(source)
    consent = held.consent if isinstance(held, PrivateSet) else None
    columns = tuple(column.name for column in schema.columns)
    # One person's malformed cell must not decide whether questions are answered.
    reading = partial(read, source, schema, strict=unit is None)
    there = address(source)
    return Location(there, reading, unit, file, consent, source, columns, schema.layout)


def _catalogue(config: Config, schemas: Mapping[str, Schema]) -> Catalogue:
    entries: dict[str, PrivateRows | PublicRows] = {}
    for name, held in config.datasets.items():
        if isinstance(held, PrivateSet):
            entries[name] = PrivateRows(schemas[name], held.unit, held.population)
            continue
        for columns in held.bounds:
            for column in columns:
                schemas[name].column(column)
        entries[name] = PublicRows(schemas[name], held.bounds)
    return entries
