"""Text files of limited size, the line of every key in a TOML text, and lines of schemas as advice.

TOML parsers report lines only for syntax errors. One tolerant pass over the tokens builds the index
of lines; the parser decides whether the text is valid TOML. Decision `schemas`.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from typing import TYPE_CHECKING

from sfumato.data.schema.column import Kind
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_MEBIBYTE = 1024 * 1024


def read_text(path: Path, *, title: str, most_mebibytes: int) -> str:
    """Read a UTF-8 file of limited size; `title` names it in errors."""
    data = _read_bytes(path, title, most_mebibytes)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SchemaError(
            "encoding_wrong", f"{title} '{path}' is UTF-16; save it as UTF-8 and try again."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SchemaError(
            "encoding_wrong",
            f"{title} '{path}' is not UTF-8: line {line}, byte {error.start} of the file is "
            f"0x{data[error.start]:02x}.",
            hint="Save it as UTF-8 and try again.",
        ) from None


def _read_bytes(path: Path, title: str, most_mebibytes: int) -> bytes:
    try:
        # A pipe or a device could block or never end, so look before opening.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SchemaError("file_unreadable", f"{title} '{path}' is not an ordinary file.")
        with path.open("rb") as stream:
            data = stream.read(most_mebibytes * _MEBIBYTE + 1)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "the system refused"
        raise SchemaError(
            "file_unreadable", f"{title} '{path}' cannot be read: {reason}."
        ) from None
    except ValueError:
        raise SchemaError("file_unreadable", f"{title} has a path that no file can have.") from None
    if len(data) > most_mebibytes * _MEBIBYTE:
        raise SchemaError(
            "file_too_large", f"{title} '{path}' is larger than {most_mebibytes} MiB."
        )
    return data


KeyPath = tuple[str | int, ...]
"""The path to a value: keys and array indexes from the top of a document."""

# Parsers of TOML recurse: deeper nesting would exhaust the stack. No schema needs ten levels.
MOST_DEPTH = 32

_TOKEN = re.compile(
    r'(?P<string>"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}'
    r'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\')'
    r"|(?P<comment>#[^\n]*)|(?P<newline>\n)|(?P<space>[ \t\r]+)"
    r"|(?P<mark>[\[\]{}=,.])|(?P<word>[^\s\[\]{}=,.#\"']+)|(?P<other>.)",
    re.DOTALL,
)


class Lines:
    """The line, from 1, of every key path in a text; errors call the text `name`."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._lines: dict[KeyPath, int] = {}
        _Scan(text, self).run()

    def note(self, key_path: KeyPath, line: int) -> None:
        """Remember the first line of a key path."""
        self._lines.setdefault(key_path, line)

    def line(self, key_path: KeyPath) -> int:
        """Return the line of a key path, or of its nearest parent that has one."""
        while key_path and key_path not in self._lines:
            key_path = key_path[:-1]
        return self._lines.get(key_path, 1)

    def error(self, code: str, key_path: KeyPath, message: str) -> SchemaError:
        """Return an error at the line of a key path."""
        return self.error_on(code, self.line(key_path), message)

    def error_on(self, code: str, line: int, message: str) -> SchemaError:
        """Return an error at a line."""
        return SchemaError(code, f"{self._name}, line {line}: {message}")


