"""Central against local privacy: the error of a count at the same epsilon.

How many of N people say yes? A trusted collector counts and adds Laplace noise once: the error is
about sqrt(2) / epsilon for any N. An untrusted collector receives randomized responses, each with
its own noise: sqrt(N E) / (E - 1), E = e^epsilon, about sqrt(N) / epsilon. Both run here on
synthetic people, with the mechanisms that real data get.
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
from sfumato.methods.local.frequency_oracles import Warner
from sfumato.methods.local.local_epsilon import read_epsilon
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
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture


LAPLACE, RESPONSE = "Laplace noise, trusted", "randomized response, not trusted"
EPSILONS: tuple[Number, ...] = ("0.1", "0.25", "0.5", "1", "2")
PEOPLE = (100, 1_000, 10_000, 100_000)

_PEOPLE_AT_A_POINT = 1_000_000
_FEWEST_RUNS, _MOST_RUNS = 20, 400


class Measured(NamedTuple):
    """The error of a count at one epsilon: measured by runs, and expected by the formula."""

    method: str
    people: int
    epsilon: float
    sd: float
    expected: float


@dataclass(frozen=True, repr=False)
class Contrast(Shown):
    """The error of counts by both collectors, measured by simulation."""

    points: tuple[Measured, ...]

    @property
    def table(self) -> pa.Table:
        """method, people, epsilon, sd (of the runs) and expected (by the formula)."""
        return pa.Table.from_pylist([point._asdict() for point in self.points])

    def slope(self, method: str, along: str) -> float:
        """The exponent of the error's growth along 'people' or 'epsilon', by least squares.

        Along epsilon only points up to 1 count, because the power law holds for small epsilon.

        Parameters
        ----------
        method : str
            `LAPLACE` or `RESPONSE`, as in the table.
        along : str
            "people" or "epsilon".

        Returns
        -------
        float
            The exponent: about 0 and -1 for Laplace noise, 1/2 and -1 for randomized response.

        Raises
        ------
        ParameterError
            If the method or the axis is unknown.
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
        # One slope for all series: centring removes the height of each.
        for group in {getattr(point, across_name) for point in points}:
            own = np.array([getattr(point, across_name) == group for point in points])
            across[own] -= across[own].mean()
            errors[own] -= errors[own].mean()
        return float(across @ errors / (across @ across))

    def plot(self) -> Pictures:
        """Draw the error by the number of people; a notebook shows it, `save` writes SVG."""
        return Pictures([picture(self)])

    def save_report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write an HTML page with the picture and the figures."""
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
    """Simulate both collectors; see `sfumato.local.contrast`."""
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
            "Fitting how errors grow takes at least two points: give two epsilons up to 1 and two "
            "numbers of people from 2 to 10,000,000.",
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
    # A trusted count is exact: its error is the noise.
    off = discrete_laplace(1 / epsilon.lower, _MOST_RUNS, entropy).astype(np.float64)
    expected = 1 / (math.sqrt(2) * math.sinh(float(epsilon) / 2))
    return Measured(LAPLACE, people, float(epsilon), _spread(off), expected)


def _not_trusted(epsilon: LocalEpsilon, people: int, entropy: Entropy) -> Measured:
    oracle = Warner(2, epsilon=epsilon)
    # Three in ten say yes.
    answers = np.arange(people) % 10 < 3
    truth, codes = int(answers.sum()), answers.astype(np.int64)
    runs = _runs(people)
    reports = oracle.randomize(np.tile(codes, runs), entropy).rows["report"].reshape(runs, people)
    p, q = float(oracle.p), float(oracle.q)
    off = (reports.sum(axis=1, dtype=np.int64) - people * q) / (p - q) - truth
    expected = people * math.sqrt(oracle.variance(people))
    return Measured(RESPONSE, people, float(epsilon), _spread(off), expected)


def _spread(errors: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The root mean square of errors."""
    # At least 0.001: the logarithm of an error of 0 would spoil the fit.
    return max(float(np.sqrt(np.mean(errors**2))), 1e-3)


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
