"""Streams: visits to the clinic, told week by week for one price."""

from __future__ import annotations

from contextlib import closing
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.report import charts
from sfumato.report.blocks import Heading, Paragraph
from sfumato.steward.table import read
from sfumato.vault.protection import protect

if TYPE_CHECKING:
    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_EPSILON, _WEEK, _LAST = "1", 7, 4


def section(town: Town) -> list[Block]:
    """Tell the visits so far, and those of the last weeks, after every week."""
    days = town.visits["day"].combine_chunks().cast(pa.int32()).to_numpy()
    weeks = (days - days.min()) // _WEEK
    parts = [town.visits.filter(pa.array(weeks == one)) for one in range(int(weeks.max()) + 1)]
    return [
        Heading("Week by week"),
        Paragraph(
            "A stream tells a figure after every period, for one price for all of them. Here that "
            f"are visits to the clinic in each last {_LAST} of {len(parts)} weeks, and all since "
            f"the beginning, at epsilon {_EPSILON} each. Both hide a patient with all visits, of "
            "whom the first ones count; a figure of later weeks uses no noise twice."
        ),
        _told(town, parts, None, "Visits since the beginning"),
        _told(town, parts, _LAST, f"Visits in the last {_LAST} weeks"),
    ]


def _told(town: Town, parts: list[pa.Table], window: int | None, label: str) -> Picture:
    """What a stream tells of every week, beside the truth, which only the demo may show."""
    with (
        as_file(files("sfumato.demo") / "visits.toml") as schema,
        closing(read(town.visits, schema)) as visited,
    ):
        private = protect(visited, epsilon=2)
        stream = private.stream(periods=len(parts), window=window, epsilon=_EPSILON)
        for part in parts:
            stream.step(part)
    sizes = [part.num_rows for part in parts]
    first = [0 if window is None else max(0, at + 1 - window) for at in range(len(parts))]
    truth = [float(sum(sizes[low : at + 1])) for at, low in enumerate(first)]
    points = [charts.Point("the truth", at, rows, rows, rows) for at, rows in enumerate(truth, 1)]
    for one in stream.told:
        rows, far = float(one.values[0]), one.error["rows"]["bound95"]
        points.append(charts.Point("with noise", one.number, rows, rows - far, rows + far))
    return charts.line(points, label=label, x="Week", y="Visits", series="figures")
