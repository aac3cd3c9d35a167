"""A vault is made, filled and looked after from Python as from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import sfumato as sf
from sfumato.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def vault(files: Path) -> Iterator[sf.Vault]:
    with sf.init("clinic") as opened:
        yield opened
    assert files.exists()


def test_what_is_added_is_asked_at_once(vault: sf.Vault) -> None:
    vault.add("visits", "visits.csv", "visits.toml", epsilon=8)
    assert vault.datasets == ("visits",)
    assert vault.query(COUNT, epsilon=1).cost == {"epsilon": 1.0}
    planned = vault.plan("histogram", "visits", columns="cost", epsilon=1)
    vault.add("again", "visits.csv", Path("visits.toml"), population="visits")
    private = vault.private("visits")
    assert private.publish_planned(planned).cost == {"epsilon": 1.0}
    found = vault.publish("histogram", "again", columns=["city"], epsilon=1)
    assert found.table.column_names == ["city", "count"]
    assert private.remaining["epsilon"] == pytest.approx(5)


def test_the_command_line_sees_the_same_vault(
    vault: sf.Vault, capsys: pytest.CaptureFixture[str]
) -> None:
    vault.add("visits", Path("visits.csv"), "visits.toml", epsilon=8)
    assert run(["ledger", "show", "--vault", "clinic", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["accounts"]
    assert printed == json.loads(json.dumps(vault.accounts()))
    assert [account["purchases"][0]["epsilon"] for account in printed] == ["8"]
    assert run(["ledger", "verify", "--vault", "clinic", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == vault.verify()
    vault.export("entries.jsonl")
    assert run(["ledger", "export", "--vault", "clinic"]) == 0
    assert capsys.readouterr().out == Path("entries.jsonl").read_text()


def test_a_schema_in_memory_is_kept_in_the_vault(vault: sf.Vault) -> None:
    table = sf.read("visits.csv", "visits.toml")
    vault.add("visits", table, unit=sf.Entity("patient", max_rows=1), epsilon=8)
    assert vault.private("visits").schema.unit == sf.Entity("patient", max_rows=1)
    assert Path("clinic/visits.toml").exists()
    vault.close()
    with sf.open("clinic") as again:
        assert again.query(COUNT, epsilon=1).table.num_rows == 1


def test_what_is_refused_leaves_nothing(vault: sf.Vault) -> None:
    schema = sf.Schema.load("visits.toml")
    before = sorted(Path("clinic").iterdir())
    with pytest.raises(sf.SfumatoError) as refusal:
        vault.add("visits", "visits.csv", schema)
    assert refusal.value.code == "parameter_missing"
    assert "Give it with epsilon=, for example epsilon=1." in str(refusal.value)
    assert sorted(Path("clinic").iterdir()) == before
    assert vault.datasets == ()


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"schema": None}, "schema_missing"),
        ({"source": pd.DataFrame({"a": [1]})}, "source_unsupported"),
        ({"unique": ["city"]}, "options_conflict"),
        ({"public": True}, "options_conflict"),
        ({"unit": 5}, "parameter_type_wrong"),
        ({"schema": "nowhere.toml"}, "file_unreadable"),
    ],
)
def test_what_cannot_be_added_is_refused(
    vault: sf.Vault, given: dict[str, object], code: str
) -> None:
    asked: dict[str, object] = {"source": "visits.csv", "schema": "visits.toml", "epsilon": 1}
    with pytest.raises(sf.SfumatoError) as refusal:
        vault.add("visits", **{**asked, **given})  # type: ignore[arg-type]
    assert refusal.value.code == code


def test_a_public_table_is_added(vault: sf.Vault) -> None:
    Path("regions.csv").write_text("city,region\nnorth,up\nsouth,down\n")
    text = sf.Kind.TEXT
    columns = tuple(sf.Column(name, text, nullable=False) for name in ("city", "region"))
    vault.add("visits", "visits.csv", "visits.toml", epsilon=8)
    vault.add("regions", "regions.csv", sf.Schema("regions", columns), public=True, unique=["city"])
    joined = "SELECT COUNT(*) AS n FROM visits JOIN regions ON visits.city = regions.city"
    assert vault.query(joined, epsilon=1).table.num_rows == 1


def test_a_limit_is_set(vault: sf.Vault) -> None:
    vault.add("visits", "visits.csv", "visits.toml", epsilon=1)
    vault.limit("visits", epsilon=2, operator="ann")
    assert vault.private("visits").remaining["epsilon"] == 2
    with pytest.raises(sf.SfumatoError) as refusal:
        vault.limit("visit", epsilon=2, operator="ann")
    assert refusal.value.code == "account_unknown"


def test_a_lost_ledger_is_acknowledged(vault: sf.Vault) -> None:
    vault.add("visits", "visits.csv", "visits.toml", epsilon=1)
    vault.close()
    shutil.copytree("clinic", "backup")
    with sf.open("clinic") as opened:
        opened.query(COUNT, epsilon=0.5)
    shutil.rmtree("clinic")
    shutil.copytree("backup", "clinic")
    with pytest.raises(sf.SfumatoError):
        sf.open("clinic").query(COUNT, epsilon=0.1)
    sf.Vault.acknowledge("clinic", operator="ann")
    with sf.open("clinic") as opened:
        assert opened.private("visits").remaining["epsilon"] == 0


def test_a_closed_vault_does_nothing(vault: sf.Vault) -> None:
    vault.close()
    for call in (vault.accounts, vault.verify):
        with pytest.raises(sf.SfumatoError) as refusal:
            call()
        assert refusal.value.code == "vault_closed"
    with pytest.raises(sf.SfumatoError) as refusal:
        vault.add("visits", "visits.csv", "visits.toml", epsilon=1)
    assert refusal.value.code == "vault_closed"
