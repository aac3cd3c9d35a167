"""The fields of requests: their types, how a value is read from any door, and their JSON schemas.

Every door reads a request with `read`. Python gives objects, HTTP gives JSON, a command and a form
give text. A wrong value is therefore refused in the same way everywhere, and
`ParameterError.parameter` names the field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, SfumatoError
from sfumato.exact_numbers import decimal_of, exact
from sfumato.methods.options import several
from sfumato.operations.field import Field
from sfumato.vault.principals import check_name, split_names

MOST_NAMES = 10_000
"""The largest number of names in one list of a request."""


class Request(msgspec.Struct):
    """The fields of an operation as plain data, without files, engines or vaults."""


AnyRequest = TypeVar("AnyRequest", bound=Request)


class Words(tuple[str, ...]):
    """Several words: an iterable or, at every door, a text such as "a,b"."""

    __slots__ = ()


class When(str):
    """A day or time in ISO form, or days from now such as "90d"; Python also gives a datetime."""

    __slots__ = ()


class Day(str):
    """A day in ISO form; Python also gives a date. The operation checks the text."""

    __slots__ = ()


class JsonObject(dict[str, Any]):
    """An object of JSON; in a command and a form its text."""

    __slots__ = ()


class PrincipalName(str):
    """The name of a principal; it is safe as a part of an address."""

    __slots__ = ()


class Tables(tuple[str, ...]):
    """Paths or addresses of tables; a command takes them one after another."""

    __slots__ = ()


class CommaList(tuple[str, ...]):
    """Several texts, or one text with commas between them; each may contain spaces."""

    __slots__ = ()


class Word(str):
    """One of the words that `arg` lists for the field."""

    __slots__ = ()


class Held:
    """A type that decides only how a value is read: the request holds the plain value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class OptionValue(Held):
    """The value of an option of a method, of several types; the method checks it."""

    __slots__ = ()


class Shares(Held):
    """Numbers by name; in a command and a form, the text of a JSON object."""

    __slots__ = ()


Name = Annotated[str, Meta(min_length=1, max_length=256)]
# `Any`, so that a field with this default keeps a type without None.
NOT_GIVEN: Any = None
"""The default of a field that may be left out but may not be null in JSON. A null cost would
otherwise mean the default cost, which is charged."""


@dataclass(frozen=True)
class FieldType:
    """A field type of ours: its name in help, its JSON schema, how it is read and sent."""

    metavar: str
    schema: Mapping[str, Any]
    read: Callable[[Any, str], Any]
    """Takes the value and the name of its field; raises `ParameterError` for a wrong value."""
    read_file: Callable[[str], str] | None = None
    """Reads the value from the path of a file, if the command takes a file instead."""
    names_file: bool = False
    """Whether a text is the path of a file of this machine. A remote caller may give none: the
    server would read its own files for them."""
    send: Callable[[Any], Any] | None = None
    """Makes the JSON-able data that a client sends, such as the content of a file."""
    repeated: bool = False
    """Whether the option of the command may be repeated."""


_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 256}
NAMES_SCHEMA: dict[str, Any] = {
    "anyOf": [_NAME, {"type": "array", "items": _NAME, "maxItems": MOST_NAMES}]
}
"""One name, or a list of names."""


def _read_when(value: object, name: str) -> str:
    return value.isoformat() if isinstance(value, datetime) else arguments.text(value, name)


def _read_day(value: object, name: str) -> str:
    return value.isoformat() if isinstance(value, date) else arguments.text(value, name)


