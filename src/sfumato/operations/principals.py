"""Principals: who may query a vault, with which budget and permissions, until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Any

from sfumato.exact_numbers import Number
from sfumato.operations.fields import PrincipalName, Request, When, Words, arg
from sfumato.operations.operation import (
    OWNERS,
    Call,
    Context,
    Result,
    operation,
    print_table,
)
from sfumato.report.display import Card, CardTable, Shown
from sfumato.text import minute
from sfumato.vault.principals import OWNER, PERMITTED, SHAPES, Principal, PrincipalKind

PAGE = "/console/owner/people"
URL = "http://127.0.0.1:8321"
"""Where 'sfumato serve' serves the console by default."""

_KINDS = {
    str(kind): ", ".join(shape for shape in SHAPES if shape in PERMITTED[kind])
    for kind in PrincipalKind
}
_KINDS["owner"] = "everything, from the budgets of the populations themselves"
_WHEN = "A day such as 2031-01-31, a time, or 90d."
_TOTAL = arg("The whole budget from now on.", metavar="EPSILON")
_DELTA = arg("The delta; by default 0.", metavar="DELTA")
_POPULATION = arg("The population of the budget; needed where there are several.")
_SHAPES = arg("Fewer shapes of answers than the kind may have.", words=dict.fromkeys(SHAPES, ""))
_MIN = arg("The least that one question costs.", metavar="EPSILON")
_MAX = arg("The most that one question costs.", metavar="EPSILON")
_OF = arg("The principal.", positional=True)


class PrincipalRecord(Result):
    """A principal with what is left of each budget."""

    name: str
    kind: str
    shapes: tuple[str, ...]
    min_epsilon: str | None
    max_epsilon: str | None
    expires: str | None
    populations: tuple[str, ...]
    budgets: tuple[dict[str, Any], ...]

    @property
    def principal(self) -> Principal:
        """The principal without the budgets."""
        return Principal.from_json(self.to_json())

    def command_json(self) -> dict[str, Any]:
        """What the command prints with --json: budgets by account."""
        budgets = {
            budget["account"]: {key: budget[key] for key in ("balance", "remaining")}
            for budget in self.budgets
        }
        return {"principal": self.to_json() | {"budgets": budgets}}

    def show(self) -> None:
        """Print the principal as a table of one row."""
        _print_principals([self])


class PrincipalList(Result):
    """Principals by name, each with what is left of its budgets."""

    principals: tuple[PrincipalRecord, ...]

    def command_json(self) -> dict[str, Any]:
        """What the command prints with --json."""
        return {"principals": [record.command_json()["principal"] for record in self.principals]}

    def show(self) -> None:
        """Print a table."""
        _print_principals(self.principals)


class PasswordLink(Result):
    """A link by which a principal sets a password for the console."""

    name: str
    link: str

    def show(self) -> None:
        """Print the link."""
        print(f"For {self.name}, good once, within three days: {self.link}")  # noqa: T201


def _print_principals(records: Iterable[PrincipalRecord]) -> None:
    rows = []
    for record in records:
        prices = (("from", record.min_epsilon), ("to", record.max_epsilon))
        rows.append(
            (
                record.name,
                record.kind,
                ", ".join(record.shapes),
                "\n".join(f"{budget['account']}: {budget['balance']}" for budget in record.budgets),
                " ".join(f"{word} {price}" for word, price in prices if price is not None),
                minute(record.expires),
            )
        )
    titles = ("Principal", "Kind", "May", "Budgets", "A question", "Expires")
    print_table(titles, rows, "Nobody may ask but the owner.")


class AddPrincipal(Request):
    """Add a principal: a person or an organization that may query the vault."""

    name: Annotated[PrincipalName, arg("A letter, then letters, digits, _ and -.", positional=True)]
    kind: Annotated[
        PrincipalKind,
        arg("The kind of principal, which sets its permissions.", metavar="KIND", words=_KINDS),
    ]
    epsilon: Annotated[Fraction | None, arg("Their whole budget.", metavar="EPSILON")] = None
    delta: Annotated[Fraction, _DELTA] = Fraction(0)
    population: Annotated[str | None, _POPULATION] = None
    shapes: Annotated[Words | None, _SHAPES] = None
    min_epsilon: Annotated[Fraction | None, _MIN] = None
    max_epsilon: Annotated[Fraction | None, _MAX] = None
    expires: Annotated[When | None, arg(f"End of access. {_WHEN}")] = None


class ListPrincipals(Request):
    """List all principals, or one, with what is left of each budget."""

    name: Annotated[PrincipalName | None, arg("Only this one.", positional=True)] = None


class ShowPrincipal(Request):
    """Show what one principal may do, and what is left of each budget."""

    name: Annotated[PrincipalName, _OF]


class GrantBudget(Request):
    """Give a principal a budget for a population, or raise it."""

    name: Annotated[PrincipalName, _OF]
    epsilon: Annotated[Fraction, _TOTAL]
    delta: Annotated[Fraction, _DELTA] = Fraction(0)
    population: Annotated[str | None, _POPULATION] = None


class LowerBudget(Request):
    """Lower a principal's budget; epsilon 0 removes it."""

    name: Annotated[PrincipalName, _OF]
    epsilon: Annotated[Fraction, _TOTAL]
    delta: Annotated[Fraction, _DELTA] = Fraction(0)
    population: Annotated[str | None, _POPULATION] = None


