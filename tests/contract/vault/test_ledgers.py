"""A vault whose ledger lies in PostgreSQL answers as any other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.fixtures.ledgers import balances, code_of, verified_ledger

import sfumato as sf
from sfumato.errors import BudgetError, OutputError
from sfumato.vault import accounts
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = 'table = "t"\n[columns.x]\nkind = "integer"\nbounds = [0, 9]\n'


@pytest.fixture
def emptied(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """A vault of epsilon 2 whose ledger lies in a schema of its own; calling it empties that."""
    import psycopg

    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x\n" + "1\n" * 1000)
    Path("t.toml").write_text(SCHEMA)
    schema = f"vault_{uuid4().hex}"

    def make(*steps: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for step in steps:
                connection.execute(step.format(schema))

    make("CREATE SCHEMA {}")
    create(Path("vault"), database=f"{postgres_url}&options=-csearch_path%3D{schema}")
    Registration(name="t", source="t.csv", schema=Path("t.toml"), epsilon=2).add_to(Path("vault"))
    return lambda: make("DROP SCHEMA {} CASCADE", "CREATE SCHEMA {}")


def _address(vault: Path) -> str:
    text = (vault / "vault.toml").read_text()
    return next(line.split('"')[1] for line in text.splitlines() if "database" in line)


def test_a_ledger_in_postgres(emptied: Callable[[], None]) -> None:
    assert callable(emptied)
    vault = Path("vault")
    with sf.open(vault) as opened:
        first = opened.query("SELECT COUNT(*) AS n FROM t", epsilon=1)
    # Noise of scale 1: beyond 30 with probability below 1e-12.
    assert abs(first.table["n"][0].as_py() - 1000) < 30
    with sf.open(vault) as opened:
        again = opened.query("SELECT COUNT(*) AS n FROM t", epsilon=1)
    assert again.table == first.table
    assert again.remaining == first.remaining == {"epsilon": 1.0, "delta": 0.0}
    assert verified_ledger(vault)["requests"] == 1
    # The database has a ledger now, and cannot begin another vault.
    with pytest.raises(OutputError) as refusal:
        create(Path("other"), database=_address(vault))
    assert refusal.value.code == "ledger_taken"
    assert not Path("other.head").exists()
    assert verified_ledger(vault)["requests"] == 1


def test_L6_an_emptied_postgres_is_no_fresh_ledger(emptied: Callable[[], None]) -> None:
    vault = Path("vault")
    with sf.open(vault) as opened:
        opened.query("SELECT COUNT(*) AS n FROM t", epsilon=1)
    emptied()
    for attempt in (
        lambda: sf.open(vault),
        lambda: accounts.acknowledge(vault, operator="root"),
        lambda: balances(vault),
    ):
        assert code_of(attempt) == "ledger_missing"
    # A database of another vault, put in its place: all that is configured is burnt.
    create(Path("other"), database=_address(vault))
    assert code_of(lambda: sf.open(vault)) == "ledger_rolled_back"
    accounts.acknowledge(vault, operator="root")
    with sf.open(vault) as opened, pytest.raises(BudgetError):
        opened.query("SELECT COUNT(*) AS n FROM t", epsilon="0.001")
    verified_ledger(vault)


def test_an_init_in_postgres_that_was_interrupted_is_gone_on_with(
    postgres_url: str, tmp_path: Path
) -> None:
    from sqlalchemy import create_engine, text

    admin = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://", 1))
    with admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE DATABASE interrupted"))
    admin.dispose()
    address, question, options = postgres_url.partition("?")
    database = f"{address.rpartition('/')[0]}/interrupted{question}{options}"
    for left in ("nothing", "vault.toml"):
        create(tmp_path / "vault", database=database)
        if left == "nothing":
            (tmp_path / "vault" / "vault.toml").unlink()
    assert verified_ledger(tmp_path / "vault")["entries"] == 1