def _read_object(value: object, name: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        # Decimal, not float: an amount such as 0.1 must stay exact.
        with suppress(ValueError, RecursionError):
            value = json.loads(value, parse_float=Decimal)
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ParameterError(
            "request_malformed",
            f'{name} must be one JSON object, such as {{"kind": "histogram"}}.',
            parameter=name,
        )
    return value


def _read_shares(value: object, name: str) -> dict[str, Fraction]:
    shares = _read_object(value, name)
    return {key: exact(share, name) for key, share in shares.items()}


def _read_option(value: object, name: str) -> Any:
    """Read a number, a text, a truth value, or a list or object of them."""
    if isinstance(value, list):
        return [_read_option(entry, name) for entry in value]
    if isinstance(value, Mapping):
        return {key: _read_option(entry, name) for key, entry in value.items()}
    if isinstance(value, Decimal) or (isinstance(value, int) and abs(value) >= _LARGEST_WHOLE):
        return float(exact(value, name))
    # Texts among options are names and numbers, never data.
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise ParameterError(
            "request_malformed", f"{name} may have at most {_LONGEST_TEXT} characters."
        )
    if value is None:
        raise ParameterError("parameter_type_wrong", f"{name} cannot be null.")
    return arguments.plain(value, name)


_LONGEST_TEXT = 400
"""Characters of one text among the options, and of one exact number."""
_LARGEST_WHOLE = 2**63
"""Whole numbers that do not fit into 64 bits become floats."""


def _read_principal(value: object, name: str) -> str:
    text = arguments.text(value, name)
    check_name(text, "A principal")
    return text


NUMBER_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "format": "decimal"},
        {"type": "string", "maxLength": _LONGEST_TEXT},
    ]
}
"""An exact number: as JSON writes it, or as a text such as "0.1" or "1/10"."""
FIELD_TYPES: dict[type, FieldType] = {
    Fraction: FieldType("NUMBER", NUMBER_SCHEMA, exact),
    CommaList: FieldType("A,B", NAMES_SCHEMA, several),
    Word: FieldType("WORD", {"type": "string"}, arguments.text),
    OptionValue: FieldType(
        "VALUE",
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "number"},
                {"type": "string", "maxLength": _LONGEST_TEXT},
                {"type": "array", "maxItems": MOST_NAMES},
                {"type": "object"},
            ]
        },
        _read_option,
    ),
    Shares: FieldType(
        "JSON", {"type": "object", "additionalProperties": NUMBER_SCHEMA}, _read_shares
    ),
    Words: FieldType(
        "A,B",
        NAMES_SCHEMA,
        split_names,
    ),
    When: FieldType("WHEN", {"type": "string", "maxLength": 10_000}, _read_when),
    Day: FieldType("DAY", {"type": "string", "maxLength": 10_000}, _read_day),
    JsonObject: FieldType("JSON", {"type": "object"}, _read_object),
    PrincipalName: FieldType("NAME", _NAME, _read_principal),
    Path: FieldType("FILE", {"type": "string"}, arguments.path, names_file=True),
    Tables: FieldType("TABLE...", NAMES_SCHEMA, arguments.names, repeated=True),
}
"""The field types that msgspec does not know. The module of a noun may add its own."""


def arg(
    help: str,  # noqa: A002  the word that every argument parser uses
    *,
    metavar: str | None = None,
    positional: bool = False,
    flag: str | None = None,
    words: Mapping[str, str] | None = None,
    topic: str = "",
) -> Meta:
    """Describe a field of a request.

    Parameters
    ----------
    help
        One line for people, shown by every door.
    metavar
        The placeholder of the value in help; by default that of the type.
    positional
        Whether the command and Python take it by position.
    flag
        The name of the option in the command; by default the name of the field.
    words
        The allowed words with their meanings; help and completion list them.
    topic
        The heading of help above it; by default the common one.
    """
    extra = {
        "metavar": metavar,
        "positional": positional,
        "flag": flag,
        "words": words or {},
        "topic": topic,
    }
    return Meta(description=help, extra=extra)


@cache
def fields(request: type[Request]) -> tuple[Field, ...]:
    """The fields of a request as every door shows them."""
    return tuple(_field(info) for info in msgspec.structs.fields(request))


def _field(info: msgspec.structs.FieldInfo) -> Field:
    kind, *metas = get_args(info.type)
    [meta] = [meta for meta in metas if isinstance(meta, Meta) and meta.extra is not None]
    extra: dict[str, Any] = dict(meta.extra or {})
    plain = plain_type(kind)
    words = extra["words"]
    if not words and isinstance(plain, type) and issubclass(plain, StrEnum):
        words = {str(word): "" for word in plain}
    own = FIELD_TYPES.get(plain) or FieldType(_METAVARS.get(plain, "NAME"), {}, arguments.text)
    return Field(
        name=info.encode_name,
        help=str(meta.description),
        metavar=extra["metavar"] or own.metavar,
        type=bool if plain is bool else list[str] if own.repeated else str,
        from_file=own.names_file,
        default=False if plain is bool else None,
        required=info.required,
        positional=extra["positional"],
        flag=f"--{extra['flag']}" if extra["flag"] else None,
        choices=words,
        topic=extra["topic"],
    )


_METAVARS: dict[Any, str] = {int: "N", bool: ""}


def file_readers(request: type[Request]) -> dict[str, Callable[[str], str]]:
    """The fields for which a command takes a file, each with the function that reads it."""
    kinds = {info.name: plain_type(info.type) for info in msgspec.structs.fields(request)}
    return {
        name: read_file
        for name, kind in kinds.items()
        if kind in FIELD_TYPES and (read_file := FIELD_TYPES[kind].read_file) is not None
    }