class MoveBudget(Request):
    """Move a part of a budget to another principal; both budgets change, or neither."""

    name: Annotated[PrincipalName, _OF]
    to: Annotated[PrincipalName, arg("The principal who receives the budget.")]
    epsilon: Annotated[Fraction, arg("The epsilon to move.", metavar="EPSILON")]
    delta: Annotated[Fraction, _DELTA] = Fraction(0)
    population: Annotated[str | None, _POPULATION] = None


class ExpirePrincipal(Request):
    """End a principal's access, now or at a time; no budget is given back."""

    name: Annotated[PrincipalName, _OF]
    at: Annotated[When | None, arg(f"When; by default now. {_WHEN}", flag="expires")] = None


class ChangePrincipal(Request):
    """Change a principal's kind, shapes or prices; what is left out stays."""

    name: Annotated[PrincipalName, _OF]
    kind: Annotated[
        PrincipalKind | None,
        arg("The kind of principal, which sets its permissions.", metavar="KIND", words=_KINDS),
    ] = None
    shapes: Annotated[Words | None, _SHAPES] = None
    min_epsilon: Annotated[Fraction | None, _MIN] = None
    max_epsilon: Annotated[Fraction | None, _MAX] = None


class InvitePrincipal(Request):
    """Print a link by which a principal sets a password for the console."""

    name: Annotated[PrincipalName, _OF]
    url: Annotated[str, arg(f"Where the console is; by default {URL}.", metavar="URL")] = URL


@operation(
    "principal add",
    allowed=OWNERS,
    examples=[
        {"name": "eve", "kind": "external", "population": "people", "epsilon": "0.5"},
        {"name": "bob", "kind": "purchaser"},
    ],
    path="/admin/principals",
    status=201,
    repeatable=False,
    recorded=True,
    page=PAGE,
)
def add_principal(context: Context, request: AddPrincipal) -> PrincipalRecord:
    """Write the principal and its budget into the ledger."""
    principal = context.vault.principal_registry.add(
        request.name,
        request.kind,
        operator=context.operator,
        epsilon=request.epsilon,
        delta=request.delta,
        population=request.population,
        shapes=request.shapes,
        min_epsilon=request.min_epsilon,
        max_epsilon=request.max_epsilon,
        expires=request.expires,
    )
    return _record(context, principal)


@operation(
    "principal list",
    allowed=OWNERS,
    examples=[{}],
    method="GET",
    path="/admin/principals",
    page=PAGE,
)
def list_principals(context: Context, request: ListPrincipals) -> PrincipalList:
    """Read the principals from the ledger and vault.toml."""
    registry = context.vault.principal_registry
    principals = registry.list() if request.name is None else [registry.get(request.name)]
    # Read once for all principals: the whole ledger may have thousands of accounts.
    accounts = registry.accounts()
    records = (_record(context, principal, accounts) for principal in principals)
    return PrincipalList(principals=tuple(records))


@operation(
    "principal show",
    allowed=OWNERS,
    examples=[{"name": "eve"}],
    method="GET",
    path="/admin/principals/{name}",
    page=PAGE,
)
def show_principal(context: Context, request: ShowPrincipal) -> PrincipalRecord:
    """Read one principal; an owner's budgets are all accounts."""
    registry = context.vault.principal_registry
    principal = registry.get(request.name)
    return _with_budgets(principal, registry.balances(principal.name))


