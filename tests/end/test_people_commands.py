"""`sfumato principal`, `sfumato token` and `sfumato program`, as an owner uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sfumato.cli.main import run
from sfumato.vault.vault import ledger_access

VAULT = ("--vault", "clinic")
BY = ("--operator", "ann", *VAULT)
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture(autouse=True)
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("people.csv").write_text("age\n" + "\n".join(map(str, range(90))) + "\n")
    Path("people.toml").write_text(
        'table = "people"\n[columns.age]\nkind = "integer"\nbounds = [0, 99]\nnullable = false\n'
    )
    assert run(["init", "clinic"]) == 0
    add = ("add", "people", "people.csv", "--schema", "people.toml", "--epsilon", "3")
    assert run([*add, *VAULT]) == 0


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    return json.loads(output.out)


def test_the_life_of_a_principal(capsys: pytest.CaptureFixture[str]) -> None:
    add = ("principal", "add", "eve", "--kind", "external", "--epsilon", "0.5")
    made = told(capsys, *add, "--max-epsilon", "0.2", "--expires", "2050-01-31", *BY)["principal"]
    assert made["budgets"]["people"]["remaining"] == {"epsilon": 0.5, "delta": 0.0}
    assert made["expires"] == "2050-01-31T00:00:00+00:00"
    ask = ("query", COUNT, "--principal", "eve", *VAULT)
    assert told(capsys, *ask, "--epsilon", "0.1")["remaining"] == {"epsilon": 0.4, "delta": 0.0}
    told(capsys, "principal", "grant", "eve", "--epsilon", "1", *BY)
    told(capsys, "principal", "lower", "eve", "--epsilon", "0.75", *BY)
    told(capsys, "principal", "add", "bea", "--kind", "purchaser", *BY)
    told(capsys, "principal", "move", "eve", "--to", "bea", "--epsilon", "0.25", *BY)
    told(capsys, "principal", "change", "bea", "--shapes", "query", *BY)
    bea, eve = told(capsys, "principal", "list", *VAULT)["principals"]
    assert bea["budgets"]["people"]["balance"] == "epsilon 0.25 of 0.25 left"
    assert eve["budgets"]["people"]["balance"] == "epsilon 0.4 of 0.5 left"
    assert bea["shapes"] == ["query"]
    told(capsys, "principal", "expire", "eve", *BY)
    assert run([*ask, "--epsilon", "0.1"]) == 3
    told(capsys, "principal", "expire", "eve", "--expires", "1d", *BY)
    assert run([*ask, "--epsilon", "0.1"]) == 0
    assert told(capsys, "ledger", "verify", *VAULT)["accounts"] == 3


def test_the_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["principal", "list", *VAULT]) == 0
    assert capsys.readouterr().out.endswith("Nobody may ask but the owner.\n")
    add = ["principal", "add", "eve", "--kind", "external", "--epsilon", "0.5"]
    assert run([*add, "--min-epsilon", "0.1", "--expires", "2050-01-31", *BY]) == 0
    shown = capsys.readouterr().out
    for word in ("eve", "people: epsilon 0.5 of 0.5 left", "from 0.1", "2050-01-31", "query"):
        assert word in shown
    assert "T00:00" not in shown


def test_a_token_is_printed_once_and_alone(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "principal", "add", "eve", "--kind", "external", *BY)
    assert run(["token", "new", "eve", "--scopes", "plan,query", *BY]) == 0
    output = capsys.readouterr()
    text = output.out.strip()
    assert text[12:] not in output.err
    assert "It is not shown again." in output.err
    with ledger_access(Path("clinic")) as access:
        assert access.token_registry.holder(text).scopes == {"plan", "query"}
    [listed] = told(capsys, "token", "list", *VAULT)["tokens"]
    assert (listed["id"], listed["principal"]) == (text[4:12], "eve")
    assert run(["token", "list", *VAULT]) == 0
    assert text[4:12] in capsys.readouterr().out
    assert told(capsys, "token", "list", "bob", *VAULT) == {"tokens": []}
    made = told(capsys, "token", "new", "owner", "--expires", "30d", *BY)
    assert made["token"][4:12] == made["id"]
    assert "admin" in made["scopes"]
    assert told(capsys, "token", "revoke", text[4:12], *BY) == {"revoked": text[4:12]}
    assert run(["token", "revoke", made["token"], *BY]) == 0
    assert made["token"][12:] not in "".join(capsys.readouterr())
    assert run(["token", "list", *VAULT]) == 0
    assert capsys.readouterr().out == "There are no tokens.\n"


def test_the_life_of_an_approval(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.py").write_text("def f(rows):\n    return 1\n")
    Path("p.star").write_text("def f(rows):\n    return 1\n")
    assert run(["program", "list", *VAULT]) == 0
    assert capsys.readouterr().out.endswith("No programs are approved.\n")
    approve = ("program", "approve", "p.py", "--function", "f")
    made = told(capsys, *approve, *BY)
    assert (made["function"], made["helper"], made["operator"]) == ("f", None, "ann")
    assert told(capsys, *approve, *BY)["digest"] == made["digest"]
    [listed] = told(capsys, "program", "list", *VAULT)["programs"]
    assert listed["digest"] == made["digest"]
    assert run(["program", "list", *VAULT]) == 0
    assert made["digest"][:40] in capsys.readouterr().out
    told(capsys, "principal", "add", "eve", "--kind", "external", "--epsilon", "1", *BY)
    asked = ("--function", "f", "--output", '[{"low": 0, "high": 2}]', "--principal", "eve")
    other = ["run", "p.py", "people", *asked, "--ranges", "helper", "--helper", "h", *VAULT]
    assert run(other) == 3
    refusal = capsys.readouterr().err
    assert "sfumato program approve" in refusal
    assert made["digest"] not in refusal  # with a helper it is another program
    assert told(capsys, "program", "revoke", made["digest"], *BY) == {"revoked": made["digest"]}
    assert run(["run", "p.py", "people", *asked, *VAULT]) == 3
    assert made["digest"] in capsys.readouterr().err
    assert run(["program", "revoke", made["digest"], *BY]) == 2
    assert run(["program", "approve", "p.star", "--function", "f", *BY]) == 2
    assert "needs no approval" in capsys.readouterr().err
    assert run(["program", "approve", "p.py", *BY]) == 2
    assert "--function F" in capsys.readouterr().err
    assert run(["program", "approve", *BY]) == 2
    assert run(["program", "list", "--function", "f", *VAULT]) == 2


def test_a_command_hears_of_flags(capsys: pytest.CaptureFixture[str]) -> None:
    add = ["add", "more", "people.csv", "--schema", "people.toml", "--epsilon", "1"]
    Path("people.csv").write_text("age\n1\n")
    Path("more.csv").write_text("age\n1\n2\n")
    add[2] = "more.csv"
    assert run([*add, *VAULT]) == 0
    assert run(["principal", "add", "eve", "--kind", "external", "--epsilon", "1", *BY]) == 2
    assert "Give --population" in capsys.readouterr().err
    assert run(["token", "new", "owner", "--scopes", "", *BY]) == 2
    assert "--scopes" in capsys.readouterr().err
