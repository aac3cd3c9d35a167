"""Laplace noise compared with randomized response: a picture of both errors, and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato import __version__
from sfumato.methods.local.central_comparison import LAPLACE, RESPONSE
from sfumato.report.blocks import Heading, Note, PageTable, Paragraph
from sfumato.report.page import render
from sfumato.report.points import Point, draw_lines
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from sfumato.methods.local.central_comparison import Contrast
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_LABEL = "Error of a count: a trusted collector adds noise once, otherwise everyone adds noise"
_NOTE = "Both axes are logarithmic. Points are root mean squares over runs."
_LEAD = (
    "The number of people who say yes, at the same epsilon: counted by a collector who sees the "
    "answers, and by one who sees only randomized responses. All people on this page are made up; "
    "the noise is real."
)


def picture(contrast: Contrast) -> Picture:
    """The error by the number of people, a line for each method and epsilon."""
    epsilons = sorted({point.epsilon for point in contrast.points})
    shown = {epsilons[0], epsilons[-1], *(epsilon for epsilon in epsilons if epsilon == 1)}
    names = {LAPLACE: "Laplace", RESPONSE: "randomized response"}
    points = [
        Point(f"{names[point.method]}, epsilon {point.epsilon:g}", point.people, point.sd)
        for point in contrast.points
        if point.epsilon in shown
    ]
    return draw_lines(
        points,
        label=_LABEL,
        x="People",
        y="Typical error of the count",
        series="Method",
        logarithmic=True,
        logarithmic_y=True,
        note=_NOTE,
    )


def blocks(contrast: Contrast) -> list[Block]:
    """The comparison as part of a page."""
    rows = [
        (
            point.method,
            f"{point.people:,}",
            f"{point.epsilon:g}",
            show(point.sd),
            show(point.expected),
        )
        for point in contrast.points
    ]
    slopes = [
        (
            method,
            f"{contrast.slope(method, 'people'):.2f}",
            f"{contrast.slope(method, 'epsilon'):.2f}",
        )
        for method in (LAPLACE, RESPONSE)
    ]
    return [
        Paragraph(
            "Laplace noise is added once, to the total: its error does not grow with the number of "
            "people. Randomized response adds noise to every answer, so the error of N people is "
            "the square root of N times that of one person. Both errors shrink alike as epsilon "
            "grows."
        ),
        picture(contrast),
        PageTable(
            "The exponents that fit the runs best",
            ("Method", "Error grows with people to the power", "and with epsilon to the power"),
            slopes,
        ),
        Note(
            "This is the price of trusting nobody: as a share of all people, the error of "
            "randomized response shrinks only with the square root of N, the error of a trusted "
            "collector with N."
        ),
        PageTable(
            "All points",
            ("Method", "People", "Epsilon", "Error in runs", "By the formula"),
            rows,
            folded=True,
        ),
    ]


def page(contrast: Contrast) -> str:
    """The comparison as a page of its own."""
    return render(
        "Trusted or not: what the same epsilon costs",
        [Heading("The error of one count"), *blocks(contrast)],
        lead=_LEAD,
        footer=f"Made by Sfumato {__version__} from runs on made-up people.",
    )
