"""Synthetic trajectories compared with the original ones: figures and two maps, for the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.report.blocks import Heading, PageTable, Paragraph
from sfumato.report.heat_maps import draw_tiles
from sfumato.report.value_text import share, show

if TYPE_CHECKING:
    from sfumato.attack.evaluation.result import ComparedPaths
    from sfumato.report.blocks import Block

_MEANING = {
    "ranges": "mean relative error of the share of trajectories through a rectangle",
    "trips": "divergence of the pairs of first and last place",
    "travelled": "divergence of the distances travelled",
    "diameter": "divergence of the diameters",
    "patterns": "share of the 100 most common patterns that both tables have (1 is best)",
}
_SHADE_STEPS = (0.001, 0.003, 0.01, 0.03, 0.1)


def trajectory_summary(comparison: ComparedPaths) -> list[str]:
    """Return the results in sentences."""
    figures = comparison.figures
    return [
        (
            f"The share of trajectories through a rectangle is off by {share(figures['ranges'])} "
            f"of itself on average. {share(figures['patterns'])} of the 100 most common patterns "
            "are in both tables."
        ),
        (
            f"Trips, distances and diameters diverge by {show(figures['trips'])}, "
            f"{show(figures['travelled'])} and {show(figures['diameter'])} (0 means equal, 1 "
            "nothing in common)."
        ),
    ]


def trajectory_blocks(comparison: ComparedPaths | None) -> list[Block]:
    """Return the figures in a table, and where points lie in either table, side by side."""
    if comparison is None:
        return []
    rows = [(name, f"{value:.3f}", _MEANING[name]) for name, value in comparison.figures.items()]
    names = ("Original", "Synthetic")
    original, synthetic = comparison.many
    return [
        Heading("Trajectories: original and synthetic", 3),
        Paragraph(
            f"{original:,} original trajectories compared with {synthetic:,} synthetic ones."
        ),
        draw_tiles(
            list(zip(names, comparison.maps, strict=True)),
            label="Where points lie in either table, north up",
            table=PageTable("Utility of trajectories", ("Figure", "Value", "What it is"), rows),
            value="Share of points",
            steps=_SHADE_STEPS,
        ),
    ]
