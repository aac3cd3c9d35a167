"""The contract of engines that write files, folders or tables, as a test suite.

It is used like `testing.engines`: subclass it and give it an `engine` fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pytest
from pyarrow import parquet

from sfumato.data.engines.base import FolderTarget, TableTarget, everything
from sfumato.errors import EngineError, OutputError, SourceError
from sfumato.testing.engines import CANARY, PEOPLE, query, rows

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.engines.base import Engine


class WritingContract:
    """Every engine writes the same bytes, and either all of them or nothing."""

    schema: ClassVar[str | None] = None
    """The database schema of new tables, in engines that create any."""

    def test_csv_is_the_same_everywhere(self, engine: Engine, tmp_path: Path) -> None:
        """Missing is empty, empty text is quoted, formulas are disarmed."""
        with engine.lend(PEOPLE) as people:
            engine.write(
                query("SELECT * FROM people ORDER BY id", people=people), tmp_path / "a.csv"
            )
        assert (tmp_path / "a.csv").read_text() == (
            "id,name,weight,born,alive\n"
            "1,Ada,1.5,1815-12-10,true\n"
            '2,"Émile, ""the""",nan,,false\n'
            "3,,,0001-01-01,\n"
            '4,"",-0,9999-12-31,true\n'
        )

    def test_formulas_are_disarmed(self, engine: Engine, tmp_path: Path) -> None:
        """Text that a spreadsheet would run gets an apostrophe; numbers do not."""
        table = pa.table(
            {
                "n": pa.array([-1, 2, 3, 4, 5, 6, 7]),
                "t": ["=1+1", "+1", "-1", "@a", "\ta", "\ra", "a=1"],
            }
        )
        with engine.lend(table) as lent:
            engine.write(query("SELECT * FROM t ORDER BY n", t=lent), tmp_path / "a.csv")
        assert (tmp_path / "a.csv").read_bytes().decode() == (
            "n,t\n-1,'=1+1\n2,'+1\n3,'-1\n4,'@a\n5,\"'\ta\"\n6,\"'\ra\"\n7,a=1\n"
        )

    def test_parquet_round_trip(self, engine: Engine, tmp_path: Path) -> None:
        """A Parquet file holds what the query gave."""
        with engine.lend(PEOPLE) as people:
            engine.write(
                query("SELECT * FROM people ORDER BY id", people=people), tmp_path / "a.parquet"
            )
        assert repr(parquet.read_table(tmp_path / "a.parquet").to_pylist()) == repr(
            PEOPLE.to_pylist()
        )

    def test_existing_file_is_kept_unless_told(self, engine: Engine, tmp_path: Path) -> None:
        """An existing file is refused, and replaced only on demand."""
        target = tmp_path / "a.csv"
        target.write_text("mine")
        tree = query("SELECT 1 AS a")
        with pytest.raises(OutputError) as refusal:
            engine.write(tree, target)
        assert refusal.value.code == "output_exists"
        assert target.read_text() == "mine"
        engine.write(tree, target, overwrite=True)
        assert target.read_text() == "a\n1\n"
        assert list(tmp_path.iterdir()) == [target]

    def test_folder_of_parts_in_order(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A folder holds Parquet files and nothing else; their names have the query's order."""
        monkeypatch.setattr("sfumato.data.files.writers.PART_BYTES", 1)
        numbers = pa.table({"n": pa.array(range(150_000), pa.int64())})
        # Text that does not compress: engines may put few bytes into one file.
        cell = "CASE WHEN n % 3 = 0 THEN NULL ELSE MD5(CAST(n AS VARCHAR)) END"
        tree = f"SELECT n, {cell} AS t FROM t ORDER BY n DESC"
        with engine.lend(numbers) as lent:
            engine.write(query(tree, t=lent), FolderTarget(str(tmp_path / "out")))
        files = sorted((tmp_path / "out").iterdir())
        assert [path.name for path in files] == [f"part-{n:05}.parquet" for n in range(len(files))]
        assert len(files) > 1
        read = pa.concat_tables([parquet.read_table(path) for path in files])
        assert read["n"].to_pylist() == list(range(149_999, -1, -1))
        assert read["t"].null_count == 50_000
        assert list(tmp_path.iterdir()) == [tmp_path / "out"]

    def test_folder_without_rows(self, engine: Engine, tmp_path: Path) -> None:
        """A result without rows is one part with the columns."""
        with engine.lend(PEOPLE) as lent:
            tree = query("SELECT id, name FROM t WHERE id < 0 ORDER BY id", t=lent)
            engine.write(tree, FolderTarget(str(tmp_path / "out")))
        (path,) = (tmp_path / "out").iterdir()
        assert parquet.read_table(path).schema.names == ["id", "name"]

    def test_existing_folder_is_kept_unless_told(self, engine: Engine, tmp_path: Path) -> None:
        """An existing folder is refused, and replaced only on demand, and only if it is one."""
        target = FolderTarget(str(tmp_path / "out"))
        engine.write(query("SELECT 1 AS a"), target)
        for refused in (engine.check, lambda output: engine.write(query("SELECT 2 AS a"), output)):
            with pytest.raises(OutputError) as refusal:
                refused(target)
            assert refusal.value.code == "output_exists"
        engine.write(query("SELECT 2 AS a"), target, overwrite=True)
        assert parquet.read_table(tmp_path / "out").to_pylist() == [{"a": 2}]
        (tmp_path / "out" / "notes.txt").write_text("mine")
        with pytest.raises(OutputError) as refusal:
            engine.write(query("SELECT 3 AS a"), target, overwrite=True)
        assert refusal.value.code == "output_not_a_release"
        assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
        assert list(tmp_path.iterdir()) == [tmp_path / "out"]

    def test_failed_folder_leaves_nothing(self, engine: Engine, tmp_path: Path) -> None:
        """A query that fails in the middle leaves neither parts nor scratch."""
        with engine.lend(pa.table({"t": ["1", CANARY]})) as lent:
            tree = query("SELECT CAST(t AS BIGINT) AS n FROM t", t=lent)
            with pytest.raises(EngineError):
                engine.write(tree, FolderTarget(str(tmp_path / "out")))
        assert list(tmp_path.iterdir()) == []

    def test_new_table(self, engine: Engine) -> None:
        """A result becomes a new table, an old one only on demand; or the engine cannot."""
        target = TableTarget("sfumato_contract", self.schema)
        tree = query("SELECT 1 AS a")
        if not engine.traits.creates_tables:
            for refused in (engine.check, lambda output: engine.write(tree, output)):
                with pytest.raises(OutputError) as refusal:
                    refused(target)
                assert refusal.value.code == "output_unwritable"
            return
        engine.write(tree, target)
        assert engine.run(everything(target.table)).to_pylist() == [{"a": 1}]
        for refused in (engine.check, lambda output: engine.write(tree, output)):
            with pytest.raises(OutputError) as refusal:
                refused(target)
            assert refusal.value.code == "output_exists"
        engine.write(query("SELECT 2 AS a"), target, overwrite=True)
        assert engine.run(everything(target.table)).to_pylist() == [{"a": 2}]

    def test_drafted_table(self, engine: Engine) -> None:
        """A table can be read before it has its final name; after a failure nothing is left."""
        target = TableTarget("sfumato_drafts", self.schema)
        if not engine.traits.creates_tables:
            return
        drafting = engine.draft(query("SELECT 1 AS a"), target)
        draft = drafting.__enter__()
        assert engine.run(everything(draft)).to_pylist() == [{"a": 1}]
        assert not drafting.__exit__(KeyError, KeyError(), None)
        for missing in (draft, target.table):
            with pytest.raises(SourceError):
                engine.run(everything(missing))
        engine.check(target)
        with engine.lend(PEOPLE) as lent:
            drafting = engine.draft(query("SELECT id FROM t", t=lent), target)
            draft = drafting.__enter__()
        with engine.lend(PEOPLE) as lent:  # other work goes on meanwhile
            assert rows(engine, "SELECT COUNT(*) AS n FROM t", t=lent) == [(4,)]
        assert sum(len(batch) for batch in engine.stream(everything(draft))) == 4
        drafting.__exit__(None, None, None)
        assert engine.run(everything(target.table)).num_rows == 4
