"""The ledger of a vault: its accounts, balances and charges, and what the operator may change.

Principals' accounts stand beside those of populations: decision `ledger`.
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime
from fractions import Fraction
from functools import partial
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import EPSILON_UNIT, float_below
from sfumato.filesystem import whole
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.balance import (
    describe_balance,
    describe_cost,
    purchase_table,
    remaining_amounts,
)
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.event_records import from_record
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.accounting.purchase import event_of, summed_event
from sfumato.privacy.ledger.chain import digest
from sfumato.privacy.ledger.records import Amendment
from sfumato.privacy.ledger.rules import charge_account
from sfumato.release.files_in_use import VAULT
from sfumato.vault.config import PrivateSet, changing, covers, parse
from sfumato.vault.failure_log import note_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.chain import Account
    from sfumato.privacy.ledger.records import BookState
    from sfumato.vault.config import Config, PublicSet


VERSION = "version "
"""The prefix of a recorded name of one state of a source's files."""

NODE = "node "
"""Begins a recorded name that follows a file wherever it is moved, until it is deleted."""

PASSING = (VERSION, NODE)
"""Such names may later belong to another file. They are compared, but bound to no account."""

PRINCIPALS = "principal"
"""The topic of the ledger's records about principals."""


def open_ledger(config: Config) -> Ledger:
    """Open the ledger of a vault: a SQLite file in its folder, or a PostgreSQL database."""
    tell_operator = partial(note_failure, config.folder, "ledger")
    if config.in_postgres:
        from sfumato.privacy.ledger.sql.postgres import open_postgres

        return open_postgres(config.database, head=config.head, tell_operator=tell_operator)
    from sfumato.privacy.ledger.sql.sqlite import open_sqlite

    database = config.folder / config.database
    return open_sqlite(database, head=config.head, tell_operator=tell_operator)


def create_ledger(config: Config) -> None:
    """Create the ledger of a new vault. Only `init` calls this: a new ledger is a fresh budget."""
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
    # All checks first: a refused configuration leaves the ledger as it was.
    missing, unbound = check_accounts(ledger, config)
    for name, budget in missing.items():
        ledger.open_account(name, budget=budget)
    for bound, population in unbound.items():
        ledger.attach(bound, account=population)


def check_accounts(ledger: Ledger, config: Config) -> tuple[dict[str, Budget], dict[str, str]]:
    """Refuse a configuration that contradicts the ledger, before anything is written.

    Returns
    -------
    The accounts that the ledger lacks, with their budgets; and the names that are not bound yet,
    with their populations.
    """
    existing = {account.name: account for account in ledger.accounts()}
    declared = declared_accounts(config)
    for name, budget in declared.items():
        # By the guarantee: an older ledger gives sums another share, and a first charge all of it.
        if name in existing and existing[name].budget.loss() != budget.loss():
            raise ParameterError(
                "budget_changed",
                f"The configuration gives {name!r} another budget than the ledger keeps.",
                hint="Put the old one back, or set the new one with 'sfumato ledger limit'.",
            )
    unbound: dict[str, str] = {}
    for name, dataset in config.datasets.items():
        if isinstance(dataset, PrivateSet):
            # Bound with the data set: under another name its rows would get a fresh budget (F22).
            lasting = [mark for mark in dataset.identity if not mark.startswith(PASSING)]
            for bound in (name, written_name(config, dataset), *lasting):
                owner = ledger.account_of(bound) or unbound.setdefault(bound, dataset.population)
                if owner != dataset.population:
                    raise _attached(name, owner, dataset.population)
    missing = {name: budget for name, budget in declared.items() if name not in existing}
    return missing, unbound


def _attached(name: str, owner: str, population: str) -> ParameterError:
    return ParameterError(
        "dataset_attached",
        f"Data set {name!r}, or its source, is charged to account {owner!r} and cannot move to "
        f"{population!r}: that would give it a fresh budget.",
        parameter="population",
        hint=f"Use {option('population', owner)}.",
    )


def source_of(folder: Path, source: str) -> str:
    """The address of a source for engines; a relative path starts at the vault's folder."""
    return source if "://" in source else str(folder / source)


def source_name(source: str) -> str:
    """A name for a source, or for a part of one, that fits the ledger."""
    # A digest: the ledger is copied and shown, and a path or catalogue name may tell about people.
    return f"source {digest(source.encode())}"


