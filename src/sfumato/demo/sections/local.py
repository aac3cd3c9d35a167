"""Collect without being trusted: every person of the town randomizes before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.demo import vocabulary as words
from sfumato.methods import local
from sfumato.methods.local import comparison_page
from sfumato.report.bars import Bar, draw_bars
from sfumato.report.blocks import Heading, Note, PageTable, Paragraph
from sfumato.report.value_text import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block

EPSILONS = ("0.5", "1", "4")
_DRAWN = "1"
_LARGEST_SALARY = 500_000
_PEOPLE = (100, 1_000, 10_000)


def section(town: Town) -> list[Block]:
    """Ask the town for its illnesses and salaries, and compare with the truth."""
    return [
        Heading("Collect without being trusted"),
        Paragraph(
            "So far somebody held the table. Here nobody does: the device of each of the "
            f"{town.people.num_rows:,} people randomizes the answer before it is sent, so that "
            "whoever reads a report cannot tell whether it is true. Only all of them together say "
            "something."
        ),
        *_illnesses(town.people),
        *_salaries(town.people),
        Heading("What it costs not to be trusted", level=3),
        *comparison_page.blocks(local.contrast(epsilons=("0.1", "1"), people=_PEOPLE)),
    ]


def _illnesses(people: pa.Table) -> list[Block]:
    """The share of each illness from reports, beside the truth that no collector would have."""
    answers = people["disease"].to_pylist()
    oracle = local.oracle("auto", list(words.DISEASES), epsilon=_DRAWN)
    found = oracle.estimate(oracle.sketch(oracle.randomize(answers))).to_pylist()
    bars = [Bar(one["value"], *_bar(one)) for one in found]
    true = {one: answers.count(one) / len(answers) for one in words.DISEASES}
    rows = [
        (one["value"], _percent(true[one["value"]]), _percent(one["share"]), _percent(one["sd"]))
        for one in found
    ]
    return [
        Heading("Which illness do you have?", level=3),
        Paragraph(
            f"Asked at epsilon {_DRAWN} by the mechanism that suits {len(true)} answers "
            f"({oracle.name}): {oracle.why}."
        ),
        draw_bars(
            bars,
            label="Share of people with each illness, estimated from randomized reports",
            what="Illness",
            value="Share",
            percent=True,
            note="Estimates are left as they are: a rare illness may come out below 0 %.",
        ),
        PageTable(
            "The truth, which no collector of reports would have",
            ("Illness", "True share", "Estimated", "Standard deviation"),
            rows,
            folded=True,
        ),
    ]


def _bar(one: dict[str, Any]) -> Sequence[float]:
    far = 1.96 * one["sd"]
    return one["share"], one["share"] - far, one["share"] + far


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _salaries(people: pa.Table) -> list[Block]:
    """The mean salary at several epsilons."""
    salaries = people["salary"].to_numpy().astype(np.float64)
    rows = []
    for epsilon in EPSILONS:
        oracle = local.mean(bounds=(0, _LARGEST_SALARY), epsilon=epsilon)
        found = oracle.estimate(oracle.sketch(oracle.randomize(salaries))).to_pylist()[0]
        far = 1.96 * found["sd"]
        rows.append((epsilon, show(found["mean"]), f"± {show(far)}"))
    return [
        Heading("What do you earn?", level=3),
        Paragraph(
            f"The mean salary is {show(float(salaries.mean()))}. From reports of amounts "
            f"between 0 and {_LARGEST_SALARY:,} it comes out like this:"
        ),
        PageTable("The mean salary, by epsilon", ("Epsilon", "Mean", "95 % interval"), rows),
        Note("Wide bounds cost precision: the noise of each report is as wide as they are."),
    ]
