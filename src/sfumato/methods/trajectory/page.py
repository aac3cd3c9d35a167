"""Paths of a synthetic table beside those of its original: figures and two maps, for the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.report.blocks import Heading, PageTable, Paragraph
from sfumato.report.heat_maps import draw_tiles
from sfumato.report.value_text import share, show

if TYPE_CHECKING:
    from sfumato.attack.evaluation.result import ComparedPaths
    from sfumato.report.blocks import Block

_MEANING = {
    "ranges": "how far shares of paths through rectangles are off, relative to them",
    "trips": "divergence of pairs of first and last place",
    "travelled": "divergence of distances gone",
    "diameter": "divergence of the widths of paths",
    "patterns": "share of the 100 commonest patterns that both have (1 is best)",
}
_STEPS = (0.001, 0.003, 0.01, 0.03, 0.1)


def paths_said(found: ComparedPaths) -> list[str]:
    """What was found, in sentences."""
    figures = found.figures
    counted = (
        f"Shares of paths through a rectangle are off by {share(figures['ranges'])} of them on "
        f"average; of the 100 commonest patterns {share(figures['patterns'])} are in both."
    )
    diverged = (
        f"Trips, distances gone and widths diverge by {show(figures['trips'])}, "
        f"{show(figures['travelled'])} and {show(figures['diameter'])} (0 is the same, 1 nothing "
        "in common)."
    )
    return [counted, diverged]


def path_blocks(found: ComparedPaths | None) -> list[Block]:
    """Figures in a table, and where points lie in either table, side by side."""
    if found is None:
        return []
    rows = [(name, f"{one:.3f}", _MEANING[name]) for name, one in found.figures.items()]
    table = PageTable("What paths are good for", ("Figure", "Value", "What it is"), rows)
    names = ("Original", "Synthetic")
    return [
        Heading("Paths, original beside synthetic", 3),
        Paragraph(f"{found.many[0]:,} paths of the original beside {found.many[1]:,}."),
        draw_tiles(
            [(name, cells) for name, cells in zip(names, found.maps, strict=True)],
            label="Where points lie in either table, north up",
            table=table,
            value="Share of points",
            steps=_STEPS,
        ),
    ]
