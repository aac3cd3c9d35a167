"""A vault: data sets under one roof, with a durable budget for the people in them."""

from __future__ import annotations

import warnings
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from sfumato import given
from sfumato.cards import Card, CardTable, Shown
from sfumato.errors import ParameterError
from sfumato.files import check_target, whole
from sfumato.ledger.flight import Flights
from sfumato.release.in_use import ANSWERS, vault_files
from sfumato.system import needs_locks
from sfumato.vault.accounts import (
    acknowledge,
    balances_of,
    open_accounts,
    open_ledger,
    set_limit,
    verified,
)
from sfumato.vault.asking import Questions
from sfumato.vault.config import OWNER, Config, PrivateSet, load
from sfumato.vault.datastore import DataStore
from sfumato.vault.declared import catalogue, location, schema_of
from sfumato.vault.families import FAMILIES
from sfumato.vault.folder import AnswerIndex, note_charge
from sfumato.vault.gatekeeper import Gatekeeper
from sfumato.vault.people import People
from sfumato.vault.private import Private
from sfumato.vault.session import Session
from sfumato.vault.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Unpack

    from sfumato.engines.identity import Identity
    from sfumato.privacy.numbers import Number
    from sfumato.privacy.units import Unit
    from sfumato.publish.kinds import Publication
    from sfumato.publish.options import KindName
    from sfumato.query.answer.explain import Explanation
    from sfumato.schema.schema import Schema
    from sfumato.steward.table import Table
    from sfumato.vault.answer import Answer
    from sfumato.vault.datastore import Location
    from sfumato.vault.gatekeeper import Asker
    from sfumato.vault.jobs.jobs import Jobs
    from sfumato.vault.options import PublishOptions, QueryCost, QueryOptions, SynthesisOptions
    from sfumato.vault.publishing import Published
    from sfumato.vault.questions import Asked
    from sfumato.vault.releases import Releases
    from sfumato.vault.session import AskerOf
    from sfumato.vault.synthesizing import Synthesized