def written_name(config: Config, dataset: PrivateSet | PublicSet) -> str:
    """The name of a data set's source by its address alone; the source is not opened."""
    source = source_of(config.folder, dataset.source)
    return source_name(source if "://" in source else str(Path(source).resolve()))


def remaining_budget(
    ledger: Ledger, names: Iterable[str], charged: Charged | None = None
) -> tuple[Mapping[str, float], str]:
    """What one more question that all these accounts pay for may cost.

    Parameters
    ----------
    charged
        A charge to them that comes first, such as that of a plan.

    Returns
    -------
    The largest epsilon, delta and rho, never more than there is; and the balance of the tightest
    account in one line for people.
    """
    # By the same rule as a charge, and in the same order: a preview never promises more than is
    # there.
    before = [ledger.account(name) for name in names]
    after = [charge_account(account, charged) if charged else account for account in before]
    for account, charged_account in zip(before, after, strict=True):
        if charged_account is None:
            balance = describe_balance(account.budget, account.spent)
            zero_amounts = dict.fromkeys(affordable(account), 0.0)
            return zero_amounts, f"nothing, it is too much: there is {balance}"
    return _least([account for account in after if account is not None])


def _least(accounts: Sequence[Account]) -> tuple[Mapping[str, float], str]:
    """The least that one more question may cost over accounts, and the tightest in one line."""
    amounts = [affordable(account) for account in accounts]
    # One more question is charged to every account, so the poorest of them decides each amount.
    least: dict[str, float] = {
        name: min(amount[name] for amount in amounts)
        for name in ("epsilon", "delta", "rho")
        if all(name in amount for amount in amounts)
    }
    tightest = min(
        accounts, key=lambda account: remaining_amounts(account.budget, account.spent)["epsilon"]
    )
    return least, describe_balance(tightest.budget, tightest.spent)


def affordable(account: Account) -> dict[str, float]:
    """What one more question may cost, as programs get it: rounded down."""
    amounts = remaining_amounts(account.budget, account.spent)
    return {name: float_below(amount) for name, amount in amounts.items()}


def balances_of(ledger: Ledger) -> list[dict[str, Any]]:
    """Every account: its budget, what was spent, and what one more question may cost."""
    return [
        {
            "account": account.name,
            "budget": account.budget.describe(account.budget.limits()),
            "spent": account.budget.describe(account.spent),
            "remaining": affordable(account),
            "balance": describe_balance(account.budget, account.spent),
        }
        for account in ledger.accounts()
    ]


def purchases_of(ledger: Ledger) -> dict[str, list[dict[str, str]]]:
    """By account the largest epsilon of one more purchase at several deltas."""
    return {
        account.name: purchase_table(account.budget, account.spent) for account in ledger.accounts()
    }


def verified(ledger: Ledger) -> dict[str, Any]:
    """Verify every entry of the ledger; raises `LedgerError` if one is missing or altered."""
    verification = ledger.verify()
    return {
        "entries": verification.position.seq,
        "head": verification.position.hash,
        "accounts": verification.accounts,
        "requests": verification.requests,
    }


def acknowledge(folder: Path, *, operator: str) -> None:
    """Accept a ledger that is older than its head; burns every budget."""
    with changing(folder) as config, closing(open_ledger(config)) as ledger:
        ledger.acknowledge_rollback(operator=operator, accounts=declared_accounts(config))


def set_limit(folder: Path, account: str, *, epsilon: object, delta: object, operator: str) -> None:
    """Give an account another budget, in the ledger and in the configuration."""
    # Lock of the folder first, ledger second, as everywhere: two changes cannot wait for each
    # other.
    with changing(folder) as config, closing(open_ledger(config)) as ledger:
        budget = Budget.for_epsilon_delta(epsilon=epsilon, delta=delta, maximum=config.max_epsilon)
        names = [known.name for known in ledger.accounts()]
        if account not in names:
            raise ParameterError(
                "account_unknown",
                f"There is no account {quoted(account)}; {suggestion(account, names)}",
                parameter="account",
            )
        population, _, principal = account.partition("/")
        if principal in ledger.records(PRINCIPALS):
            raise ParameterError(
                "account_elsewhere",
                f"The budget of {quoted(principal)} for {quoted(population)} is kept in the ledger "
                "alone.",
                parameter="account",
                hint="Change it with 'sfumato principal grant' or 'sfumato principal lower'.",
            )
        text = _with_limit(config, account, {"epsilon": str(epsilon), "delta": str(delta)})
        # The new text lies on disk before the entry is made: after it, only a rename is left, so
        # that a crash hardly ever leaves a configuration that contradicts the ledger.
        with whole(folder / VAULT, overwrite=True, private=True) as new:
            new.write_text(text, encoding="utf-8")
            ledger.amend(partial(_limited, account, budget), operator=operator)