def plain_type(kind: Any) -> Any:
    """A type without its annotations, and without None where it is optional."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        [kind] = [member for member in get_args(kind) if member is not NoneType]
        return plain_type(kind)
    return kind


def is_optional(kind: Any) -> bool:
    """Whether None is a value of a type."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return NoneType in get_args(kind)


def _without_none(kind: Any) -> Any:
    """A type without None; its annotations stay."""
    if get_origin(kind) is Annotated:
        plain, *metas = get_args(kind)
        return Annotated[(_without_none(plain), *metas)]
    if get_origin(kind) in (Union, UnionType):
        [inner] = [member for member in get_args(kind) if member is not NoneType]
        return inner
    return kind


def read(
    request: type[AnyRequest],
    values: Mapping[str, Any],
    *,
    text: bool = False,
    remote: bool = False,
) -> AnyRequest:
    """Check values by name and make a request of them.

    Parameters
    ----------
    values
        Values by the names of fields. None means that no value is given, if the type allows it.
    text
        Whether all values are texts, as in a command, a form or a query string.
    remote
        Whether the values come from another machine. No text may then name a file of this machine.

    Raises
    ------
    ParameterError
        A field is missing, unknown or has a wrong value; `parameter` names it.
    """
    infos = {info.encode_name: info for info in msgspec.structs.fields(request)}
    for name in values:
        if name not in infos:
            # The name is quoted shortened: it may come from HTTP and be a megabyte long.
            raise _wrong(
                name[:60],
                "option_unknown",
                f"{quoted(name[:60])} is not known here; {suggestion(name[:60], infos)}",
            )
    checked = {}
    for name, info in infos.items():
        if name in values and not (values[name] is None and is_optional(info.type)):
            # A caller elsewhere must not make this machine read a file by naming it.
            if remote and isinstance(values[name], str) and _names_file(info):
                raise _wrong(
                    name,
                    "request_malformed",
                    f"{name} must be given as what it holds, not as a text.",
                )
            checked[info.name] = _read_value(info, values[name], text=text)
        elif info.required:
            raise _wrong(name, "parameter_missing", f"{quoted(name)} must be given.")
    return request(**checked)


def _names_file(info: msgspec.structs.FieldInfo) -> bool:
    kind = plain_type(info.type)
    return kind in FIELD_TYPES and FIELD_TYPES[kind].names_file


def _read_value(info: msgspec.structs.FieldInfo, value: Any, *, text: bool) -> Any:
    plain = plain_type(info.type)
    if plain is int and isinstance(value, Decimal) and is_short_integer(value):
        value = int(value)  # JSON may write a whole number as 3.0
    # msgspec reads the text "null" as None; in a command or a form it is a word.
    kind = _without_none(info.type) if text else info.type
    try:
        checked = msgspec.convert(
            value, kind, strict=not text, dec_hook=partial(_read_own, info.encode_name)
        )
    except msgspec.ValidationError as error:
        raise _wrong(info.encode_name, *_problem(info, value, str(error))) from None
    except SfumatoError as error:
        error.parameter = info.encode_name
        raise
    # Our types serve only to check: operations get plain values.
    if isinstance(checked, Held):
        return checked.value
    if plain is Word and checked not in (words := _words(info)):
        problem = f"{info.encode_name} cannot be {arguments.shown(value)}"
        raise _wrong(
            info.encode_name, "choice_unknown", f"{problem}; {suggestion(value[:60], words)}"
        )
    return str(checked) if isinstance(checked, str) and plain in FIELD_TYPES else checked


def _words(info: msgspec.structs.FieldInfo) -> Mapping[str, str]:
    """The words that `arg` lists for a field."""
    [words] = [
        meta.extra["words"] for meta in _metas(info.type) if meta.extra and meta.extra["words"]
    ]
    return dict(words)


def is_short_integer(number: Decimal) -> bool:
    """Whether a number is whole and has few digits: to write out 1e1000000 takes minutes."""
    return (
        number.is_finite() and number.adjusted() < _MOST_DIGITS and number == number.to_integral()
    )


def _read_own(name: str, kind: type, value: object) -> Any:
    """Read a value of one of our types; called by msgspec."""
    result = FIELD_TYPES[kind].read(value, name)
    return result if isinstance(result, kind) else kind(result)


_MOST_DIGITS = 20
"""Digits of a whole number from JSON: 64 bits need 19."""
_KINDS: dict[Any, str] = {str: "a text", int: "a whole number", bool: "true or false"}


