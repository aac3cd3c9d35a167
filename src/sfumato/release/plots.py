"""The pictures of whatever was released: of a publication's tables, or of an answer's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ParameterError
from sfumato.methods.publish.page import published_pictures
from sfumato.methods.synth.page import synthesis_pictures
from sfumato.report import positions
from sfumato.report.charts import bar
from sfumato.report.display import Pictures
from sfumato.report.figures import Figures, error_bar, picture_of
from sfumato.report.numbers import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import FloatArray
    from sfumato.release.release import Release
    from sfumato.report.picture import Picture

_PRIVATE = "differential privacy"
_MISSING = "(missing)"


def plot(release: Release) -> Pictures:
    """The pictures that the page of a release has."""
    found = pictures_of(release)
    lost = (release.error or {}).get("ncp") if release.holder is not None else None
    if lost:
        label = "Information lost in each column, as a share of its hierarchy"
        found.append(
            bar(list(lost.items()), label=label, what="Column", value="Loss", percent=True)
        )
    if not found:
        raise ParameterError(
            "nothing_to_draw",
            "There is nothing in this release that a picture would help to see. Look at its "
            "tables: release.to_pandas().",
        )
    return Pictures(found)


def pictures_of(release: Release) -> list[Picture]:
    """The pictures that the page of a release has, or those of an answer; none where none helps."""
    if release.guarantee.kind != _PRIVATE:
        return []
    drawn = getattr(release, "drawn_from", {})
    if drawn:
        return [one for model, rows in drawn.values() for one in synthesis_pictures(model, rows)]
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


def _answered(
    table: pa.Table, groups: Sequence[str], name: str, error: Mapping[str, Any]
) -> Picture | None:
    """The picture of one figure, unless all of its rows are missing."""
    bound = error.get("bound95")
    off = np.array(bound if isinstance(bound, list) else [bound] * table.num_rows, dtype=np.float64)
    numbers = np.asarray(table.column(name).cast(pa.float64(), safe=False), dtype=np.float64)
    known = np.isfinite(numbers)
    said = []
    if error.get("ranks95") is not None:
        said.append(f"Ranks are within ± {show(error['ranks95'])} rows in 95 % of cases.")
    columns = {}
    for group in groups:
        column = table.column(group)
        if positions.is_ordered(column.type):
            missing = np.asarray(pc.is_null(column, nan_is_null=True), dtype=bool)
            said += [f"Rows where {group} is missing are not shown."] if missing.any() else []
            known &= ~missing
        else:
            column = column.cast(pa.string()).fill_null(_MISSING)
        columns[group] = column
    if not known.any():
        return None
    chosen = np.flatnonzero(known)
    far = None if np.isnan(off).all() else off
    if not groups:
        return _alone(name, numbers[chosen], None if far is None else far[chosen], " ".join(said))
    shown = Figures(pa.table(columns), name, numbers, far, " ".join(said))
    return picture_of(shown.take(chosen))


def _alone(name: str, numbers: FloatArray, off: FloatArray | None, note: str) -> Picture:
    """A figure that is not grouped by anything."""
    bars = [
        error_bar(name, number, None if off is None else float(off[place]))
        for place, number in enumerate(numbers.tolist())
    ]
    return bar(bars, label=name, what="Figure", value="Value", note=note)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
