"""File layout: encoding, separator, sheet and header row of a table's file, declared or detected.

None stands for the default: UTF-8, the separator that the header shows, the first sheet that is not
empty and its first row. Decision `reading-files`.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

UTF8 = ("utf-8", "utf-8-sig")
"""UTF-8 without and with a byte order mark."""

SEPARATOR_NAMES = {"tab": "\t", "space": " "}
"""Separators that a schema writes as a word, because they cannot be seen."""

# Python codecs that are no encodings of files.
_NO_FILES = {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"}

# Encodings in which a malformed unit decodes to one letter and leaves the next unit intact.
_WHOLE_UNITS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")

# Signs of numbers and dates. These cells are never quoted, so the signs cannot separate cells.
_IN_NUMBERS = "+-."


@dataclass(frozen=True)
class FileLayout:
    """The layout of a table in its file; `header_row` counts from 1, as a spreadsheet shows it."""

    encoding: str | None = None
    separator: str | None = None
    sheet: str | None = None
    header_row: int | None = None
    found_sheet: str | None = field(default=None, compare=False)
    """The sheet that was read where none was named; a release keeps its name."""

    def __post_init__(self) -> None:
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.separator is not None:
            _check_separator(self.separator)
        if self.header_row is not None and self.header_row < 1:
            raise SchemaError(
                "table_malformed",
                f"header_row {self.header_row} is not a row; rows of a sheet count from 1.",
            )

    @property
    def codec(self) -> str:
        """Python's canonical name of the encoding."""
        return codecs.lookup(self.encoding or "utf-8").name

    def check_private(self) -> None:
        """Refuse an encoding in which a malformed letter swallows the separator or quote after it.

        *Attack*: a cell with such a letter shifts the cells of its row, so reading fails. One
        person would decide whether queries are answered.
        """
        if self.codec not in _WHOLE_UNITS and not _keeps_signs(self.codec):
            raise SchemaError(
                "encoding_wrong",
                f"In the encoding {quoted(self.encoding or '')} a malformed letter also swallows "
                "the character after it, so one person's cell could make every query fail.",
                hint="Save the file as UTF-8 and remove file.encoding from its schema.",
            )

    def facts(self) -> dict[str, object]:
        """The settings that differ from the default, as a schema file or side-car has them."""
        spelled = {sign: name for name, sign in SEPARATOR_NAMES.items()}
        facts = {
            "encoding": self.encoding,
            "separator": self.separator and spelled.get(self.separator, self.separator),
            "sheet": self.sheet,
            "header_row": self.header_row,
        }
        return {key: fact for key, fact in facts.items() if fact is not None}

    def describe(self, names: Iterable[str]) -> list[str]:
        """Notes on the detected layout of an undeclared file, for its owner to check."""
        notes = []
        if self.encoding is not None and self.codec not in UTF8:
            non_ascii = next((name for name in names if not name.isascii()), None)
            example = "" if non_ascii is None else f"; one column is called {quoted(non_ascii)}"
            spoken = self.encoding.replace("windows", "Windows").replace("iso", "ISO")
            spoken = spoken.replace("utf", "UTF")
            notes.append(
                f"The file is not UTF-8; it was read as {spoken}{example}. If letters "
                'look wrong, put the right one into the schema, e.g. file.encoding = "cp850".'
            )
        if self.sheet is not None:
            notes.append(
                f"Of several sheets {quoted(self.sheet)} was read. To read another, write its name "
                "into the schema: file.sheet."
            )
        if self.header_row is not None:
            notes.append(
                f"The names of columns were read from row {self.header_row}, the first that names "
                "them all; what stands above it was left out."
            )
        return notes


DEFAULT_LAYOUT = FileLayout()
"""The default layout."""


def separator_of(written: str) -> str:
    """Return the separator that a schema writes, as itself or as a word."""
    return SEPARATOR_NAMES.get(written.lower(), written)


def _check_encoding(name: str) -> None:
    try:
        codec = codecs.lookup(name)
        usable = "a\n".encode(codec.name).decode(codec.name) == "a\n"
    except (LookupError, ValueError, TypeError):
        usable = False
    if not usable or codec.name in _NO_FILES or codec.incrementaldecoder is None:
        raise SchemaError(
            "encoding_wrong",
            f'There is no encoding {quoted(name)}. Usual ones are "utf-8", "windows-1252", '
            '"iso-8859-1", "iso-8859-15" and "utf-16"; any other that Python knows will do.',
        )


@cache
def _keeps_signs(codec: str) -> bool:
    """Return whether every ASCII sign decodes to itself after any byte."""
    alone = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    return all(
        bytes(byte for sign in range(128) for byte in (before, sign)).decode(codec, "replace")
        == "".join(alone[before] + alone[sign] for sign in range(128))
        for before in range(256)
    )


def _check_separator(sign: str) -> None:
    bad = not sign.isascii() or sign.isalnum() or sign in '"\r\n\0' or sign in _IN_NUMBERS
    if len(sign) != 1 or bad:
        raise SchemaError(
            "spelling_invalid",
            f'{quoted(sign)} cannot separate cells. Write one sign such as ",", ";", "|" or '
            '"tab"; letters, digits, quotes and the signs of numbers cannot.',
        )
