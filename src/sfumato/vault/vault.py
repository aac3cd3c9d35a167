"""A vault: a folder of data sets, with a durable budget for the people in them.

`Vault` answers queries; `LedgerAccess`, its base, opens only configuration and ledger, for commands
that administer a vault whose data sets may be out of reach.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.platform_support import needs_locks
from sfumato.privacy.ledger.single_flight import Flights
from sfumato.release.files_in_use import ANSWERS, vault_files
from sfumato.report.display import Card, CardTable
from sfumato.vault.accounts import acknowledge, open_accounts, open_ledger
from sfumato.vault.answer import AnswerIndex
from sfumato.vault.config import OWNER, Config, PrivateSet, asking, load, modified, still_held
from sfumato.vault.datastore import DataStore, catalogue, location, schema_of
from sfumato.vault.failure_log import note_failure
from sfumato.vault.gatekeeper import Gatekeeper
from sfumato.vault.principal_registry import PrincipalRegistry
from sfumato.vault.session import Session
from sfumato.vault.tokens import TokenRegistry
from sfumato.vault.vault_api import AnyVault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.data.engines.source_identity import Identity
    from sfumato.data.schema.schema import Schema
    from sfumato.operations.fields import Request
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.vault.consent.registry import ConsentRegistry, Consents
    from sfumato.vault.console_store import History, Logins
    from sfumato.vault.datastore import Location
    from sfumato.vault.feeds.feeds import FeedRegistry
    from sfumato.vault.jobs.jobs import Jobs
    from sfumato.vault.principals import Principal
    from sfumato.vault.programs import PrincipalRules, ProgramRegistry
    from sfumato.vault.releases import Releases
    from sfumato.vault.session import Asker, AskerOf


class LedgerAccess:
    """Configuration and ledger of a vault; usable also where its data sets cannot be read."""

    config: Config

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, opened at first use: commands that acknowledge a loss never get that far."""
        return open_ledger(self.config)

    @cached_property
    def principal_registry(self) -> PrincipalRegistry:
        """The principals of the ledger and of vault.toml."""
        return PrincipalRegistry(self.ledger, lambda: self.config)

    @cached_property
    def token_registry(self) -> TokenRegistry:
        """The tokens by which a server recognizes principals."""
        return TokenRegistry(self.ledger, self.principal_registry, self.config.folder)

    @cached_property
    def program_registry(self) -> ProgramRegistry:
        """The approved programs, and the limits on rehearsals."""
        from sfumato.vault.programs import ProgramRegistry  # most commands run no program

        return ProgramRegistry(self.ledger, lambda: self.config)

    @cached_property
    def consent_registries(self) -> Consents:
        """The consent registries. They need no ledger: withdrawing is always possible."""
        from sfumato.vault.consent.registry import Consents  # most commands ask for no consent

        return Consents(self.config)

    def refresh(self) -> None:
        """Read the configuration again."""
        self.config = load(self.config.folder)


@contextmanager
def ledger_access(folder: Path) -> Iterator[LedgerAccess]:
    """Open only the configuration and the ledger of a vault."""
    access = LedgerAccess()
    access.config = load(folder)
    try:
        yield access
    finally:
        # Only what was opened: a cached property that was never used has no entry here.
        for name in {"consent_registries", "ledger"} & set(access.__dict__):
            getattr(access, name).close()