@operation(
    "principal grant",
    allowed=OWNERS,
    examples=[{"name": "eve", "epsilon": "1", "population": "people"}],
    path="/admin/principals/{name}/grant",
    recorded=True,
    page=PAGE,
)
def grant_budget(context: Context, request: GrantBudget) -> PrincipalRecord:
    """Set the whole budget, so a repeated request changes nothing."""
    principal = context.vault.principal_registry.grant(
        request.name,
        epsilon=request.epsilon,
        delta=request.delta,
        population=request.population,
        operator=context.operator,
    )
    return _record(context, principal)


@operation(
    "principal lower",
    allowed=OWNERS,
    examples=[{"name": "eve", "epsilon": "0.5", "population": "people"}],
    path="/admin/principals/{name}/lower",
    recorded=True,
    page=PAGE,
)
def lower_budget(context: Context, request: LowerBudget) -> PrincipalRecord:
    """Set the whole budget, but never below what was spent."""
    principal = context.vault.principal_registry.lower(
        request.name,
        epsilon=request.epsilon,
        delta=request.delta,
        population=request.population,
        operator=context.operator,
    )
    return _record(context, principal)


@operation(
    "principal move",
    allowed=OWNERS,
    examples=[{"name": "eve", "to": "bob", "epsilon": "0.1", "population": "people"}],
    path="/admin/principals/{name}/move",
    # A client must not retry it: a second move would move twice as much.
    repeatable=False,
    recorded=True,
    page=PAGE,
)
def move_budget(context: Context, request: MoveBudget) -> PrincipalRecord:
    """Change both budgets in one entry of the ledger."""
    principal = context.vault.principal_registry.move(
        request.name,
        request.to,
        epsilon=request.epsilon,
        delta=request.delta,
        population=request.population,
        operator=context.operator,
    )
    return _record(context, principal)


@operation(
    "principal expire",
    allowed=OWNERS,
    examples=[{"name": "eve", "at": "30d"}],
    path="/admin/principals/{name}/expire",
    recorded=True,
    page=PAGE,
)
def expire_principal(context: Context, request: ExpirePrincipal) -> PrincipalRecord:
    """Set the end of access."""
    principal = context.vault.principal_registry.expire(
        request.name, at=request.at, operator=context.operator
    )
    return _record(context, principal)


@operation(
    "principal change",
    allowed=OWNERS,
    examples=[{"name": "eve", "max_epsilon": "0.5"}],
    path="/admin/principals/{name}/change",
    recorded=True,
)
def change_principal(context: Context, request: ChangePrincipal) -> PrincipalRecord:
    """Change rights, never budgets."""
    principal = context.vault.principal_registry.change(
        request.name,
        kind=request.kind,
        shapes=request.shapes,
        min_epsilon=request.min_epsilon,
        max_epsilon=request.max_epsilon,
        operator=context.operator,
    )
    return _record(context, principal)


@operation(
    "principal password",
    allowed=OWNERS,
    examples=[{"name": "owner"}],
    # Not over HTTP: the thief of a token could set a password and keep access after the token is
    # revoked.
    doors=("command",),
)
def invite_principal(context: Context, request: InvitePrincipal) -> PasswordLink:
    """Make an invitation, which is good once."""
    from contextlib import closing

    from sfumato.vault.console_store import Logins, invitation_path

    vault = context.vault
    with closing(Logins(vault.config, vault.principal_registry)) as logins:
        path = invitation_path(logins.invite(request.name))
    return PasswordLink(name=request.name, link=f"{request.url.rstrip('/')}{path}")


def _record(
    context: Context, principal: Principal, accounts: Sequence[Mapping[str, Any]] | None = None
) -> PrincipalRecord:
    """A principal with the budgets that belong to it alone; an owner has none."""
    registry = context.vault.principal_registry
    # Owners spend from the budgets of the populations, which are not theirs alone.
    balances = [] if principal.is_owner else registry.balances(principal.name, accounts)
    return _with_budgets(principal, balances)


def _with_budgets(principal: Principal, budgets: list[dict[str, Any]]) -> PrincipalRecord:
    return PrincipalRecord.from_json(principal.to_json() | {"budgets": budgets})