def _limited(account: str, budget: Budget, book: BookState) -> Amendment:
    """Another budget for an account, unless a principal of the ledger has more of it than that."""
    for name, record in book.of(PRINCIPALS).items():
        if account in record["populations"]:
            share = book.accounts[account_of(account, name)].budget
            if not covers(budget, share):
                raise ParameterError(
                    "budget_out_of_range",
                    f"{quoted(name)} has a larger budget for {quoted(account)} than that.",
                    parameter="epsilon",
                    hint="Lower it first with 'sfumato principal lower'.",
                )
    return Amendment({account: budget})


def _with_limit(config: Config, account: str, amounts: dict[str, str]) -> str:
    """The configuration with another budget for an account, if the vault could live with it."""
    import tomlkit  # a question changes no budget, and starts without it

    population, _, principal = account.partition("/")
    configured = config.principals.get(principal, {}) if principal else config.budgets
    if population not in configured:
        raise ParameterError(
            "account_elsewhere",
            f"The ledger keeps the account {quoted(account)}, but {VAULT} no longer names it, so "
            "it has no limit to change.",
            parameter="account",
            hint="Put it back there first, with the budget that 'sfumato ledger show' tells.",
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


LOST = "lost with the ledger"
"""The principal of budget that was burnt because nobody knows who spent it."""


class Spent(NamedTuple):
    """One charge: its entry, when, by whom, of which accounts, and how much."""

    entry: int
    time: datetime
    principal: str
    accounts: tuple[str, ...]
    cost: str
    """In words: an epsilon and a delta, or a rho."""
    epsilon: Fraction
    """For a picture: of a rho, the epsilon of pure noise that takes as much."""


def spending(ledger: Ledger) -> list[Spent]:
    """List every charge, oldest first, without those that were given back."""
    charges: dict[int, Spent] = {}
    for entry in ledger.entries():
        record = json.loads(entry.body)
        # A burn writes off a whole budget after lost entries: it counts as spent, by nobody.
        if record["kind"] in ("charge", "burn"):
            event = from_record(record["event"])
            charges[entry.seq] = Spent(
                entry.seq,
                datetime.fromisoformat(record["time"]),
                record.get("principal", LOST),
                tuple(sorted(record["charges"])),
                describe_cost(event),
                _epsilon(event),
            )
        elif record["kind"] == "void":
            # Void: the charge was given back before any entropy was drawn, so nothing was released
            # for it.
            charges.pop(record["charge"], None)
    return list(charges.values())


def of_population(spent: Sequence[Spent], population: str) -> list[Spent]:
    """Those that the people of a population paid with their own budget."""
    return [charge for charge in spent if population in charge.accounts]


def by_principal(spent: Sequence[Spent]) -> dict[str, tuple[int, Fraction]]:
    """How often each principal spent, and how much in all, the most first."""
    sums: dict[str, tuple[int, Fraction]] = {}
    for charge in spent:
        often, epsilon = sums.get(charge.principal, (0, Fraction(0)))
        sums[charge.principal] = often + 1, epsilon + charge.epsilon
    return dict(sorted(sums.items(), key=lambda pair: (-pair[1][1], pair[0])))


def _epsilon(charged: Charged) -> Fraction:
    pair = total(summed_event(charged), basic_price)
    if pair is not None:
        return pair[0]
    rho, *_ = total(event_of(charged), zcdp.price) or (Fraction(0),)
    # Gaussian noise of rho is about as costly as pure noise with epsilon = sqrt(2 rho), since
    # epsilon-DP implies zCDP with rho = epsilon^2 / 2. Rounded down to the unit; this is for a
    # picture alone.
    return isqrt(int(2 * rho / EPSILON_UNIT**2)) * EPSILON_UNIT
