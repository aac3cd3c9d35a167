"""What an owner does to the vault itself: add data sets.

A data set is added from below the folder that the server was given for that, and from nowhere else:
a token must not make a server read whatever its account may. Decision `client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.data.schema.json_form import schema_from_json
from sfumato.errors import ParameterError, PolicyError, SfumatoError, SourceError
from sfumato.server.request_schemas import FLAG, NAME, NAMES, NUMBER, TEXT, WHOLE, Input
from sfumato.server.routing import Call, Reply, Route
from sfumato.vault.registration import add_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.schema import Schema

_EPSILON = {**NUMBER, "x-code": "parameter_not_number"}
_DELTA = Input("delta", "Its delta; by default 0.", {**NUMBER, "x-code": "parameter_not_number"})
_UNIQUE = {"type": "array", "items": NAMES, "maxItems": 100}
_OFTEN = {**WHOLE, "minimum": 1}


class NamedSourceError(SourceError):
    """A file that cannot be read, told to who named it."""

    status = 422


def added(call: Call) -> Reply:
    """Add a data set, with a budget for the people in it, or a public table."""
    told, warnings = dict(call.values), list[str]()
    wanted: dict[str, Any] = dict.fromkeys(_OPTIONS) | {"delta": 0} | told
    source = allowed_source(str(wanted.pop("source")), call.data)
    schema = _declared(wanted.pop("schema"))
    try:
        add_dataset(
            call.vault.config.folder,
            wanted.pop("name"),
            source,
            schema,
            public=wanted.pop("public") or False,
            unique=wanted.pop("unique") or (),
            warn=warnings.append,
            **wanted,
        )
    except SourceError as error:
        raise NamedSourceError(error.code, error.sentence) from None
    call.vault.refresh()
    return Reply({"dataset": told["name"], "warnings": warnings})


def allowed_source(source: str, folder: Path | None) -> str:
    """A file below the folder from which data sets may be added; all else is refused alike."""
    if folder is not None and "://" not in source:
        allowed = folder.resolve()
        found = (allowed / source).resolve()
        if found != allowed and found.is_relative_to(allowed):
            return str(found)
    where = "no folder" if folder is None else "a folder"
    raise PolicyError(
        "permission_missing",
        f"This server was given {where} to add data sets from, and the source is not in it. Put "
        "the file into the server's folder of data and name it from there, or add it where "
        "the vault is with 'sfumato add'.",
    )


def _declared(told: Any) -> Schema:
    try:
        return schema_from_json(told)
    except SfumatoError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        raise ParameterError(
            "schema_syntax",
            "The schema must be written as GET datasets/{name} tells one: table, unit and columns, "
            "each with its name and kind.",
        ) from None


def _owners(method: str, path: str, told: str, handler: Any, **more: Any) -> Route:
    return Route(
        method=method,
        path=f"/admin/{path}",
        told=f"{told}; for the owner.",
        handler=handler,
        scope="admin",
        owner=True,
        **{"refusals": (404,), **more},
    )


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


_ADD = (
    Input("name", "A letter, then letters, digits, _ and -.", NAME, required=True),
    Input("source", "A file of the server, from its folder for data.", TEXT, required=True),
    Input("schema", "As GET datasets/{name} tells one.", {"type": "object"}, required=True),
    Input("unit", "'row', or the column that tells people apart.", NAME),
    Input("max_rows", "How many rows of one person are used at most.", _OFTEN),
    Input("max_groups", "In how many groups one person counts at most.", _OFTEN),
    Input("epsilon", "The whole budget of its people.", _EPSILON),
    _DELTA,
    Input("population", "Whose budget it shares; by default its own.", NAME),
    Input("consent", "The column that says who agreed.", NAME),
    Input("purposes", "What its people are asked to agree to.", NAMES),
    Input("public", "Whether it is about nobody.", FLAG),
    Input("unique", "Of a public table: what is different in every row.", _UNIQUE),
)
_OPTIONS = tuple(one.name for one in _ADD)
_WORD = {"type": "string"}
ROUTES = (
    _owners(
        "POST",
        "datasets",
        "Add a data set from the server's folder for data",
        added,
        status=201,
        takes=_ADD,
        gives=_object(dataset=_WORD, warnings={"type": "array", "items": _WORD}),
        refusals=(403, 404),
        example={
            "name": "visits",
            "source": "visits.parquet",
            "schema": {
                "table": "visits",
                "unit": "row",
                "columns": [{"name": "cost", "kind": "integer", "bounds": [0, 50]}],
            },
            "epsilon": "1",
        },
    ),
)
