"""Which data sets a caller may ask, and what is declared of each: public facts, and no row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.data.schema.json_form import schema_to_json
from sfumato.errors import SfumatoError
from sfumato.methods.query.sql.tables import PrivateRows
from sfumato.server.problem_json import not_found
from sfumato.server.routing import Call, Reply, Route

if TYPE_CHECKING:
    from sfumato.methods.query.sql.tables import PublicRows

_NOBODY = "Public: it is about nobody."
_BRIEF = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "public": {"type": "boolean"},
        "hides": {"type": "string"},
        "columns": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "public", "hides", "columns"],
}
_WHOLE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "public": {"type": "boolean"},
        "hides": {"type": "string"},
        "schema": {"type": "object"},
        "population": {"type": ["string", "null"]},
        "purposes": {"type": "array", "items": {"type": "string"}},
        "keys": {"type": "array"},
        "place": {"type": "integer"},
        "usual_epsilon": {"type": ["string", "null"]},
        "largest_epsilon": {"type": ["string", "null"]},
        "remaining": {"type": ["object", "null"]},
        "balance": {"type": ["string", "null"]},
    },
    "required": ["name", "public", "hides", "schema", "purposes", "largest_epsilon"],
}


def listed(call: Call) -> Reply:
    """The data sets that the caller may ask."""
    seen = call.vault.questions(principal=call.caller.principal).catalogue
    listed = [_brief(name, declared) for name, declared in seen.items()]
    return Reply({"principal": call.caller.principal, "datasets": listed})


def one(call: Call) -> Reply:
    """What is declared of a data set, and what the caller may still spend on it."""
    seen = call.vault.questions(principal=call.caller.principal).catalogue
    name = call.path["name"]
    if name not in seen:
        raise not_found()
    declared = seen[name]
    brief = _brief(name, declared)
    del brief["columns"]
    whole: dict[str, Any] = {
        **brief,
        "schema": schema_to_json(declared.schema),
        "population": None,
        "purposes": list(call.vault.purposes(name)),
        "keys": [],
        "place": _place(call, list(seen), name),
        "usual_epsilon": None,
        "largest_epsilon": None,
        "remaining": None,
        "balance": None,
    }
    if isinstance(declared, PrivateRows):
        whole |= _asked(call, name, declared)
    else:
        whole["keys"] = [
            {"columns": list(keys), "rows": rows} for keys, rows in declared.keys.items()
        ]
    return Reply(whole)


def _place(call: Call, seen: list[str], name: str) -> int:
    """A number that data sets share which can be joined; it tells nothing of those not seen."""
    addresses = call.vault.addresses
    return list(dict.fromkeys(addresses[one] for one in seen)).index(addresses[name])


def _brief(name: str, declared: PrivateRows | PublicRows) -> dict[str, Any]:
    private = isinstance(declared, PrivateRows)
    hides = declared.unit.sentence() if isinstance(declared, PrivateRows) else _NOBODY
    return {
        "name": name,
        "public": not private,
        "hides": hides,
        "columns": [column.name for column in declared.schema.columns],
    }


def _asked(call: Call, name: str, declared: PrivateRows) -> dict[str, Any]:
    private = call.vault.private(name, principal=call.caller.principal)
    found: dict[str, Any] = {"population": declared.population}
    try:
        found |= {
            "usual_epsilon": str(private.usual_epsilon),
            "largest_epsilon": str(private.largest_epsilon),
            "remaining": private.remaining,
            "balance": private.balance,
        }
    except SfumatoError as error:
        if error.code != "budget_missing":
            raise
    return found


ROUTES = (
    Route(
        method="GET",
        path="/datasets",
        told="The data sets that you may ask.",
        handler=listed,
        scope="plan",
        gives={
            "type": "object",
            "properties": {
                "principal": {"type": "string"},
                "datasets": {"type": "array", "items": _BRIEF},
            },
            "required": ["principal", "datasets"],
        },
        answer_example={
            "principal": "alice",
            "datasets": [
                {
                    "name": "people",
                    "public": False,
                    "hides": "Hides whether any one row is present.",
                    "columns": ["sex", "age"],
                }
            ],
        },
    ),
    Route(
        method="GET",
        path="/datasets/{name}",
        told="What is declared of a data set, and what you may still spend on it.",
        handler=one,
        scope="plan",
        refusals=(404,),
        gives=_WHOLE,
    ),
)
