"""What people see of an answer: labels, numbers, bars, and what cannot be used."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from io import StringIO
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from sfumato.cli.tables import answer_table
from sfumato.methods.query.page import cell_text, show_answer
from sfumato.release.release import Guarantee, Provenance, Release


def released(
    table: dict[str, list[Any]],
    error: dict[str, Any],
    cost: dict[str, str] | None = None,
    **more: Any,
) -> Release:
    promised = Guarantee("differential privacy", "", cost or {"epsilon": "1/10"})
    return Release({"answer": pa.table(table)}, promised, Provenance("query", more, ""), error)


def printed(release: Release) -> list[str]:
    console = Console(file=StringIO(), width=100)
    console.print(answer_table(show_answer(release)))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_missing_key_has_a_name_and_numbers_stand_to_the_right() -> None:
    counts = released(
        {"city": [None, "Ulm"], "n": [940, 12345]}, {"n": {"sd": 50.0, "bound95": 150.2}}
    )
    assert printed(counts) == [
        "city            n  ± 95 %",
        "(missing)     940  ± 151",
        "Ulm        12,345  ± 151",
    ]


def test_all_values_of_a_key_are_told_from_missing_ones() -> None:
    counts = released(
        {"city": [None, None], "n": [1, 2]}, {"n": {"bound95": 1.0}}, all={"city": [1]}
    )
    assert show_answer(counts).columns[0].cells == ("(missing)", "(all)")


def test_years_are_no_amounts() -> None:
    years = released({"year": [2024], "n": [2024]}, {"n": {"bound95": 1.5}})
    assert [one.cells for one in show_answer(years).columns] == [("2024",), ("2,024",)]


def test_only_keys_of_questions_can_be_missing() -> None:
    told = released({"above": [True, None]}, {})
    watched = replace(told, provenance=replace(told.provenance, method="above"))
    assert show_answer(watched).columns[0].cells == ("true", "–")


def test_a_figure_has_the_decimals_that_its_bar_allows() -> None:
    means = released({"a": [46.677, 5.0]}, {"a": {"sd": 0.02, "bound95": [0.0511, 12.0]}})
    (column,) = show_answer(means).columns
    assert column.cells == ("46.677", "5.000")
    assert column.bars == ("± 0.052", "± 12.000")


def test_a_figure_that_is_not_there_has_no_bar() -> None:
    shares = released({"s": [None, 0.5]}, {"s": {"sd": [None, 0.1], "bound95": [None, 0.2]}})
    (column,) = show_answer(shares).columns
    assert column.cells == ("–", "0.50")
    assert column.bars == ("", "± 0.20")


def test_a_median_is_told_by_its_rank() -> None:
    medians = released(
        {"m": [date(1980, 5, 1)]}, {"m": {"sd": None, "bound95": None, "ranks95": 305.65}}
    )
    told = show_answer(medians)
    assert told.columns[0].cells == ("1980-05-01",)
    assert told.columns[0].bars == ("rank ± 306",)
    assert told.notes == (
        (
            "'m' is the value at a noisy rank: in 95 % of cases it is at most 306 rows "
            "from the requested one."
        ),
    )


@pytest.mark.parametrize(
    ("cost", "advice"), [({"epsilon": "1/10"}, "epsilon 0.95"), ({"rho": "1/100"}, "rho 0.9")]
)
def test_what_is_too_noisy_says_what_would_help(cost: dict[str, str], advice: str) -> None:
    counts = released(
        {"city": ["Ulm", "Trier"], "n": [900, 48]},
        {"n": {"sd": 50.0, "bound95": 151.0, "too_noisy": [1], "less_noise": 9.4375}},
        cost,
    )
    told = show_answer(counts)
    assert told.columns[1].bars == ("± 151", "± 151 too noisy")
    assert told.columns[1].too_noisy == (False, True)
    assert told.notes == (
        (
            f"'n' is too noisy to use in 1 of 2 rows: Trier. What would help: {advice} for an "
            "error of a third of the number, or fewer and larger groups, or a WHERE that keeps "
            "more rows."
        ),
    )


def test_no_epsilon_is_told_that_nobody_would_allow() -> None:
    marked = {"sd": 50.0, "bound95": 151.0, "too_noisy": [0], "less_noise": 453.0}
    count = released({"n": [1]}, {"n": marked})
    assert show_answer(count).notes == (
        "'n' is too noisy to use. What would help: a WHERE that keeps more rows.",
    )


def test_values_are_written_as_people_do() -> None:
    values = (True, 1234567, 1234567.8, 0.1234567, float("inf"), date(2020, 1, 2), "x")
    assert [cell_text(one) for one in values] == [
        *("true", "1,234,567", "1,234,568", "0.123457", "–", "2020-01-02", "x")
    ]
