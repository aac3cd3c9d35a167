"""F22 for tables of DuckDB files: one table, one budget, by whatever name or view it comes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from pyarrow import csv as arrow_csv
from tests.fixtures.ledgers import add, add_publicly, check_alias, make, refusal, rows
from tests.fixtures.slices import few_fast

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make()


def test_a_duckdb_file_that_grew_and_was_moved_is_known(database: str) -> None:
    add("visits", f"{database}#visits")
    with duckdb.connect("d.duckdb") as connection:
        connection.execute("DELETE FROM visits WHERE who = 7")
    Path("d.duckdb").rename("moved.duckdb")
    check_alias(f"duckdb://{Path('moved.duckdb').resolve()}#visits")


TABLES = (
    "visits",
    "main.visits",
    '"visits"',
    "VISITS",
    'MAIN."Visits"',
    "seen",
    "twice",
    "apart.v",
)


@pytest.fixture
def database() -> str:
    with duckdb.connect("d.duckdb") as connection:
        connection.register("given", rows())
        connection.execute("CREATE TABLE Visits AS SELECT * FROM given")
        connection.execute("CREATE VIEW seen AS SELECT * FROM visits")
        connection.execute("CREATE VIEW twice AS WITH q AS (SELECT * FROM seen) SELECT * FROM q")
        connection.execute("CREATE SCHEMA apart")
        connection.execute("CREATE VIEW apart.v AS SELECT * FROM main.visits WHERE who > 5")
        connection.execute("CREATE TABLE copied AS SELECT * FROM visits")
        connection.register("others", rows(7000))
        connection.execute("CREATE TABLE others AS SELECT * FROM others")
    return f"duckdb://{Path('d.duckdb').resolve()}"


@pytest.mark.parametrize("table", few_fast([*TABLES[1:], "copied"], 3))
def test_a_table_of_a_duckdb_file_by_any_name(database: str, table: str) -> None:
    add("visits", f"{database}#visits")
    add("others", f"{database}#others", population="visits", epsilon=None)
    check_alias(f"{database}#{table}")


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_duckdb_file_by_any_name(link: Callable[[str, str], None]) -> None:
    add("visits", "duckdb:///d.duckdb#visits")
    link(str(Path("d.duckdb").resolve()), "e.duckdb")
    check_alias(f"duckdb://{Path('e.duckdb').resolve()}#main.visits")
    assert refusal(add, "x", f"duckdb://{Path.cwd()}/clinic/../d.duckdb#VISITS") == (
        "dataset_attached"
    )
    add("others", f"duckdb://{Path('e.duckdb').resolve()}#others")


def test_a_view_registered_first_binds_what_it_reads(database: str) -> None:
    add("visits", f"{database}#apart.v")
    check_alias(f"{database}#visits")


@pytest.mark.parametrize(
    "words",
    [
        "CREATE VIEW w AS SELECT * FROM read_csv('{outside}')",
        "CREATE VIEW w AS SELECT * FROM '{outside}'",
        "CREATE VIEW w AS SELECT * FROM visits WHERE who NOT IN (SELECT who FROM '{outside}')",
        "CREATE VIEW w AS SELECT * FROM query_table('visits')",
        "CREATE VIEW w AS SELECT * FROM query('SELECT * FROM visits')",
        "ATTACH 'e.duckdb' AS e; CREATE TABLE e.t AS FROM visits; CREATE VIEW w AS FROM e.t",
        "CREATE MACRO m() AS TABLE SELECT * FROM visits; CREATE VIEW w AS SELECT * FROM m()",
    ],
)
def test_a_view_that_cannot_be_seen_through_is_refused(database: str, words: str) -> None:
    arrow_csv.write_csv(rows(), "outside.csv")
    with duckdb.connect("d.duckdb") as connection:
        connection.execute(words.format(outside=Path("outside.csv").resolve()))
    assert refusal(add, "visits", f"{database}#w") == "source_unsupported"
    assert refusal(add, "visits", f"{database}#w", unit="who", max_rows=1) == "source_unsupported"
    assert refusal(add_publicly, "visits", f"{database}#w") == "source_unsupported"
    add("visits", f"{database}#visits")


@pytest.mark.parametrize("table", ["nothing", "read_csv('t.toml')", "a.b.c.d", ""])
def test_a_duckdb_name_that_is_none(database: str, table: str) -> None:
    code = refusal(add, "visits", f"{database}#{table}")
    assert code in {"table_missing", "address_malformed"}


def test_a_file_copied_into_a_database(database: str) -> None:
    arrow_csv.write_csv(rows(), "visits.csv")
    add("visits", "visits.csv")
    check_alias(f"{database}#visits")
