"""F22 on PostgreSQL: the server and its catalogue say what a name stands for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
import pytest
from adbc_driver_postgresql import dbapi
from pyarrow import csv as arrow_csv
from tests.fixtures.ledgers import (
    VAULT,
    add,
    add_publicly,
    balances,
    check_alias,
    code_of,
    make,
    refusal,
    rows,
    state,
)

from sfumato.vault.vault import Vault, open_vault

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTING_UP = """
CREATE VIEW seen AS SELECT * FROM visits;
CREATE VIEW twice AS SELECT * FROM seen WHERE who IN (SELECT who FROM seen);
CREATE VIEW within AS SELECT o.* FROM others o WHERE EXISTS (SELECT 1 FROM visits);
CREATE MATERIALIZED VIEW kept AS SELECT * FROM visits WHERE who > 3;
CREATE TABLE copied AS SELECT * FROM visits;
CREATE TABLE "Turned" AS SELECT agreed, born, cost, name, who FROM visits ORDER BY who DESC;
CREATE SCHEMA apart;
CREATE VIEW apart.visits AS SELECT * FROM public.visits;
CREATE TABLE whole (LIKE visits) PARTITION BY RANGE (who);
CREATE TABLE low PARTITION OF whole FOR VALUES FROM (0) TO (150);
CREATE TABLE high PARTITION OF whole FOR VALUES FROM (150) TO (300);
INSERT INTO whole SELECT * FROM others WHERE FALSE;
INSERT INTO whole SELECT who - 3000, 'x' || name, cost, born, agreed FROM others;
CREATE FUNCTION rows_of() RETURNS TABLE (who BIGINT, name TEXT, cost FLOAT8, born DATE,
  agreed BOOLEAN) LANGUAGE sql AS 'SELECT * FROM visits';
CREATE VIEW called AS SELECT * FROM rows_of();
"""


@pytest.fixture
def server(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a database of our own, with tables of people and views over them."""
    monkeypatch.chdir(tmp_path)
    make()
    name = f"clinic_{token_hex(4)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    url = postgres_url.replace("/postgres?", f"/{name}?")
    with closing(dbapi.connect(url, autocommit=True)) as adbc, adbc.cursor() as cursor:
        cursor.adbc_ingest("visits", rows(), mode="create")
        cursor.adbc_ingest("others", rows(3000), mode="create")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SETTING_UP)
    yield url
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}"')


ALIASES = (
    "public.visits",
    '"visits"',
    'public."visits"',
    "seen",
    "twice",
    "within",
    "kept",
    "copied",
    "Turned",
    "apart.visits",
)


def test_a_table_by_any_name(server: str) -> None:
    add("visits", f"{server}#visits")
    before = state()
    for table in ALIASES:
        assert code_of(add, "again", f"{server}#{table}") == "dataset_attached", table
    assert state() == before
    check_alias(f"{server}#twice")


def test_a_server_by_any_address(server: str) -> None:
    add("visits", f"{server}#visits")
    path = quote("-csearch_path=apart,public")
    for address in (
        server.replace("postgresql://", "postgres://"),
        f"{server}&application_name=other",
        server.replace("clinic_", "%63linic_"),
        f"{server}&options={path}",
    ):
        assert code_of(add, "again", f"{address}#visits") == "dataset_attached", address
    check_alias(f"{server}&options={path}#visits")


def test_partitions_and_their_parent(server: str) -> None:
    add("low", f"{server}#low")
    add("high", f"{server}#high")
    assert refusal(add, "whole", f"{server}#whole") == "dataset_attached"
    assert refusal(add_publicly, "whole", f"{server}#whole") == "dataset_attached"
    assert len(balances(Path("clinic"))) == 2


def test_a_parent_first(server: str) -> None:
    add("visits", f"{server}#whole")
    check_alias(f"{server}#low")


def test_a_renamed_or_replaced_table_keeps_its_account(server: str) -> None:
    add("visits", f"{server}#visits")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("ALTER TABLE visits RENAME TO renamed")
        connection.execute("UPDATE renamed SET cost = 1")
    assert refusal(add, "again", f"{server}#renamed") == "dataset_attached"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits AS SELECT * FROM others")
        connection.execute("UPDATE visits SET cost = 2")
    assert refusal(add, "again", f"{server}#visits") == "dataset_attached"


def test_rows_that_changed_and_then_were_copied(server: str) -> None:
    add("visits", f"{server}#visits")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("UPDATE visits SET cost = 1 WHERE who = 7")
        connection.execute("CREATE TABLE later AS SELECT * FROM visits")
    check_alias(f"{server}#later")


