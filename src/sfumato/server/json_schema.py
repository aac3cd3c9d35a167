"""Values against JSON Schema: the part of it in which our forms are written.

A value comes back as methods take it: exact decimals where the form says so, else floats, and whole
numbers as such, however they were written. Messages name the place and what is allowed, and of
what was given only plain values.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = Mapping[str, Any]

EXACT = "decimal"
"""The format of a number that is taken as it was written, digit for digit."""

_SOME = "A number"
_LARGEST = 10**300
_LARGEST_WHOLE = 2**63
_WORDS = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def check(value: object, schema: Schema, place: str, code: str) -> Any:
    """A value as methods take it; refused where it does not fit the schema, by its code."""
    code = schema.get("x-code", code)
    if "anyOf" in schema:
        return _any(value, schema["anyOf"], place, code)
    kind = schema.get("type")
    found = value if kind is None else _typed(value, kind, schema, place, code)
    if "enum" in schema and found not in schema["enum"]:
        words = ", ".join(quoted(one) for one in schema["enum"])
        raise ParameterError(code, f"{place} must be one of {words}, not {_shown(value)}.")
    if isinstance(found, str):
        _check_text(found, schema, place, code)
    elif isinstance(found, dict):
        return _object(found, schema, place, code)
    elif isinstance(found, list):
        return _array(found, schema, place, code)
    elif not isinstance(found, bool) and isinstance(found, int | float | Decimal):
        _check_range(found, schema, place, code)
    return plain(found) if kind is None else found


def plain(value: object) -> Any:
    """A value without decimals, which only some parameters take."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return check(value, {"type": "number"}, _SOME, "request_malformed")
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def allowed(schema: Schema) -> str:
    """What a schema allows, in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(allowed(one) for one in schema["anyOf"]))
    word = _WORDS.get(schema.get("type", ""), "a value")
    if schema.get("type") == "array" and "items" in schema:
        return f"{word} of {_plural(allowed(schema['items']))}"
    return word


def _plural(words: str) -> str:
    return (
        words.replace("a text", "texts").replace("a number", "numbers").replace("a list", "lists")
    )


def _typed(value: object, kind: str, schema: Schema, place: str, code: str) -> Any:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if kind == "integer" and is_number and value == int(_ordinary(value, place, code)):
        return int(value)
    if kind == "number" and is_number:
        if schema.get("format") == EXACT:
            return value
        number = _ordinary(value, place, code)
        return number if isinstance(number, int) and abs(number) < _LARGEST_WHOLE else float(number)
    kinds: dict[str, type] = {
        "string": str, "boolean": bool, "array": list, "object": dict, "null": type(None),
    }  # fmt: skip
    if kind not in kinds or not isinstance(value, kinds[kind]):
        raise ParameterError(code, f"{place} must be {allowed(schema)}, not {_shown(value)}.")
    return value


def _ordinary(value: Any, place: str, code: str) -> Any:
    """A number that a float can hold."""
    if abs(value) > _LARGEST:
        raise ParameterError(code, f"{place} must be a number of ordinary size.")
    return value


def _any(value: object, schemas: list[Schema], place: str, code: str) -> Any:
    for one in schemas:
        try:
            return check(value, one, place, code)
        except ParameterError as error:
            closest = error
            if _fits(value, one):  # of the right type, so its own words say more
                raise
    if len(schemas) == 1:
        raise closest
    words = allowed({"anyOf": schemas})
    raise ParameterError(code, f"{place} must be {words}, not {_shown(value)}.")


def _fits(value: object, schema: Schema) -> bool:
    kinds = {"string": str, "array": list, "object": dict}
    return "type" in schema and isinstance(value, kinds.get(schema["type"], ()))


def _check_text(text: str, schema: Schema, place: str, code: str) -> None:
    if room := _outside(len(text), schema.get("minLength", 0), schema.get("maxLength")):
        raise ParameterError(code, f"{place} must have {room} characters, not {len(text)}.")
    if "pattern" in schema and not re.search(schema["pattern"], text):
        raise ParameterError(code, f"{place} must be {schema['description']}")


def _outside(length: int, least: int, most: int | None) -> str:
    """What a length that is out of bounds should be, in words; else nothing."""
    if length < least:
        return f"at least {least}"
    return f"at most {most}" if most is not None and length > most else ""


def _check_range(number: Any, schema: Schema, place: str, code: str) -> None:
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and number < low) or (high is not None and number > high):
        ends = f"from {low} to {high}" if high is not None else f"at least {low}"
        raise ParameterError(code, f"{place} must be {ends}, not {_shown(number)}.")


def _array(found: list[object], schema: Schema, place: str, code: str) -> list[Any]:
    if room := _outside(len(found), schema.get("minItems", 0), schema.get("maxItems")):
        raise ParameterError(code, f"{place} must have {room} entries, not {len(found)}.")
    return [check(one, schema.get("items", {}), f"{place}[{at}]", code)
            for at, one in enumerate(found)]  # fmt: skip


def _object(found: dict[str, object], schema: Schema, place: str, code: str) -> dict[str, Any]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name in schema.get("required", ()):
        if name not in found:
            raise ParameterError("parameter_missing", f"{_inside(place, name)} must be given.")
    values = {}
    for name, value in found.items():
        if name not in known and others is False:
            raise ParameterError(
                "option_unknown",
                f"{_inside(place, name)} is not known here; {suggestion(name[:60], known)}",
            )
        values[name] = check(value, known.get(name, others), _inside(place, name), code)
    return values


def _inside(place: str, name: str) -> str:
    short = name if len(name) <= 40 else f"{name[:37]}..."
    return f"{place}.{short}" if place else quoted(short)


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return (
        arguments.shown(value) if isinstance(value, str) else arguments.shown(str(value)).strip("'")
    )
