"""The ledger of a vault: accounts, their budgets, its verification, and the heads of hosts."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Annotated, ClassVar, Self

from msgspec import Meta

from sfumato.data.schema.names import quoted
from sfumato.errors import InternalError, PolicyError
from sfumato.exact_numbers import decimal_of
from sfumato.operations.fields import Name, PrincipalName, Request, arg
from sfumato.operations.operation import (
    OWNERS,
    Context,
    Permission,
    Result,
    operation,
    print_table,
)

BUDGETS = "/console/owner/budgets"
MOST_LINES = 2000
"""Entries of the ledger on one page, so that a page stays small however long the ledger is."""
_NO_ACCOUNTS = "The ledger has no accounts yet."


class AccountRecord(Result, omit_defaults=True):
    """An account: its budget, what was spent, and the largest cost of one more query.

    `purchases` are the largest epsilons of one more query at several deltas.
    """

    account: str
    budget: str
    spent: str
    remaining: dict[str, float]
    balance: str
    purchases: tuple[dict[str, str], ...] = ()

    def show(self) -> None:
        """Print the account as a table of one row."""
        _print_accounts((self,))


class AccountList(Result):
    """Accounts by name."""

    accounts: tuple[AccountRecord, ...]

    def show(self) -> None:
        """Print a table of what is left."""
        _print_accounts(self.accounts)

    def show_details(self) -> None:
        """Print a table with the whole budget, what was spent by each way of accounting, and what
        one more query may cost at several deltas.
        """
        rows = [
            (account.account, account.balance, account.budget, account.spent)
            for account in self.accounts
        ]
        print_table(("Account", "Budget", "Whole", "Spent"), rows, _NO_ACCOUNTS)
        purchases = [
            (account.account, purchase["delta"], purchase["epsilon"])
            for account in self.accounts
            for purchase in account.purchases
        ]
        if purchases:
            print_table(("Account", "With delta", "Largest epsilon of a question"), purchases, "")


class Verified(Result):
    """The counts of a walk over the whole ledger."""

    entries: int
    head: str
    accounts: int
    requests: int

    def show(self) -> None:
        """Print one sentence."""
        print(  # noqa: T201
            f"The ledger is whole: {self.entries} entries, {self.accounts} accounts, "
            f"{self.requests} requests. Head: {self.head}"
        )


class LedgerPage(Result):
    """Entries of the ledger as lines of JSON; the last page ends with the head."""

    media: ClassVar[str] = "application/jsonl"
    lines: str

    def to_text(self) -> str:
        """The lines."""
        return self.lines

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read the lines."""
        page = cls(text)
        _ = page.last  # raises if the text is not a page of a ledger
        return page

    @property
    def last(self) -> int | None:
        """The number of the last entry; None on the last page."""
        line = json.loads(self.lines.splitlines()[-1])
        return None if "head" in line else int(line["seq"])

    def rest(self, request: ExportLedger) -> ExportLedger | None:
        """Ask for the next page."""
        last = self.last
        if last is None:
            return None
        if last <= request.after:  # a foreign server could send the same page for ever
            raise InternalError(
                "server_unexpected", "The server sent entries of the ledger that were sent before."
            )
        return ExportLedger(after=last)

    def print(self, *, as_json: bool) -> None:  # noqa: ARG002  JSON lines either way
        """Write the lines to standard output."""
        print(self.lines, end="")  # noqa: T201


class Positions(Result, omit_defaults=True):
    """The heads that a host has seen, of the ledger and of consent: a number and a hash each."""

    ledger: str
    consent: str | None = None

    def print(self, *, as_json: bool) -> None:  # noqa: ARG002  another host reads it
        """Print JSON, to be carried to another host."""
        super().print(as_json=True)


def _print_accounts(accounts: tuple[AccountRecord, ...]) -> None:
    rows = [(account.account, account.balance) for account in accounts]
    print_table(("Account", "Budget"), rows, _NO_ACCOUNTS)


class ShowAccounts(Request):
    """Show each budget, what was spent of it, and what is left."""

    principal: Annotated[PrincipalName | None, arg("Whose accounts; by default your own.")] = None


class VerifyLedger(Request):
    """Check every entry of the ledger against the one before it."""


class ExportLedger(Request):
    """Export every entry as a line of JSON, for an independent audit."""

    after: Annotated[int, Meta(ge=0, le=2**53), arg("Only the entries behind this number.")] = 0


class SetLimit(Request):
    """Set the budget of an account."""

    account: Annotated[Name, arg("The account, as the ledger names it.")]
    epsilon: Annotated[Fraction, arg("The whole budget from now on.", metavar="EPSILON")]
    delta: Annotated[Fraction, arg("The delta; by default 0.", metavar="DELTA")] = Fraction(0)