COST = "(INT) RETURNS FLOAT8 LANGUAGE sql {} AS 'SELECT cost FROM visits WHERE who = $1'"
LARGER = "(SFUNC = int4larger, STYPE = INT, FINALFUNC = cost_of)"
STATES = """
CREATE FUNCTION next_of(FLOAT8, INT) RETURNS FLOAT8 LANGUAGE sql IMMUTABLE
  AS 'SELECT cost FROM visits WHERE who = $2';
"""
OPAQUE = {
    "stable": ("", "cost_of(i)"),
    "immutable": (f"CREATE FUNCTION always{COST.format('IMMUTABLE')};", "always(i)"),
    "operator": ("CREATE OPERATOR @@@ (RIGHTARG = INT, FUNCTION = cost_of);", "@@@ i"),
    "final function": (f"CREATE AGGREGATE last_of(INT) {LARGER};", "last_of(i)"),
    "state function": (
        f"{STATES} CREATE AGGREGATE states(INT) (SFUNC = next_of, STYPE = FLOAT8);",
        "states(i)",
    ),
    "window": (f"CREATE AGGREGATE over_of(INT) {LARGER};", "over_of(i) OVER (ORDER BY i)"),
    "cast": (
        """CREATE FUNCTION given(INT) RETURNS BOX LANGUAGE sql IMMUTABLE AS
          'SELECT box(point(cost, 0), point(0, 1)) FROM visits WHERE who = $1';
        CREATE CAST (INT AS BOX) WITH FUNCTION given(INT);""",
        "area(CAST(i AS BOX))",
    ),
    "domain": (
        "CREATE DOMAIN held AS INT CHECK (VALUE > 0 OR cost_of(VALUE) > 3);",
        "CAST(CAST(i AS held) AS FLOAT8)",
    ),
    "composite": (
        """CREATE DOMAIN part AS INT CHECK (VALUE > 0 OR cost_of(VALUE) > 3);
        CREATE TYPE pair AS (a part, b INT);""",
        "CAST((CAST(ROW(i, 1) AS pair)).b AS FLOAT8)",
    ),
    "array of a domain": (
        "CREATE DOMAIN each AS INT CHECK (VALUE > 0 OR cost_of(VALUE) > 3);",
        "CAST((CAST(ARRAY[i] AS each[]))[1] AS FLOAT8)",
    ),
    "extension": ("ALTER EXTENSION plpgsql ADD FUNCTION cost_of(INT);", "cost_of(i)"),
}


@pytest.mark.parametrize("way", OPAQUE)
def test_what_cannot_be_seen_through_is_refused(server: str, way: str) -> None:
    making, cost = OPAQUE[way]
    shown = "CAST(i AS BIGINT) AS who, 'n' AS name, {} AS cost, DATE '2000-01-01' AS born"
    grouped = "GROUP BY i" if "last_of" in cost or "states" in cost else ""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE FUNCTION cost_of{COST.format('STABLE')}; {making}")
        connection.execute(
            f"CREATE VIEW opaque AS SELECT {shown.format(cost)}, TRUE AS agreed "
            f"FROM generate_series(1, 200) AS i {grouped}"
        )
        connection.execute("CREATE VIEW around AS SELECT * FROM opaque")
    for table in ("opaque", "around"):
        assert refusal(add, "visits", f"{server}#{table}") == "source_unsupported"


QUERY = "'SELECT name FROM visits'"
READERS = {
    "query_to_xml": f"query_to_xml({QUERY}, true, false, '')::text",
    "table_to_xml": "table_to_xml('visits', true, false, '')::text",
    "schema_to_xml": "schema_to_xml('public', true, false, '')::text",
    "database_to_xml": "database_to_xml(true, false, '')::text",
    "cursor_to_xml": "cursor_to_xml('c', 1, true, false, '')::text",
    "ts_stat": "(SELECT MIN(word) FROM ts_stat('SELECT to_tsvector(name) FROM visits'))",
    "ts_rewrite": "ts_rewrite('a', 'SELECT ''a''::tsquery, name::tsquery FROM visits')::text",
    "pg_read_file": "pg_read_file('/etc/hostname')",
    "lo_get": "encode(lo_get(1), 'escape')",
    "pg_statistic": "(SELECT MIN(stavalues1::text) FROM pg_statistic)",
    "pg_largeobject": "(SELECT encode(MIN(data), 'escape') FROM pg_largeobject)",
    "pg_stats": "(SELECT MIN(histogram_bounds::text) FROM pg_stats)",
    "information_schema": "(SELECT MIN(table_name) FROM information_schema.tables)",
    "currval": "currval('numbers')::text",
    "a sequence": "(SELECT last_value FROM numbers)::text",
}


