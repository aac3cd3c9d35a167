"""A release that lies where its data lies: the table and what tells of it, all or nothing."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from sqlglot import exp

from sfumato.cli.main import run
from sfumato.data.engines.base import TableTarget, everything, named
from sfumato.data.engines.postgres import Postgres
from sfumato.data.schema.column import Kind
from sfumato.errors import OutputError, SourceError
from sfumato.filesystem import MARK
from sfumato.release.engine_tables import EngineRows
from sfumato.release.output import Output
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.release.writer import writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.data.engines.base import Engine

SCHEMA = """
table = "people"
unit = "row"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 110]
hierarchy = { widths = [5, 10, 20] }
[columns.disease]
role = "sensitive"
kind = "text"
"""
PEOPLE = pa.table(
    {
        "age": pa.array([31, 32, 33, 34, 51, 52, 53, 54], pa.int64()),
        "disease": ["flu", "gout", "flu", "cold", "flu", "gout", "flu", "cold"],
    }
)
TOLD = Release({}, Guarantee("syntactic", "So.", {}), Provenance("optimal", {}, ""), holder={})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(SCHEMA)
    return tmp_path


@pytest.fixture
def database(postgres_url: str, home: Path) -> Iterator[str]:
    """The address of a database with a table of people, and a schema of its own."""
    assert home.is_dir()
    engine = Postgres(postgres_url, named("none"))
    engine._execute("CREATE SCHEMA clinic")
    with engine._turn(), engine._connection.cursor() as cursor:
        cursor.adbc_ingest("people", PEOPLE, mode="create", db_schema_name="clinic")
    engine._execute("CREATE VIEW clinic.seen AS SELECT * FROM clinic.people")
    yield postgres_url
    engine._execute("DROP SCHEMA clinic CASCADE")
    engine.close()


@pytest.fixture
def postgres(database: str) -> Iterator[Engine]:
    engine = Postgres.open(f"{database}#clinic.people")
    yield engine
    engine.close()


def listed(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def tables(engine: Engine) -> set[str]:
    found = engine.run(exp.select("*").from_("information_schema.tables"))
    return {one["table_name"] for one in found.to_pylist() if one["table_schema"] == "clinic"} - {
        "people",
        "seen",
    }


def execute(engine: Engine, statement: str) -> None:
    assert isinstance(engine, Postgres)
    engine._execute(statement)


def write(engine: Engine, *, overwrite: bool = False) -> None:
    """Release the table as it is, as `anonymize` does."""
    with writing(Output(TableTarget("safe", "clinic")), overwrite=overwrite) as writer:
        kinds = {"age": Kind.INTEGER, "disease": Kind.TEXT}
        rows = EngineRows(engine, everything(engine.table), kinds, {})
        writer.rows("people", rows)
        writer.write_sidecars(TOLD)


def anonymize(source: str, *more: str) -> int:
    words = ("anonymize", source, "--schema", "people.toml", "--k", "2", *more)
    return run(list(words))


def check_loading(address: str, postgres: Any) -> None:
    """A table is loaded by its address, as long as it is the one that was released."""
    loaded = Release.load(address)
    assert loaded.table["age"].to_pylist() == ["30-34"] * 4 + ["50-54"] * 4
    assert loaded.holder is not None
    for elsewhere in ("table:clinic.safe", address.replace("safe", "people")):
        with pytest.raises(SourceError, match=r"address|side-car") as refusal:
            Release.load(elsewhere)
        assert refusal.value.code == "release_unreadable"
    change = "UPDATE clinic.safe SET age = '{}' WHERE age = '{}'"
    postgres._execute(change.format("90-94", "50-54"))
    with pytest.raises(SourceError) as refusal:
        Release.load(address)
    assert refusal.value.code == "release_changed"
    postgres._execute(change.format("50-54", "90-94"))


def test_a_table_beside_its_source(
    database: str, postgres: Engine, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"{database}#clinic.people"
    to = ("-o", "table:clinic.safe", "--report", "page.html")
    assert anonymize(source, *to) == 0
    assert "Wrote the table clinic.safe" in capsys.readouterr().out
    made = postgres.run(everything(TableTarget("safe", "clinic").table))
    assert made["age"].to_pylist() == ["30-34"] * 4 + ["50-54"] * 4
    told = json.loads((home / "clinic.safe.json").read_text())
    [lies] = told["tables"]
    assert lies["table"] == {"engine": "postgres", "name": "clinic.safe", "rows": 8}
    assert (lies["file"], len(lies["sha256"])) == ("", 64)
    assert stat.S_IMODE((home / "clinic.safe.holder.json").stat().st_mode) == 0o600
    with pytest.raises(SourceError, match=r"is the table 'clinic\.safe' of postgres") as refusal:
        Release.load("clinic.safe")
    assert refusal.value.code == "release_unreadable"
    check_loading(f"{database}#clinic.safe", postgres)
    # A second one refuses before any work, and replaces all of it on demand.
    assert anonymize(source, "-o", "table:clinic.safe") == 2
    for one in ("clinic.safe.json", "clinic.safe.holder.json", "page.html"):
        (home / one).unlink()
    assert anonymize(source, *to) == 2
    assert "The table 'clinic.safe' exists" in capsys.readouterr().err
    assert listed(home) == ["people.toml"]
    assert anonymize(source, *to, "--k", "4", "--overwrite") == 0
    assert tables(postgres) == {"safe"}


@pytest.mark.parametrize("source", ["people", "seen"])
def test_never_over_the_source(database: str, home: Path, source: str) -> None:
    for name in ("people", "seen"):
        to = ("-o", f"table:clinic.{name}", "--overwrite")
        if (source, name) != ("people", "seen"):
            assert anonymize(f"{database}#clinic.{source}", *to) == 2
    assert listed(home) == ["people.toml"]


def test_a_view_is_not_replaced(postgres: Engine) -> None:
    with pytest.raises(OutputError) as refusal:
        postgres.write(everything(postgres.table), TableTarget("seen", "clinic"), overwrite=True)
    assert refusal.value.code == "file_in_use"
    with pytest.raises(OutputError) as refusal:
        postgres.write(everything(postgres.table), TableTarget("t", "nowhere"))
    assert refusal.value.code == "output_unwritable"
    assert tables(postgres) == set()


@pytest.mark.parametrize(
    "broken",
    [
        "sfumato.release.engine_tables.contents",
        "sfumato.release.writer.describe",
        "sfumato.release.writer.write_journal",
        "sfumato.release.writer._Staged.move_into_place",
        "sfumato.release.engine_tables.DraftedTable.settle",
    ],
)
@pytest.mark.parametrize("old", [False, True], ids=["new", "overwritten"])
def test_an_interruption_leaves_nothing(
    postgres: Engine, home: Path, monkeypatch: pytest.MonkeyPatch, broken: str, old: bool
) -> None:
    if old:
        write(postgres)
    before = {one: (home / one).read_bytes() for one in listed(home)}

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(broken, interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(postgres, overwrite=old)
    assert {one: (home / one).read_bytes() for one in listed(home)} == before
    assert tables(postgres) == ({"safe"} if old else set())
    write(postgres, overwrite=old)
    assert tables(postgres) == {"safe"}


def test_a_released_table_is_known_by_what_lies_here(
    database: str, postgres: Engine, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert anonymize(f"{database}#clinic.people", "-o", "table:clinic.safe") == 0
    source = f"{database}#clinic.safe"
    inspect = ["inspect", source, "--json"]
    measure = ["measure", source, "--schema", "people.toml"]
    assert run(inspect) == run(measure) == 0
    assert "This is a release" in capsys.readouterr().err
    execute(postgres, "UPDATE clinic.safe SET disease = 'none' WHERE disease = 'cold'")
    for words in (inspect, measure):
        assert run(words) == 2
        assert "was changed after its release" in capsys.readouterr().err
    (home / "clinic.safe.json").unlink()
    assert run(inspect) == 0


def test_only_a_release_is_replaced(database: str, postgres: Engine, home: Path) -> None:
    source = f"{database}#clinic.people"
    execute(postgres, "CREATE TABLE clinic.wages AS SELECT 1 AS pay")
    for name, code in (("wages", "output_not_a_release"), ("people", "file_in_use")):
        with pytest.raises(OutputError) as refusal:
            postgres.check(TableTarget(name, "clinic"), overwrite=True)
        assert refusal.value.code == code
        assert anonymize(source, "-o", f"table:clinic.{name}", "--overwrite") == 2
    assert postgres.run(everything(TableTarget("wages", "clinic").table))["pay"].to_pylist() == [1]
    assert listed(home) == ["people.toml"]


def test_one_that_came_since_is_not_replaced(postgres: Engine) -> None:
    target = TableTarget("safe", "clinic")
    drafting = postgres.draft(everything(postgres.table), target, overwrite=True)
    with pytest.raises(OutputError) as refusal, drafting:
        execute(postgres, "CREATE TABLE clinic.safe AS SELECT 1 AS pay")
    assert refusal.value.code == "output_not_a_release"


@pytest.mark.parametrize(
    "target",
    [
        TableTarget("x", "pg_temp"),
        TableTarget("x", "pg_catalog"),
        TableTarget("x", "pg_toast"),
        TableTarget("x", "information_schema"),
        TableTarget("ü" * 32, "clinic"),
    ],
    ids=str,
)
def test_names_that_the_server_keeps_or_cuts(postgres: Engine, target: TableTarget) -> None:
    for overwrite in (False, True):
        with pytest.raises(OutputError) as refusal:
            postgres.write(everything(postgres.table), target, overwrite=overwrite)
        assert refusal.value.code == "output_unwritable"


def test_nothing_is_replaced_where_the_source_may_be_anything(
    database: str, postgres: Engine, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(postgres)
    for one in listed(home):
        if one != "people.toml":
            (home / one).unlink()
    execute(
        postgres,
        "CREATE FUNCTION clinic.f() RETURNS SETOF clinic.safe LANGUAGE plpgsql AS "
        "$$ BEGIN RETURN QUERY SELECT * FROM clinic.safe; END $$",
    )
    execute(postgres, "CREATE VIEW clinic.hidden AS SELECT * FROM clinic.f()")
    source = f"{database}#clinic.hidden"
    assert anonymize(source, "-o", "table:clinic.safe", "--overwrite") == 2
    assert "may read that table" in capsys.readouterr().err
    assert postgres.run(everything(TableTarget("safe", "clinic").table)).num_rows == 8
    assert anonymize(source, "-o", "table:clinic.further") == 0
    assert tables(postgres) == {"safe", "hidden", "further"}


def waits_for(database: str, what: str) -> None:
    """Do something to whoever waits for a lock, once somebody does."""
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        for _ in range(200):
            waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            if connection.execute(f"SELECT pid {waiting}").fetchall():
                break
            time.sleep(0.05)
        if what == "Ctrl-C":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            connection.execute(f"SELECT pg_terminate_backend(pid) {waiting}")


@pytest.mark.parametrize("what", ["Ctrl-C", "a lost session"])
def test_an_end_while_the_last_step_waits(
    database: str, postgres: Engine, home: Path, capfd: pytest.CaptureFixture[str], what: str
) -> None:
    import psycopg

    write(postgres)
    before = {one: (home / one).read_bytes() for one in listed(home)}
    with psycopg.connect(database) as reader:
        reader.execute("SELECT * FROM clinic.safe")
        ending = threading.Thread(target=waits_for, args=(database, what))
        ending.start()
        source = f"{database}#clinic.people"
        ended = anonymize(source, "-o", "table:clinic.safe", "--overwrite")
        ending.join()
    told = capfd.readouterr().err
    assert ended == (130 if what == "Ctrl-C" else 1), told
    assert "bug" not in told
    assert {one: (home / one).read_bytes() for one in listed(home)} == before
    assert tables(postgres) == {"safe"}


KILLED = """
import os, signal, sys
import pytest
from sfumato.data.engines.postgres import Postgres
from tests.contract.release import test_in_engine as its

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

