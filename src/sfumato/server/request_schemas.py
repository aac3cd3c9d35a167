"""The forms of requests: what may be said, as JSON Schema, made of the fields of the families.

A field has one name, one line of help and one list of words for every door; only how it is written
in JSON is said here. A file is never taken by its name: it would be the server's. Decision
`operations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.methods.kinds import option_help
from sfumato.methods.programs.outputs import MOST_OUTPUTS
from sfumato.methods.programs.source import LONGEST
from sfumato.server.json_schema import EXACT, check
from sfumato.vault.family import PURPOSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.vault.family import Family, Field

LONGEST_SQL = 64 * 1024
_MOST_NAMES = 10_000

TEXT: dict[str, Any] = {"type": "string", "maxLength": 10_000}
NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 256}
NAMES: dict[str, Any] = {"anyOf": [NAME, {"type": "array", "items": NAME, "maxItems": _MOST_NAMES}]}
WHOLE: dict[str, Any] = {"type": "integer", "minimum": -(2**53), "maximum": 2**53}
FLAG: dict[str, Any] = {"type": "boolean"}
NUMBER: dict[str, Any] = {
    "anyOf": [{"type": "number", "format": EXACT}, {"type": "string", "maxLength": 400}]
}
"""An exact number: as JSON writes it, or as a text such as "0.1" or "1/10"."""
_VALUE: dict[str, Any] = {"anyOf": [{"type": "number"}, {"type": "string", "maxLength": 400}]}
_OPTION: dict[str, Any] = {
    "anyOf": [FLAG, *_VALUE["anyOf"], {"type": "array", "maxItems": _MOST_NAMES}]
}

_END = {"anyOf": [FLAG, *_VALUE["anyOf"]]}
_SQL = {"type": "string", "minLength": 1, "maxLength": LONGEST_SQL}
_RANGES = {
    "type": "array",
    "items": {
        "type": "array",
        "items": {"type": "array", "items": _END, "minItems": 2, "maxItems": 2},
    },
}
_SETS = {"type": "array", "items": {"type": "array", "items": NAME}, "maxItems": _MOST_NAMES}
_OUTPUTS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"low": NUMBER, "high": NUMBER, "name": NAME, "share": NUMBER},
        "required": ["low", "high"],
        "additionalProperties": False,
    },
    "minItems": 1,
    "maxItems": MOST_OUTPUTS,
    "x-code": "program_output_invalid",
}
SOURCE = {"type": "string", "maxLength": LONGEST, "x-code": "program_invalid"}
_WRITTEN: dict[str, dict[str, Any]] = {
    "asked": _SQL,
    "at_most": WHOLE,
    "output": _OUTPUTS,
    "program": SOURCE,
    "seconds": NUMBER,
    "postprocess": NAMES,
    "threshold": {**NUMBER, "x-code": "parameter_type_wrong"},
    "weights": {"type": "object", "additionalProperties": NUMBER},
    "workload": _RANGES,
    **{name: {**NUMBER, "x-code": "parameter_type_wrong"} for name in ("epsilon", "rho", "delta")},
}
"""How fields are written whose type and word for help do not tell it."""
_WORKLOADS = {"synthesize": _SETS}
_NAMES = {"asked": "sql"}
_LISTED = "A,B"
"""How help writes lists of columns."""


@dataclass(frozen=True)
class Input:
    """One thing that a request may say: its name, a line of help, how it is written."""

    name: str
    told: str
    schema: Mapping[str, Any]
    required: bool = False


def described(form: Iterable[Input]) -> dict[str, Any]:
    """A form as JSON Schema."""
    listed = tuple(form)
    needed = [one.name for one in listed if one.required]
    return {
        "type": "object",
        "properties": {one.name: {**one.schema, "description": one.told} for one in listed},
        **({"required": needed} if needed else {}),
        "additionalProperties": False,
    }


def checked(form: Iterable[Input], values: object) -> dict[str, Any]:
    """What a request says, as methods take it; refused where it does not fit its form."""
    found: dict[str, Any] = check(values, described(form), "", "request_malformed")
    return found


PLAN = Input(
    "plan",
    "What explaining the same told: anything else than that plan is refused, and nothing charged.",
    {"type": "string", "minLength": 1, "maxLength": 64},
)
DATASET = Input("dataset", "The data set that is asked, by its name.", NAME, required=True)


def family_form(family: Family) -> tuple[Input, ...]:
    """What a request of a family may say; files are sent as what they hold."""
    options = option_help(family.kinds)
    # A field that is an option of some kinds too is written as they like: `method` of a graph.
    known = [
        Input(
            _NAMES.get(one.name, one.name),
            one.help,
            _OPTION if one.name in options and one.metavar != _LISTED else _written(family, one),
            one.required,
        )
        for one in (*family.fields, *family.cost)
    ]
    named = {one.name for one in known}
    others = [Input(name, told, _OPTION) for name, told in options.items() if name not in named]
    of = [DATASET] if family.of_dataset else []
    return (*of, *known, *others, Input(PURPOSE.name, PURPOSE.help, NAME), PLAN)


def family_values(family: Family, values: Mapping[str, Any]) -> dict[str, Any]:
    """What `family_form` took, by the names of the family's own fields: what it is asked."""
    ours = {_NAMES.get(one.name, one.name): one.name for one in family.fields}
    apart = {DATASET.name, PURPOSE.name, PLAN.name}
    return {ours.get(name, name): one for name, one in values.items() if name not in apart}


def family_told(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a family is asked, by the names of its form: what `family_values` reads."""
    return {_NAMES.get(name, name): one for name, one in values.items()}


def _written(family: Family, field: Field) -> Mapping[str, Any]:
    if field.choices:
        return {"type": "string", "enum": list(field.choices)}
    if field.name == "workload" and family.name in _WORKLOADS:
        return _WORKLOADS[family.name]
    if field.name in _WRITTEN:
        return _WRITTEN[field.name]
    if field.metavar == _LISTED:
        return NAMES
    return WHOLE if field.type is int else NAME
