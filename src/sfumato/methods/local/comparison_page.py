"""Laplace noise against randomized response: the picture of both errors, and a page about it."""

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

_LABEL = (
    "Error of a count: one who is trusted adds noise once, one who is not gets it from everybody"
)
_NOTE = "Both axes are logarithmic. Points are root mean squares over runs."
_LEAD = (
    "How many people say yes, at the same epsilon, by a collector who sees the answers and by one "
    "who sees randomized responses only. Everybody on this page is made up; the noise is real."
)


def picture(contrast: Contrast) -> Picture:
    """The error by the number of people, a draw_lines for each method and epsilon."""
    epsilons = sorted({point.epsilon for point in contrast.points})
    shown = {epsilons[0], epsilons[-1], *(epsilon for epsilon in epsilons if epsilon == 1)}
    short = {LAPLACE: "Laplace", RESPONSE: "randomized response"}
    points = [
        Point(f"{short[point.method]}, epsilon {point.epsilon:g}", point.people, point.sd)
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
    """What a page says of both collectors."""
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
    headers = ("Method", "People", "Epsilon", "Error in runs", "By the formula")
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
            "Laplace noise is added once, to the count of all: its error does not grow with the "
            "number of people. Randomized response adds noise to every answer, and the errors of N "
            "people add up to the square root of N times that of one. Both fall with epsilon alike."
        ),
        picture(contrast),
        PageTable(
            "The exponents that fit the runs best",
            ("Method", "Error grows with people to the power", "and with epsilon to the power"),
            slopes,
        ),
        Note(
            "That is the price of not having to trust anybody: as a share of all people the error "
            "of randomized response falls only with the square root of N, that of a trusted "
            "collector with N."
        ),
        PageTable("All points", headers, rows, folded=True),
    ]


def page(contrast: Contrast) -> str:
    """The page of a contrast."""
    return render(
        "Trusted or not: what the same epsilon costs",
        [Heading("The error of one count"), *blocks(contrast)],
        lead=_LEAD,
        footer=f"Made by Sfumato {__version__} from runs on made-up people.",
    )
