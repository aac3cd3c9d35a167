"""An owner anonymizes a data set of the vault: only people who agreed are in what comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import code_of

from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sfumato as sf

SCHEMA = """\
table = "people"
unit = { column = "person", max_rows = 1 }
[columns.person]
role = "identifier"
kind = "integer"
nullable = false
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
nullable = false
hierarchy = { widths = [10, 50] }
[columns.agreed]
kind = "boolean"
nullable = false
"""
PEOPLE = 120


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of 120 people those with an even number agree; nobody else is below the age of 50."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{at},{at % 50 if at % 2 else 50 + at % 40},{at % 2 == 0}" for at in range(PEOPLE)]
    Path("people.csv").write_text("\n".join(["person,age,agreed", *rows]) + "\n")
    Path("people.toml").write_text(SCHEMA)
    return tmp_path


@pytest.fixture(params=["column", "registry"])
def vault(request: pytest.FixtureRequest, home: Path) -> Iterator[sf.Vault]:
    said: dict[str, Any] = (
        {"consent": "agreed"} if request.param == "column" else {"purposes": ["care", "trade"]}
    )
    with create_vault(home / "clinic") as made:
        made.add("people", "people.csv", "people.toml", epsilon=2, **said)
        if request.param == "registry":
            registry = made.consent("people")
            for person in range(0, PEOPLE, 2):
                registry.give(person, "care")
        yield made


def test_whoever_did_not_agree_is_in_no_release(vault: sf.Vault) -> None:
    for_care: Any = {"purpose": "care"} if vault.purposes("people") else {}
    job = vault.jobs.submit("anonymize", "people", k=5, **for_care)
    vault.jobs.work()
    done = vault.jobs.get(job)
    assert done.release is not None, done.error
    table = vault.releases.get(done.release).release.table
    assert table.num_rows == PEOPLE // 2
    assert not any(
        str(one).startswith(("0", "1", "2", "3", "4-")) for one in table["age"].to_pylist()
    )
    if for_care:
        assert code_of(vault.jobs.submit, "anonymize", "people", k=5) == "parameter_missing"
        wrong: Any = {"purpose": "gossip"}
        assert code_of(vault.jobs.submit, "anonymize", "people", k=5, **wrong) == "purpose_unknown"
        nobody = vault.jobs.submit("anonymize", "people", k=5, purpose="trade")
        vault.jobs.work()
        assert vault.jobs.get(nobody).release is None


def test_a_publication_names_its_purpose_too(vault: sf.Vault) -> None:
    asked: dict[str, Any] = {"kind": "histogram", "columns": ["agreed"], "epsilon": 1}
    if not vault.purposes("people"):
        assert vault.jobs.submit("publish", "people", **asked).purpose is None
        return
    assert code_of(vault.jobs.submit, "publish", "people", **asked) == "parameter_missing"
    job = vault.jobs.submit("publish", "people", **asked, purpose="care")
    vault.jobs.work()
    rows = vault.releases.get(job.id).release.table.to_pylist()
    counts = {one["agreed"]: one["count"] for one in rows}
    # Noise of scale 1: beyond 30 with probability below 1e-12.
    assert abs(counts[False]) < 30
    assert abs(counts[True] - PEOPLE // 2) < 30