class Vault(LedgerAccess, AnyVault):
    """An open vault. Safe for any number of threads; each process opens its own."""

    _session: Session

    def __init__(self, config: Config) -> None:
        self.config, self._closed = config, False
        self._changing, self._read = threading.Lock(), modified(config.folder)
        # Schemas before the ledger: a vault with a broken schema opens no account and binds no
        # source.
        self._schemas = schemas = {name: schema_of(config, name) for name in config.datasets}
        self.ledger = open_ledger(config)
        try:
            open_accounts(self.ledger, config)
        except BaseException:
            self.ledger.close()
            raise
        # One gatekeeper for all sessions: its flights and heavy-work queue are shared by all
        # threads.
        gatekeeper = Gatekeeper(
            self.ledger,
            AnswerIndex(config.folder / ANSWERS),
            Flights(config.folder / ANSWERS),
            snapshot=config.snapshot,
            tick_seconds=config.tick_seconds,
            deadline_seconds=config.deadline_seconds,
            tell_operator=lambda charge, message: note_failure(
                config.folder, f"charge {charge}", message
            ),
            limits=config.limits,
        )
        self._store = DataStore(
            {name: self._location(config, name, schemas[name]) for name in schemas}
        )
        self._kept = list(vault_files(config.folder))
        self._session = Session(
            catalogue(config, schemas),
            self._store,
            gatekeeper,
            config.max_epsilon,
            self._kept,
            config.sandbox,
            config.sandbox_workers,
            self._rules_for,
        )

    @property
    def kept(self) -> tuple[Path, ...]:
        """The files in use, which no saved answer may overwrite."""
        return tuple(self._kept)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of its data sets."""
        return tuple(self.config.datasets)

    @property
    def addresses(self) -> dict[str, str]:
        """The database of each data set; the owner alone may know it."""
        return self._store.addresses

    @property
    def consents(self) -> tuple[str, ...]:
        """The populations that are asked for consent."""
        return self.consent_registries.populations

    def consent(self, population: str | None = None) -> ConsentRegistry:
        """The consent registry of a population; optional where there is only one."""
        self._check_open()
        return self.consent_registries.registry(population)

    def purposes(self, name: str) -> tuple[str, ...]:
        """The purposes of a data set. A query about it must name one of them."""
        dataset = self.config.datasets.get(arguments.text(name, "name"))
        return dataset.purposes if isinstance(dataset, PrivateSet) else ()

    def refresh(self) -> None:
        """Reload the configuration if another process changed it.

        Running queries keep the old one; later queries use the new one.
        """
        self._check_open()
        # One look at the file's time and inode, since servers refresh before every request.
        if modified(self.config.folder) == self._read:
            return
        with self._changing:
            self._reload()

    def _reload(self) -> None:
        """Load the present configuration."""
        # The stamp first: a change while we read is seen at the next refresh.
        read = modified(self.config.folder)
        config = load(self.config.folder)
        schemas = {name: schema_of(config, name) for name in config.datasets}
        declared = catalogue(config, schemas)
        # All that can fail comes before the first change of this vault: a broken edit leaves the
        # old one.
        open_accounts(self.ledger, config)
        self.consent_registries.config = config
        before = self.config.datasets
        for name, dataset in config.datasets.items():
            if before.get(name) != dataset or self._schemas[name] != schemas[name]:
                self._store.add(name, self._location(config, name, schemas[name]))
        self._kept[:] = vault_files(config.folder)
        gatekeeper = replace(
            self._session.gatekeeper,
            snapshot=config.snapshot,
            tick_seconds=config.tick_seconds,
            deadline_seconds=config.deadline_seconds,
            limits=config.limits,
        )
        self._session = self._session.renewed(declared, gatekeeper, config.max_epsilon)
        self.config, self._schemas, self._read = config, schemas, read

    @cached_property
    def jobs(self) -> Jobs:
        """The jobs: long work, stored until it is done, also if caller or server is gone."""
        from sfumato.vault.jobs.jobs import Jobs  # most uses of a vault submit no job

        self._check_open()
        return Jobs(self, self._store)

    @cached_property
    def releases(self) -> Releases:
        """The releases that jobs have produced: list, download and share them."""
        from sfumato.vault.releases import Releases

        self._check_open()
        return Releases(self)

    @cached_property
    def feed_registry(self) -> FeedRegistry:
        """The feeds of the ledger, and the worker that answers their periods."""
        from sfumato.vault.feeds.feeds import FeedRegistry

        self._check_open()
        return FeedRegistry(self)

    def _rules_for(self, rights: Principal | None) -> PrincipalRules | None:
        """The rules for programs of a principal; None for the owner, who has no limits."""
        if rights is None or rights.is_owner:
            return None
        from sfumato.vault.programs import PrincipalRules

        return PrincipalRules(self.program_registry, rights.name)

    @cached_property
    def logins(self) -> Logins:
        """The passwords and sessions of the console."""
        from sfumato.vault.console_store import Logins

        return Logins(self.config, self.principal_registry)

    @cached_property
    def history(self) -> History:
        """The queries that were asked in the console."""
        from sfumato.vault.console_store import History

        return History(self)

    @property
    def session(self) -> Session:
        """The session for the present configuration."""
        return self._session

    @property
    def gatekeeper(self) -> Gatekeeper:
        """The gatekeeper before all private answers, for the present configuration."""
        return self._session.gatekeeper

    @staticmethod
    def acknowledge(path: str | Path, *, operator: str) -> None:
        """Accept that a ledger lost entries, as a restored backup has; spends every budget wholly.

        What the lost entries charged is unknown, so nothing may be taken as left.
        """
        acknowledge(arguments.path(path, "path"), operator=arguments.text(operator, "operator"))

    def _call(self, request: type[Request], operator: str = OWNER, /, **values: Any) -> Any:
        from sfumato.operations.local_calls import call_locally  # queries start faster without it

        self._check_open()
        return call_locally(self, request, operator, **values)

    def _card(self) -> Card:
        """The folder, its data sets and, while the vault is open, the budget left."""
        listed, sets = ", ".join(self.datasets) or "empty", self.config.datasets.items()
        if self._closed:
            return Card(f"{self.config.folder}, closed: {listed}", {})
        balances = {account["account"]: account["balance"] for account in self.accounts()}
        rows = [
            (name, dataset.unit.sentence(), balances[dataset.population])
            if isinstance(dataset, PrivateSet)
            else (name, "Public: it is about nobody.", "")
            for name, dataset in sets
        ]
        table = CardTable(("Data set", "What it hides", "Left"), rows)
        return Card(f"{self.config.folder}: {listed}", {}, table if rows else None)

    def _asking(self, principal: str | None, purpose: str | None) -> AskerOf:
        asking_principal = asking(principal)
        return partial(self.asker, asking_principal, arguments.maybe_text(purpose, "purpose"))

    def _location(self, config: Config, name: str, schema: Schema) -> Location:
        apart = partial(self._check_apart, name)
        return location(config, name, schema, consents=self.consent_registries, check_apart=apart)

    def _check_apart(self, name: str, identity: Identity) -> None:
        from sfumato.vault.sources import check_apart  # needed only when a source has changed

        config = self.config
        still_held(config, name)
        check_apart(config, self.ledger, name, identity)

    def _check_open(self) -> None:
        if self._closed:
            raise ParameterError(
                "vault_closed", "A vault that was closed answers nothing. Open it again."
            )

    def asker(self, principal: str, purpose: str | None, datasets: tuple[str, ...]) -> Asker:
        """The asker of a question: the principal and the accounts that pay."""
        self._check_open()
        sets = [still_held(self.config, name) for name in datasets]
        populations = sorted(
            {dataset.population for dataset in sets if isinstance(dataset, PrivateSet)}
        )
        return self.principal_registry.asker(principal, purpose, tuple(populations))

    def close(self) -> None:
        """Close engines and ledger; running jobs get some seconds to finish."""
        # Workers before engines and ledger: what still runs must be able to store its answer.
        if "feed_registry" in self.__dict__:
            self.feed_registry.close()
        if "jobs" in self.__dict__:
            self.jobs.close()
        for name in {"logins", "history", "program_registry"} & set(self.__dict__):
            getattr(self, name).close()
        # From here on no query begins; those that run end with their engines.
        self._closed = True
        self._store.close()
        self.consent_registries.close()
        self.ledger.close()

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_vault(path: str | Path) -> Vault:
    """Open the vault in a folder.

    Parameters
    ----------
    path
        The folder, as `sfumato init` or `sf.init` made it.

    Returns
    -------
    Vault
        The open vault; close it, or use it in a `with` block.

    Raises
    ------
    ParameterError
        `vault_missing` if the folder is no vault, or if its configuration contradicts the ledger.
    LedgerError
        If the ledger lost entries, as a restored backup has.

    Example
    -------
    >>> import sfumato as sf
    >>> with sf.open("clinic") as vault:  # doctest: +SKIP
    ...     vault.query("SELECT COUNT(*) AS n FROM people", epsilon="0.1")
    """
    needs_locks("A vault")
    return Vault(load(arguments.path(path, "path")))


def create_vault(
    path: str | Path, *, ledger: str = "ledger.sqlite", head: str | Path | None = None
) -> Vault:
    """Create a vault in a folder, and open it.

    Parameters
    ----------
    path
        The folder; made if it does not exist.
    ledger
        The name of a SQLite file in the folder, or postgresql://...
    head
        The file with the ledger's last position. It lies outside the folder, by default beside it,
        so that a restored old copy of the folder is recognized.

    Returns
    -------
    Vault
        The open vault, without data sets; `add` adds one.

    Example
    -------
    >>> import sfumato as sf
    >>> vault = sf.init("clinic")  # doctest: +SKIP
    >>> vault.add("visits", "visits.parquet", "visits.toml", epsilon=3)  # doctest: +SKIP
    """
    from sfumato.vault.creation import create

    needs_locks("A vault")
    head_path = None if head is None else arguments.path(head, "head")
    arguments.path(arguments.text(ledger, "ledger"), "ledger")
    return Vault(create(arguments.path(path, "path"), database=ledger, head=head_path))
