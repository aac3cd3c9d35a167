"""Dates as Python knows them: engines and Parquet files can hold far earlier and later ones."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from sfumato.engines.statement import column
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.engines.base import Engine

_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days


def check_dates(engine: Engine, names: Sequence[str]) -> None:
    """Refuse columns of the engine's table with dates outside the years 1 to 9999."""
    if not names:
        return
    ends = [end(this=column(name)) for name in names for end in (exp.Min, exp.Max)]
    aliased = (exp.alias_(end, f"sf_end_{place}") for place, end in enumerate(ends))
    found = engine.run(exp.select(*aliased).from_(engine.table.copy()))
    days = [cells.cast(pa.date32()).cast(pa.int32())[0].as_py() for cells in found.columns]
    for place, day in enumerate(days):
        if day is not None and not _FIRST <= day <= _LAST:
            raise SourceError(
                "date_out_of_range",
                f"Column {names[place // 2]!r} holds dates outside the years 1 to 9999, which "
                "cannot be worked with. Correct them in the source, or make them missing.",
            )
