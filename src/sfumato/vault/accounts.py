"""The ledger of a vault, and the accounts that its configuration declares."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.ledger.chain import digest
from sfumato.vault.config import PrivateSet
from sfumato.vault.failures import note_ledger

if TYPE_CHECKING:
    from sfumato.ledger.base import Ledger
    from sfumato.privacy.filters import Budget
    from sfumato.vault.config import Config, PublicSet


VERSION = "version "
"""What is kept of a source under this word tells a state of its files."""

NODE = "node "
"""What is kept under this word tells a file wherever it is moved, until it is deleted."""

PASSING = (VERSION, NODE)
"""What may come to mean another file one day is compared, and bound to nothing."""


def open_ledger(config: Config) -> Ledger:
    """Open the ledger of a vault: a SQLite file in its folder, or a PostgreSQL database."""
    tell = partial(note_ledger, config.folder)
    if config.database.startswith(("postgresql://", "postgres://")):
        from sfumato.ledger.sql.postgres import open_postgres

        return open_postgres(config.database, head=config.head, tell_operator=tell)
    from sfumato.ledger.sql.sqlite import open_sqlite

    return open_sqlite(config.folder / config.database, head=config.head, tell_operator=tell)


def create_ledger(config: Config) -> None:
    """Create the ledger of a new vault; nothing else ever does."""
    if config.database.startswith(("postgresql://", "postgres://")):
        from sfumato.ledger.sql.postgres import create_postgres

        create_postgres(config.database, head=config.head).close()
        return
    from sfumato.ledger.sql.sqlite import create_sqlite

    create_sqlite(config.folder / config.database, head=config.head).close()


def account_of(population: str, principal: str) -> str:
    """The account from which a principal pays for questions about a population.

    It is no share of the population's account but stands beside it, because an answer that was
    paid for once costs the people in it nothing more while every principal pays for it.
    """
    return f"{population}/{principal}"


def source_of(folder: Path, source: str) -> str:
    """A source as engines take it: a path is found from the vault's folder."""
    return source if "://" in source else str(folder / source)


def declared_accounts(config: Config) -> dict[str, Budget]:
    """Every account that the configuration declares, of populations and of their principals."""
    shares = {
        account_of(population, principal): budget
        for principal, budgets in config.principals.items()
        for population, budget in budgets.items()
    }
    return {**config.budgets, **shares}


def open_accounts(ledger: Ledger, config: Config) -> None:
    """Open every account of the configuration, and bind data sets and sources to them for good."""
    missing, unbound = check_accounts(ledger, config)
    for name, budget in missing.items():
        ledger.open_account(name, budget=budget)
    for bound, population in unbound.items():
        ledger.attach(bound, account=population)


def check_accounts(ledger: Ledger, config: Config) -> tuple[dict[str, Budget], dict[str, str]]:
    """Refuse what contradicts the ledger, before anything is written; return what it lacks."""
    existing = {account.name: account for account in ledger.accounts()}
    declared = declared_accounts(config)
    for name, budget in declared.items():
        if name in existing and existing[name].budget != budget:
            raise ParameterError(
                "budget_changed",
                f"The configuration gives {name!r} another budget than the ledger keeps. Put the "
                "old one back, or set the new one with 'sfumato ledger limit'.",
            )
    unbound: dict[str, str] = {}
    for name, held in config.datasets.items():
        if isinstance(held, PrivateSet):
            for bound in _bindings(config, name, held):
                owner = ledger.account_of(bound) or unbound.get(bound)
                if owner is None:
                    unbound[bound] = held.population
                elif owner != held.population:
                    raise _attached(name, owner, held.population)
    missing = {name: budget for name, budget in declared.items() if name not in existing}
    return missing, {bound: one for bound, one in unbound.items() if not ledger.account_of(bound)}


def _bindings(config: Config, name: str, held: PrivateSet) -> list[str]:
    """All that is bound with a data set: under another name its rows get no fresh budget."""
    kept = [one for one in held.identity if not one.startswith(PASSING)]
    return [name, written_name(config, held), *kept]


def _attached(name: str, owner: str, population: str) -> ParameterError:
    return ParameterError(
        "dataset_attached",
        f"Data set {name!r}, or its source, is charged to account {owner!r} and cannot move to "
        f"{population!r}: that would give it a fresh budget. Use --population {owner}.",
    )


def named(source: str) -> str:
    """A name for a source, or for a part of one, that fits the ledger."""
    return f"source {digest(source.encode())}"


def written_name(config: Config, held: PrivateSet | PublicSet) -> str:
    """The name of a data set's source as the configuration spells it, without a look at it."""
    source = source_of(config.folder, held.source)
    return named(source if "://" in source else str(Path(source).resolve()))
