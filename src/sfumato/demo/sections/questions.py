"""Queries: noisy answers beside the truth, a budget that runs out, an attack that fails.

The attack is linear reconstruction (Dinur & Nissim 2003): it infers who is ill from the number of
ill people in random halves of the population, by least squares. Enough exact counts reveal
everybody.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from sfumato.demo.draws import bits
from sfumato.demo.town import schema_of
from sfumato.errors import BudgetError
from sfumato.release.open_table import read
from sfumato.report.blocks import Heading, Note, PageTable, Paragraph
from sfumato.report.points import Point, draw_lines
from sfumato.report.value_text import share, show
from sfumato.vault.creation import create
from sfumato.vault.protection import protect
from sfumato.vault.registration import Registration, add_public
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray
    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block
    from sfumato.vault.private import Private

HALVES = 600
"""The number of random halves in which ill people are counted."""

_ILL_PEOPLE = 150
_BUDGET = 10  # enough for all the epsilons below together
_QUESTION = """
SELECT half, COUNT(*) AS n FROM people JOIN halves USING (person) WHERE ill GROUP BY half
"""
_INTEGER_COLUMN = '[columns.{}]\nkind = "integer"\nbounds = [0, {}]\nnullable = false\n'


def recovered(people: pa.Table, epsilons: Sequence[float]) -> tuple[float, list[float]]:
    """The share of people whose illness is inferred from exact counts, and from private ones."""
    ill = _chosen(people)
    counters = np.arange(HALVES * len(ill), dtype=np.uint64)
    # The top bit of each draw decides: every person is in about half of the halves.
    inside = (bits("half", counters) >> np.uint64(63)).reshape(HALVES, len(ill)) == 1
    exact = inside @ ill.astype(np.int64)
    with TemporaryDirectory(prefix="sfumato-") as home:
        answers = _private_counts(Path(home), ill, inside, epsilons)
    return _share_found(inside, exact, ill), [
        _share_found(inside, counts, ill) for counts in answers
    ]


def _chosen(people: pa.Table) -> BoolArray:
    """As many ill as healthy people, so that a guess is right half of the time."""
    ill = pc.not_equal(people["disease"], "none").to_numpy()
    group_size = min(_ILL_PEOPLE, int(ill.sum()), int((~ill).sum()))
    rows = np.concatenate([np.flatnonzero(ill)[:group_size], np.flatnonzero(~ill)[:group_size]])
    return np.asarray(ill[np.sort(rows)])


def _share_found(inside: BoolArray, counts: NDArray[Any], ill: BoolArray) -> float:
    # One unknown per person, one equation per half; rounding gives the illness.
    estimates = np.linalg.lstsq(inside.astype(float), counts.astype(float), rcond=None)[0]
    return float(((estimates >= 0.5) == ill).mean())


def _private_counts(
    home: Path, ill: BoolArray, inside: BoolArray, epsilons: Sequence[float]
) -> list[NDArray[Any]]:
    """The same counts from a vault with the people; the members of each half are public."""
    person = _INTEGER_COLUMN.format("person", len(ill) - 1)
    half, members = np.nonzero(inside)
    held = {
        "people": (
            {"person": np.arange(len(ill)), "ill": ill},
            '[columns.ill]\nkind = "boolean"\n',
        ),
        "halves": ({"person": members, "half": half}, _INTEGER_COLUMN.format("half", HALVES - 1)),
    }
    for name, (columns, declared) in held.items():
        parquet.write_table(pa.table(columns), home / f"{name}.parquet")
        (home / f"{name}.toml").write_text(f'table = "{name}"\n{person}{declared}')
    vault = home / "vault"
    create(vault)
    Registration(
        name="people",
        source=str(home / "people.parquet"),
        schema=home / "people.toml",
        epsilon=_BUDGET,
    ).add_to(vault)
    add_public(
        vault,
        name="halves",
        source=str(home / "halves.parquet"),
        schema=home / "halves.toml",
        keys={("person",): int(inside.sum(axis=0).max())},
    )
    with open_vault(vault) as opened:
        return [
            opened.query(_QUESTION, epsilon=epsilon).table["n"].to_numpy() for epsilon in epsilons
        ]


BUDGET = 2
"""Epsilon for all answers together."""
_MONTHLY_EPSILON, _EACH = "0.5", "0.4"

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
    """Query the visits until the budget is spent, and show what an attacker learns."""
    with read(town.visits, schema_of("visits")) as visits:
        # Twelve, so that no visits of a person are dropped in any month.
        unit: Any = visits.schema.unit
        private = protect(visits, unit=replace(unit, max_groups=12), epsilon=BUDGET)
        return [
            Heading("Answer queries within a budget"),
            Paragraph(
                "Instead of the table, the clinic can release answers. Each answer has enough "
                "noise to hide any one person with all their visits, and uses a part of the "
                f"budget: epsilon {BUDGET} for all answers together. This page shows the truth "
                "beside the answers only because everyone on it is made up."
            ),
            *_monthly(private, town.visits),
            *_until_spent(private, town.visits),
            *_attack(town.people),
        ]


def _monthly(private: Private, visits: pa.Table) -> list[Block]:
    """One query with twelve groups, drawn over the truth."""
    answer = private.query(_MONTHLY, epsilon=_MONTHLY_EPSILON)
    assert answer.error is not None
    bound = answer.error["n"]["bound95"]
    months, counts = pc.value_counts(pc.month(visits["day"])).flatten()
    truth = sorted(zip(months.to_pylist(), counts.to_pylist(), strict=True))
    points = [Point("truth", month, count, count, count) for month, count in truth]
    for row in answer.table.to_pylist():
        if row["month"] is not None:  # the group of visits without a day
            low, high = row["n"] - bound, row["n"] + bound
            points.append(Point("private answer", row["month"], row["n"], low, high))
    return [
        draw_lines(
            points,
            label="Visits to the clinic in each month: the truth, and the private answer with its "
            "95 % confidence band",
            x="Month",
            y="Visits",
            series="Source",
        )
    ]


def _until_spent(private: Private, visits: pa.Table) -> list[Block]:
    """More queries, each with its error, until one is refused."""
    cancer = pc.equal(visits["diagnosis"], "cancer")
    truths = (
        visits.num_rows,
        pc.count_distinct(visits["patient"]).as_py(),
        pc.mean(visits["cost"]).as_py(),
        pc.sum(cancer).as_py(),
    )
    rows: list[tuple[str, ...]] = []
    refusal = ""
    for (question, sql), truth in zip(_QUESTIONS.items(), truths, strict=True):
        try:
            answer = private.query(sql, epsilon=_EACH)
        except BudgetError as error:
            refusal = f"'{question}' {error.message}"
            break
        assert answer.error is not None
        bound = answer.error["n"]["bound95"]
        near = bound[0] if isinstance(bound, list) else bound
        value, remaining = answer.table["n"][0].as_py(), answer.remaining["epsilon"]
        rows.append((question, show(value), f"± {near:,.3g}", show(truth), f"{remaining:.2g}"))
    return [
        Heading("Until the budget is spent", level=3),
        PageTable(
            f"Queries at epsilon {_EACH} each. The chart above has cost epsilon {_MONTHLY_EPSILON}",
            ("Query", "Answer", "95 % interval", "Truth", "Epsilon left"),
            rows,
        ),
        Note(
            f"Then too little budget is left, and the vault refuses the next query. {refusal}",
            warning=True,
        ),
    ]


def _attack(people: pa.Table) -> list[Block]:
    """The share of people whose illness is inferred, from exact and from private counts."""
    exact, private = recovered(people, _EPSILONS)
    points = [Point("from exact counts", epsilon, exact) for epsilon in _EPSILONS]
    points += [
        # With pure epsilon, an attacker with a prior of one half is right at most this often.
        Point("upper bound by theory", epsilon, 1 / (1 + exp(-epsilon)))
        for epsilon in _EPSILONS
    ]
    points += [
        Point("from Sfumato's answers", epsilon, share)
        for epsilon, share in zip(_EPSILONS, private, strict=True)
    ]
    return [
        Heading("Why exact answers are dangerous", level=3),
        Paragraph(
            f"An attacker asks for the number of ill people in {HALVES} random halves of 300 "
            "people, of whom 150 are ill. No count names anybody, but almost only the true "
            "combination of ill people fits all of them: exact counts reveal the illness of "
            f"{share(exact)} of the people. A guess is right for half of them."
        ),
        draw_lines(
            points,
            label="Share of people whose illness is inferred by linear reconstruction",
            x="Epsilon for all counts together",
            y="Inferred",
            series="Source",
            logarithmic=True,
            percent=True,
        ),
    ]
