"""What would have cost less is told to the holder, and to nobody else, without costing much."""

from __future__ import annotations

import html
import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymize import alternatives
from sfumato.anonymize.alternatives import TOO_LARGE, Advice
from sfumato.anonymize.pipeline import anonymize
from sfumato.anonymize.search import run
from sfumato.cli.process import as_flag
from sfumato.release.open_table import Table, read

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
table = "people"
[columns.age]
role = "quasi"
kind = "integer"
hierarchy = { widths = [5, 10, 50] }
[columns.zip]
role = "quasi"
kind = "text"
hierarchy = { mask = "right" }
[columns.disease]
role = "sensitive"
kind = "text"
"""


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(alternatives, "_LONGEST", 600.0)
    monkeypatch.setattr(alternatives, "_HEAD_START", 600.0)


@pytest.fixture
def people(tmp_path: Path) -> Table:
    """A crowd, and one hermit who makes it costly to hide without suppressing."""
    (tmp_path / "people.toml").write_text(SCHEMA)
    crowd = 119
    table = {
        "age": [20 + number % 30 for number in range(crowd)] + [91],
        "zip": [f"53{number % 7}0{number % 4}" for number in range(crowd)] + ["99999"],
        "disease": [("flu", "cold", "gout")[number % 3] for number in range(crowd + 1)],
    }
    return read(pa.table(table), tmp_path / "people.toml")


def test_what_is_advised_is_what_one_gets(people: Table) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], advice=True)
    told = {one.option(as_flag): one for one in decided.advice}
    assert {"--algorithm mondrian", "--suppress 1%"} <= set(told)
    mondrian = anonymize(people, [sf.KAnonymity(3)], algorithm="mondrian").figures["cost"]
    fewer = anonymize(people, [sf.KAnonymity(3)], suppress="1%").figures["cost"]
    assert told["--algorithm mondrian"].value == mondrian["loss"]
    assert told["--suppress 1%"].value == fewer["loss"]
    for one in decided.advice:
        assert one.value < 0.9 * one.instead
        assert one.instead == decided.figures["cost"]["loss"]


def test_it_goes_by_the_cost_that_was_asked_for(people: Table) -> None:
    asked = [sf.KAnonymity(3)]
    decided = anonymize(people, asked, cost="discernability", advice=True)
    assert {one.cost for one in decided.advice} == {"discernability"}
    assert all("would bring discernability to" in one.sentence() for one in decided.advice)


def test_it_never_travels(people: Table, tmp_path: Path) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], advice=True)
    decided.write(tmp_path / "out.csv", report=tmp_path / "mine.html",
                  public_report=tmp_path / "public.html")  # fmt: skip
    words = decided.advice[0].sentence()
    kept = json.loads((tmp_path / "out.csv.holder.json").read_text())
    assert kept["advice"][0]["words"] == words
    assert words in html.unescape((tmp_path / "mine.html").read_text())
    for name in ("out.csv", "out.csv.json", "public.html"):
        assert words.partition(":")[0] not in (tmp_path / name).read_text()


def test_nothing_is_tried_unasked_or_after_a_search_that_was_cut_short(people: Table) -> None:
    assert anonymize(people, [sf.KAnonymity(3)]).advice == ()
    ended = anonymize(people, [sf.KAnonymity(3)], limit_seconds=0, advice=True)
    assert ended.figures["ended"] in ("time", None)
    assert ended.advice == ()


def test_a_large_table_is_not_searched_twice_and_says_so(
    people: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alternatives, "_MOST_COMBINATIONS", 10)
    decided = anonymize(people, [sf.KAnonymity(3)], advice=True)
    assert decided.advice == ()
    assert TOO_LARGE in decided.remarks


def test_it_ends_in_time(people: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float | None] = []
    start = time.monotonic()

    def slow(*given: object, **options: object) -> object:
        asked.append(options["limit_seconds"])  # type: ignore[arg-type]
        return run(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(alternatives, "_LONGEST", 0.3)
    monkeypatch.setattr(alternatives, "run", slow)
    clock = SimpleNamespace(monotonic=lambda: start + 0.2 * len(asked))
    monkeypatch.setattr(alternatives, "time", clock)
    anonymize(people, [sf.KAnonymity(3)], advice=True)
    assert len(asked) == 2  # the others were not begun
    assert all(limit is not None and limit > 0 for limit in asked)


def test_people_are_said_where_people_are_counted() -> None:
    told = Advice("suppress", "2%", "loss", 0.12, 0.31, "people")
    assert (
        told.sentence(as_flag)
        == "suppressing 2 % of people would lose 0.12 instead of 0.31: --suppress 2%"
    )


def test_an_algorithm_is_advised_without_what_it_does_not_take(people: Table) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], suppress="0.1%", suppressed="star", advice=True)
    (line,) = [one.sentence(as_flag) for one in decided.advice if one.parameter == "algorithm"]
    assert line.endswith(": --algorithm mondrian without --suppress and --suppressed")
