"""Feeds by commands, from the plan to a file that programs subscribe to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.cli.main import run
from sfumato.vault.vault import create_vault, open_vault

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = """\
table = "visits"
[columns.day]
kind = "date"
bounds = [2024-01-01, 2024-03-31]
nullable = false
[columns.sex]
kind = "text"
values = ["f", "m"]
nullable = false
"""
SQL = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
BY_MONTH = ("--column", "day", "--every", "month", "--epsilon", "0.5", "--operator", "Ann")


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    rows = [f"2024-0{1 + at % 3}-{1 + at % 28:02},{'fm'[at % 2]}" for at in range(300)]
    Path("visits.csv").write_text("\n".join(["day,sex", *rows]) + "\n")
    Path("visits.toml").write_text(SCHEMA)
    with create_vault("clinic") as vault:
        vault.add("visits", "visits.csv", "visits.toml", epsilon=4)

    def telling(*words: str, text: bool = False, code: int = 0) -> Any:
        wanted = [] if text else ["--json"]
        assert run(["feed", *words, "--vault", "clinic", *wanted]) == code
        printed = capsys.readouterr().out
        return printed if text else json.loads(printed)

    return telling


def test_a_feed_from_its_plan_to_a_file(told: Callable[..., Any]) -> None:
    assert told("list", text=True) == "There are no feeds.\n"
    plan = told("add", "sexes", SQL, *BY_MONTH, "--plan")
    assert (plan["periods"], plan["whole_cost"]) == (3, {"epsilon": "3/2"})
    assert told("list") == {"feeds": []}
    assert "1.5 in all, epsilon 0.5 each" in told("add", "sexes", SQL, *BY_MONTH, text=True)
    assert told("run") == {"answered": 3}
    assert "3 of 3" in told("list", text=True)
    found = told("read", "sexes")
    assert [one["period"] for one in found["items"]] == ["2024-01", "2024-02", "2024-03"]
    assert "2024-03" in told("read", "sexes", text=True)
    for ending in ("csv", "json", "atom"):
        assert told("read", "sexes", "-o", f"sexes.{ending}") == {"written": [f"sexes.{ending}"]}
        assert Path(f"sexes.{ending}").stat().st_size > 100
    assert told("read", "sexes", "-o", "sexes.csv", code=2)["error"]["code"] == "output_exists"
    assert told("read", "sexes", "-o", "sexes.xml", code=2)["error"]["code"] == "choice_unknown"
    assert told("open", "sexes", "--to", "public")["to"] == ["public"]
    assert told("stop", "sexes")["stopped"] is not None


def test_what_is_said_wrongly_is_refused_with_what_to_say(told: Callable[..., Any]) -> None:
    refused: dict[str, tuple[str, ...]] = {
        "usage": ("add", "x", SQL),
        "parameter_missing": ("add", "x", *BY_MONTH),
        "column_unsuitable": ("add", "x", SQL, "--column", "sex", *BY_MONTH[2:]),
        "feed_period_invalid": ("add", "x", SQL, "--column", "day", "--every", "moon"),
        "feed_unknown": ("read", "x"),
        "column_unknown": ("add", "x", "SELECT COUNT(age) FROM visits", *BY_MONTH),
    }
    for code, words in refused.items():
        assert told(*words, code=2)["error"]["code"] == code
    for words in (("list", "x"), ("read",), ("open", "x"), ("stop", "x", "--every", "day")):
        assert told(*words, code=2)["error"]["code"] == "usage"
    many = (*BY_MONTH[:3], "day", "--epsilon", "1")
    assert told("add", "x", SQL, *many, code=3)["error"]["code"] == "budget_exhausted"
    assert told("list") == {"feeds": []}


@pytest.mark.parametrize(
    "words",
    [
        ("--method", "tree"),
        ("--days", "2"),
        ("--window", "2"),
        ("--by", "sex"),
        ("--ask", '{"foo": 1}'),
    ],
    ids=" ".join,
)
def test_a_question_refuses_by_name_what_it_does_not_take(
    told: Callable[..., Any], words: tuple[str, str]
) -> None:
    error = told("add", "x", SQL, *BY_MONTH, *words, code=2)["error"]
    assert error["code"] == "option_unknown"
    assert f"takes no '{'foo' if words[0] == '--ask' else words[0][2:]}'" in error["message"]


@pytest.mark.parametrize("name", ["name", "sql", "operator", "to", "column"])
def test_what_has_words_of_its_own_is_not_asked_as_json(
    told: Callable[..., Any], name: str
) -> None:
    asked = json.dumps({name: "x"})
    assert (
        told("add", "x", SQL, *BY_MONTH, "--ask", asked, code=2)["error"]["code"]
        == "request_malformed"
    )


@pytest.mark.parametrize("option", ["--window", "--days"])
def test_none_of_a_stream_is_refused_and_not_taken_as_all(
    told: Callable[..., Any], option: str
) -> None:
    words = ("add", "x", "--continual", "--dataset", "visits", *BY_MONTH, option, "0")
    assert told(*words, code=2)["error"]["code"] == "parameter_out_of_range"


def test_a_stream_whose_memory_is_gone_says_so(
    told: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    told("add", "so-far", "--continual", "--dataset", "visits", *BY_MONTH)
    with open_vault("clinic") as vault:
        store = vault.feed_registry._answering._streams.store
        [first, *_] = vault.feed_registry.get("so-far").periods
        vault.feed_registry._answering._answer(vault.feed_registry.get("so-far"), first)
        with store._store.writing() as connection:
            connection.exec_driver_sql("DELETE FROM sfumato_stream_states")
    assert run(["feed", "run", "--vault", "clinic"]) == 0
    said = capsys.readouterr()
    assert said.out == "Periods answered: 0.\n"
    assert "so-far does not go on at 2024-02: stream_state_lost" in said.err
    assert "Restore streams.sqlite" in said.err
    listed = " ".join(told("list", text=True).split())
    assert "1 of 3, not going on: stream_state_lost" in listed


def test_a_plan_of_a_stream_says_how_far_off_it_will_be(told: Callable[..., Any]) -> None:
    words = ("add", "x", "--continual", "--method", "tree", "--dataset", "visits", *BY_MONTH)
    plan = told(*words, "--plan")["expected_sd"]
    assert plan["step 3"] == pytest.approx(2**0.5 * plan["step 1"])
    assert "By method tree, off by about 5.6" in told(*words, "--plan", text=True)
    assert list(told(*words, "--ends", "never", "--plan")["expected_sd"]) == [
        "step 1",
        "step 1,024",
    ]
