"""Attacks on what was published or made up under a budget, before it leaves: its owner's.

Made-up rows are attacked as rows. A table of counts is read as the rows that it counts: as many of
each combination as its figure says, to the nearest whole number. Either way they are nobody's.

Decision 0293.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.case import Case, HeldRelease, HeldTable
from sfumato.attack.catalogue import ON_ROWS, run_all
from sfumato.attack.finding import Findings
from sfumato.attack.published_release import figure_of
from sfumato.data.counting.frequencies import count_held
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlglot import exp

    from sfumato.attack.requirements import Requirement
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.schema import Schema

_ROWS = "sf_rows"
_NO_COUNTS = (
    "no table of the release counts single combinations of its columns, which could be read as "
    "rows of people."
)


def attacked_rows(
    rows: pa.Table,
    schema: Schema,
    original: tuple[Engine, exp.Table],
    requirements: Sequence[Requirement] = (),
) -> Findings:
    """What attacks find in made-up rows."""
    return _attacked(rows, None, schema, original, _tried(ON_ROWS, requirements))


def attacked_counts(
    tables: Mapping[str, pa.Table],
    columns: Sequence[str],
    schema: Schema,
    original: tuple[Engine, exp.Table],
    requirements: Sequence[Requirement] = (),
) -> Findings:
    """What attacks find in tables of counts: in that of the most columns."""
    names = _tried(ON_ROWS, requirements)
    read = read_as_rows(tables, columns)
    if read is None:
        return Findings((), dict.fromkeys(names, _NO_COUNTS))
    table, figure = read
    whole = pc.round(table.column(figure)).cast(pa.int64())
    there = table.select([one for one in table.column_names if one in columns])
    rows = there.append_column(_ROWS, whole).filter(pc.greater(whole, 0))
    return _attacked(rows, _ROWS, schema, original, names)


def read_as_rows(
    tables: Mapping[str, pa.Table], columns: Sequence[str]
) -> tuple[pa.Table, str] | None:
    """The table of counts that is read as rows, and which column counts; None if there is none.

    Of a publication it is known before it is charged: its tables are, without a row.
    """
    counted = [(one, figure_of(one, columns)) for one in tables.values()]
    read = [(one, figure) for one, figure in counted if figure is not None]
    return max(read, key=lambda one: one[0].num_columns, default=None)


def _tried(usual: Sequence[str], requirements: Sequence[Requirement]) -> list[str]:
    return list(dict.fromkeys([*usual, *(one.attack for one in requirements)]))


def _attacked(
    rows: pa.Table,
    weight: str | None,
    schema: Schema,
    original: tuple[Engine, exp.Table],
    names: Sequence[str],
) -> Findings:
    engine, table = original
    # Nobody is looked up by a name: rows of people are told by what the release has of them.
    columns = tuple(
        one
        for one in schema.columns
        if one.role is not Role.IDENTIFIER and one.name in rows.column_names
    )
    with closing(open_source(rows)) as released:
        whole = None
        if weight is not None:
            listed = [one.name for one in columns]
            whole = count_held(released, released.table, listed, weight=weight)
        held = HeldTable(released, released.table, columns, whole=whole)
        return run_all(
            Case(
                schema,
                HeldRelease(held, rows_are="nobody's"),
                original=HeldTable(engine, table, columns),
            ),
            names=names,
        )