class AcknowledgeLoss(Request):
    """Accept that a ledger has lost entries, as a restored backup has; burns every budget."""

    # No default: whoever spends every budget must name themselves.
    operator: Annotated[str, arg("Who decided it.", metavar="WHO")]


class ShowHead(Request):
    """Print this host's head of the ledger, for another host to join with."""


class JoinHost(Request):
    """Start this host's head of the ledger from that of another host."""

    head: Annotated[str, arg("What 'ledger head' printed on the other host.", metavar="FILE")]


@operation(
    "ledger show",
    allowed=Permission("ledger:read"),
    examples=[{}],
    method="GET",
    path="/ledger",
    page="/console",
)
def show_accounts(context: Context, request: ShowAccounts) -> AccountList:
    """Read the accounts of a principal; an owner's are all."""
    from sfumato.vault.accounts import balances_of, purchases_of

    registry = context.vault.principal_registry
    # A principal sees its own accounts; only owners see those of others.
    name = request.principal or context.principal
    if name != context.principal and not registry.get(context.principal).is_owner:
        raise PolicyError(
            "permission_missing",
            f"Only an owner of the vault may see the accounts of {quoted(name)}. Ask the vault's "
            "owner.",
        )
    accounts = balances_of(context.vault.ledger)
    if not registry.get(name).is_owner:
        # The account of a principal is named POPULATION/PRINCIPAL.
        accounts = [account for account in accounts if account["account"].partition("/")[2] == name]
    purchases = purchases_of(context.vault.ledger)
    return AccountList.from_json(
        {
            "accounts": [
                {**account, "purchases": purchases[account["account"]]} for account in accounts
            ]
        }
    )


@operation("ledger verify", allowed=OWNERS, examples=[{}], method="GET", path="/admin/verify")
def verify_ledger(context: Context, request: VerifyLedger) -> Verified:  # noqa: ARG001
    """Walk every entry; raises where the ledger is not whole."""
    from sfumato.vault.accounts import verified

    return Verified.from_json(verified(context.vault.ledger))


@operation(
    "ledger export",
    allowed=OWNERS,
    examples=[{}],
    doors=("command", "http"),
    method="GET",
    path="/admin/ledger",
)
def export_ledger(context: Context, request: ExportLedger) -> LedgerPage:
    """Read one page."""
    # After a number, not at an offset: entries that come meanwhile move no page.
    return LedgerPage("".join(context.vault.ledger.exported(request.after, MOST_LINES)))


@operation(
    "ledger limit",
    allowed=OWNERS,
    examples=[{"account": "people", "epsilon": "5"}],
    path="/admin/limit",
    recorded=True,
    page=BUDGETS,
)
def set_limit(context: Context, request: SetLimit) -> AccountRecord:
    """Write the budget into the ledger and into vault.toml."""
    from sfumato.vault import accounts

    vault = context.vault
    accounts.set_limit(
        vault.config.folder,
        request.account,
        epsilon=decimal_of(request.epsilon),
        delta=decimal_of(request.delta),
        operator=context.operator,
    )
    vault.refresh()
    [record] = [
        account
        for account in accounts.balances_of(vault.ledger)
        if account["account"] == request.account
    ]
    return AccountRecord.from_json(record)


# The operations below concern the machine that holds the vault, so only its command has them.


@operation("ledger acknowledge", allowed=OWNERS, examples=[{"operator": "Ann"}], doors=("command",))
def acknowledge_loss(context: Context, request: AcknowledgeLoss) -> AccountList:
    """Accept the ledger as it is, and count every budget as spent."""
    from sfumato.vault import accounts

    accounts.acknowledge(context.vault.config.folder, operator=request.operator)
    return AccountList.from_json({"accounts": accounts.balances_of(context.vault.ledger)})


@operation("ledger head", allowed=OWNERS, examples=[{}], doors=("command",))
def show_head(context: Context, request: ShowHead) -> Positions:  # noqa: ARG001
    """Verify the ledger and read this host's heads."""
    from sfumato.vault import creation

    return Positions.from_json(creation.positions(context.vault.config.folder))


@operation("ledger join", allowed=OWNERS, examples=[{"head": "head.json"}], doors=("command",))
def join_host(context: Context, request: JoinHost) -> Positions:
    """Start this host's heads from those of another host.

    Refused if the database does not hold these heads: it would be older than what that host saw.
    """
    from pathlib import Path

    from sfumato.vault import creation

    return Positions.from_json(creation.join(context.vault.config.folder, Path(request.head)))
