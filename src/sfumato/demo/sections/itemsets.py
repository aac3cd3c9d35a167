"""Sets: the departments that each patient went to, and which of them go together."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from sfumato.data.schema.row_forms import Items
from sfumato.data.schema.schema_file import load
from sfumato.release.open_table import read
from sfumato.report.bars import Bar, draw_bars
from sfumato.report.blocks import Heading, Paragraph
from sfumato.vault.protection import protect

if TYPE_CHECKING:
    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_EPSILON, _SHOWN = "1", 8


def section(town: Town) -> list[Block]:
    """Tell which departments have the same patients, by noisy counts of pairs."""
    rows = town.visits.select(["patient", "department"]).group_by(["patient", "department"])
    held = rows.aggregate([]).group_by("patient").aggregate([("department", "count")])
    several = sum(many > 1 for many in held["department_count"].to_pylist())
    return [
        Heading("Sets of items"),
        Paragraph(
            "A basket, a list of ratings or a search log is a set: many rows of one person, each "
            "of them an item. Here the items are departments of the clinic; "
            f"{several:,} of {held.num_rows:,} patients went to more than one. Each patient counts "
            "once in each pair of departments, and noise hides all pairs of a patient together."
        ),
        _pairs(town),
    ]


def _pairs(town: Town) -> Picture:
    """The most frequent pairs, with how far their counts may be off."""
    with as_file(files("sfumato.demo") / "visits.toml") as file:
        schema = replace(load(file), form=Items("patient", "department"))
    with closing(read(town.visits, schema)) as opened:
        released = protect(opened, epsilon=2).publish("itemsets", epsilon=_EPSILON, size=2)
    far = float((released.error or {})["count"]["bound95"])
    found = sorted(released.table.to_pylist(), key=lambda one: -one["count"])[:_SHOWN]
    bars = [
        Bar(
            f"{one['department_1']} and {one['department_2']}",
            one["count"],
            one["count"] - far,
            one["count"] + far,
        )
        for one in found
    ]
    return draw_bars(
        bars,
        label=f"Patients of two departments, with noise at epsilon {_EPSILON}",
        what="Departments",
        value="Patients",
    )
