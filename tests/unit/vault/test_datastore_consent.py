"""Consent: who did not agree is in no fresh answer; stored ones go with the next snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import SchemaError
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from sfumato.vault.config import PrivateSet

CLINIC = Path("clinic")
SCHEMA = """\
table = "visits"
unit = { column = "patient", max_rows = 2 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.agreed]
kind = "boolean"
[columns.cost]
kind = "integer"
bounds = [0, 100]
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"
SURE = 40
"""Noise of scale 2 is larger with probability exp(-20)."""


def visits(second: tuple[str, str, str]) -> None:
    """Three hundred people with two rows each; all agree in the first, a third each differs."""
    rows = [f"{one},{said},5" for one in range(300) for said in ("true", second[one // 100])]
    Path("visits.csv").write_text("patient,agreed,cost\n" + "\n".join(rows) + "\n")


@pytest.fixture(autouse=True)
def _clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("visits.toml").write_text(SCHEMA)
    visits(("true", "false", ""))
    create(CLINIC)


def add(consent: str | None) -> PrivateSet:
    return Registration(
        name="visits",
        source="visits.csv",
        schema=Path("visits.toml"),
        epsilon=10,
        consent=consent,
    ).add_to(CLINIC)


def counted(question: str = COUNT) -> tuple[int, bool]:
    with open_vault(CLINIC) as vault:
        found = vault.query(question, epsilon=1)
    return found.table["n"].to_pylist()[0], found.charged


def test_who_said_no_or_nothing_anywhere_is_left_out() -> None:
    assert add("agreed").consent == "agreed"
    assert abs(counted()[0] - 200) < SURE


def test_without_a_column_of_consent_all_are_counted() -> None:
    add(None)
    assert abs(counted()[0] - 600) < SURE


def test_fresh_answers_obey_at_once_and_stored_ones_with_the_next_snapshot() -> None:
    add("agreed")
    first, _ = counted()
    visits(("false", "false", "true"))
    assert counted() == (first, False)
    fresh, charged = counted(f"{COUNT} WHERE cost < 50")
    assert charged
    assert abs(fresh - 200) < SURE
    visits(("false", "false", "false"))
    path = CLINIC / "vault.toml"
    path.write_text(path.read_text().replace("snapshot = 1", "snapshot = 2"))
    after, charged = counted()
    assert charged
    assert abs(after) < SURE


def test_consent_must_be_a_declared_truth_value() -> None:
    with pytest.raises(SchemaError, match="boolean") as caught:
        add("cost")
    assert caught.value.code == "purposes_invalid"
    add("agreed")
    path = CLINIC / "vault.toml"
    path.write_text(path.read_text().replace('consent = "agreed"', 'consent = "cost"'))
    with pytest.raises(SchemaError) as caught:
        open_vault(CLINIC)
    assert caught.value.code == "purposes_invalid"
