"""Long work and releases by commands, from a job that is submitted to a file that is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.cli.main import run
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = """\
table = "people"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
nullable = false
hierarchy = { widths = [10, 50] }
[columns.sex]
kind = "text"
values = ["f", "m"]
nullable = false
"""
ASK = '{"kind": "histogram", "columns": "sex", "epsilon": 0.10}'
PUBLISH = ("submit", "publish", "--dataset", "people", "--ask", ASK)


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """A vault of people, and what a command about it prints: JSON read, or text as it is."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{at % 90},{'fm'[at % 2]}" for at in range(400)]
    Path("people.csv").write_text("\n".join(["age,sex", *rows]) + "\n")
    Path("people.toml").write_text(SCHEMA)
    with create_vault("clinic") as vault:
        vault.add("people", "people.csv", "people.toml", epsilon=2)

    def telling(*words: str, text: bool = False, code: int = 0) -> Any:
        wanted = [] if text else ["--json"]
        assert run([*words, "--vault", "clinic", *wanted]) == code
        printed = capsys.readouterr().out
        return printed if text else json.loads(printed)

    return telling


def test_a_job_from_its_submission_to_a_file_that_others_may_have(
    told: Callable[..., Any],
) -> None:
    assert told("job", "list", text=True) == "There are no jobs.\n"
    assert told("release", "list", text=True) == "There are no releases.\n"
    job = told("job", *PUBLISH, "--request", "once")
    assert (job["state"], job["asked"]["epsilon"]) == ("waiting", "0.10")
    assert told("job", *PUBLISH, "--request", "once")["job"] == job["job"]
    assert told("job", "run") == {"done": 1}
    assert told("job", "show", job["job"])["release"] == job["job"]
    assert f"release show {job['job']}" in told("job", "show", job["job"], text=True)
    assert job["job"] in told("job", "list", text=True)
    name = told("release", "list")["releases"][0]["release"]
    assert name == job["job"]
    assert "Guarantee: epsilon 0.1" in told("release", "show", name, text=True)
    assert told("release", "save", name, "-o", "out.csv")["written"] == ["out.csv", "out.csv.json"]
    assert Path("out.csv").read_text().startswith("sex,count\nf,")
    assert told("release", "save", name, "-o", "out.html")["written"] == ["out.html"]
    assert (
        told("release", "save", name, "-o", "out.csv", code=2)["error"]["code"] == "output_exists"
    )
    opened = told("release", "open", name, "--to", "public", "--operator", "Ann")
    assert opened["opened_to"] == ["public"]
    wrong = told("release", "open", name, "--to", "nobody", "--operator", "Ann", code=2)
    assert wrong["error"]["code"] == "reader_unknown"
    shut = told("release", "shut", name, "--operator", "Ann", text=True)
    assert shut == f"{name} is open to nobody else.\n"


def test_a_job_is_cancelled_and_one_that_failed_says_why(told: Callable[..., Any]) -> None:
    job = told("job", *PUBLISH)["job"]
    assert told("job", "cancel", job)["state"] == "cancelled"
    assert told("job", "run") == {"done": 0}
    asked = ("submit", "anonymize", "--dataset", "people", "--ask", '{"k": 500}')
    hopeless = told("job", *asked)["job"]
    assert told("job", "run") == {"done": 1}
    failed = told("job", "show", hopeless)
    assert (failed["state"], failed["error"]["kind"]) == ("failed", "CriterionError")
    assert failed["error"]["message"] in told("job", "show", hopeless, text=True)
