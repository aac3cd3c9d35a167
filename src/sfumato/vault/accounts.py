"""The ledger of a vault: the accounts it declares, what is left of them, what its operator does.

Principals' accounts stand beside those of populations: decision `ledger-stores`.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import float_below
from sfumato.filesystem import whole
from sfumato.privacy.accounting.balance import describe_balance, remaining_amounts
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.chain import digest
from sfumato.privacy.ledger.records import Amendment
from sfumato.release.files_in_use import VAULT
from sfumato.vault.config import PrivateSet, changing, covers, load, parse
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.chain import Account
    from sfumato.privacy.ledger.records import BookState
    from sfumato.vault.config import Config, PublicSet


def affordable(account: Account) -> dict[str, float]:
    """What one more question may cost, as programs get it: never more than there is."""
    found = remaining_amounts(account.budget, account.spent)
    return {name: float_below(amount) for name, amount in found.items()}


def left_over(
    ledger: Ledger, names: Iterable[str], event: Event | None = None
) -> tuple[Mapping[str, float], str]:
    """What one more question charged to all these accounts may cost, for programs and for people.

    With an event, once that was charged to them. People are told of the tightest account.
    """
    accounts = [ledger.account(name) for name in names]
    after = accounts if event is None else [_once_charged(one, event) for one in accounts]
    found = [affordable(one) for one in after]
    shared = set.intersection(*(set(one) for one in found))
    least: dict[str, float] = {
        name: min(one[name] for one in found)
        for name in ("epsilon", "delta", "rho")
        if name in shared
    }
    return least, _tightest(after, before=accounts)


def _once_charged(account: Account, event: Event) -> Account:
    budget = account.budget
    return replace(account, spent=budget.add(account.spent, budget.charge(event)))


def _tightest(accounts: Sequence[Account], before: Sequence[Account]) -> str:
    """What is left of the tightest of some accounts in one line, and `before` if it is too much."""
    place = min(
        range(len(accounts)),
        key=lambda one: remaining_amounts(accounts[one].budget, accounts[one].spent)["epsilon"],
    )
    found, there = accounts[place], before[place]
    if all(part is None for part in found.spent):
        return f"nothing, it is too much: there is {describe_balance(there.budget, there.spent)}"
    return describe_balance(found.budget, found.spent)


VERSION = "version "
"""What is kept of a source under this word tells a state of its files."""

NODE = "node "
"""What is kept under this word tells a file wherever it is moved, until it is deleted."""

PRINCIPALS = "principal"
"""The topic of the ledger's records about principals."""

PASSING = (VERSION, NODE)
"""What may come to mean another file one day is compared, and bound to nothing."""


def open_ledger(config: Config) -> Ledger:
    """Open the ledger of a vault: a SQLite file in its folder, or a PostgreSQL database."""
    tell = partial(note_failure, config.folder, "ledger")
    if config.in_postgres:
        from sfumato.privacy.ledger.sql.postgres import open_postgres

        return open_postgres(config.database, head=config.head, tell_operator=tell)
    from sfumato.privacy.ledger.sql.sqlite import open_sqlite

    return open_sqlite(config.folder / config.database, head=config.head, tell_operator=tell)


def create_ledger(config: Config) -> None:
    """Create the ledger of a new vault; nothing else ever does."""
    if config.in_postgres:
        from sfumato.privacy.ledger.sql.postgres import create_postgres

        create_postgres(config.database, head=config.head).close()
        return
    from sfumato.privacy.ledger.sql.sqlite import create_sqlite

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
        f"{population!r}: that would give it a fresh budget. Use {option('population', owner)}.",
    )


def source_name(source: str) -> str:
    """A name for a source, or for a part of one, that fits the ledger."""
    return f"source {digest(source.encode())}"


def written_name(config: Config, held: PrivateSet | PublicSet) -> str:
    """The name of a data set's source as the configuration spells it, without a look at it."""
    source = source_of(config.folder, held.source)
    return source_name(source if "://" in source else str(Path(source).resolve()))


def opened_ledger(folder: Path) -> Ledger:
    """Open the ledger alone, whatever has become of the data sets."""
    return open_ledger(load(folder))


