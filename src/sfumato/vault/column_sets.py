"""Columns that a synthesis is asked for, and sets of them that matter."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import ParameterError, option
from sfumato.methods.options import several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.schema.schema import Schema
    from sfumato.methods.synth.request import ColumnSets


def column_names(columns: Sequence[str] | str | None, schema: Schema) -> tuple[str, ...]:
    """The columns that are asked for, each once; all of the schema's where nobody says."""
    if columns is None:
        return tuple(column.name for column in schema.columns)
    names = several(columns, "columns")
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "columns_invalid", "Name at least one column to synthesize, and each only once."
        )
    return names


def targeted(names: Sequence[str], target: str) -> ColumnSets:
    """Each column together with the one that others are to be told by."""
    check_drawn((target,), names)
    return tuple((target, name) for name in names if name != target) or ((target,),)


def read_sets(workload: Sequence[Sequence[str]] | str | Path | None) -> ColumnSets:
    """Sets of columns: given, or a file of one a line."""
    if workload is None:
        return ()
    if isinstance(workload, str | Path):
        path = arguments.path(workload, "workload")
        text = read_text(path, title="Workload", most_mebibytes=1)
        workload = [row for row in csv.reader(text.splitlines()) if row]
    sets = tuple(several(columns, "workload") for columns in arguments.require(
        workload, "workload", (list, tuple), "a list of lists of columns, or a file"
    ))  # fmt: skip
    if not sets:
        raise ParameterError(
            "parameter_missing",
            "The workload names no set of columns. Write one a line, such as age,sex; or leave out "
            f"{option('workload')}.",
        )
    for columns in sets:
        if not columns or len(set(columns)) < len(columns):
            raise ParameterError(
                "columns_invalid",
                f"A set of the workload must name columns, and each only once, not "
                f"{arguments.shown(','.join(columns))}.",
            )
    return sets


def check_drawn(asked: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns that are not among those that are measured."""
    for name in asked:
        if name not in names:
            raise ParameterError(
                "column_unknown",
                f"Column {quoted(name)} is not among those that are measured: "
                f"{', '.join(map(quoted, names))}. Name one of them.",
            )