class Principals(Shown):
    """The principals of a vault, local or behind a server.

    Every change is an entry of the ledger. Principals that vault.toml names stay as they are, as
    permanent staff. Behind a server only owners may use these methods, and `operator` is the
    holder of the token.
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    def add(
        self,
        name: str,
        kind: str,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        population: str | None = None,
        shapes: Iterable[str] | str | None = None,
        min_epsilon: Number | None = None,
        max_epsilon: Number | None = None,
        expires: str | datetime | None = None,
        operator: str = OWNER,
    ) -> Principal:
        """Add a principal, with a budget for a population where an epsilon is given.

        Parameters
        ----------
        name
            A letter, then letters, digits, _ and -.
        kind
            'owner', 'permanent-staff', 'temporary-staff', 'external', 'purchaser' or 'public'.
        epsilon, delta
            The whole budget.
        population
            The population of the budget; needed where the vault has several.
        shapes
            Fewer shapes of answers than the kind may have, such as ["explain", "query"].
        min_epsilon, max_epsilon
            The smallest and the largest cost of one query.
        expires
            A day, a time or days from now, such as "90d".
        operator
            Who decided it; the ledger records the name.

        Returns
        -------
        Principal
            The new principal.

        Raises
        ------
        ParameterError
            A value is wrong, or the name is taken or looks like one that is.
        """
        return self._changed(
            AddPrincipal,
            operator,
            name=name,
            kind=kind,
            epsilon=epsilon,
            delta=delta,
            population=population,
            shapes=shapes,
            min_epsilon=min_epsilon,
            max_epsilon=max_epsilon,
            expires=expires,
        )

    def grant(
        self,
        name: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str = OWNER,
    ) -> Principal:
        """Set a principal's budget for a population; `epsilon` is the whole, not an addition."""
        budget = {"epsilon": epsilon, "delta": delta, "population": population}
        return self._changed(GrantBudget, operator, name=name, **budget)

    def lower(
        self,
        name: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str = OWNER,
    ) -> Principal:
        """Lower a principal's budget for a population; epsilon 0 removes it."""
        budget = {"epsilon": epsilon, "delta": delta, "population": population}
        return self._changed(LowerBudget, operator, name=name, **budget)

    def move(
        self,
        name: str,
        to: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str = OWNER,
    ) -> Principal:
        """Move a part of a principal's budget to another; both budgets change, or neither."""
        budget = {"epsilon": epsilon, "delta": delta, "population": population}
        return self._changed(MoveBudget, operator, name=name, to=to, **budget)

    def expire(
        self, name: str, *, at: str | datetime | None = None, operator: str = OWNER
    ) -> Principal:
        """End a principal's access, now or at a day or time; no budget is given back."""
        return self._changed(ExpirePrincipal, operator, name=name, at=at)

    def change(
        self,
        name: str,
        *,
        kind: str | None = None,
        shapes: Iterable[str] | str | None = None,
        min_epsilon: Number | None = None,
        max_epsilon: Number | None = None,
        operator: str = OWNER,
    ) -> Principal:
        """Change a principal's kind, shapes or range of costs; what is left out stays."""
        return self._changed(
            ChangePrincipal,
            operator,
            name=name,
            kind=kind,
            shapes=shapes,
            min_epsilon=min_epsilon,
            max_epsilon=max_epsilon,
        )

    def get(self, name: str) -> Principal:
        """Read a principal by name, also an expired one; the owner is 'owner'."""
        record: PrincipalRecord = self._call(ShowPrincipal, name=name)
        return record.principal

    def balances(self, name: str) -> list[dict[str, Any]]:
        """Read the accounts of a principal, with what is left of each; of an owner, all."""
        record: PrincipalRecord = self._call(ShowPrincipal, name=name)
        return list(record.budgets)

    def list(self) -> list[Principal]:
        """List all principals by name, also expired ones; without the vault's own owner."""
        listed: PrincipalList = self._call(ListPrincipals)
        return [record.principal for record in listed.principals]

    def _changed(self, request: type[Request], operator: str, **values: Any) -> Principal:
        record: PrincipalRecord = self._call(request, operator, **values)
        return record.principal

    def _card(self) -> Card:
        principals = self.list()
        rows = [
            (
                principal.name,
                str(principal.kind),
                ", ".join(principal.populations),
                "" if principal.expires is None else principal.expires.isoformat(),
            )
            for principal in principals
        ]
        line = ", ".join(principal.name for principal in principals) or "nobody but the owner"
        titles = ("Principal", "Kind", "Budgets for", "Expires")
        return Card(line, {}, CardTable(titles, rows) if rows else None)
