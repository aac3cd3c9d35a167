"""Pictures of a release: the tables of a publication, or the numbers of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ParameterError
from sfumato.methods.publish.page import published_pictures
from sfumato.methods.synth.page import synthesis_pictures
from sfumato.report.bars import bar_with_error, draw_bars
from sfumato.report.column_charts import GroupedNumbers, choose_chart, is_ordered
from sfumato.report.display import Pictures
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.release.release import Release
    from sfumato.report.picture import Picture

_PRIVATE = "differential privacy"
_MISSING = "(missing)"


def plot(release: Release) -> Pictures:
    """Return the pictures of a release; raise if it has none."""
    pictures = pictures_of(release)
    losses = (release.error or {}).get("ncp") if release.holder is not None else None
    if losses:
        label = "Information lost in each column, as a share of its hierarchy"
        bars = list(losses.items())
        pictures.append(draw_bars(bars, label=label, category="Column", value="Loss", percent=True))
    if not pictures:
        raise ParameterError(
            "comparison_impossible",
            "This release has no numbers to draw. See its tables with release.to_pandas().",
        )
    return Pictures(pictures)


def pictures_of(release: Release) -> list[Picture]:
    """Return the pictures of a release or an answer; an empty list if it has none."""
    if release.guarantee.kind != _PRIVATE:
        return []
    syntheses = getattr(release, "drawn_from", {})
    if syntheses:
        return [
            picture
            for model, rows in syntheses.values()
            for picture in synthesis_pictures(model, rows)
        ]
    if "columns" in release.provenance.parameters:
        return published_pictures(release)
    return answer_pictures(release)


def answer_pictures(answer: Release) -> list[Picture]:
    """Draw each numeric column of an answer by its grouping columns."""
    error = answer.error or {}
    groups = [name for name in answer.table.column_names if name not in error]
    pictures = (
        _draw_column(answer.table, groups, name, error[name])
        for name in answer.table.column_names
        if name in error and _is_number(answer.table.column(name).type)
    )
    return [picture for picture in pictures if picture is not None]


def _draw_column(
    table: pa.Table, groups: Sequence[str], name: str, error: Mapping[str, Any]
) -> Picture | None:
    """Draw one column, unless all of its values are missing."""
    bound = error.get("bound95")
    bounds = bound if isinstance(bound, list) else [bound] * table.num_rows
    errors = np.array(bounds, dtype=np.float64)
    numbers = np.asarray(table.column(name).cast(pa.float64(), safe=False), dtype=np.float64)
    # A scale cannot show missing and infinite numbers.
    shown = np.isfinite(numbers)
    notes = []
    if error.get("ranks95") is not None:
        notes.append(f"Ranks are within ± {show(error['ranks95'])} rows in 95 % of cases.")
    columns = {}
    for group in groups:
        column = table.column(group)
        if is_ordered(column.type):
            missing = np.asarray(pc.is_null(column, nan_is_null=True), dtype=bool)
            notes += [f"Rows with a missing {group} are not shown."] if missing.any() else []
            shown &= ~missing
        else:
            column = column.cast(pa.string()).fill_null(_MISSING)
        columns[group] = column
    if not shown.any():
        return None
    rows, note = np.flatnonzero(shown), " ".join(notes)
    if not groups:
        bars = [bar_with_error(name, float(numbers[row]), float(errors[row])) for row in rows]
        return draw_bars(bars, label=name, category="Number", value="Value", note=note)
    known_errors = None if np.isnan(errors).all() else errors
    data = GroupedNumbers(pa.table(columns), name, numbers, known_errors, note)
    return choose_chart(data.select(rows))


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
