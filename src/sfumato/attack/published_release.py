"""What a release under a budget tells attackers: its tables of counts, and its promise."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.attack.published import PublishedTable
from sfumato.data.schema.names import untaken
from sfumato.privacy.accounting.losses import Zcdp, zcdp_to_approx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.data.schema.schema import Schema
    from sfumato.release.release import Release

PUBLISHED = "publish "
"""How the method of a publication begins; answers to questions are of some of the rows."""
_MISSING = "missing"
_USUAL_DELTA = Fraction(1, 10**6)
"""A rho promises an epsilon for every delta; it is told for this one unless one is given."""


def published_tables(release: Release, schema: Schema) -> list[PublishedTable]:
    """The tables of a publication that count all people by single values of declared columns."""
    if not release.provenance.method.startswith(PUBLISHED):
        return []
    found = []
    for name, table in release.tables.items():
        figure = figure_of(table, [one.name for one in schema.columns])
        if figure is None or (name == _MISSING and name not in table.column_names):
            continue  # ranges and sketches; or people beside ranges who have no value
        columns = tuple(one for one in schema.columns if one.name in table.column_names)
        counts = table[figure].cast(pa.float64()).fill_null(0.0)
        stddev = _stddev(release.error or {}, name)
        found.append(PublishedTable(columns, table, np.asarray(counts, np.float64), stddev))
    return found


def figure_of(table: pa.Table, columns: Sequence[str]) -> str | None:
    """The column with counts of single combinations; None where a table has ranges or none."""
    there = [one for one in columns if one in table.column_names]
    figure = untaken("count", there)
    return figure if there and figure in table.column_names else None


def _stddev(error: Mapping[str, Any], name: str) -> float:
    """The deviation of a table's counts; 0 where none is told."""
    parts = ((error.get("tables") or {}).get(name), error.get("cell"), error.get("cells"))
    return next((float(one["sd"]) for one in parts if one and "sd" in one), 0.0)


def price(told: Mapping[str, Any]) -> tuple[float, float] | None:
    """The epsilon and delta of a promise; of a rho, those that it means."""
    delta = Fraction(str(told.get("delta") or 0))
    if told.get("epsilon") is not None:
        return float(Fraction(str(told["epsilon"]))), float(delta)
    if told.get("rho") is None:
        return None
    loss = zcdp_to_approx(Zcdp(rho=Fraction(str(told["rho"]))), delta=delta or _USUAL_DELTA)
    return float(loss.epsilon), float(loss.delta)
