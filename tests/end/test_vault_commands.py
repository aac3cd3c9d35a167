"""init, add, query and ledger as their users meet them: real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sfumato.cli.main import run

pytestmark = pytest.mark.usefixtures("warm_path")
CHECKER = Path(__file__).parents[2] / "src" / "sfumato" / "privacy" / "ledger" / "checker.py"
COUNT = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
SCHEMA = """\
table = "visits"
unit = { column = "patient", max_rows = 2 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.city]
kind = "text"
values = ["north", "south"]
nullable = false
[columns.cost]
kind = "integer"
bounds = [0, 100]
"""
EIGHT = """\
import os
from pathlib import Path
from sfumato.vault.registration import Registration
held = {"source": "visits.csv", "schema": Path("visits.toml"), "epsilon": 1, "population": "all"}
children = []
for place in range(8):
    child = os.fork()
    if child:
        children.append(child)
        continue
    try:
        Registration(name=f"visits{place}", **held).add_to(Path("crowd"))
        os._exit(0)
    finally:
        os._exit(1)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
"""Processes that do as `sfumato add` does, started from one that has loaded what they need."""


def sfumato(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sfumato", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=120
    )


def done(*arguments: object, cwd: Path) -> str:
    """The output of a command that succeeds without a word of complaint."""
    finished = sfumato(*arguments, cwd=cwd)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


