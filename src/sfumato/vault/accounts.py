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
    from sfumato.ledger.book import Account
    from sfumato.privacy.filters import Budget
    from sfumato.vault.config import Config


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
    existing = {account.name: account for account in ledger.accounts()}
    for account, budget in declared_accounts(config).items():
        _open(ledger, existing, account, budget)
    for name, held in config.datasets.items():
        if isinstance(held, PrivateSet):
            # The source too: under another name the same rows must not get a fresh budget.
            for bound in (name, _identity(source_of(config.folder, held.source))):
                if ledger.account_of(bound) != held.population:
                    ledger.attach(bound, account=held.population)


def _open(ledger: Ledger, existing: dict[str, Account], name: str, budget: Budget) -> None:
    if name not in existing:
        ledger.open_account(name, budget=budget)
    elif existing[name].budget != budget:
        raise ParameterError(
            "budget_changed",
            f"The configuration gives {name!r} another budget than the ledger keeps. Put the old "
            "one back, or set the new one with 'sfumato ledger limit'.",
        )


def _identity(source: str) -> str:
    """A name for a source that fits the ledger, however it is written."""
    plain = source if "://" in source else str(Path(source).resolve())
    return f"source {digest(plain.encode())}"
