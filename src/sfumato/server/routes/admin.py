"""Administration: who may ask, with which budgets and tokens. To others than owners it is nothing.

Every change is an entry of the ledger, in the name of who made it and of the token it came by.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sfumato.server.request_schemas import NAME, NAMES, NUMBER, TEXT, Input
from sfumato.server.routing import Call, Reply, Route
from sfumato.vault.principals import PrincipalKind
from sfumato.vault.tokens import SCOPES, id_of

_KIND = {"type": "string", "enum": [str(one) for one in PrincipalKind]}
_MAYBE = {"type": ["string", "null"]}

_EPSILON = {**NUMBER, "x-code": "epsilon_not_number"}
_BUDGET = (
    Input("population", "Whose budget it is; where there is but one, that.", NAME),
    Input("delta", "Its delta; by default 0.", {**NUMBER, "x-code": "delta_not_number"}),
)
_RIGHTS = (
    Input("shapes", "Fewer shapes than the kind's.", NAMES),
    Input("min_epsilon", "The least that one question costs.", NUMBER),
    Input("max_epsilon", "The most that one question costs.", NUMBER),
)
_WHEN = "A day or time in ISO form, or days from now such as 90d."
_TO = Input("to", "Who gets it.", NAME, required=True)
_PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": _KIND,
        "shapes": {"type": "array", "items": {"type": "string"}},
        "min_epsilon": _MAYBE,
        "max_epsilon": _MAYBE,
        "expires": _MAYBE,
        "populations": {"type": "array", "items": {"type": "string"}},
        "budgets": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["name", "kind", "shapes", "populations", "budgets"],
}
_TOKEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "principal": {"type": "string"},
        "scopes": {"type": "array", "items": {"enum": list(SCOPES)}},
        "expires": _MAYBE,
        "used": _MAYBE,
    },
    "required": ["id", "principal", "scopes", "expires", "used"],
}
_NEW_TOKEN = {**_TOKEN, "properties": {**_TOKEN["properties"], "token": {"type": "string"}}}


def people(call: Call) -> Reply:
    """Every principal, with what is left of each budget."""
    return Reply({"principals": [_told(call, one.name) for one in call.vault.people.list()]})


def person(call: Call) -> Reply:
    """One principal."""
    return Reply(_told(call, call.path["name"]))


def add(call: Call) -> Reply:
    """Add a principal."""
    made = call.vault.people.add(operator=operator_of(call), **call.values)
    return Reply(_told(call, made.name))


def change(action: str, call: Call) -> Reply:
    """Change the principal of the path as `People` does by that name."""
    name = call.path["name"]
    getattr(call.vault.people, action)(name, operator=operator_of(call), **call.values)
    return Reply(_told(call, name))


def tokens(call: Call) -> Reply:
    """Every token that was not revoked; never the token itself."""
    return Reply({"tokens": [one.to_json() for one in call.vault.tokens.list()]})


def new_token(call: Call) -> Reply:
    """Make a token, which is shown this once."""
    text = call.vault.tokens.new(operator=operator_of(call), **call.values)
    [listed] = [one for one in call.vault.tokens.list() if one.id == id_of(text)]
    return Reply({"token": text, **listed.to_json()})


def revoke(call: Call) -> Reply:
    """Revoke a token."""
    named = call.path["id"]
    return Reply({"revoked": call.vault.tokens.revoke(named, operator=operator_of(call))})


def _told(call: Call, name: str) -> dict[str, Any]:
    """A principal with what is left of the budgets that are theirs alone."""
    found = call.vault.people.get(name)
    own = [] if found.is_owner else call.vault.people.balances(name)
    return found.to_json() | {"budgets": own}


def operator_of(call: Call) -> str:
    """In whose name a change is made: the route says it, nobody else."""
    return f"{call.caller.principal} by token {call.caller.token}"


def _change(action: str, told: str, *takes: Input, example: dict[str, Any]) -> Route:
    return Route(
        method="POST",
        path=f"/admin/principals/{{name}}/{action}",
        told=told,
        handler=partial(change, action),
        scope="admin",
        owner=True,
        takes=takes,
        refusals=(404,),
        gives=_PERSON,
        example=example,
    )


def _total(told: str) -> Input:
    return Input("epsilon", told, _EPSILON, required=True)


ROUTES = (
    Route(
        method="GET",
        path="/admin/principals",
        told="Everybody who may ask, with what is left of each budget.",
        handler=people,
        scope="admin",
        owner=True,
        refusals=(404,),
        gives={
            "type": "object",
            "properties": {"principals": {"type": "array", "items": _PERSON}},
            "required": ["principals"],
        },
    ),
    Route(
        method="POST",
        path="/admin/principals",
        told="Add somebody who may ask, with a budget where an epsilon is given.",
        handler=add,
        scope="admin",
        owner=True,
        status=201,
        takes=(
            Input("name", "A letter, then letters, digits, _ and -.", NAME, required=True),
            Input("kind", "What they are to you.", _KIND, required=True),
            Input("epsilon", "The whole budget.", _EPSILON),
            *_BUDGET,
            *_RIGHTS,
            Input("expires", _WHEN, TEXT),
        ),
        refusals=(404,),
        gives=_PERSON,
        example={"name": "eve", "kind": "external", "epsilon": "0.5", "expires": "90d"},
    ),
    Route(
        method="GET",
        path="/admin/principals/{name}",
        told="What one of them may do, and what is left of each budget.",
        handler=person,
        scope="admin",
        owner=True,
        refusals=(404,),
        gives=_PERSON,
    ),
    _change("grant", "Give a budget for a population, or a larger one.",
            _total("The whole budget from now on."), *_BUDGET, example={"epsilon": "1"}),
    _change("lower", "Leave a smaller budget; epsilon 0 takes it away.",
            _total("The whole budget from now on."), *_BUDGET, example={"epsilon": "0.25"}),
    _change("move", "Move a part of a budget to another, both or neither.",
            _TO, _total("How much."), *_BUDGET, example={"to": "bob", "epsilon": "0.1"}),
    _change("expire", "Let their time end, now or at a given one.",
            Input("at", _WHEN, TEXT), example={"at": "30d"}),
    _change("change", "Change their kind, shapes or prices; what is left out stays.",
            Input("kind", "What they are to you.", _KIND), *_RIGHTS,
            example={"max_epsilon": "0.5"}),
    Route(
        method="GET",
        path="/admin/tokens",
        told="Every token that was not revoked, and when each was last used, to the hour.",
        handler=tokens,
        scope="admin",
        owner=True,
        refusals=(404,),
        gives={
            "type": "object",
            "properties": {"tokens": {"type": "array", "items": _TOKEN}},
            "required": ["tokens"],
        },
    ),
    Route(
        method="POST",
        path="/admin/tokens",
        told="Make a token, which is shown this once.",
        handler=new_token,
        scope="admin",
        owner=True,
        status=201,
        takes=(
            Input("principal", "Whose it is.", NAME, required=True),
            Input("scopes", "What for; by default all that they may.", NAMES),
            Input("expires", _WHEN, TEXT),
        ),
        refusals=(404,),
        gives=_NEW_TOKEN,
        example={"principal": "eve", "scopes": ["plan", "query"], "expires": "30d"},
    ),
    Route(
        method="DELETE",
        path="/admin/tokens/{id}",
        told="Let a token never be used again, at any server.",
        handler=revoke,
        scope="admin",
        owner=True,
        refusals=(404,),
        gives={
            "type": "object",
            "properties": {"revoked": {"type": "string"}},
            "required": ["revoked"],
        },
    ),
)  # fmt: skip
