"""A vault whose ledger lies in PostgreSQL answers as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import OutputError
from sfumato.vault import book
from sfumato.vault.registration import Registration, create

SCHEMA = 'table = "t"\n[columns.x]\nkind = "integer"\nbounds = [0, 9]\n'


def test_a_ledger_in_postgres(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x\n" + "1\n" * 1000)
    Path("t.toml").write_text(SCHEMA)
    vault = Path("vault")
    create(vault, database=postgres_url)
    Registration(name="t", source="t.csv", schema=Path("t.toml"), epsilon=2).add_to(vault)
    with sf.open(vault) as opened:
        first = opened.query("SELECT COUNT(*) AS n FROM t", epsilon=1)
    # Noise of scale 1: beyond 30 with probability below 1e-12.
    assert abs(first.table["n"][0].as_py() - 1000) < 30
    with sf.open(vault) as opened:
        again = opened.query("SELECT COUNT(*) AS n FROM t", epsilon=1)
    assert again.table == first.table
    assert again.remaining == first.remaining == {"epsilon": 1.0, "delta": 0.0}
    assert book.verify(vault)["requests"] == 1
    # The database has a ledger now, and cannot begin another vault.
    with pytest.raises(OutputError) as refusal:
        create(Path("other"), database=postgres_url)
    assert refusal.value.code == "ledger_taken"
    assert not Path("other.head").exists()
    assert book.verify(vault)["requests"] == 1


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
    assert book.verify(tmp_path / "vault")["entries"] == 1