def refusal(finished: subprocess.CompletedProcess[str], exit_code: int) -> str:
    """Check the manners of a refusal; return its code."""
    assert finished.returncode == exit_code
    error = json.loads(finished.stdout)["error"]
    assert {"code", "message"} <= set(error)
    assert finished.stderr == f"sfumato: {error['message']}\n"
    return str(error["code"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a vault 'clinic' that holds 'visits' under epsilon 2."""
    home = tmp_path_factory.mktemp("home")
    rows = [
        f"{place // 2},{'north' if place % 2 else 'south'},{place % 101}" for place in range(1000)
    ]
    (home / "visits.csv").write_text("\n".join(["patient,city,cost", *rows]) + "\n")
    (home / "visits.toml").write_text(SCHEMA)
    assert "Created the vault" in done("init", "clinic", cwd=home)
    added = done(
        *("add", "visits", "visits.csv", "--schema", "visits.toml", "--epsilon", "2"),
        *("--vault", "clinic", "--json"),
        cwd=home,
    )
    assert json.loads(added)["population"] == "visits"
    return home


def test_a_question_is_answered_once_and_then_from_store(folder: Path) -> None:
    asked = ("query", COUNT, "--epsilon", "0.5", "--vault", "clinic", "--json")
    first = json.loads(done(*asked, cwd=folder))
    assert list(first) == [*("columns", "rows", "error", "cost", "remaining", "receipt", "notes")]
    assert first["columns"] == ["city", "n"]
    assert [row[0] for row in first["rows"]] == ["north", "south"]
    # Two rows of a person and epsilon 0.5: scale 4, beyond 100 with probability exp(-25).
    assert all(abs(row[1] - 500) < 100 for row in first["rows"])
    assert set(first["error"]["n"]) >= {"sd", "bound95"}
    again = json.loads(done(*asked, cwd=folder / "clinic" / ".."))
    assert again["rows"] == first["rows"]
    assert again["remaining"] == first["remaining"]


def test_people_get_a_table_with_error_bars(folder: Path) -> None:
    shown = done("query", COUNT, "--epsilon", "0.25", cwd=folder / "clinic")
    assert "north" in shown
    assert "± 95 %" in shown
    assert "Cost: epsilon 0.25. Budget: epsilon " in shown
    told = done("ledger", "show", "--vault", "clinic", cwd=folder)
    details = done("ledger", "show", "--details", "--vault", "clinic", cwd=folder)
    assert " left" in told
    assert "Spent" not in told
    assert "Spent" in details
    assert "Largest epsilon" in details
    assert "Hides whether any one 'patient' is present" in shown


def test_explaining_spends_nothing(folder: Path) -> None:
    before = done("ledger", "show", "--vault", "clinic", "--json", cwd=folder)
    asked = ("query", COUNT, "--epsilon", "1", "--explain", "--vault", "clinic")
    assert "sd" in done(*asked, cwd=folder)
    assert json.loads(done(*asked, "--json", cwd=folder))["cost"]
    assert done("ledger", "show", "--vault", "clinic", "--json", cwd=folder) == before


def test_an_exhausted_budget_is_refused_with_exit_3(folder: Path) -> None:
    asked = sfumato("query", COUNT, "--epsilon", "5", "--vault", "clinic", "--json", cwd=folder)
    assert refusal(asked, 3) == "budget_exhausted"


ADD_X = ("add", "x", "visits.csv", "--schema", "s", "--vault", "clinic")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("query", "SELECT * FROM visits", "--vault", "clinic"), "column_not_aggregated"),
        (("query", COUNT, "--epsilon", "nan", "--vault", "clinic"), "parameter_type_wrong"),
        (("query", COUNT, "--epsilon", "1", "--rho", "1", "--vault", "clinic"), "options_conflict"),
        (("query", COUNT, "--vault", "nowhere"), "vault_missing"),
        (("init", "clinic"), "output_exists"),
        (("ledger", "limit", "--vault", "clinic"), "usage"),
        (("ledger", "acknowledge", "--vault", "clinic"), "usage"),
        ((*ADD_X, "--public", "--epsilon", "1"), "options_conflict"),
        ((*ADD_X, "--unique", "a"), "options_conflict"),
        ((*ADD_X, "--public", "--consent", "a"), "options_conflict"),
    ],
)
def test_the_callers_mistakes_are_refused_with_exit_2(
    arguments: tuple[str, ...],
    code: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    exit_code = run([*arguments, "--json"])
    output = capsys.readouterr()
    finished = subprocess.CompletedProcess(arguments, exit_code, output.out, output.err)
    assert refusal(finished, 2) == code


def test_the_ledger_is_shown_verified_and_exported(folder: Path, tmp_path: Path) -> None:
    assert "visits" in done("ledger", "show", "--vault", "clinic", cwd=folder)
    found = json.loads(done("ledger", "verify", "--vault", "clinic", "--json", cwd=folder))
    assert found["accounts"] == 1
    lines = done("ledger", "export", "--vault", "clinic", cwd=folder).splitlines()
    assert json.loads(lines[-1])["head"] == {"seq": found["entries"], "hash": found["head"]}
    export = tmp_path / "export.jsonl"
    export.write_text("\n".join(lines) + "\n")
    checked = subprocess.run([sys.executable, CHECKER, export], capture_output=True, text=True)
    assert checked.returncode == 0


@pytest.mark.parametrize(
    ("people", "outcome"),
    [(["a", "a", "a"], 2), (["a", "", "b"], 2), (["a", "b", "c"], 0), (["a", "a", "b"], 0)],
    ids=["one person", "nobody in a row", "a person a row", "people"],
)
def test_a_unit_that_does_not_tell_people_apart_is_refused_or_warned_of(
    tmp_path: Path, people: list[str], outcome: int
) -> None:
    """What a steward adds is checked once, where it is the steward who reads the message."""
    (tmp_path / "t.csv").write_text("who,age\n" + "".join(f"{one},30\n" for one in people))
    (tmp_path / "t.toml").write_text(
        'table = "t"\nunit = { column = "who", max_rows = 2 }\n'
        '[columns.who]\nkind = "text"\nrole = "identifier"\nnullable = false\n'
        '[columns.age]\nkind = "integer"\nbounds = [0, 110]\n'
    )
    subprocess.run(["sfumato", "init", "v"], cwd=tmp_path, check=True, capture_output=True)
    added = subprocess.run(
        ["sfumato", "add", "t", "t.csv", "--schema", "t.toml", "--epsilon", "1", "--vault", "v"],
        cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert added.returncode == outcome, added.stderr
    assert ("does not tell whose a row is" in added.stderr) == (outcome == 2)
    assert ("of its own" in added.stderr) == (len(set(people)) == 3 and outcome == 0)


def test_eight_processes_add_at_once_and_none_is_lost(folder: Path) -> None:
    done("init", "crowd", cwd=folder)
    crowd = subprocess.run(
        # Newer Pythons warn of forks beside the idle threads of numpy.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", EIGHT],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=240,
    )
    assert (crowd.stdout, crowd.stderr) == (f"{[0] * 8}\n", "")
    config = tomllib.loads((folder / "crowd" / "vault.toml").read_text())
    assert sorted(config["datasets"]) == [f"visits{place}" for place in range(8)]
    assert set(config["populations"]) == {"all"}
    assert "all" in done("ledger", "show", "--vault", "crowd", cwd=folder)
