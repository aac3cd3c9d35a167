"""The questions of the demo page, and the attack that fails on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from sfumato.demo import registers, town
from sfumato.demo.sections.questions import recovered, section
from sfumato.report.blocks import Note, PageTable
from sfumato.report.picture import Picture

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.demo.town import Town

PEOPLE = 1500


class Tables:
    """All of the town that the section looks at."""

    people: pa.Table = town.table(PEOPLE)
    visits: pa.Table = registers.visits_table(PEOPLE)


def test_answers_stand_beside_the_truth_until_the_budget_is_spent() -> None:
    blocks = section(cast("Town", Tables))
    monthly, inferred = (block for block in blocks if isinstance(block, Picture))
    truth: dict[int, int] = {}
    answers: dict[int, int] = {}
    for series, month, count, *_ in monthly.table.rows:
        of_series = truth if series == "truth" else answers
        of_series[int(month)] = int(str(count).replace(",", ""))
    assert truth.keys() == answers.keys() == set(range(1, 13))
    assert sum(truth.values()) == Tables.visits.num_rows
    # Noise of scale 24: one of 12 beyond 500 has probability 12 exp(-500 / 24) < 2e-8.
    assert all(abs(truth[month] - answers[month]) < 500 for month in truth)
    (asked,) = (block for block in blocks if isinstance(block, PageTable))
    assert [row[-1] for row in asked.rows] == ["1.1", "0.7", "0.3"]
    (refused,) = (block for block in blocks if isinstance(block, Note))
    assert "epsilon 0.3 of 2 left" in refused.text
    assert {series for series, *_ in inferred.table.rows} == {
        "from exact counts",
        "upper bound by theory",
        "from Sfumato's answers",
    }


def test_exact_counts_give_everybody_away_and_private_ones_do_not() -> None:
    exact, (private,) = recovered(Tables.people, [0.5])
    assert exact == pytest.approx(1.0)
    # Of 300 fair bits at epsilon 0.5, more than 76 % right has probability below 1e-6.
    assert private < 0.76
