"""How PostgreSQL is reached, and with which rights: as its own library has it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
from sqlglot import exp

from sfumato.data.counting.axes import literal
from sfumato.data.engines.base import everything
from sfumato.data.engines.postgres import rendered
from sfumato.data.engines.sources import open_source
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = '"Odd Schema"."vis-its"'


@pytest.fixture
def server(postgres_url: str) -> Iterator[str]:
    """A server with a table of odd names, a view of it, and a user who may do little."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for statement in (
            'CREATE SCHEMA "Odd Schema"',
            f"CREATE TABLE {TABLE} AS SELECT 1 AS age",
            f"CREATE VIEW seen_oddly AS SELECT * FROM {TABLE}",
            "CREATE ROLE least LOGIN",
            "GRANT SELECT ON seen_oddly TO least",
            "REVOKE TEMP ON DATABASE postgres FROM PUBLIC",
        ):
            connection.execute(statement)
        yield postgres_url
        for statement in (
            'DROP SCHEMA "Odd Schema" CASCADE',
            "GRANT TEMP ON DATABASE postgres TO PUBLIC",
            "DROP OWNED BY least",
            "DROP ROLE least",
        ):
            connection.execute(statement)


def rows_at(address: str) -> int:
    with closing(open_source(address)) as engine, engine.lend(pa.table({"a": [1]})):
        return int(engine.run(everything(engine.table)).num_rows)


def test_addresses(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = parse_qs(urlsplit(server).query)["host"][0]
    (tmp_path / "services").write_text(f"[clinic]\nhost={host}\nuser=postgres\ndbname=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    for name in (TABLE, "seen_oddly", "public.seen_oddly"):
        assert rows_at(f"postgresql://?service=clinic&sslmode=prefer#{name}") == 1
    for wrong in ("service=nobody", "service=clinic&sslmode=perhaps"):
        with pytest.raises(SfumatoError) as refused:
            open_source(f"postgresql://?{wrong}#seen_oddly")
        assert refused.value.code == "engine_unreachable"


def test_least_rights(server: str) -> None:
    import psycopg

    least = server.replace("postgres:@", "least@")
    with pytest.raises(SfumatoError) as refused:
        rows_at(f"{least}#seen_oddly")  # for want of TEMP
    assert refused.value.code == "engine_forbidden"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("GRANT TEMP ON DATABASE postgres TO least")
    assert rows_at(f"{least}#seen_oddly") == 1
    with pytest.raises(SfumatoError) as refused:
        rows_at(f"{least}#{TABLE}")  # for want of SELECT
    assert refused.value.code == "engine_forbidden"


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "SQL_ASCII"])
def test_a_database_is_read_only_if_every_text_in_it_is_one(
    postgres_url: str, encoding: str
) -> None:
    """In others one person's bytes would decide whether there is an answer."""
    import psycopg

    name = f"in_{encoding.lower()}"
    there = postgres_url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        )
        try:
            with psycopg.connect(there, autocommit=True) as inside:
                inside.execute("CREATE TABLE t AS SELECT CHR(233) AS c")
            if encoding == "LATIN1":
                with closing(open_source(f"{there}#t")) as engine:
                    assert engine.run(everything(engine.table)).to_pylist() == [{"c": "é"}]
            else:
                with pytest.raises(SfumatoError, match=f"encoding is {encoding}") as refused:
                    open_source(f"{there}#t")
                assert refused.value.code == "not_utf8"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_only_what_is_surely_integers_is_divided_without_numeric() -> None:
    unknown, long = exp.column("a"), exp.cast(exp.column("a"), "BIGINT")
    seven = exp.cast(exp.convert(7), "BIGINT")
    inner = exp.IntDiv(this=exp.Paren(this=long * seven), expression=seven)
    assert "DIV(" not in rendered(exp.select(exp.IntDiv(this=inner, expression=seven)))
    for one in (unknown, long + unknown, exp.Sum(this=long), exp.cast(unknown, "DECIMAL(30, 0)")):
        divided = exp.IntDiv(this=exp.Paren(this=one), expression=seven)
        assert "DIV(" in rendered(exp.select(divided))


def test_integers_are_divided_towards_0(postgres_url: str) -> None:
    sides = [(7, 2), (-7, 2), (7, -2), (-7, -2), (2**62, 3)]
    cells = [
        exp.IntDiv(this=exp.cast(exp.convert(a), "BIGINT"), expression=literal(b)).as_(f"c{at}")
        for at, (a, b) in enumerate(sides)
    ]
    with closing(open_source(f"{postgres_url}#pg_class")) as engine:
        found = engine.run(exp.select(*cells)).to_pylist()[0]
    assert list(found.values()) == [3, -3, -3, 3, 2**62 // 3]
