"""A released table with its error bars: behind each noisy figure how far off it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.data.schema.names import untaken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.release.release import Release

_FIGURE = "count"
_CELLS = ("cell", "cells")
"""Under which words a publication says how far off each of its counts is."""


def with_bars(release: Release, chosen: str) -> pa.Table:
    """A table; `n` is followed by `n_sd`, or by `n_ranks95` where ranks are what errs."""
    table = release.tables[chosen]
    stated = _stated(release, chosen)
    columns: dict[str, Any] = {}
    for name in table.column_names:
        columns[name] = table.column(name)
        error = stated.get(name) or {}
        word = next((one for one in ("sd", "ranks95") if error.get(one) is not None), None)
        if word is not None:
            beside = untaken(f"{name}_{word}", [*table.column_names, *columns])
            columns[beside] = _spread(error[word], table.num_rows)
    return pa.table(columns)


def _stated(release: Release, chosen: str) -> Mapping[str, Any]:
    """What is said of the error of each column; nothing where nothing is noisy."""
    error = release.error or {}
    if release.guarantee.kind != "differential privacy":
        return {}
    published = release.provenance.parameters.get("columns")
    if published is None:
        return error
    of_table = (error.get("tables") or {}).get(chosen)
    found = [one for one in (of_table, *map(error.get, _CELLS)) if one]
    return {untaken(_FIGURE, published): found[0]} if found else {}


def _spread(amount: object, rows: int) -> pa.Array:
    """One number for every row, or the numbers of each."""
    listed = amount if isinstance(amount, list) else [amount] * rows
    return pa.array(listed, pa.float64())
