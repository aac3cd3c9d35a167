"""A collector who is trusted against one who is not: what the same epsilon costs in error.

How many of N people say yes? A trusted collector counts, and adds Laplace noise once: the error is
about sqrt(2) / epsilon, however many people there are. One who is not trusted gets randomized
responses, each with noise of its own: sqrt(N E) / (E - 1), E = e^epsilon, about sqrt(N) / epsilon.
Both are run here, on people who are made up, with the same mechanisms as anywhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato import __version__, arguments
from sfumato.errors import ParameterError
from sfumato.filesystem import whole
from sfumato.methods.local.exact_epsilon import read_epsilon
from sfumato.methods.local.frequency_oracles import Warner
from sfumato.privacy.noise.discrete import discrete_laplace
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.blocks import Heading, Note, PageTable, Paragraph
from sfumato.report.display import Card, CardTable, Pictures, Shown
from sfumato.report.page import render
from sfumato.report.points import Point, draw_lines
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture


LAPLACE, RESPONSE = "Laplace noise, trusted", "randomized response, not trusted"
EPSILONS: tuple[Number, ...] = ("0.1", "0.25", "0.5", "1", "2")
PEOPLE = (100, 1_000, 10_000, 100_000)

_PEOPLE_AT_A_POINT = 1_000_000
_FEWEST_RUNS, _MOST_RUNS = 20, 400


class Measured(NamedTuple):
    """The error of counting so many people at one epsilon: of runs, and by the formula."""

    method: str
    people: int
    epsilon: float
    sd: float
    expected: float


@dataclass(frozen=True, repr=False)
class Contrast(Shown):
    """The error of counts by both collectors, measured by runs."""

    points: tuple[Measured, ...]

    @property
    def table(self) -> pa.Table:
        """method, people, epsilon, sd (of the runs) and expected (by the formula)."""
        return pa.Table.from_pylist([point._asdict() for point in self.points])

    def slope(self, method: str, along: str) -> float:
        """How the error grows along 'people' or 'epsilon': the exponent that fits best.

        Along epsilon those of at most 1 are taken, as the law is about small ones.
        """
        arguments.one_of(method, "method", (LAPLACE, RESPONSE))
        arguments.one_of(along, "along", ("people", "epsilon"))
        points = [
            point
            for point in self.points
            if point.method == method and (along == "people" or point.epsilon <= 1)
        ]
        across_name = "epsilon" if along == "people" else "people"
        across = np.log([getattr(point, along) for point in points])
        errors = np.log([point.sd for point in points])
        # Each series may lie at a height of its own; only how it runs counts.
        for group in {getattr(point, across_name) for point in points}:
            own = np.array([getattr(point, across_name) == group for point in points])
            across[own] -= across[own].mean()
            errors[own] -= errors[own].mean()
        return float(across @ errors / (across @ across))

    def plot(self) -> Pictures:
        """The error by the number of people; a notebook shows it, `save` writes SVG."""

        return Pictures([picture(self)])

    def save_report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a page with the picture, the figures and what they mean."""

        with whole(arguments.path(path, "path"), overwrite=overwrite) as temporary:
            temporary.write_text(page(self), encoding="utf-8")

    def _card(self) -> Card:
        people, growth = max(point.people for point in self.points), self.slope(RESPONSE, "people")
        line = f"up to {people:,} people; without trust error grows as people^{growth:.2f}"
        facts = {
            f"{method}, error grows as": (
                f"people^{self.slope(method, 'people'):.2f} epsilon^"
                f"{self.slope(method, 'epsilon'):.2f}"
            )
            for method in (LAPLACE, RESPONSE)
        }
        rows = [tuple(point) for point in self.points[:10]]
        return Card(line, facts, CardTable(Measured._fields, rows, max(0, len(self.points) - 10)))


def contrast(
    epsilons: Sequence[Number | LocalEpsilon] = EPSILONS,
    people: Sequence[int] = PEOPLE,
    *,
    entropy: Entropy | None = None,
) -> Contrast:
    """Run both collectors on made-up people, many times, and measure how far off they are."""
    for name, values in (("epsilons", epsilons), ("people", people)):
        arguments.require(values, name, (list, tuple), "a list")
    levels, sizes = (
        {read_epsilon(epsilon) for epsilon in epsilons},
        {arguments.whole(count, "people") for count in people},
    )
    small = [epsilon_level for epsilon_level in levels if float(epsilon_level) <= 1]
    if len(small) < 2 or len(sizes) < 2 or min(sizes) < 2 or max(sizes) > 10**7:
        raise ParameterError(
            "parameter_out_of_range",
            "How errors grow is fitted through two points at least: give two epsilons up to 1 and "
            "two numbers of people, of 2 to 10,000,000 each.",
        )
    source = entropy or SystemEntropy()
    points = [
        run(epsilon_level, size, source)
        for epsilon_level in levels
        for size in sizes
        for run in (_trusted, _not_trusted)
    ]
    return Contrast(tuple(sorted(points)))


def _runs(people: int) -> int:
    return min(max(_PEOPLE_AT_A_POINT // people, _FEWEST_RUNS), _MOST_RUNS)


def _trusted(epsilon: LocalEpsilon, people: int, entropy: Entropy) -> Measured:
    # The count itself has no error, so its noise is all there is.
    off = discrete_laplace(1 / epsilon.lower, _MOST_RUNS, entropy).astype(np.float64)
    expected = 1 / (math.sqrt(2) * math.sinh(float(epsilon) / 2))
    return Measured(LAPLACE, people, float(epsilon), _spread(off), expected)


def _not_trusted(epsilon: LocalEpsilon, people: int, entropy: Entropy) -> Measured:
    oracle = Warner(2, epsilon=epsilon)
    answers = np.arange(people) % 10 < 3  # three in ten say yes
    truth, codes = int(answers.sum()), answers.astype(np.int64)
    runs = _runs(people)
    reports = oracle.randomize(np.tile(codes, runs), entropy).rows["report"].reshape(runs, people)
    p, q = float(oracle.p), float(oracle.q)
    off = (reports.sum(axis=1, dtype=np.int64) - people * q) / (p - q) - truth
    expected = people * math.sqrt(oracle.variance(people))
    return Measured(RESPONSE, people, float(epsilon), _spread(off), expected)


def _spread(errors: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The root mean square; at least what one run in two being off by one would give."""
    return max(float(np.sqrt(np.mean(errors**2))), 1e-3)


# Laplace noise compared with randomized response: a picture of both errors, and a page.

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