def test_what_the_server_itself_reads_by_is_refused(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE numbers")
        for number, words in enumerate(READERS.values()):
            connection.execute(f"""
                CREATE VIEW opaque{number} AS SELECT who, {words} AS name, cost, born, agreed
                FROM others;
                CREATE VIEW around{number} AS SELECT * FROM opaque{number};
                CREATE TABLE guarded{number} AS SELECT * FROM others;
                ALTER TABLE guarded{number} ENABLE ROW LEVEL SECURITY;
                CREATE POLICY guard ON guarded{number} USING (name <> {words});
            """)
    found = {
        (way, table): code_of(action, "others", f"{server}#{table}{number}")
        for number, way in enumerate(READERS)
        for table, action in (("around", add), ("guarded", add_publicly))
    }
    assert set(found.values()) == {"source_unsupported"}, found


def test_what_a_policy_reads_belongs_to_its_table(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("""
            ALTER TABLE others ENABLE ROW LEVEL SECURITY;
            CREATE POLICY guard ON others USING (EXISTS (SELECT 1 FROM visits));
        """)
    add("visits", f"{server}#visits")
    check_alias(f"{server}#others")


def test_a_view_of_rows_from_a_function_is_refused(server: str) -> None:
    assert refusal(add, "visits", f"{server}#called") == "source_unsupported"


def test_a_view_over_the_servers_own_means_is_seen_through(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("""
            CREATE TYPE mood AS ENUM ('n1', 'n2');
            CREATE COLLATION plain (LOCALE = 'C');
            ALTER TABLE others ADD PRIMARY KEY (who);
            CREATE VIEW harmless AS SELECT who, name COLLATE plain AS name, SUM(cost) AS cost,
              born, agreed AND CAST('n1' AS mood) <> ALL (CAST('{n2}' AS mood[]))
                AND now() > CAST(born AS TIMESTAMPTZ) AND concat(to_char(now(), 'YYYY'), name) <> ''
                AND ROW_NUMBER() OVER (ORDER BY who) > 0
                AND (SELECT json_agg(i) FROM unnest(ARRAY[1, 2]) AS i) IS NOT NULL AS agreed
            FROM others GROUP BY who;
        """)
    add("visits", f"{server}#others")
    check_alias(f"{server}#harmless")


@pytest.mark.parametrize("table", ["VISITS", "pg_temp.visits", "elsewhere.public.visits"])
def test_a_name_that_is_none_is_refused(server: str, table: str) -> None:
    code = refusal(add, "visits", f"{server}#{table}")
    assert code in {"table_missing", "engine_failed"}


def test_a_file_copied_into_a_server_and_back(server: str) -> None:
    arrow_csv.write_csv(rows(), "visits.csv")
    arrow_csv.write_csv(rows(3000), "others.csv")
    add("visits", "visits.csv")
    add("others", f"{server}#others", population="visits", epsilon=None)
    assert refusal(add, "again", "others.csv") == "dataset_attached"
    check_alias(f"{server}#visits")


def test_another_table_has_its_own_people(server: str) -> None:
    add("visits", f"{server}#visits")
    add("others", f"{server}#others")
    assert len(balances(Path("clinic"))) == 2


TURNS = {
    "a view replaced": "CREATE OR REPLACE VIEW mine AS SELECT * FROM visits",
    "a view through another": "CREATE OR REPLACE VIEW mine AS SELECT * FROM twice",
    "a table swapped by a view": (
        "DROP VIEW mine; ALTER TABLE visits RENAME TO old; CREATE VIEW mine AS SELECT * FROM old"
    ),
    "rows that others' decide on": """
        ALTER TABLE apart.own ENABLE ROW LEVEL SECURITY;
        CREATE POLICY guard ON apart.own USING (EXISTS (SELECT 1 FROM visits))
    """,
    "a function that reads": """
        CREATE OR REPLACE VIEW mine AS SELECT who, name || pg_read_file('x') AS name, cost, born,
        agreed FROM apart.own
    """,
}


BACK = (
    "DROP VIEW mine",
    "ALTER TABLE IF EXISTS old RENAME TO visits",
    "ALTER TABLE apart.own DISABLE ROW LEVEL SECURITY",
    "DROP POLICY IF EXISTS guard ON apart.own",
    "CREATE VIEW mine AS SELECT * FROM apart.own",
)


def test_a_source_that_became_anothers_is_refused_for_nothing(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE TABLE apart.own AS SELECT * FROM others")
        connection.execute("CREATE VIEW mine AS SELECT * FROM apart.own")
    add("visits", f"{server}#visits")
    add("mine", f"{server}#mine", epsilon="9")
    number = 0

    def ask(vault: Vault, name: str = "mine") -> None:
        nonlocal number
        number += 1
        words = f"SELECT COUNT(*) AS n FROM {name} WHERE {name}.cost < {number}"
        vault.query(words, epsilon="0.01")

    with open_vault(VAULT) as vault:
        ask(vault)
        for turn in TURNS.values():
            with psycopg.connect(server) as connection:
                connection.execute(turn)
                connection.commit()
                before = vault.accounts()
                assert code_of(ask, vault) == "source_unready", turn
                with open_vault(VAULT) as again:
                    assert code_of(ask, again) == "source_unready", turn
                assert vault.accounts() == before
                for statement in BACK:
                    connection.execute(statement)
                connection.commit()
            ask(vault)
            ask(vault, "visits")
