"""Schema files: TOML in, TOML out, comments kept."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING

from tomlkit.exceptions import TOMLKitError

from sfumato.errors import SchemaError
from sfumato.files import write_text
from sfumato.schema.lines import Lines
from sfumato.schema.parse import Parser
from sfumato.schema.plain import read_text
from sfumato.schema.render import fresh, revised

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sfumato.schema.schema import Schema

MOST_MEBIBYTES = 1

_AT_LINE = re.compile(r"(?P<what>.*) \(at line (?P<line>\d+), column \d+\)", re.DOTALL)
_LONG_NUMBER = re.compile(r"[0-9_]{4000}|[eE][+-]?[0-9_]{9}")


def load(path: Path) -> Schema:
    """Read a schema file; hierarchy files are found relative to it."""
    text = read_text(path, what="Schema file", most_mebibytes=MOST_MEBIBYTES)
    return _parse(text, str(path), path.parent)


def dump(schema: Schema, *, folder: Path, notes: Mapping[str, str] | None = None) -> str:
    """Write a schema as TOML for a file in `folder`; notes become comments above columns' keys."""
    return fresh(schema, folder, notes or {})


def save(
    schema: Schema,
    path: Path,
    *,
    keep: Path | None = None,
    overwrite: bool = False,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write a schema file whole or not at all.

    With `keep`, the comments and layout of that schema file are kept; it may be `path` itself,
    which is then replaced.
    """
    if keep is None:
        text = dump(schema, folder=path.parent, notes=notes)
    else:
        text = _kept(schema, path, keep)
    same = keep is not None and keep.resolve() == path.resolve()
    write_text(path, text, overwrite=overwrite or same)


def _kept(schema: Schema, path: Path, keep: Path) -> str:
    before = read_text(keep, what="Schema file", most_mebibytes=MOST_MEBIBYTES)
    old = _parse(before, str(keep), keep.parent)
    # Odd layouts (all columns in one line, a column's keys in two places) cannot be cut up.
    with suppress(TOMLKitError, SchemaError):
        lines = Lines(before, str(keep))
        text = revised(before, lines, old, schema, old_folder=keep.parent, folder=path.parent)
        if _parse(text, str(path), path.parent) == schema:
            return text
    raise SchemaError(
        "comments_not_kept",
        f"'{keep}' is laid out so that its comments cannot be kept; save to another file.",
    )


def _parse(text: str, name: str, folder: Path) -> Schema:
    lines = Lines(text, name)
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        if found := _AT_LINE.fullmatch(str(error)):
            what, line = found["what"], int(found["line"])
        else:
            what, line = str(error).removesuffix(" (at end of document)"), text.count("\n") + 1
        message = f"not valid TOML: {' '.join(what.split())}."
        raise lines.error_on("schema_syntax", line, message) from None
    except (ValueError, ArithmeticError):
        # Python refuses integers of thousands of digits and exponents of many digits.
        long = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, long.start()) + 1 if long else 1
        raise lines.error_on("schema_syntax", line, "a number is too long.") from None
    return Parser(lines, folder).schema(document)
