"""`sfumato evaluate`: what it prints, its page in a real browser, and what it never does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.end.browsing import SCREENS, needs_chromium, open_page, words_at_fault, worst_contrast

from sfumato.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

SCHEMA = """\
table = "people"
[columns.id]
role = "identifier"
kind = "integer"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
[columns.city]
role = "quasi"
kind = "text"
values = ["Rome", "Bonn", "Oslo"]
[columns.born]
role = "quasi"
kind = "date"
bounds = ["1950-01-01", "2020-12-31"]
[columns.sick]
role = "sensitive"
kind = "boolean"
"""
HEADER = "id,age,city,born,sick"
WORDS = ("--original", "people.csv", "--schema", "people.toml")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, turn in (("people.csv", 7), ("made.csv", 11)):
        rows = [
            f"{one},{one * turn % 90},{('Rome', 'Bonn', 'Oslo')[one % 3]},"
            f"{1950 + one * turn % 60}-0{1 + one % 9}-11,{str(one * turn % 90 > 50).lower()}"
            for one in range(300)
        ]
        (tmp_path / name).write_text("\n".join([HEADER, *rows]) + "\n")
    (tmp_path / "people.toml").write_text(SCHEMA)
    return tmp_path


def test_the_json_is_what_the_contract_says(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "made.csv", *WORDS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["tvd"]) == {"1", "2", "3"}
    assert found["learn"] is None
    assert {"exact", "expected"} <= set(found["copies"])
    assert isinstance(found["propensity"], float)
    assert found["for"] == "for the owner: computed from the original"
    assert sorted(path.name for path in home.iterdir()) == ["made.csv", "people.csv", "people.toml"]


def test_a_target_is_learned_and_the_words_say_what_it_means(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["evaluate", "made.csv", *WORDS, "--target", "sick", "--json"]) == 0
    learned = json.loads(capsys.readouterr().out)["learn"]
    assert {"target", "real", "synthetic"} <= set(learned)
    assert learned["synthetic"] > 0.9
    assert run(["evaluate", "made.csv", *WORDS]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for words in ("total variation distance", "equal a real row", "For the owner"):
        assert words in said


def test_a_refusal_names_the_flag_and_no_report_replaces_a_table(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, code in (
        (["--target", "sik"], "column_unknown"),
        (["--report", "made.csv", "--overwrite"], "file_in_use"),
        (["--report", "people.csv"], "output_exists"),
    ):
        assert run(["evaluate", "made.csv", *WORDS, *words, "--json"]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["code"] == code
    (home / "other.csv").write_text("Id,Alter\n1,2\n")
    assert run(["evaluate", "other.csv", *WORDS, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "comparison_impossible"


@needs_chromium
def test_its_page_is_read_on_every_screen(home: Path, browser: Browser) -> None:
    words = ["--target", "sick", "--report", "page.html"]
    assert run(["evaluate", "made.csv", *WORDS, *words]) == 0
    for screen in SCREENS:
        page = open_page(browser, screen)
        page.goto((home / "page.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= int(screen.split()[1])
        assert words_at_fault(page) == []
        assert worst_contrast(page)["ratio"] >= 4.5
        assert page.locator("svg").count() >= 7
        text = page.locator("body").inner_text()
        assert "Trained on the synthetic table" in text
        page.context.close()
