"""The ledger of a vault as its operator handles it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import tomlkit

from sfumato.errors import ParameterError
from sfumato.files import whole
from sfumato.privacy.filters import Budget
from sfumato.schema.names import quoted, suggestion
from sfumato.vault.accounts import declared_accounts, open_ledger
from sfumato.vault.amounts import left
from sfumato.vault.config import NAME, changing, load, parse

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.ledger.base import Ledger
    from sfumato.vault.config import Config


def opened(folder: Path) -> Ledger:
    """Open the ledger alone, whatever has become of the data sets."""
    return open_ledger(load(folder))


def accounts(folder: Path) -> list[dict[str, Any]]:
    """Every account: its budget, what was spent, and what one more question may cost."""
    with closing(opened(folder)) as ledger:
        return [
            {
                "account": one.name,
                "budget": one.budget.describe(one.budget.limits()),
                "spent": one.budget.describe(one.spent),
                "remaining": left(one),
            }
            for one in ledger.accounts()
        ]


def verify(folder: Path) -> dict[str, Any]:
    """Walk every entry and compare with what is stored; raises where they disagree."""
    with closing(opened(folder)) as ledger:
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
        text = _relimited(config, account, {"epsilon": str(epsilon), "delta": str(delta)})
        # Written down before the entry is made: of the configuration only a new name is left then.
        with whole(folder / NAME, overwrite=True, private=True) as new:
            new.write_text(text, encoding="utf-8")
            ledger.set_limit(account, budget=budget, operator=operator)


def _relimited(config: Config, account: str, amounts: dict[str, str]) -> str:
    """The configuration with another budget for an account, if the vault could live with it."""
    population, _, principal = account.partition("/")
    configured = config.principals.get(principal, {}) if principal else config.budgets
    if population not in configured:
        raise ParameterError(
            "account_not_configured",
            f"The ledger keeps the account {quoted(account)}, but {NAME} no longer names it, so it "
            "has no limit to change. Put it back there first, with the budget that 'sfumato ledger "
            "show' tells.",
        )
    path = config.folder / NAME
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    declared = (
        document["principals"][principal]["budgets"] if principal else document["populations"]
    )
    declared[population] = amounts
    text = tomlkit.dumps(document)
    parse(text, path)
    return text