class Vault(Shown):
    """An open vault. Safe for any number of threads; each process opens its own."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._closed = False
        schemas = {name: schema_of(config, name) for name in config.datasets}
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
        self._store = DataStore(
            {name: self._location(config, name, schemas[name]) for name in schemas}
        )
        self._catalogue = catalogue(config, schemas)
        self._kept = list(vault_files(config.folder))
        self._session = Session(
            self._catalogue, self._store, gatekeeper, config.max_epsilon, self._kept
        )
        self.gatekeeper = gatekeeper

    @cached_property
    def people(self) -> People:
        """Who may ask, with which budgets."""
        return People(self.ledger, lambda: self.config)

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens by which a server knows who asks."""
        return Tokens(self.ledger, self.people, self.config.folder)

    @property
    def kept(self) -> tuple[Path, ...]:
        """The files in use, which no answer may be saved over."""
        return tuple(self._kept)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of its data sets."""
        return tuple(self.config.datasets)

    @given.in_python
    def add(
        self,
        name: str,
        source: str | Path | Table,
        schema: str | Path | Schema | None = None,
        *,
        unit: Unit | str | None = None,
        max_rows: int | None = None,
        max_groups: int | None = None,
        epsilon: Number | None = None,
        delta: Number = 0,
        population: str | None = None,
        consent: str | None = None,
        public: bool = False,
        unique: Sequence[str | Sequence[str]] = (),
    ) -> None:
        """Add a data set with a budget for the people in it, or a `public` table about nobody.

        The unit is the schema's unless given here: sf.Rows(), sf.Entity(...), "row" or a column. A
        schema that is only in memory is written into the vault's folder. Data sets about the same
        people share one budget by their `population`.
        """
        from sfumato.vault.adding import add_dataset  # questions start without it

        self._check_open()
        add_dataset(
            self.config.folder,
            name,
            source,
            schema,
            unit=unit,
            public=public,
            unique=unique,
            warn=partial(warnings.warn, stacklevel=4),
            max_rows=max_rows,
            max_groups=max_groups,
            epsilon=epsilon,
            delta=delta,
            population=population,
            consent=consent,
        )
        self._take_up(name)

    def _take_up(self, name: str) -> None:
        """Answer for a data set that was added while the vault was open."""
        config = load(self.config.folder)
        schemas = {one: schema_of(config, one) for one in config.datasets}
        open_accounts(self.ledger, config)
        self._store.add(name, self._location(config, name, schemas[name]))
        self._catalogue[name] = catalogue(config, schemas)[name]
        self._kept[:] = vault_files(config.folder)
        self.config = config

    @cached_property
    def jobs(self) -> Jobs:
        """Long work, kept until it is done, whatever happens to who asked for it."""
        from sfumato.vault.jobs.jobs import Jobs  # most who open a vault have no long work

        self._check_open()
        return Jobs(self)

    @cached_property
    def releases(self) -> Releases:
        """What jobs released, to look at, to have as files and to open to others."""
        from sfumato.vault.releases import Releases

        self._check_open()
        return Releases(self)

    def stop_thread(self, thread: int) -> None:
        """Stop what engines do for a thread, which is then told that it failed."""
        self._store.cancel(thread)

    def accounts(self) -> list[dict[str, Any]]:
        """Every account: its budget, what was spent, and what one more question may cost."""
        self._check_open()
        return balances_of(self.ledger)

    def verify(self) -> dict[str, Any]:
        """Walk every entry of the ledger; raises where it is not whole."""
        self._check_open()
        return verified(self.ledger)

    @given.in_python
    def export(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write every entry of the ledger as JSONL, for somebody who trusts nobody."""
        self._check_open()
        target = given.path(path, "path")
        check_target(target, overwrite=given.flag(overwrite, "overwrite"), kept=self.kept)
        with whole(target, overwrite=overwrite) as new, new.open("w", encoding="utf-8") as stream:
            self.ledger.export(stream)

    @given.in_python
    def limit(self, account: str, *, epsilon: Number, delta: Number = 0, operator: str) -> None:
        """Give an account another budget; `operator` is who decided it."""
        self._check_open()
        folder = self.config.folder
        who = given.text(operator, "operator")
        name = given.text(account, "account")
        set_limit(folder, name, epsilon=epsilon, delta=delta, operator=who)
        self.config = load(folder)

    @staticmethod
    def acknowledge(path: str | Path, *, operator: str) -> None:
        """Accept that a ledger lost entries, as a restored backup has; this burns every budget."""
        acknowledge(given.path(path, "path"), operator=given.text(operator, "operator"))

    def publish(
        self,
        kind: KindName | str,
        name: str,
        *,
        columns: Sequence[str] | str,
        principal: str = OWNER,
        purpose: str | None = None,
        request_id: str | None = None,
        **asked: Unpack[PublishOptions],
    ) -> Published:
        """Publish statistics of a data set, as `Private.publish` does."""
        private = self.private(name, principal=principal, purpose=purpose)
        return private.publish(kind, columns=columns, request_id=request_id, **asked)

    def plan(
        self,
        kind: KindName | str,
        name: str,
        *,
        columns: Sequence[str] | str,
        principal: str = OWNER,
        **asked: Unpack[PublishOptions],
    ) -> Publication:
        """Say what `publish`, asked the same, would choose and how far off it would be, free."""
        return self.private(name, principal=principal).plan(kind, columns=columns, **asked)

    def synthesize(
        self,
        name: str,
        *,
        principal: str = OWNER,
        purpose: str | None = None,
        request_id: str | None = None,
        **asked: Unpack[SynthesisOptions],
    ) -> Synthesized:
        """Make up a table in the form of a data set's, as `Private.synthesize` does."""
        private = self.private(name, principal=principal, purpose=purpose)
        return private.synthesize(request_id=request_id, **asked)

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
        return Questions(self._session, self._asking(principal, purpose))

    def private(self, name: str, *, principal: str = OWNER, purpose: str | None = None) -> Private:
        """One private data set of the vault, to ask and to publish from."""
        asker_of = self._asking(principal, purpose)
        private = Private(self._session, asker_of, given.text(name, "name"))
        _ = private.schema  # refuses a name that is none of a private data set
        return private

    if not TYPE_CHECKING:  # else every misspelt method would pass for one

        def __getattr__(self, name: str) -> Any:
            """The method of a family that names its data sets and has no words of its own here."""
            if name not in FAMILIES or FAMILIES[name].of_dataset:
                raise AttributeError(f"'Vault' has no method {name!r}")
            return getattr(self.questions(), name)

    def __dir__(self) -> list[str]:
        ours = {name for name, one in FAMILIES.items() if not one.of_dataset}
        return sorted({*super().__dir__(), *ours})

    def _card(self) -> Card:
        """Where it is and what is in it; what is left is read while it is open."""
        listed, sets = ", ".join(self.datasets) or "empty", self.config.datasets.items()
        if self._closed:
            return Card(f"{self.config.folder}, closed: {listed}", {})
        left = {one["account"]: one["balance"] for one in self.accounts()}
        rows = [
            (name, one.unit.sentence(), left[one.population])
            if isinstance(one, PrivateSet)
            else (name, "Public: it is about nobody.", "")
            for name, one in sets
        ]
        table = CardTable(("Data set", "What it hides", "Left"), rows)
        return Card(f"{self.config.folder}: {listed}", {}, table if rows else None)

    def _asking(self, principal: str, purpose: str | None) -> AskerOf:
        who = given.text(principal, "principal")
        return partial(self._asker, who, given.maybe_text(purpose, "purpose"))

    def _location(self, config: Config, name: str, schema: Schema) -> Location:
        return location(config, name, schema, check_apart=partial(self._check_apart, name))

    def _check_apart(self, name: str, identity: Identity) -> None:
        from sfumato.vault.sources import check_apart  # questions about what is known need none

        check_apart(self.config, self.ledger, name, identity)

    def _check_open(self) -> None:
        if self._closed:
            raise ParameterError(
                "vault_closed", "A vault that was closed answers nothing. Open it again."
            )

    def _asker(self, principal: str, purpose: str | None, datasets: tuple[str, ...]) -> Asker:
        """Who pays for a question of a principal about data sets."""
        self._check_open()
        sets = [self.config.datasets[name] for name in datasets]
        populations = sorted({one.population for one in sets if isinstance(one, PrivateSet)})
        return self.people.asker(principal, purpose, tuple(populations))

    def close(self) -> None:
        """Let go of engines and of the ledger; what jobs are at is waited for, for a while."""
        if "jobs" in self.__dict__:
            self.jobs.close()
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
    return Vault(load(given.path(path, "path")))


@given.in_python
def create_vault(
    path: str | Path, *, ledger: str = "ledger.sqlite", head: str | Path | None = None
) -> Vault:
    """Make a folder a vault, and open it: data sets under budgets that no crash can overspend.

    The ledger is a SQLite file in the folder, or postgresql://...; its last position is kept in
    `head`, outside the folder, by default beside it.
    """
    from sfumato.vault.registration import create

    needs_locks("A vault")
    kept = None if head is None else given.path(head, "head")
    given.path(given.text(ledger, "ledger"), "ledger")
    return Vault(create(given.path(path, "path"), database=ledger, head=kept))
