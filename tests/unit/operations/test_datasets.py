"""Data sets are listed, shown and added by every door; no caller of a server names its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.cli.main import run
from sfumato.server.serve import Listening
from sfumato.testing.servers import Client, served
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.vault.vault import Vault

SCHEMA = """\
table = "people"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
"""


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vault]:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age\n" + "".join(f"{age}\n" for age in range(50)))
    Path("people.toml").write_text(SCHEMA)
    with create_vault("clinic") as made:
        yield made


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run([*words, "--vault", "clinic", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("vault")
def test_commands_add_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("add", "people", "people.csv", "--schema", "people.toml", "--epsilon", "0.50")
    added = told(capsys, *words)
    assert added["population"] == "people"
    assert set(added) == {"dataset", "public", "population", "unit"}
    public = ("add", "ages", "people.csv", "--schema", "people.toml", "--public", "--unique", "age")
    assert run([*public, "--vault", "clinic", "--json"]) == 2  # the same rows are about people
    capsys.readouterr()
    [listed] = told(capsys, "dataset", "list")["datasets"]
    assert (listed["name"], listed["columns"]) == ("people", ["age"])
    shown = told(capsys, "dataset", "show", "people")
    assert shown["schema"]["columns"][0]["bounds"] == [0, 99]
    assert shown["remaining"]["epsilon"] == 0.5
    assert run(["dataset", "show", "people", "--vault", "clinic"]) == 0
    assert "Budget: " in capsys.readouterr().out
    assert run(["dataset", "show", "nothing", "--vault", "clinic"]) == 2
    assert 'schema = "../people.toml"' in Path("clinic/vault.toml").read_text()


def test_a_caller_of_a_server_names_no_schema_file(vault: Vault, tmp_path: Path) -> None:
    columns = [{"name": "age", "kind": "real", "bounds": ["0.5", 99]}]
    schema = {"table": "people", "unit": "row", "columns": columns}
    with served(vault, listening=Listening(port=0, data=tmp_path)) as server:
        client = Client(server.url, vault.tokens.new("owner", operator="root"))
        body = {"name": "people", "source": "people.csv", "epsilon": "1"}
        for wrong in (str(tmp_path / "people.toml"), "people.toml", ["people.toml"], 5):
            reply = client.ask("POST", "/v1/admin/datasets", {**body, "schema": wrong})
            assert (reply.status, reply.json["parameter"]) == (422, "schema")
        reply = client.ask("POST", "/v1/admin/datasets", {**body, "schema": {"table": "people"}})
        assert (reply.status, reply.json["code"]) == (422, "schema_malformed")
        reply = client.ask("POST", "/v1/admin/datasets", {**body, "schema": schema})
        assert (reply.status, reply.json.get("dataset")) == (201, "people"), reply.json
        shown = client.ask("GET", "/v1/datasets/people").json
        assert shown["population"] == "people"
