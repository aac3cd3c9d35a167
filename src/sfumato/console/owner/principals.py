"""Principals and their budgets: added and changed by the owner, who sees all spending."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.console.forms import field_errors
from sfumato.console.home import gauges
from sfumato.console.page_request import Page, Redirect, Visit, owner_page
from sfumato.errors import SfumatoError
from sfumato.report.points import Point, draw_lines
from sfumato.server.problem_json import not_found
from sfumato.vault.accounts import by_principal, of_population, spending
from sfumato.vault.principals import PrincipalKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.report.picture import Picture
    from sfumato.vault.accounts import Spent
    from sfumato.vault.principals import Principal

PEOPLE, BUDGETS = "/console/owner/people", "/console/owner/budgets"
_FIELDS = ("name", "kind", "epsilon", "delta", "population", "expires", "to")
_KINDS = tuple(str(kind) for kind in PrincipalKind)
_AMOUNTS = ("epsilon", "delta")
_MOST_CHARGES = 50  # on the page; `sfumato ledger export` has all
_DAY_SECONDS = 86_400
_CHART_NOTE = (
    "Charges for Gaussian noise are drawn as the epsilon of pure noise with the same share of the "
    "budget; the table shows the exact charges."
)


def list_principals(
    visit: Visit,
    values: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Page:
    """List all principals, with the form that adds another."""
    registry = visit.vault.principal_registry
    # Read once: each reading of the accounts goes through the ledger.
    accounts = registry.accounts()
    principals = [
        principal.to_json()
        | {"budgets": [] if principal.is_owner else registry.balances(principal.name, accounts)}
        for principal in registry.list()
    ]
    facts = {
        "principals": principals,
        "kinds": _KINDS,
        "populations": list(visit.vault.config.budgets),
        "list": PEOPLE,
    }
    return Page(facts, status, values=values, errors=errors)


def add_principal(visit: Visit) -> Page | Redirect:
    """Add a principal."""
    fields = visit.filled("epsilon", "delta", "population", "expires")
    if "epsilon" not in fields:  # without a budget a delta means nothing
        fields.pop("delta", None)
    try:
        added = visit.vault.people.add(
            visit.text("name"), visit.text("kind"), operator=visit.operator, **fields
        )
    except SfumatoError as error:
        return list_principals(visit, visit.values, field_errors(error, _FIELDS), 422)
    notice = f"{added.name} was added. Invite them next."
    return Redirect(f"{PEOPLE}/{quote(added.name)}", notice)


def principal_page(visit: Visit) -> Page:
    """Show the permissions, budgets and tokens of a principal."""
    return _principal_page(visit, _principal(visit))


def change_principal(action: str, visit: Visit) -> Page | Redirect:
    """Grant, lower or move a budget, or let access expire: `action` is a method of `People`."""
    name = _principal(visit).name
    if action == "expire":
        arguments = {"at": visit.text("expires") or None}
    else:
        # An empty epsilon is passed on, so that the vault's own error names the field.
        fields = ("to", *_AMOUNTS, "population") if action == "move" else (*_AMOUNTS, "population")
        arguments = {"epsilon": "", **visit.filled(*fields)}
    return _try(
        visit,
        action,
        lambda: getattr(visit.vault.people, action)(name, operator=visit.operator, **arguments),
        lambda _: Redirect(f"{PEOPLE}/{quote(name)}", "Done. The change holds from now on."),
    )


def invite(visit: Visit) -> Page | Redirect:
    """Make a link by which a principal sets a password. It is shown only once."""
    principal = _principal(visit)
    return _try(
        visit,
        "invite",
        lambda: visit.vault.logins.invite(principal.name),
        lambda secret: _principal_page(
            visit, principal, link=f"{visit.host}/console/invitation/{secret}"
        ),
    )


def make_token(visit: Visit) -> Page | Redirect:
    """Make a token for a program of a principal. It is shown only once."""
    principal = _principal(visit)
    expires = visit.filled("expires")
    return _try(
        visit,
        "token",
        lambda: visit.vault.tokens.new(principal.name, operator=visit.operator, **expires),
        lambda token: _principal_page(visit, principal, token=token),
    )


def revoke_token(visit: Visit) -> Redirect:
    """Revoke a token of a principal permanently."""
    principal = _principal(visit)
    # A token of somebody else is unknown here: the page must not change another principal.
    tokens = visit.vault.tokens.list()
    if visit.path["token"] not in [
        token.id for token in tokens if token.principal == principal.name
    ]:
        raise not_found()
    visit.vault.tokens.revoke(visit.path["token"], operator=visit.operator)
    return Redirect(f"{PEOPLE}/{quote(principal.name)}", "The token is revoked on every server.")


def budgets_page(
    visit: Visit,
    values: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Page:
    """Show all budgets and who spent what."""
    # Read once for all populations: a ledger may have many entries.
    all_charges, now = spending(visit.vault.ledger), datetime.now(UTC)
    accounts = {account["account"]: account for account in gauges(visit)}
    populations = []
    for name in visit.vault.config.budgets:
        charges = of_population(all_charges, name)
        totals = [
            (principal, charge_count, f"{float(epsilon):.6g}")
            for principal, (charge_count, epsilon) in by_principal(charges).items()
        ]
        newest = [
            (charge.entry, charge.time.isoformat(" ")[:16], charge.principal, charge.cost)
            for charge in reversed(charges[-_MOST_CHARGES:])
        ]
        picture = spending_picture(charges, name, now) if charges else None
        populations.append(
            {
                "name": name,
                "account": accounts[name],
                "totals": totals,
                "newest": newest,
                "picture": picture,
            }
        )
    facts = {
        "populations": populations,
    }
    return Page(facts, status, values=values, errors=errors)


def set_budget(visit: Visit) -> Page | Redirect:
    """Change the total budget of a population."""
    account = visit.text("account")
    amounts = {name: visit.text(name) or "0" for name in _AMOUNTS}
    try:
        visit.vault.limit(account, operator=visit.operator, **amounts)
    except SfumatoError as error:
        errors = field_errors(error, amounts, account)
        return budgets_page(visit, visit.values, errors, 422)
    return Redirect(BUDGETS, f"{account} has a new budget from now on.")


def spending_picture(charges: Sequence[Spent], population: str, now: datetime) -> Picture:
    """Draw the cumulative spending of each principal up to now."""
    points = []
    # The axis begins and ends at midnight, where its labels are.
    begin, end = math.floor(_day(charges[0].time)), math.ceil(_day(now))
    for name in by_principal(charges):
        total = 0.0  # for a picture floats do; the table has the exact amounts
        points.append(Point(name, begin, 0.0))
        for charge in charges:
            if charge.principal == name:
                total += float(charge.epsilon)
                points.append(Point(name, _day(charge.time), total))
        points.append(Point(name, end, total))
    return draw_lines(
        points,
        label=f"Budget of {population} spent by each principal",
        x="Day", y="epsilon", series="Principal", steps=True, dates=True, note=_CHART_NOTE,
    )  # fmt: skip


def _try(
    visit: Visit,
    action: str,
    change: Callable[[], Any],
    respond: Callable[[Any], Page | Redirect],
) -> Page | Redirect:
    """Make a change and respond; an error is shown beside its field in the form of `action`."""
    try:
        result = change()
    except SfumatoError as error:
        errors = field_errors(error, _FIELDS, action)
        return _principal_page(visit, _principal(visit), visit.values, errors, status=422)
    return respond(result)


def _principal_page(
    visit: Visit,
    principal: Principal,
    values: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    *,
    link: str | None = None,
    token: str | None = None,
    status: int = 200,
) -> Page:
    registry = visit.vault.principal_registry
    facts = {
        "principal": principal.to_json(),
        "budgets": [] if principal.is_owner else registry.balances(principal.name),
        "tokens": [
            issued.to_json()
            for issued in visit.vault.tokens.list()
            if issued.principal == principal.name
        ],
        "recipients": [listed.name for listed in registry.list() if listed.name != principal.name],
        "populations": list(visit.vault.config.budgets),
        "page": f"{PEOPLE}/{quote(principal.name)}",
        "link": link,
        "token": token,
    }
    return Page(facts, status, values=values, errors=errors)


def _principal(visit: Visit) -> Principal:
    name = visit.path["name"]
    registry = visit.vault.principal_registry
    if name not in {principal.name for principal in registry.list()}:
        raise not_found()
    return registry.get(name)


def _day(time: datetime) -> float:
    return time.timestamp() / _DAY_SECONDS


_PRINCIPAL = f"{PEOPLE}/{{name}}"
_LIST, _PAGE, _BUDGETS = (f"owner/{name}.html" for name in ("people", "person", "budgets"))
PAGES = (
    owner_page("GET", PEOPLE, "People", list_principals, _LIST, nav="People"),
    owner_page("POST", PEOPLE, "People", add_principal, _LIST),
    owner_page("GET", _PRINCIPAL, "A person", principal_page, _PAGE),
    *(
        owner_page(
            "POST", f"{_PRINCIPAL}/{action}", "A person", partial(change_principal, action), _PAGE
        )
        for action in ("grant", "lower", "move", "expire")
    ),
    owner_page("POST", f"{_PRINCIPAL}/invite", "A person", invite, _PAGE),
    owner_page("POST", f"{_PRINCIPAL}/token", "A person", make_token, _PAGE),
    owner_page("POST", f"{_PRINCIPAL}/tokens/{{token}}", "A person", revoke_token),
    owner_page("GET", BUDGETS, "Budgets", budgets_page, _BUDGETS, nav="Budgets"),
    owner_page("POST", BUDGETS, "Budgets", set_budget, _BUDGETS),
)
