"""What is written for a vault can be read by its operator alone, whatever the umask."""

from __future__ import annotations

import io
import os
import stat
from contextlib import closing
from datetime import date
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.console.owner.drafts import TableDrafts
from sfumato.methods.local.collection import Collection
from sfumato.methods.local.rounds import new_round
from sfumato.release.fingerprint import holder_secret
from sfumato.vault.failure_log import note_failure
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.vault.vault import Vault

SCHEMA = """\
table = "people"
[columns.day]
kind = "date"
bounds = [2024-01-01, 2024-12-31]
nullable = false
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
hierarchy = { widths = [10, 50] }
[columns.ill]
role = "sensitive"
kind = "text"
values = ["flu", "gout"]
"""
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that others may look into, and a process that lets them."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    tmp_path.chmod(0o755)
    rows = [f"2024-02-{n % 28 + 1:02},{n % 90},{('flu', 'gout')[n % 2]}" for n in range(200)]
    (tmp_path / "people.csv").write_text("\n".join(["day,age,ill", *rows]) + "\n")
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "clinic").mkdir(mode=0o755)
    before = os.umask(0)
    try:
        yield tmp_path
    finally:
        os.umask(before)


def use(vault: Vault, home: Path) -> None:
    """Have a vault write everything that it writes."""
    vault.add("people", home / "people.csv", home / "people.toml", epsilon=8)
    (home / "more.csv").write_text("age\n" + "\n".join(map(str, range(90))) + "\n")
    kind = sf.Schema.load(home / "people.toml").columns[1]
    vault.add("more", home / "more.csv", sf.Schema("more", (kind,)), epsilon=1)
    vault.people.add("ann", "permanent-staff", epsilon=3, population="people", operator="me")
    vault.token_registry.holder(vault.tokens.new("ann", operator="me"))
    answer = vault.query(COUNT, epsilon=0.1, principal="ann", request_id="r")
    asked = {"sql": COUNT, "epsilon": "0.1"}
    vault.history.add("ann", "r", asked, answer, ["people"])
    vault.logins.remember_device("ann", "")
    vault.logins.begin("ann")
    vault.jobs.submit("publish", "people", kind="histogram", columns="age", epsilon=0.1)
    released = vault.jobs.submit("anonymize", "people", k=2, suppress="0.9", attacks=False)
    vault.jobs.work()
    assert vault.jobs.get(released).state.value == "done", vault.jobs.get(released).error
    told = {"column": "day", "every": "month", "epsilon": "0.1", "operator": "me"}
    vault.feed_registry.add("months", COUNT, begins=date(2024, 2, 1), **told)
    vault.feed_registry.add("so-far", family="continual", dataset="people", **told)
    vault.feed_registry.work()
    draft = TableDrafts(vault.config.folder).from_upload(io.BytesIO(b"age\n1\n2\n" * 20), "t.csv")
    draft.declare(draft.seen)
    note_failure(vault.config.folder, "where", "what")
    (vault.config.folder / "surveys").mkdir(mode=0o700)
    new_round(vault.config.folder / "surveys" / "s.toml", "Why?", ("yes", "no"), epsilon=1)
    with closing(Collection(vault.config.folder / "surveys" / "s.toml")) as collection:
        collection.receive([{"ticket": collection.tickets()[0], "report": 0}])
    holder_secret()


def exposed(folder: Path) -> set[str]:
    """What is below a folder that others than its owner may read, write or enter."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if stat.S_IMODE(path.lstat().st_mode) & 0o077
    }


def test_what_a_vault_writes_is_for_its_operator_alone(home: Path) -> None:
    with create_vault(home / "clinic") as vault:
        use(vault, home)
        # The declaration of a survey is what its participants read.
        assert exposed(home / "clinic") == {"surveys/s.toml"}
        written = {path.name for path in (home / "clinic").rglob("*") if path.is_file()}
    # All of it was there to be looked at.
    assert {"seen.toml", "schema.toml", "more.toml", "failures.log", "release.parquet"} <= written
    assert {"vault.toml", "ledger.sqlite", "console.sqlite", "jobs.sqlite"} <= written
    assert {"s.key", "s.sqlite", "fingerprint.key"} <= written
    assert stat.S_IMODE((home / "clinic.head").stat().st_mode) == 0o600
    assert [one for one in exposed(home / "user") if not one.endswith(".config")] == []
