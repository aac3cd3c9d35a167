"""A vault: data sets under one roof, with a durable budget for the people in them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import BudgetError, ParameterError, PolicyError
from sfumato.ledger.flight import Flights
from sfumato.query.sql.tables import PrivateRows as PrivateEntry
from sfumato.query.sql.tables import PublicRows as PublicEntry
from sfumato.release.in_use import ANSWERS, vault_files
from sfumato.schema.file import load as load_schema
from sfumato.schema.names import quoted
from sfumato.steward.table import read
from sfumato.vault.accounts import account_of, open_accounts, open_ledger, source_of
from sfumato.vault.config import OWNER, Config, PrivateSet, load
from sfumato.vault.datastore import DataStore, Location, address, check_consent
from sfumato.vault.folder import AnswerIndex, note_charge
from sfumato.vault.gatekeeper import Asker, Gatekeeper
from sfumato.vault.private import Private
from sfumato.vault.session import Offer, Session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from sfumato.query.answer.explain import Explanation
    from sfumato.query.sql.tables import Catalogue
    from sfumato.schema.schema import Schema
    from sfumato.vault.gatekeeper import Answer
    from sfumato.vault.session import Asked


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
        self._places = DataStore({name: _home(config, name, schemas[name]) for name in schemas})
        kept = self.kept = vault_files(config.folder)
        catalogue = _catalogue(config, schemas)
        self._curator = Session(catalogue, self._places, gatekeeper, config.max_epsilon, kept)

    def query(
        self,
        asked: Asked,
        *,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        weights: Mapping[str, object] | None = None,
        principal: str = OWNER,
        purpose: str | None = None,
        request_id: str | None = None,
    ) -> Answer:
        """Answer a question with noise and error bars, charged to the data sets' budgets.

        It is given in SQL or built from `sf.table`. Without epsilon and rho it costs a tenth of
        the whole budget. The identical question of the same principal is answered again from
        store, free. A request id names one question for good: repeating it is safe.
        """
        price = Offer(epsilon=epsilon, rho=rho, delta=delta, weights=weights)
        asker_of = partial(self._asker, principal, purpose)
        return self._curator.query(asked, price, asker_of, request_id=request_id)

    def explain(
        self,
        asked: Asked,
        *,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        weights: Mapping[str, object] | None = None,
        principal: str = OWNER,
    ) -> Explanation:
        """Say what a question would cost and how far its answer would be off; spends nothing."""
        price = Offer(epsilon=epsilon, rho=rho, delta=delta, weights=weights)
        return self._curator.explain(asked, price, partial(self._asker, principal, None))

    def private(self, name: str, *, principal: str = OWNER, purpose: str | None = None) -> Private:
        """One private data set of the vault, to ask and to publish from."""
        self._curator.private(name)
        return Private(self._curator, name, partial(self._asker, principal, purpose))

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
        self._places.close()
        self.ledger.close()

    def __enter__(self) -> Vault:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_vault(path: str | Path) -> Vault:
    """Open a vault's folder: durable ledger, several data sets."""
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


def _home(config: Config, name: str, schema: Schema) -> Location:
    held = config.datasets[name]
    source = source_of(config.folder, held.source)
    unit = held.unit if isinstance(held, PrivateSet) else None
    file = None if "://" in source else Path(source)
    consent = held.consent if isinstance(held, PrivateSet) else None
    columns = tuple(column.name for column in schema.columns)
    # One person's malformed cell must not decide whether questions are answered.
    reading = partial(read, source, schema, strict=unit is None)
    return Location(address(source), reading, unit, file, consent, source, columns)


def _catalogue(config: Config, schemas: Mapping[str, Schema]) -> Catalogue:
    entries: dict[str, PrivateEntry | PublicEntry] = {}
    for name, held in config.datasets.items():
        if isinstance(held, PrivateSet):
            entries[name] = PrivateEntry(schemas[name], held.unit, held.population)
            continue
        for columns in held.bounds:
            for column in columns:
                schemas[name].column(column)
        entries[name] = PublicEntry(schemas[name], held.bounds)
    return entries
