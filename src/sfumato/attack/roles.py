"""Ratings, paths, logs and graphs are plain tables: which of their columns is what.

A column is named by the owner (`columns`), or has the name of what it is, or the form of the schema
says so; the person is the column of the schema's privacy unit where none says more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.case import cannot_run
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.row_forms import Edges
from sfumato.errors import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.attack.case import Case

PERSON = "person"
_ENDS = ("source", "target")


def column_of(case: Case, attack: str, what: str) -> str | None:
    """The column of the release that is something; None where there is none."""
    held = case.release.table.names
    asked = case.options.columns.get(what)
    if asked is not None:
        if asked not in held:
            raise cannot_run(
                attack,
                f"the release has no column {quoted(asked)} for the {what}; "
                + suggestion(asked, sorted(held)),
            )
        return asked
    if what in held:
        return what
    form = case.schema.form
    parts = {} if form is None else {name: column for name, (column, _) in form.parts.items()}
    if (declared := parts.get(what)) in held:
        return declared
    if isinstance(form, Edges) and what in _ENDS:
        end = (form.source, form.target)[_ENDS.index(what)]
        return end if end in held else None
    unit = case.schema.unit.column
    return unit if what == PERSON and unit in held else None


def needed_column(case: Case, attack: str, what: str) -> str:
    """The same where there must be one."""
    found = column_of(case, attack, what)
    if found is None:
        raise cannot_run(
            attack,
            f"it has to know which column is the {what}. Give "
            f"{option('column', metavar=what + '=COLUMN')}.",
        )
    return found


def texts(names: Sequence[str]) -> list[Column]:
    """Columns whose values are compared as they are written."""
    return [Column(name, Kind.TEXT) for name in names]


def minutes(attack: str, name: str, values: pa.Array) -> FloatArray:
    """Times in minutes since 1970: dates, moments as ISO 8601 writes them, or seconds."""
    try:
        if (
            pa.types.is_integer(values.type)
            or pa.types.is_floating(values.type)
            or (pa.types.is_string(values.type) and _numeric(values))
        ):
            seconds = values.cast(pa.float64())
        else:
            seconds = values.cast(pa.timestamp("s")).cast(pa.int64()).cast(pa.float64())
    except pa.ArrowInvalid:
        raise cannot_run(
            attack,
            f"column {quoted(name)} is no time. Write moments like 2013-07-01T09:30:00, dates, or "
            "seconds.",
        ) from None
    found: FloatArray = seconds.to_numpy(zero_copy_only=False) / 60
    return found


def _numeric(values: pa.Array) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, r"^-?\d+(\.\d+)?$")).as_py())
