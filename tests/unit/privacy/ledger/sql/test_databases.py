"""Which databases a ledger accepts."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError, ParameterError
from sfumato.privacy.ledger.sql import sqlite
from sfumato.privacy.ledger.sql.postgres import check_settings, open_postgres
from sfumato.privacy.ledger.sql.sqlite import create_sqlite, file_system, open_sqlite

if TYPE_CHECKING:
    from pathlib import Path

SAFE = {
    "fsync": "on",
    "full_page_writes": "on",
    "data_sync_retry": "off",
    "synchronous_commit": "on",
    "synchronous_standby_names": "",
}


def code_of_opening(path: Path, head: Path) -> str:
    with pytest.raises(LedgerError) as caught:
        open_sqlite(path, head=head)
    return caught.value.code


@pytest.fixture
def head(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside" / "head"


def test_sqlite_is_set_up_for_durability(tmp_path: Path, head: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = create_sqlite(path, head=head)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.with_name("ledger.sqlite-wal").stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(path) as connection:
        strict = "SELECT COUNT(*) FROM pragma_table_list WHERE name LIKE 'sfumato%' AND strict"
        assert connection.execute(strict).fetchone() == (8,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    ledger.close()


def test_the_head_must_lie_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ParameterError) as refused:
        open_sqlite(tmp_path / "ledger", head=tmp_path / "head")
    assert refused.value.code == "head_unreadable"


def test_a_symbolic_link_is_refused(tmp_path: Path, head: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "ledger")
    assert code_of_opening(tmp_path / "link", head) == "ledger_unusable"


def test_other_files_are_refused(tmp_path: Path, head: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to look like one\n" * 100)
    assert code_of_opening(tmp_path / "text", head) == "ledger_failed"
    assert code_of_opening(tmp_path / "missing" / "ledger", head) == "ledger_missing"


def test_another_version_is_refused(
    tmp_path: Path, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_sqlite(tmp_path / "ledger", head=head).close()
    monkeypatch.setattr("sfumato.privacy.ledger.sql.store.FORMAT", 2)
    assert code_of_opening(tmp_path / "ledger", head) == "ledger_unusable"


def test_a_network_file_system_is_refused(
    tmp_path: Path, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "file_system", lambda _: "nfs4")
    assert code_of_opening(tmp_path / "ledger", head) == "ledger_unusable"


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        "2 1 0:2 / /far rw - nfs4 server:/far rw\n"
        "3 2 0:3 / /far/near rw shared:1 - xfs /dev/sdb rw\n"
        "4 1 0:4 / /with\\040blank rw - cifs //server/share rw\n"
        "5 1 0:5 / /covered rw - nfs server:/x rw\n"
        "6 5 0:6 / /covered rw - ext4 /dev/sdc rw\n"
    )
    kinds = {
        "/home/ledger": "ext4",
        "/far/ledger": "nfs4",
        "/far/near/ledger": "xfs",
        "/farther": "ext4",
        "/with blank/ledger": "cifs",
        "/covered/ledger": "ext4",
    }
    for path, kind in kinds.items():
        assert file_system(type(tmp_path)(path), mounts) == kind
    assert file_system(tmp_path, tmp_path / "absent") is None


def test_a_busy_database_is_not_a_failed_one(
    tmp_path: Path, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.privacy.accounting.filters import Budget

    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.05)
    ledger = create_sqlite(tmp_path / "ledger", head=head)
    intruder = sqlite3.connect(tmp_path / "ledger", isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    budget = Budget.for_epsilon_delta(epsilon=1)
    with pytest.raises(LedgerError) as busy:
        ledger.open_account("visits", budget=budget)
    assert busy.value.code == "ledger_busy"
    intruder.execute("ROLLBACK")
    intruder.close()
    ledger.open_account("visits", budget=budget)
    ledger.close()


def test_safe_settings_of_postgres_are_accepted() -> None:
    check_settings(SAFE)
    check_settings({**SAFE, "synchronous_commit": "local"})
    check_settings({**SAFE, "synchronous_standby_names": "a", "synchronous_commit": "remote_apply"})


@pytest.mark.parametrize(
    "unsafe",
    [
        {"fsync": "off"},
        {"full_page_writes": "off"},
        {"data_sync_retry": "on"},
        {"synchronous_commit": "off"},
        {"synchronous_commit": "local", "synchronous_standby_names": "a"},
        {"synchronous_commit": "remote_write", "synchronous_standby_names": "a"},
    ],
)
def test_unsafe_settings_of_postgres_are_refused(unsafe: dict[str, str]) -> None:
    with pytest.raises(LedgerError) as caught:
        check_settings({**SAFE, **unsafe})
    assert caught.value.code == "ledger_unusable"
    assert next(iter(unsafe)) in caught.value.message


def test_a_connection_with_unsafe_settings_is_refused(postgres_url: str, head: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        open_postgres(f"{postgres_url}&options=-csynchronous_commit%3Doff", head=head)
    assert caught.value.code == "ledger_unusable"


def test_a_server_that_is_not_there_tells_nothing(head: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        open_postgres("postgresql://bob:secret@127.0.0.1:1/ledger", head=head)
    assert caught.value.code == "ledger_failed"
    assert "secret" not in caught.value.message