def _problem(info: msgspec.structs.FieldInfo, value: object, why: str) -> tuple[str, str]:
    """The code and the sentence for a value that msgspec refused."""
    plain, shown = plain_type(info.type), arguments.shown(value)
    is_word = isinstance(plain, type) and issubclass(plain, StrEnum)
    if isinstance(value, str) and is_word:
        words = [str(word) for word in plain]
        near = suggestion(value[:60], words)
        return "choice_unknown", f"{info.encode_name} cannot be {shown}; {near}"
    # msgspec appends the position inside a list or object, such as "- at `$[3].person`".
    reason, _, inside = why.replace("`", "").partition(" - at $")
    if inside or (plain not in (*_KINDS, *FIELD_TYPES) and not is_word and ", got" in why):
        # One entry of several may be about a person, so the message does not quote it.
        reason = reason.partition(", got")[0]
        return (
            "request_malformed",
            f"{info.encode_name}{inside} is not what it must be: {reason.lower()}.",
        )
    # A wrong type, which msgspec describes as "Expected X, got Y".
    if ", got" in why:
        allowed = _KINDS[str if is_word else plain]
        return "parameter_type_wrong", f"{info.encode_name} must be {allowed}, not {shown}."
    if plain is int:
        return (
            "parameter_out_of_range",
            f"{info.encode_name} must be {_range(info.type)}, not {shown}.",
        )
    # The rest are lengths, for which msgspec has the words.
    allowed = reason.removeprefix("Expected ")
    return "request_malformed", f"{info.encode_name} must be {allowed}, not {shown}."


def _range(kind: Any) -> str:
    """The range of a number in words."""
    bounds: dict[str, Any] = {}
    for meta in _metas(kind):
        bounds |= {
            name: value for name in ("ge", "le") if (value := getattr(meta, name)) is not None
        }
    if "le" not in bounds:
        return f"at least {bounds['ge']}"
    return f"from {bounds['ge']} to {bounds['le']}" if "ge" in bounds else f"at most {bounds['le']}"


def _metas(kind: Any) -> Iterator[Meta]:
    """Every annotation of a type, also of the one inside an optional type."""
    if get_origin(kind) is Annotated:
        kind, *metas = get_args(kind)
        yield from (meta for meta in metas if isinstance(meta, Meta))
    for inner in get_args(kind):
        yield from _metas(inner)


def _wrong(name: str, code: str, message: str) -> ParameterError:
    return ParameterError(code, message, parameter=name)


def given(request: Request) -> dict[str, Any]:
    """The values of a request that differ from the defaults, by name."""
    return {
        info.name: getattr(request, info.name)
        for info in msgspec.structs.fields(request)
        if info.required or getattr(request, info.name) != info.default
    }


def to_json(request: Request) -> dict[str, Any]:
    """A request as JSON-able data, from which `read` makes the same request."""
    names = {info.name: info.encode_name for info in msgspec.structs.fields(type(request))}
    return {
        names[name]: msgspec.to_builtins(_plain_numbers(value), enc_hook=_to_send)
        for name, value in given(request).items()
    }


def _plain_numbers(value: Any) -> Any:
    """A value with exact numbers as texts."""
    if isinstance(value, Fraction):
        return decimal_of(value)
    if isinstance(value, dict):
        return {key: _plain_numbers(entry) for key, entry in value.items()}
    return value


def _to_send(value: Any) -> Any:
    """A value of one of our types as JSON-able data; called by msgspec."""
    send = FIELD_TYPES[type(value)].send
    if send is None:
        raise TypeError(f"{type(value).__name__} has no 'send'")
    return send(value)


@cache
def schemas(request: type[Request]) -> Mapping[str, Mapping[str, Any]]:
    """The JSON schema of each field by name, without references."""
    schemas_by_name = {}
    for info in msgspec.structs.fields(request):
        schema = schema_of(info.type)
        words = {"enum": list(_words(info))} if plain_type(info.type) is Word else {}
        schemas_by_name[info.encode_name] = {**schema, **words}
    return schemas_by_name


def body_schema(request: type[Request], without: Collection[str] = ()) -> dict[str, Any]:
    """The JSON schema of a body, without the fields that are parts of the path."""
    in_body = [field for field in fields(request) if field.name not in without]
    required = [field.name for field in in_body if field.required]
    # Fields of the path are not repeated: a body that names one is refused.
    properties = {
        field.name: {**schemas(request)[field.name], "description": field.help} for field in in_body
    }
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type. References are replaced: readers see a type where it is used."""
    schema = msgspec.json.schema(kind, schema_hook=lambda own: dict(FIELD_TYPES[own].schema))
    inlined: dict[str, Any] = _inline(schema, schema.pop("$defs", {}))
    return inlined


def _inline(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline(entry, definitions) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = {**definitions[name], **{key: schema[key] for key in schema if key != "$ref"}}
    return {key: _inline(entry, definitions) for key, entry in schema.items() if key != "title"}
