"""Trees as files: one row per value, from the value up to the root, ';' or ',' between."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from sfumato.errors import SchemaError
from sfumato.schema.hierarchy.tree import Tree
from sfumato.schema.literals import from_text
from sfumato.schema.plain import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.schema.column import Kind

MOST_MEBIBYTES = 64


def read_tree(path: Path, kind: Kind) -> Tree:
    """Read a tree whose values are of a kind."""
    text = read_text(path, what="Hierarchy file", most_mebibytes=MOST_MEBIBYTES)
    if "\n" not in text:
        text = text.replace("\r", "\n")  # lines ended so on old machines
    leaves, ancestors = [], []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=True)
    try:
        for row in reader:
            if row:
                leaves.append(from_text(row[0], kind))
                ancestors.append(tuple(row[1:]))
        return Tree(tuple(leaves), tuple(ancestors), path.resolve())
    except csv.Error as error:
        message = f"Hierarchy file '{path}', line {reader.line_num}: {error}."
        raise SchemaError("hierarchy_syntax", message) from None
    except SchemaError as error:
        reading = f", line {reader.line_num}" if error.code == "value_kind" else ""
        message = f"Hierarchy file '{path}'{reading}: {error.message}"
        raise SchemaError(error.code, message) from None


def _separator(text: str) -> str:
    """The sign that parts the first row into more cells."""
    head = text.lstrip("\r\n").split("\n", 1)[0]

    def cells(sign: str) -> int:
        try:
            return len(next(csv.reader([head], delimiter=sign), []))
        except csv.Error:
            return 0  # the whole file is refused with the line, when it is read

    return max(";,", key=cells)