def balance_of(folder: Path, account: str) -> str:
    """What is left of one account, in one line for people."""
    with closing(opened_ledger(folder)) as ledger:
        return left_over(ledger, [account])[1]


def balances(folder: Path) -> list[dict[str, Any]]:
    """The accounts of a vault's ledger, as `balances_of` tells them."""
    with closing(opened_ledger(folder)) as ledger:
        return balances_of(ledger)


def balances_of(ledger: Ledger) -> list[dict[str, Any]]:
    """Every account: its budget, what was spent, and what one more question may cost."""
    return [
        {
            "account": one.name,
            "budget": one.budget.describe(one.budget.limits()),
            "spent": one.budget.describe(one.spent),
            "remaining": affordable(one),
            "balance": describe_balance(one.budget, one.spent),
        }
        for one in ledger.accounts()
    ]


def verify(folder: Path) -> dict[str, Any]:
    """Verify a vault's ledger, as `verified` does."""
    with closing(opened_ledger(folder)) as ledger:
        return verified(ledger)


def verified(ledger: Ledger) -> dict[str, Any]:
    """Walk every entry and compare with what is stored; raises where they disagree."""
    found = ledger.verify()
    return {
        "entries": found.position.seq,
        "head": found.position.hash,
        "accounts": found.accounts,
        "requests": found.requests,
    }


def acknowledge(folder: Path, *, operator: str) -> None:
    """Accept a ledger that is older than its head; burns every budget."""
    with changing(folder) as config, closing(open_ledger(config)) as ledger:
        ledger.acknowledge_rollback(operator=operator, accounts=declared_accounts(config))


def set_limit(folder: Path, account: str, *, epsilon: object, delta: object, operator: str) -> None:
    """Give an account another budget, in the ledger and in the configuration."""
    with changing(folder) as config, closing(open_ledger(config)) as ledger:
        budget = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta, maximum=config.max_epsilon)
        names = [one.name for one in ledger.accounts()]
        if account not in names:
            raise ParameterError(
                "account_unknown",
                f"There is no account {quoted(account)}; {suggestion(account, names)}",
            )
        population, _, principal = account.partition("/")
        if principal in ledger.records(PRINCIPALS):
            raise ParameterError(
                "account_elsewhere",
                f"The budget of {quoted(principal)} for {quoted(population)} is kept in the ledger "
                "alone. Change it with 'sfumato principal grant' or 'sfumato principal lower'.",
            )
        text = _relimited(config, account, {"epsilon": str(epsilon), "delta": str(delta)})
        # Written down before the entry is made: of the configuration only a new name is left then.
        with whole(folder / VAULT, overwrite=True, private=True) as new:
            new.write_text(text, encoding="utf-8")
            ledger.amend(partial(_limited, account, budget), operator=operator)


def _limited(account: str, budget: Budget, now: BookState) -> Amendment:
    """Another budget for an account, unless a principal of the ledger has more of it than that."""
    for name, told in now.of(PRINCIPALS).items():
        if account in told["populations"]:
            share = now.accounts[account_of(account, name)].budget
            if not covers(budget, share):
                raise ParameterError(
                    "budget_out_of_range",
                    f"{quoted(name)} has a larger budget for {quoted(account)} than that. Lower it "
                    "first with 'sfumato principal lower'.",
                )
    return Amendment({account: budget})


def _relimited(config: Config, account: str, amounts: dict[str, str]) -> str:
    """The configuration with another budget for an account, if the vault could live with it."""
    import tomlkit  # a question changes no budget, and starts without it

    population, _, principal = account.partition("/")
    configured = config.principals.get(principal, {}) if principal else config.budgets
    if population not in configured:
        raise ParameterError(
            "account_elsewhere",
            f"The ledger keeps the account {quoted(account)}, but {VAULT} no longer names it, so "
            "it has no limit to change. Put it back there first, with the budget that 'sfumato "
            "ledger show' tells.",
        )
    path = config.folder / VAULT
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    declared = (
        document["principals"][principal]["budgets"] if principal else document["populations"]
    )
    declared[population] = amounts
    text = tomlkit.dumps(document)
    parse(text, path)
    return text