class _Scan:
    """One pass over the tokens with a stack of open brackets, each with its key path."""

    def __init__(self, text: str, lines: Lines) -> None:
        self._text = text
        self._lines = lines
        self._table: KeyPath = ()
        self._key: list[str] = []
        self._key_line = 0
        self._in_header = False
        # In [[name]] the second bracket; and how many tables each such name has so far.
        self._in_array = False
        self._arrays: dict[KeyPath, int] = {}
        self._in_value = False
        # Each open bracket: its sign, the path it stands at, the index of the next element.
        self._open: list[tuple[str, KeyPath, int]] = []
        self._here: KeyPath = ()

    def run(self) -> None:
        for kind, token, line in self._tokens():
            if kind == "newline":
                self._end_line()
            elif kind == "mark":
                self._mark(token, line)
            elif kind in ("word", "string"):
                self._value_or_key(kind, token, line)

    def _tokens(self) -> Iterator[tuple[str, str, int]]:
        line = 1
        for match in _TOKEN.finditer(self._text):
            token = match.group()
            yield str(match.lastgroup), token, line
            line += token.count("\n")

    def _end_line(self) -> None:
        if not self._open:
            self._in_value = self._in_header = self._in_array = False
            self._key = []

    def _value_or_key(self, kind: str, token: str, line: int) -> None:
        if self._in_value:
            self._element(line)
            return
        if not self._key:
            self._key_line = line
        self._key.append(_name(token) if kind == "string" else token)

    def _element(self, line: int) -> None:
        """Note the line of an array element."""
        if self._open and self._open[-1][0] == "[":
            _, path, index = self._open[-1]
            self._here = (*path, index)
            self._lines.note(self._here, line)

    def _mark(self, mark: str, line: int) -> None:
        if mark == "=" and not self._in_value:
            self._name_value()
        elif mark == "." and not self._in_value:
            self._limit(len(self._table) + len(self._open) + len(self._key) + 1, line)
        elif mark in "[{":
            self._enter(mark, line)
        elif mark in "]}":
            self._leave()
        elif mark == "," and self._open:
            sign, path, index = self._open[-1]
            self._open[-1] = (sign, path, index + 1)
            self._in_value = sign == "["
            self._key = []

    def _name_value(self) -> None:
        around = self._open[-1][1] if self._open else self._table
        self._note(around)
        self._here = (*around, *self._key)
        self._key = []
        self._in_value = True

    def _note(self, around: KeyPath) -> None:
        for length in range(1, len(self._key) + 1):
            self._lines.note((*around, *self._key[:length]), self._key_line)

    def _enter(self, mark: str, line: int) -> None:
        if not self._in_value and not self._open:
            self._in_array = self._in_header
            self._in_header = True
            self._key = []
            return
        self._element(line)
        self._limit(len(self._open) + 1, line)
        self._open.append((mark, self._here, 0))
        self._in_value = mark == "["
        self._key = []

    def _leave(self) -> None:
        if self._open:
            self._open.pop()
            self._in_value = True
        elif self._in_header:
            self._table = tuple(self._key)
            self._note(())
            if self._in_array:
                index = self._arrays.get(self._table, 0)
                self._arrays[self._table] = index + 1
                self._table = (*self._table, index)
                self._lines.note(self._table, self._key_line)
            self._key = []
            self._in_header = self._in_array = False

    def _limit(self, depth: int, line: int) -> None:
        if depth > MOST_DEPTH:
            message = f"nested deeper than {MOST_DEPTH} levels; flatten it."
            raise self._lines.error_on("schema_malformed", line, message)


def _name(token: str) -> str:
    """Return the text of a quoted key."""
    try:
        return str(tomllib.loads(f"key = {token}")["key"])
    except ValueError:
        return token


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')

DOMAIN = {
    Kind.INTEGER: "bounds = [0, 110]",
    Kind.REAL: "bounds = [0.0, 100.0]",
    Kind.DATE: "bounds = [2020-01-01, 2025-12-31]",
    Kind.TEXT: 'values = ["one", "another"]',
    Kind.BOOLEAN: "values = [false, true]",
}
"""For each kind an example of a line that declares the domain."""

NOT_NULLABLE = "nullable = false"


def toml_key(name: str) -> str:
    """A name as a TOML key, quoted where it must be."""
    if _BARE_KEY.fullmatch(name):
        return name
    escaped = _ESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", name)
    return f'"{escaped}"'


def section_header(name: str) -> str:
    """Return the header of the section of a column."""
    return f"[columns.{toml_key(name)}]"


def add_line(name: str, line: str, *, schema: str = "its schema") -> str:
    """Return the end of a message: the line to add to the section of a column."""
    return f"Add to {section_header(name)} in {schema}: {line}"
