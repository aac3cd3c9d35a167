"""The fields of requests: their types, how a value is read from any door, and their JSON schemas.

Every door reads a request with `read`: Python gives objects, HTTP gives JSON, a command and a form
give text. So a wrong value is refused in the same way everywhere, and `ParameterError.parameter`
names the field.
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


class Request(msgspec.Struct):
    """What somebody asks: plain data, without files, engines or vaults."""


AnyRequest = TypeVar("AnyRequest", bound=Request)


class Words(tuple[str, ...]):
    """Several words: in Python any iterable or a text, elsewhere also a text such as "a,b"."""

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
    """A name that a principal may have, so it is safe as a part of an address."""

    __slots__ = ()


class Tables(tuple[str, ...]):
    """Paths or addresses of tables, which a command takes one after another."""

    __slots__ = ()


class CommaList(tuple[str, ...]):
    """Several texts, or one text with commas between them; each may contain spaces."""

    __slots__ = ()


class Word(str):
    """One of the words that `arg` lists."""

    __slots__ = ()


class Held:
    """A value whose type only decides how it is read: the request holds the value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class OptionValue(Held):
    """The value of an option that may be of several types; the method checks it."""

    __slots__ = ()


class Shares(Held):
    """Numbers by name, in a command and a form as the text of a JSON object."""

    __slots__ = ()


Name = Annotated[str, Meta(min_length=1, max_length=256)]
NOT_GIVEN: Any = None
"""The default of a field that may be left out, but may not be null in JSON."""


@dataclass(frozen=True)
class FieldType:
    """A type of our own: the word for it in help, its JSON schema, how it is read and sent."""

    metavar: str
    schema: Mapping[str, Any]
    read: Callable[[Any, str], Any]
    """Takes the value and the name of its field; refuses with a `ParameterError`."""
    read_file: Callable[[str], str] | None = None
    """Where the command takes a file instead: reads it from its path."""
    names_file: bool = False
    """Whether a text is the path of a file of this machine, which nobody elsewhere may name."""
    send: Callable[[Any], Any] | None = None
    """What a client sends instead, as JSON-able data: the content of a file, for example."""
    repeated: bool = False
    """Whether its option may be given several times."""


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
    """Read a number, a text, a truth value or a list of them, without decimals."""
    if isinstance(value, list):
        return [_read_option(entry, name) for entry in value]
    if isinstance(value, Mapping):
        return {key: _read_option(entry, name) for key, entry in value.items()}
    if isinstance(value, Decimal) or (isinstance(value, int) and abs(value) >= _LARGEST_WHOLE):
        return float(exact(value, name))
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise ParameterError(
            "request_malformed", f"{name} may have at most {_LONGEST_TEXT} characters."
        )
    if value is None:
        raise ParameterError("parameter_type_wrong", f"{name} cannot be null.")
    return arguments.plain(value, name)


_LONGEST_TEXT, _LARGEST_WHOLE = 400, 2**63


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
"""The types that msgspec does not know. A noun may add one of its own beside its requests."""


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
        What stands for the value in help, where that of its type does not say enough.
    positional
        Whether the command and Python take it by position.
    flag
        The name of its option in the command, where that is another.
    words
        The few words that it may be, each with what it means; help and completion list them.
    topic
        The heading of help under which it stands, where that is not the common one.
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
    """The fields for which a command takes a file, each with what reads it."""
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
        [kind] = [each for each in get_args(kind) if each is not NoneType]
        return plain_type(kind)
    return kind


