"""Two spellings are two people and two values, whatever collation a database gave a column.

Under one that ignores case, 'Ann' and 'ann' had one bound on their rows together, and a group of
texts was named by whichever row came first: one person's spelling with everybody's count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from sqlglot import exp

import sfumato as sf
from sfumato.data.engines.base import column, named, render
from sfumato.data.engines.malformed_cells import limited
from sfumato.data.engines.sources import open_source
from sfumato.methods.method import text_limits

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.engines.base import Engine

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("person", sf.Kind.TEXT, sf.Role.IDENTIFIER, nullable=False),
        sf.Column("word", sf.Kind.TEXT),
    ),
    unit=sf.Entity("person", 1, 1),
)


@pytest.fixture
def without_case(tmp_path: Path) -> str:
    """A DuckDB file whose texts ignore case; the first rows are spelled as nobody else does."""
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE people (person VARCHAR COLLATE NOCASE, word VARCHAR COLLATE NOCASE)"
        )
        connection.execute("INSERT INTO people VALUES ('P1', 'wORd'), ('P2', 'wORd')")
        connection.execute("INSERT INTO people SELECT 'p' || i, 'Word' FROM range(300) t(i)")
    return f"duckdb:///{path}#people"


def spellings(engine: Engine) -> list[dict[str, Any]]:
    """How often each person and each word comes, as private methods read the table."""
    seen = limited(engine.table, text_limits(SCHEMA.columns, SCHEMA.unit))
    found = []
    for name in ("person", "word"):
        rows = exp.alias_(exp.Count(this=exp.Star()), "n")
        query = exp.select(column(name), rows).from_(seen.copy()).group_by(column(name))
        table = engine.run(query)
        found.append(dict(zip(*(one.to_pylist() for one in table.columns), strict=True)))
    return found


def test_duckdb_tells_spellings_apart(without_case: str) -> None:
    engine = open_source(without_case, strict=False)
    people, words = spellings(engine)
    engine.close()
    assert len(people) == 302
    assert words == {"wORd": 2, "Word": 300}


def test_spark_tells_spellings_apart(spark_session: Any) -> None:
    from sfumato.data.engines.spark.engine import Spark

    texts = ("person", "word")
    cells = ", ".join(f"CAST({one} AS STRING COLLATE UTF8_LCASE) AS {one}" for one in texts)
    rows = "('P1', 'wORd'), ('p1', 'Word'), ('p2', 'Word')"
    spark_session.sql(
        f"CREATE OR REPLACE TEMP VIEW without_case AS SELECT {cells} FROM VALUES {rows} "
        "t(person, word)"
    )
    people, words = spellings(Spark(spark_session, named("without_case")))
    assert people == {"P1": 1, "p1": 1, "p2": 1}
    assert words == {"wORd": 1, "Word": 2}


def test_postgres_is_asked_to_tell_spellings_apart() -> None:
    """Its types and collations that ignore case are extensions: the cast and the word show."""
    seen = limited(named("people"), text_limits(SCHEMA.columns, SCHEMA.unit))
    words = render(exp.select(column("word")).from_(seen), "postgres")
    assert 'CAST("word" AS TEXT) COLLATE "C"' in words


def test_nobodys_spelling_names_the_group_of_all(without_case: str) -> None:
    private = sf.protect(without_case, SCHEMA, epsilon=10, delta="0.001")
    asked = "SELECT word, COUNT(*) AS n FROM people GROUP BY word"
    [row] = private.query(asked, epsilon=5, delta="0.0001").table.to_pylist()
    assert row["word"] == "Word"
    assert 280 < row["n"] < 320
