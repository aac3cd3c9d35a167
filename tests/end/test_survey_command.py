"""`sfumato survey` and `sfumato collect` as people and programs type them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.cli.main import run
from sfumato.errors import ParameterError
from sfumato.methods.local.survey import Survey

if TYPE_CHECKING:
    from pathlib import Path

NEW = ["survey", "new", "smoking.toml", "--question", "Do you smoke?", "--choices", "yes, no"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def in_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(told(capsys, *words, "--json"))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    exit_code = run([*words, "--json"])
    answer = capsys.readouterr()
    found = json.loads(answer.out)["error"]
    assert answer.err.count("\n") == 1
    return exit_code, found["code"]


def test_a_round_from_its_question_to_its_result(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    said = told(capsys, *NEW, "--epsilon", "log(3)")
    assert "warner at epsilon log(3)" in said
    assert "'sfumato survey serve smoking.toml'" in said
    assert in_json(capsys, "survey", "estimate", "smoking.toml")["n"] == 0
    assert "There is no report yet." in told(capsys, "survey", "estimate", "smoking.toml")
    for day, answers in (("monday", ["yes"] * 400), ("tuesday", ["no"] * 600)):
        Survey("smoking.toml").randomize(answers).save(f"{day}.jsonl")
    assert "1,000 reports accepted." in told(
        capsys, "collect", "smoking.toml", "monday.jsonl", "tuesday.jsonl"
    )
    again = told(capsys, "collect", "smoking.toml", "monday.jsonl")
    assert "monday.jsonl: 400 rejected as replayed, first in line 2." in again
    found = in_json(capsys, "survey", "estimate", "smoking.toml", "--report", "result.html")
    assert {"n", "rejected", "mechanism", "epsilon", "estimate"} <= set(found)
    assert (found["n"], found["rejected"], found["mechanism"]) == (1000, 400, "warner")
    assert found["epsilon"] == pytest.approx(1.0986123)
    assert set(found["estimate"]["yes"]) == {"share", "sd", "bound95"}
    assert abs(found["estimate"]["yes"]["share"] - 0.4) < 4.9 * found["estimate"]["yes"]["sd"]
    page = (home / "result.html").read_text()
    assert "Do you smoke?" in page
    assert "<svg" in page
    shown = told(capsys, "survey", "close", "smoking.toml")
    assert re.search(r"^yes +[\d.]+ % +± \d\.\d %$", shown, re.MULTILINE)
    assert "closed 2" in shown
    assert in_json(capsys, "survey", "estimate", "smoking.toml")["closed"] is not None
    assert refused(capsys, "survey", "close", "smoking.toml") == (3, "round_not_open")
    assert refused(capsys, "collect", "smoking.toml", "monday.jsonl") == (3, "round_not_open")


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ([*NEW], (2, "usage")),
        ([*NEW, "--epsilon", "lots"], (2, "parameter_type_wrong")),
        ([*NEW, "--epsilon", "-1"], (2, "parameter_out_of_range")),
        ([*NEW, "--epsilon", "1", "--mechanism", "olh"], (2, "choice_unknown")),
        ([*NEW, "--epsilon", "1", "--opens", "tomorrow"], (2, "time_malformed")),
        ([*NEW, "--epsilon", "1", "--closes", "2001-01-01"], (2, "round_invalid")),
        ([*NEW[:2], "smoking.csv", *NEW[3:], "--epsilon", "1"], (2, "round_invalid")),
        ([*NEW[:2], "no/where.toml", *NEW[3:], "--epsilon", "1"], (2, "output_unwritable")),
        (["survey", "magic", "smoking.toml"], (2, "usage")),
        (["survey", "estimate", "nothing.toml"], (2, "file_unreadable")),
        (["survey", "serve", "nothing.toml"], (2, "file_unreadable")),
        (["survey", "close", "."], (2, "file_unreadable")),
        (["collect", "nothing.toml", "monday.jsonl"], (2, "file_unreadable")),
    ],
)
def test_what_cannot_be_done_is_told_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], home: Path, words: list[str], outcome: tuple[int, str]
) -> None:
    assert refused(capsys, *words) == outcome
    assert list(home.iterdir()) == []


def test_a_served_round_must_be_open_to_no_eavesdropper(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told(capsys, *NEW, "--epsilon", "1")
    serve = ["survey", "serve", "smoking.toml", "--port", "0", "--check"]
    assert refused(capsys, *serve, "--host", "0.0.0.0") == (2, "address_unusable")
    assert refused(capsys, *serve[:-2], "70000", "--check") == (2, "parameter_out_of_range")
    found = in_json(capsys, *serve)
    assert found["page"].startswith(found["url"])


def test_a_missing_batch_leaves_the_others_kept_once(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, *NEW, "--epsilon", "1")
    Survey("smoking.toml").randomize(["yes"] * 3).save("monday.jsonl")
    words = ["collect", "smoking.toml", "monday.jsonl", "lost.jsonl"]
    assert refused(capsys, *words) == (2, "file_malformed")
    found = in_json(capsys, *words[:-1])
    assert found["accepted"] + found["rejected"] == 3
    assert in_json(capsys, "survey", "estimate", "smoking.toml")["n"] == 3


def test_a_report_page_replaces_no_file_of_the_round(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    told(capsys, *NEW, "--epsilon", "1")
    before = (home / "smoking.toml").read_bytes()
    for name in ("smoking.toml", "smoking.key"):
        words = ["survey", "estimate", "smoking.toml", "--report", name, "--overwrite"]
        assert refused(capsys, *words) == (2, "file_in_use")
    assert (home / "smoking.toml").read_bytes() == before


def test_a_round_that_nobody_could_answer_is_not_served(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told(capsys, *NEW, "--epsilon", "1")

    def unable(*_: object, **__: object) -> None:
        raise ParameterError("round_invalid", "domain names a value twice: name it once.")

    monkeypatch.setattr("sfumato.methods.local.collection.oracle", unable)
    serve = ["survey", "serve", "smoking.toml", "--port", "0", "--check"]
    assert refused(capsys, *serve) == (2, "round_invalid")


@pytest.mark.parametrize(
    ("choices", "epsilon", "why"),
    [
        (",".join(f"c{n}" for n in range(37)), "1", "2 to 36 choices"),
        ("yes,no", "0.01", "at epsilon 0.01"),
    ],
)
def test_where_coins_and_dice_do_not_reach_it_is_said(
    capsys: pytest.CaptureFixture[str], choices: str, epsilon: str, why: str
) -> None:
    new = [*NEW[:-1], choices, "--epsilon", epsilon]
    assert why in " ".join(told(capsys, *new).split())
    assert in_json(capsys, *new[:2], "other.toml", *new[3:])["by_hand"] is None
    assert (
        in_json(capsys, *NEW[:2], "third.toml", *NEW[3:], "--epsilon", "1")["by_hand"] == "log(2)"
    )