def is_optional(kind: Any) -> bool:
    """Whether None is a value of a type."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return NoneType in get_args(kind)


def _without_none(kind: Any) -> Any:
    """An optional type without its None; annotations stay."""
    if get_origin(kind) is Annotated:
        plain, *metas = get_args(kind)
        return Annotated[(_without_none(plain), *metas)]
    if get_origin(kind) in (Union, UnionType):
        [inner] = [each for each in get_args(kind) if each is not NoneType]
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
        By the names of fields. None stands for a value that is not given, where the type allows.
    text
        Whether all values are texts, as in a command, a form or a query string.
    remote
        Whether the values come from elsewhere, so that no text names a file of this machine.

    Raises
    ------
    ParameterError
        A field is missing, unknown or has a wrong value; `parameter` names it.
    """
    infos = {info.encode_name: info for info in msgspec.structs.fields(request)}
    for name in values:
        if name not in infos:
            raise _wrong(
                name[:60],
                "option_unknown",
                f"{quoted(name[:60])} is not known here; {suggestion(name[:60], infos)}",
            )
    checked = {}
    for name, info in infos.items():
        if name in values and not (values[name] is None and is_optional(info.type)):
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
    # A text "null" is a word; only JSON and Python can say that nothing is given.
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
    # The types of our own are only for checking: operations see plain values.
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
    """Whether a number is whole and short. To write out 1e1000000 takes minutes."""
    return (
        number.is_finite() and number.adjusted() < _MOST_DIGITS and number == number.to_integral()
    )


def _read_own(name: str, kind: type, value: object) -> Any:
    """Read a value of a type of our own; called by msgspec."""
    result = FIELD_TYPES[kind].read(value, name)
    return result if isinstance(result, kind) else kind(result)


_MOST_DIGITS = 20
_KINDS: dict[Any, str] = {str: "a text", int: "a whole number", bool: "true or false"}


def _problem(info: msgspec.structs.FieldInfo, value: object, why: str) -> tuple[str, str]:
    """Say what is wrong with a value: a code and a sentence."""
    plain, shown = plain_type(info.type), arguments.shown(value)
    is_word = isinstance(plain, type) and issubclass(plain, StrEnum)
    if isinstance(value, str) and is_word:
        words = [str(word) for word in plain]
        near = suggestion(value[:60], words)
        return "choice_unknown", f"{info.encode_name} cannot be {shown}; {near}"
    reason, _, place = why.replace("`", "").partition(" - at $")
    if place or (plain not in (*_KINDS, *FIELD_TYPES) and not is_word and ", got" in why):
        # One of several entries; what it holds may be about a person and is not shown.
        reason = reason.partition(", got")[0]
        return (
            "request_malformed",
            f"{info.encode_name}{place} is not what it must be: {reason.lower()}.",
        )
    if ", got" in why:
        allowed = _KINDS[str if is_word else plain]
        return "parameter_type_wrong", f"{info.encode_name} must be {allowed}, not {shown}."
    if plain is int:
        return (
            "parameter_out_of_range",
            f"{info.encode_name} must be {_range(info.type)}, not {shown}.",
        )
    # A length, which msgspec says in words.
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
    """The values of a request that are not the defaults, by name."""
    return {
        info.name: getattr(request, info.name)
        for info in msgspec.structs.fields(request)
        if info.required or getattr(request, info.name) != info.default
    }


def to_json(request: Request) -> dict[str, Any]:
    """A request as JSON-able data: what `read` makes the same request of."""
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
    """A value of a type of our own that JSON has no word for; called by msgspec."""
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
    """The JSON schema of a body that holds a request, except the fields of its path."""
    named = [field for field in fields(request) if field.name not in without]
    required = [field.name for field in named if field.required]
    properties = {
        field.name: {**schemas(request)[field.name], "description": field.help} for field in named
    }
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type, without references: OpenAPI readers see it where it is used."""
    schema = msgspec.json.schema(kind, schema_hook=lambda own: dict(FIELD_TYPES[own].schema))
    inlined: dict[str, Any] = _inline(schema, schema.pop("$defs", {}))
    return inlined


def _inline(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = {**definitions[name], **{key: schema[key] for key in schema if key != "$ref"}}
    return {key: _inline(each, definitions) for key, each in schema.items() if key != "title"}
