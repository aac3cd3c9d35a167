"""How PostgreSQL is reached, and with which rights: as its own library has it."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import psycopg
import pyarrow as pa
import pytest
from sqlglot import exp

import sfumato as sf
from sfumato.data.counting.axes import literal
from sfumato.data.engines.base import everything
from sfumato.data.engines.kinds import STORED
from sfumato.data.engines.postgres import rendered
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Kind
from sfumato.errors import SfumatoError, SourceError
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TABLE = '"Odd Schema"."vis-its"'


@pytest.fixture
def server(postgres_url: str) -> Iterator[str]:
    """A server with a table of odd names, a view of it, and a user who may do little."""
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


@pytest.fixture
def numbers(postgres_url: str) -> Iterator[Callable[[str, list[str]], str]]:
    """Make a table of one column of a type and tell its address."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def make(kind: str, cells: list[str]) -> str:
            connection.execute(f"CREATE TABLE numbers (n {kind})")
            for cell in cells:
                connection.execute("INSERT INTO numbers VALUES (%s::numeric)", [cell])
            return f"{postgres_url}#numbers"

        yield make
        connection.execute("DROP TABLE IF EXISTS numbers")
        connection.execute("DROP DOMAIN IF EXISTS amount")


@pytest.mark.parametrize(
    ("declared", "cells", "kind"),
    [
        ("numeric(15, 0)", ["999999999999999", "-999999999999999"], Kind.INTEGER),
        ("numeric(18, 0)", ["999999999999999999", "9007199254740993"], Kind.INTEGER),
        ("numeric(10, -5)", ["123400000"], Kind.INTEGER),
        ("numeric(15, 2)", ["9999999999999.99", "-0.01", "0.10"], Kind.REAL),
        ("numeric(3, 5)", ["0.00999"], Kind.REAL),
    ],
)
def test_decimals_of_few_digits_are_read_exactly(
    numbers: Callable[[str, list[str]], str], declared: str, cells: list[str], kind: Kind
) -> None:
    with closing(open_source(numbers(declared, cells))) as engine:
        assert engine.columns(engine.table) == {"n": kind}
        read = engine.run(everything(engine.table))["n"]
    assert read.type == STORED[kind]
    assert [Decimal(str(cell)) for cell in read.to_pylist()] == [Decimal(cell) for cell in cells]


@pytest.mark.parametrize("declared", ["numeric", "numeric(19, 0)", "numeric(16, 2)"])
def test_decimals_of_more_digits_are_refused(
    numbers: Callable[[str, list[str]], str], declared: str
) -> None:
    with (
        closing(open_source(numbers(declared, ["1"]))) as engine,
        pytest.raises(SourceError, match=r"15 declared digits \(18 without a fraction\)"),
    ):
        engine.columns(engine.table)


def test_decimals_of_a_domain_and_of_a_view_are_read_as_declared(
    numbers: Callable[[str, list[str]], str], postgres_url: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DOMAIN amount AS numeric(15, 2)")
        address = numbers("amount", ["0.10"])
        connection.execute("CREATE VIEW seen_numbers AS SELECT n FROM numbers")
        try:
            for one in (address, f"{postgres_url}#seen_numbers"):
                with closing(open_source(one)) as engine:
                    assert engine.columns(engine.table) == {"n": Kind.REAL}
        finally:
            connection.execute("DROP VIEW seen_numbers; DROP TABLE numbers")


def test_nan_among_decimals_is_missing_to_private_methods_and_refused_by_owners(
    numbers: Callable[[str, list[str]], str],
) -> None:
    address = numbers("numeric(15, 0)", ["7", "NaN"])
    schema = sf.Schema("numbers", (sf.Column("n", Kind.INTEGER),))
    with closing(sf.read(address, schema, strict=False)) as table:
        read = table.engine.run(everything(table.engine.table))["n"].to_pylist()
    assert read == [7, None]
    with pytest.raises(SourceError, match="are not integers but NaN"):
        sf.read(address, schema)


def test_a_table_of_decimals_is_added_to_a_vault_and_answers(
    numbers: Callable[[str, list[str]], str], tmp_path: Path
) -> None:
    address = numbers("numeric(15, 0)", ["999999999999999", "7"])
    schema = tmp_path / "numbers.toml"
    schema.write_text(
        'table = "numbers"\nunit = "row"\n[columns.n]\nkind = "integer"\nbounds = [0, 9]\n'
    )
    create(tmp_path / "vault")
    added = Registration(name="numbers", source=address, schema=schema, epsilon=1)
    added.add_to(tmp_path / "vault")
    with sf.open(tmp_path / "vault") as vault:
        answer = vault.private("numbers").query("SELECT SUM(n) AS s FROM numbers", epsilon=1)
        assert answer.table.num_rows == 1
    with closing(sf.read(address, schema, strict=False)) as table:
        private = sf.protect(table, epsilon=10**5, max_epsilon=10**5)
        asked = "SELECT COUNT(n) AS many, SUM(n) AS total FROM numbers"
        (row,) = private.query(asked, epsilon=10**4).table.to_pylist()
    assert row == pytest.approx({"many": 2, "total": 16}, abs=0.3)
