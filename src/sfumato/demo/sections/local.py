"""Collect without being trusted: every person randomizes the answer before sending it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.demo import vocabulary
from sfumato.methods import local
from sfumato.methods.local import central_comparison
from sfumato.report.bars import bar_with_error, draw_bars
from sfumato.report.blocks import Heading, Note, PageTable, Paragraph
from sfumato.report.value_text import show

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block

EPSILONS = ("0.5", "1", "4")
_DRAWN = "1"
# Public, as declared in the schema: the noise is proportional to it.
_LARGEST_SALARY = 500_000
_STDDEVS_FOR_95_PERCENT = 1.96
"""Estimates from many reports are nearly normal."""
_PEOPLE = (100, 1_000, 10_000)


def section(town: Town) -> list[Block]:
    """Ask about illnesses and salaries, and compare the estimates with the truth."""
    return [
        Heading("Collect without being trusted"),
        Paragraph(
            "So far the clinic had a table. Here nobody has one: the devices of the "
            f"{town.people.num_rows:,} people randomize their answers before sending them. A "
            "single report may be false, so it reveals little; many reports together give an "
            "estimate."
        ),
        *_illnesses(town.people),
        *_salaries(town.people),
        Heading("The cost of an untrusted collector", level=3),
        *central_comparison.blocks(local.contrast(epsilons=("0.1", "1"), people=_PEOPLE)),
    ]


def _illnesses(people: pa.Table) -> list[Block]:
    """The share of each illness estimated from reports, and the truth that no collector has."""
    answers = people["disease"].to_pylist()
    oracle = local.oracle("auto", list(vocabulary.DISEASES), epsilon=_DRAWN)
    estimates = oracle.estimate(oracle.sketch(oracle.randomize(answers))).to_pylist()
    bars = [
        bar_with_error(
            estimate["value"], estimate["share"], _STDDEVS_FOR_95_PERCENT * estimate["sd"]
        )
        for estimate in estimates
    ]
    true = {disease: answers.count(disease) / len(answers) for disease in vocabulary.DISEASES}
    rows = [
        (
            estimate["value"],
            *map(_percent, (true[estimate["value"]], estimate["share"], estimate["sd"])),
        )
        for estimate in estimates
    ]
    return [
        Heading("Which illness do you have?", level=3),
        Paragraph(
            f"Each person answers at epsilon {_DRAWN}. The mechanism with the smallest error for "
            f"{len(true)} possible answers is {oracle.name}: {oracle.why}."
        ),
        draw_bars(
            bars,
            label="Share of people with each illness, estimated from randomized reports",
            category="Illness",
            value="Share",
            percent=True,
            note="The estimate of a rare illness may be below 0 %: estimates are not cut off, "
            "because then they would not be right on average.",
        ),
        PageTable(
            "The truth, which no collector of reports has",
            ("Illness", "True share", "Estimated", "Standard deviation"),
            rows,
            folded=True,
        ),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _salaries(people: pa.Table) -> list[Block]:
    """The mean salary at several epsilons."""
    salaries = people["salary"].to_numpy().astype(np.float64)
    rows = []
    for epsilon in EPSILONS:
        oracle = local.mean(bounds=(0, _LARGEST_SALARY), epsilon=epsilon)
        [estimate] = oracle.estimate(oracle.sketch(oracle.randomize(salaries))).to_pylist()
        error = _STDDEVS_FOR_95_PERCENT * estimate["sd"]
        rows.append((epsilon, show(estimate["mean"]), f"± {show(error)}"))
    return [
        Heading("What do you earn?", level=3),
        Paragraph(
            f"The true mean salary is {show(float(salaries.mean()))}. The table shows estimates "
            f"from randomized reports of amounts between 0 and {_LARGEST_SALARY:,}."
        ),
        PageTable("The mean salary, by epsilon", ("Epsilon", "Mean", "95 % interval"), rows),
        Note(
            "Wide bounds cost precision: the noise of each report is proportional to their width."
        ),
    ]
