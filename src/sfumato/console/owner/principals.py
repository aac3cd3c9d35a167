"""People: who may ask, with which budgets and tokens; invited, changed and let go by the owner."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.console.forms import Filled, wrong
from sfumato.console.page_request import Page, PageRoute, Redirect, Visit, Who
from sfumato.errors import SfumatoError
from sfumato.server.problem_json import not_found
from sfumato.vault.principals import PrincipalKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.vault.principals import Principal

PEOPLE = "/console/owner/people"
_FIELDS = ("name", "kind", "epsilon", "delta", "population", "expires", "to")
_KINDS = tuple(str(one) for one in PrincipalKind)


def listed(visit: Visit) -> Page:
    """Everybody who may ask, and where somebody can be added."""
    return Page(_listed(visit))


def added(visit: Visit) -> Page | Redirect:
    """Somebody who may ask from now on."""
    said = _said(visit, "name", "kind", "epsilon", "delta", "population", "expires")
    if said.get("epsilon") is None:
        said.pop("delta", None)
    try:
        made = visit.vault.people.add(
            said.pop("name", "") or "", said.pop("kind", ""), operator=visit.operator, **said
        )
    except SfumatoError as error:
        return Page(_listed(visit, visit.values, wrong(error, _FIELDS)), status=422)
    return Redirect(f"{PEOPLE}/{quote(made.name)}", f"{made.name} was added. Invite them next.")


def person_page(visit: Visit) -> Page:
    """What one of them may do, and what is left of each budget."""
    return _page(visit, _person(visit))


def changed(action: str, visit: Visit) -> Page | Redirect:
    """One of them, changed as `People` does by that name."""
    name = _person(visit).name
    fields = {"move": ("to", "epsilon", "delta", "population"), "expire": ("expires",)}
    said = _said(visit, *fields.get(action, ("epsilon", "delta", "population")))
    if action == "expire":
        said = {"at": said.get("expires")}
    else:
        said.setdefault("epsilon", "")
    return _tried(
        visit,
        action,
        lambda: getattr(visit.vault.people, action)(name, operator=visit.operator, **said),
        lambda _: Redirect(f"{PEOPLE}/{quote(name)}", "Done. It holds from now on."),
    )


def invited(visit: Visit) -> Page | Redirect:
    """A link by which one of them sets their own password, shown this once."""
    person = _person(visit)
    return _tried(
        visit,
        "invite",
        lambda: visit.vault.logins.invite(person.name),
        lambda secret: _page(visit, person, link=f"{visit.host}/console/invitation/{secret}"),
    )


def new_token(visit: Visit) -> Page | Redirect:
    """A token for a program of theirs, shown this once."""
    person = _person(visit)
    expires = _said(visit, "expires")
    return _tried(
        visit,
        "token",
        lambda: visit.vault.tokens.new(person.name, operator=visit.operator, **expires),
        lambda token: _page(visit, person, token=token),
    )


def revoked(visit: Visit) -> Redirect:
    """A token that is never good again."""
    person = _person(visit)
    mine = [one.id for one in visit.vault.tokens.list() if one.principal == person.name]
    if visit.path["token"] not in mine:
        raise not_found()
    visit.vault.tokens.revoke(visit.path["token"], operator=visit.operator)
    return Redirect(f"{PEOPLE}/{quote(person.name)}", "The token is revoked, at every server.")


def _tried(
    visit: Visit,
    action: str,
    do: Callable[[], Any],
    go_on: Callable[[Any], Page | Redirect],
) -> Page | Redirect:
    """Do it, and go on; what is refused stands beside the field of that very form."""
    try:
        made = do()
    except SfumatoError as error:
        errors = {f"{action}.{name}": one for name, one in wrong(error, _FIELDS).items()}
        return _page(visit, _person(visit), errors=errors, said=visit.values, status=422)
    return go_on(made)


def _page(visit: Visit, person: Principal, *, status: int = 200, **facts: Any) -> Page:
    registry, tokens = visit.vault.principal_registry, visit.vault.tokens.list()
    told = {
        "one": person.to_json(),
        "budgets": [] if person.is_owner else registry.balances(person.name),
        "tokens": [one.to_json() for one in tokens if one.principal == person.name],
        "others": [
            principal.name for principal in registry.list() if principal.name != person.name
        ],
        "populations": list(visit.vault.config.budgets),
        "here": f"{PEOPLE}/{quote(person.name)}",
        **dict.fromkeys(("link", "token")),
        "errors": {},
        "said": {},
        **facts,
    }
    return Page(told | {name: Filled(told[name]) for name in ("errors", "said")}, status)


def _listed(visit: Visit, said: Any = None, errors: Any = None) -> dict[str, Any]:
    registry = visit.vault.principal_registry
    accounts = registry.accounts()
    found = [
        principal.to_json()
        | {"budgets": [] if principal.is_owner else registry.balances(principal.name, accounts)}
        for principal in registry.list()
    ]
    populations = list(visit.vault.config.budgets)
    return {
        "people": found, "kinds": _KINDS, "populations": populations, "here": PEOPLE,
        "said": Filled(said or {}), "errors": Filled(errors or {}),
    }  # fmt: skip


def _person(visit: Visit) -> Principal:
    name = visit.path["name"]
    known = {principal.name for principal in visit.vault.principal_registry.list()}
    if name not in known:
        raise not_found()
    return visit.vault.principal_registry.get(name)


def _said(visit: Visit, *names: str) -> dict[str, Any]:
    """What was filled in; what was left empty is as if it were not there."""
    return {name: visit.said(name) for name in names if visit.said(name)}


_ROUTE = partial(PageRoute, who=Who.OWNER)
_ONE, _LIST, _EACH = f"{PEOPLE}/{{name}}", "owner/people.html", "owner/person.html"
PAGES = (
    _ROUTE(method="GET", path=PEOPLE, title="People", handler=listed, template=_LIST, nav="People"),
    _ROUTE(method="POST", path=PEOPLE, title="People", handler=added, template=_LIST),
    _ROUTE(method="GET", path=_ONE, title="A person", handler=person_page, template=_EACH),
    *(
        _ROUTE(
            method="POST", path=f"{_ONE}/{action}", title="A person",
            handler=partial(changed, action), template=_EACH,
        )
        for action in ("grant", "lower", "move", "expire")
    ),
    _ROUTE(
        method="POST", path=f"{_ONE}/invite", title="A person", handler=invited, template=_EACH
    ),
    _ROUTE(
        method="POST", path=f"{_ONE}/token", title="A person", handler=new_token, template=_EACH
    ),
    _ROUTE(method="POST", path=f"{_ONE}/tokens/{{token}}", title="A person", handler=revoked),
)  # fmt: skip
