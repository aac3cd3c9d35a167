"""Itemsets: the departments that each patient visited, and which of them go together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.data.schema.schema import Items
from sfumato.demo.town import schema_of
from sfumato.release.open_table import read
from sfumato.report.bars import bar_with_error, draw_bars
from sfumato.report.blocks import Heading, Paragraph
from sfumato.vault.protection import protect

if TYPE_CHECKING:
    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_EPSILON, _SHOWN = "1", 8


def section(town: Town) -> list[Block]:
    """Show which departments have the same patients, by noisy counts of pairs."""
    # Once per patient and department: repeated visits are the same item.
    rows = town.visits.select(["patient", "department"]).group_by(["patient", "department"])
    departments_of = rows.aggregate([]).group_by("patient").aggregate([("department", "count")])
    several = sum(number > 1 for number in departments_of["department_count"].to_pylist())
    return [
        Heading("Itemsets"),
        Paragraph(
            "A shopping basket, a list of ratings or a search log is an itemset: many rows of one "
            f"person, one item in each. Here the items are departments of the clinic; {several:,} "
            f"of {departments_of.num_rows:,} patients visited more than one. Each patient counts "
            "once in each pair of departments, and the noise hides all pairs of a patient "
            "together."
        ),
        _pairs(town),
    ]


def _pairs(town: Town) -> Picture:
    """The most frequent pairs, with the error of their counts."""
    schema = replace(schema_of("visits"), form=Items("patient", "department"))
    with read(town.visits, schema) as opened:
        released = protect(opened, epsilon=2).publish("itemsets", epsilon=_EPSILON, size=2)
    error = float((released.error or {})["count"]["bound95"])
    pairs = sorted(released.table.to_pylist(), key=lambda pair: -pair["count"])[:_SHOWN]
    bars = [
        bar_with_error(f"{pair['department_1']} and {pair['department_2']}", pair["count"], error)
        for pair in pairs
    ]
    return draw_bars(
        bars,
        label=f"Patients of two departments, with noise at epsilon {_EPSILON}",
        category="Departments",
        value="Patients",
    )
