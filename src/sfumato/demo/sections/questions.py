"""Ask questions: noisy answers beside the truth, a budget that runs out, an attack that fails."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from importlib.resources import as_file, files
from math import exp
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from sfumato.demo.reconstruction import HALVES, recovered
from sfumato.errors import BudgetError
from sfumato.report import charts
from sfumato.report.blocks import Heading, Note, Paragraph, Table
from sfumato.vault.private import protect
from sfumato.vault.table import read

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.demo.context import Town
    from sfumato.report.blocks import Block
    from sfumato.vault.private import Private

BUDGET = 2
"""Epsilon for all answers together."""

_MONTHLY = "SELECT MONTH(day) AS month, COUNT(*) AS n FROM visits GROUP BY MONTH(day)"
_QUESTIONS = {
    "How many visits were there?": "SELECT COUNT(*) AS n FROM visits",
    "How many people came?": "SELECT COUNT(DISTINCT patient) AS n FROM visits",
    "What did a visit cost on average?": "SELECT AVG(cost) AS n FROM visits",
    "How many visits were for cancer?": (
        "SELECT COUNT(*) AS n FROM visits WHERE diagnosis = 'cancer'"
    ),
}
_EPSILONS = (0.5, 1.0, 2.0, 4.0)


def section(town: Town) -> list[Block]:
    """Ask the clinic's visits until the budget is spent, and show what an attacker gets."""
    with (
        as_file(files("sfumato.demo") / "visits.toml") as schema,
        closing(read(town.visits, schema)) as visits,
    ):
        # Twelve, so that nobody's visits are left out of any month.
        unit: Any = visits.schema.unit
        private = protect(visits, unit=replace(unit, max_groups=12), epsilon=BUDGET)
        return [
            Heading("Ask questions"),
            Paragraph(
                "Instead of the table the clinic may give answers. Each carries as much noise as "
                "hides any one person with all their visits, and each has a price; the budget for "
                f"all answers ever is epsilon {BUDGET}. Only because everyone on this page is made "
                "up may the truth stand beside the answers."
            ),
            *_monthly(private, town.visits),
            *_until_spent(private, town.visits),
            *_attack(town.people),
        ]


def _monthly(private: Private, visits: pa.Table) -> list[Block]:
    """One question with twelve groups, drawn over the truth."""
    answer = private.query(_MONTHLY, epsilon="0.5")
    assert answer.error is not None
    bound = answer.error["n"]["bound95"]
    months, counts = pc.value_counts(pc.month(visits["day"])).flatten()
    truth = sorted(zip(months.to_pylist(), counts.to_pylist(), strict=True))
    points = [charts.Point("truth", month, count, count, count) for month, count in truth]
    for row in answer.table.to_pylist():
        if row["month"] is not None:
            low, high = row["n"] - bound, row["n"] + bound
            points.append(charts.Point("private answer", row["month"], row["n"], low, high))
    return [
        charts.line(
            points,
            label="Visits to the clinic in each month: the truth, and the private answer with the "
            "band in which 95 % of such answers have the truth",
            x="Month",
            y="Visits",
            series="Who says so",
        )
    ]


def _until_spent(private: Private, visits: pa.Table) -> list[Block]:
    """More questions, each with its error, until one is refused."""
    cancer = pc.equal(visits["diagnosis"], "cancer")
    truths = (
        visits.num_rows,
        pc.count_distinct(visits["patient"]).as_py(),
        pc.mean(visits["cost"]).as_py(),
        pc.sum(cancer).as_py(),
    )
    rows: list[tuple[str, ...]] = []
    refusal = ""
    for (words, sql), truth in zip(_QUESTIONS.items(), truths, strict=True):
        try:
            answer = private.query(sql, epsilon="0.4")
        except BudgetError as error:
            refusal = f"{words} {error.message}"
            break
        assert answer.error is not None
        bound = answer.error["n"]["bound95"]
        near = bound[0] if isinstance(bound, list) else bound
        value, left = answer.table["n"][0].as_py(), answer.remaining["epsilon"]
        rows.append(
            (words, charts.show(value), f"± {near:,.3g}", charts.show(truth), f"{left:.2g}")
        )
    return [
        Heading("Until the budget is spent", level=3),
        Table(
            "Questions at epsilon 0.4 each, and what is left after each of them",
            ("Question", "Answer", "95 % within", "Truth", "Epsilon left"),
            rows,
        ),
        Note(f"Then the clinic falls silent, for good. {refusal}", warning=True),
    ]


def _attack(people: pa.Table) -> list[Block]:
    """How many people's illness is found, from exact counts and from private ones."""
    exact, private = recovered(people, _EPSILONS)
    points = [charts.Point("from exact counts", one, exact) for one in _EPSILONS]
    points += [charts.Point("at most, by theory", one, 1 / (1 + exp(-one))) for one in _EPSILONS]
    points += [
        charts.Point("from Sfumato's answers", one, share)
        for one, share in zip(_EPSILONS, private, strict=True)
    ]
    return [
        Heading("Why exact answers are no answer", level=3),
        Paragraph(
            f"An attacker asks how many are ill in {HALVES} random halves of 300 people, of whom "
            "150 are. No count names anybody. Yet there is hardly more than one way to be ill that "
            f"fits them all: from exact counts the illness of {charts.share(exact)} of the people "
            "is found. A blind guess is right for half of them."
        ),
        charts.line(
            points,
            label="Share of people whose illness is found by linear reconstruction",
            x="Epsilon for all counts together",
            y="Found",
            series="How",
            logarithmic=True,
            percent=True,
        ),
    ]