pytest.MonkeyPatch().setattr(sys.argv[2], kill)
its.write(Postgres.open(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "at", ["sfumato.release.writer.describe", "sfumato.release.engine_tables.DraftedTable.settle"]
)
def test_of_a_killed_writing_nothing_stays(
    database: str, postgres: Engine, home: Path, at: str
) -> None:
    words = [sys.executable, "-c", KILLED, f"{database}#clinic.people", at]
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    killed = subprocess.run(words, check=False, env=environment, cwd=home)
    assert killed.returncode == -signal.SIGKILL
    assert any(one.endswith(MARK) for one in listed(home))
    assert tables(postgres) == set()
    if (home / "clinic.safe.json").exists():
        with pytest.raises(SourceError) as refusal:
            Release.load("clinic.safe")
        assert refusal.value.code == "release_unreadable"
    write(postgres)  # sweeps first
    assert tables(postgres) == {"safe"}
    names = {"people.toml", "clinic.safe.json", "clinic.safe.holder.json"}
    assert set(listed(home)) == names


def test_a_folder_out_of_postgres(database: str, home: Path) -> None:
    assert anonymize(f"{database}#clinic.people", "-o", "out/") == 0
    loaded = Release.load("out")
    assert loaded.table["age"].to_pylist() == ["30-34"] * 4 + ["50-54"] * 4
    assert listed(home / "out") == ["part-00000.parquet", "release.json"]


def test_spark_writes_a_folder_and_a_table(
    spark_session: Any, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_sql = spark_session.sql
    run_sql(f"CREATE DATABASE releasing LOCATION '{home / 'tables'}'")
    try:
        spark_session.createDataFrame(PEOPLE).write.saveAsTable("releasing.people")
        source = "spark://local#releasing.people"
        assert anonymize(source, "-o", "out/") == 0
        names = listed(home / "out")
        assert names == [*(f"part-{n:05}.parquet" for n in range(len(names) - 1)), "release.json"]
        assert Release.load("out").table["age"].to_pylist() == ["30-34"] * 4 + ["50-54"] * 4
        assert anonymize(source, "-o", "table:releasing.safe") == 0
        assert spark_session.table("releasing.safe").count() == 8
        assert (home / "releasing.safe.json").is_file()
        capsys.readouterr()
        run_sql("CREATE TABLE releasing.wages AS SELECT 1 AS pay")
        for place in ("tables/people/", "table:releasing.people", "table:releasing.wages"):
            assert anonymize(source, "-o", place, "--overwrite") == 2
            assert "Cannot replace" in capsys.readouterr().err
        assert spark_session.table("releasing.people").count() == 8
        # A writing that was killed in the middle leaves what the next one sweeps.
        left = f"safe_{'0' * 16}_sfumato_draft"
        run_sql(f"CREATE TABLE releasing.{left} AS SELECT 1 AS a")
        (home / "tables" / f"safe_{'1' * 16}_sfumato_draft" / "_temporary").mkdir(parents=True)
        assert anonymize(source, "-o", "table:releasing.safe", "--overwrite") == 0
        assert listed(home / "tables") == ["people", "safe", "wages"]
    finally:
        run_sql("DROP DATABASE releasing CASCADE")
