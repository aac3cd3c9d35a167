"""The pictures of whatever was released: of a publication's tables, or of an answer's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.report import places
from sfumato.report.charts import show
from sfumato.report.figures import Figures, bars_of, picture_of
from sfumato.report.published import published_pictures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.release.release import Release
    from sfumato.report.picture import Picture

_PRIVATE = "differential privacy"
_MISSING = "(missing)"


def pictures_of(release: Release) -> list[Picture]:
    """The pictures that the page of a release has, or those of an answer; none where none helps."""
    if release.guarantee.kind != _PRIVATE:
        return []
    if "columns" in release.provenance.parameters:
        return published_pictures(release)
    return answer_pictures(release)


def answer_pictures(answer: Release) -> list[Picture]:
    """One picture for each figure of an answer, by the columns that it is grouped by."""
    error = answer.error or {}
    groups = [name for name in answer.table.column_names if name not in error]
    made = (
        _answered(answer.table, groups, name, error[name])
        for name in answer.table.column_names
        if name in error and _is_number(answer.table.column(name).type)
    )
    return [picture for picture in made if picture is not None]


def _answered(table: pa.Table, groups: Sequence[str], name: str, error: Any) -> Picture | None:
    bound = error.get("bound95") if isinstance(error, dict) else None
    off = np.array(bound if isinstance(bound, list) else [bound] * table.num_rows, dtype=np.float64)
    numbers = np.asarray(table.column(name).cast(pa.float64()), dtype=np.float64)
    known = np.isfinite(numbers)
    note = ""
    columns = {}
    for group in groups:
        column = table.column(group)
        missing = np.asarray(pc.is_null(column, nan_is_null=True), dtype=bool)
        if places.is_ordered(column.type):
            lost = numbers[missing & known]
            if len(lost):
                note = f"Not shown: {show(float(lost.sum()))} where {group} is missing."
            known &= ~missing
        else:
            column = column.cast(pa.string()).fill_null(_MISSING)
        columns[group] = column
    if not known.any():
        return None
    values = pa.table(columns or {"figure": pa.array([name] * table.num_rows)})
    shown = Figures(values, name, numbers, None if np.isnan(off).all() else off, note)
    shown = shown.take(np.flatnonzero(known))
    return picture_of(shown) if groups else bars_of(shown)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
