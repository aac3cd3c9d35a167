"""A vault takes up what another process changed, and runs nothing by mixed declarations."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import EngineError, SfumatoError
from sfumato.vault.vault import Vault, create_vault, open_vault

SCHEMA = """\
table = "people"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
"""
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vault:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age\n" + "\n".join(map(str, range(50))) + "\n")
    Path("people.toml").write_text(SCHEMA)
    made = create_vault("clinic")
    made.add("people", "people.csv", "people.toml", epsilon=8)
    return made


def rewrite(old: str, new: str) -> None:
    config = Path("clinic/vault.toml")
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))


def test_a_raised_snapshot_and_an_added_data_set_are_taken_up(vault: Vault) -> None:
    assert vault.query(COUNT, epsilon=1).charged
    assert not vault.query(COUNT, epsilon=1).charged
    rewrite("snapshot = 1", "snapshot = 2")
    assert not vault.query(COUNT, epsilon=1).charged, "nobody asked for a look"
    vault.refresh()
    assert vault.query(COUNT, epsilon=1).charged
    Path("later.csv").write_text("age\n1\n2\n")
    with open_vault("clinic") as other:
        other.add("later", "later.csv", "people.toml", epsilon=1)
    vault.refresh()
    assert vault.query("SELECT COUNT(*) AS n FROM later", epsilon=1).charged
    vault.close()


def test_a_plan_is_not_run_by_other_declarations_than_it_was_made_from(vault: Vault) -> None:
    private = vault.private("people")
    planned = private.plan("histogram", columns="age", epsilon=1)
    Path("people.toml").write_text(SCHEMA.replace("99", "120"))
    rewrite("snapshot = 1", "snapshot = 2")
    vault.refresh()
    with pytest.raises(EngineError) as refusal:
        private.publish_planned(planned)
    assert refusal.value.code == "answer_failed"
    assert "EngineError" in Path("clinic/failures.log").read_text()
    with pytest.raises(SfumatoError) as foreign:
        vault.private("people").publish_planned(planned)
    assert foreign.value.code == "plan_foreign"
    assert vault.publish("histogram", "people", columns="age", epsilon=1).table.num_rows > 100
    vault.close()


def test_a_data_set_that_was_taken_out_is_no_longer_asked(vault: Vault) -> None:
    asked = vault.private("people")
    text = Path("clinic/vault.toml").read_text()
    Path("clinic/vault.toml").write_text(text.partition("[datasets")[0])
    vault.refresh()
    assert vault.datasets == ()
    with pytest.raises(SfumatoError) as refusal:
        asked.query(COUNT, epsilon=1)
    assert refusal.value.code == "dataset_unknown"
    assert vault.accounts()[0]["spent"] == "epsilon 0"
    vault.close()


def test_a_configuration_that_cannot_be_read_is_told_and_changes_nothing(vault: Vault) -> None:
    config = Path("clinic/vault.toml")
    text = config.read_text()
    config.write_text("[")
    for _ in range(2):
        with pytest.raises(SfumatoError) as refusal:
            vault.refresh()
        assert refusal.value.code == "vault_config_invalid"
    config.write_text(text)
    vault.refresh()
    assert vault.query(COUNT, epsilon=1).charged
    vault.close()
