"""A folder of Parquet files is made whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from sfumato.data.engines.base import FolderTarget
from sfumato.data.files.writers import parts_in, whole_folder, write_folder
from sfumato.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = pa.table({"n": list(range(10))})


def test_parts_are_bounded_and_keep_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.data.files.writers.PART_BYTES", 1)
    batches = TABLE.to_batches(max_chunksize=4)
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches)
    write_folder("Test", lambda: reader, FolderTarget(str(tmp_path / "out")), overwrite=False)
    read = [parquet.read_table(part)["n"].to_pylist() for part in parts_in(tmp_path / "out")]
    assert read == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_an_interruption_keeps_the_old_folder(tmp_path: Path) -> None:
    def interrupted() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise KeyboardInterrupt

    class Rows:
        schema = TABLE.schema

        def __iter__(self) -> Iterator[pa.RecordBatch]:
            return interrupted()

    target = FolderTarget(str(tmp_path / "out"))
    for there in (False, True):
        with pytest.raises(KeyboardInterrupt):
            write_folder("Test", Rows, target, overwrite=True)
        assert (tmp_path / "out").exists() is there
        write_folder("Test", TABLE.to_reader, target, overwrite=True)
        assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    writing = whole_folder(tmp_path / "out", overwrite=False)
    (writing.__enter__() / "part").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError):
        writing.__exit__(None, None, None)
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["notes.txt"]
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


@pytest.mark.parametrize(
    ("path", "code"), [("no/out", "output_unwritable"), ("hdfs://host/out", "output_unwritable")]
)
def test_places_that_cannot_be_written_to(tmp_path: Path, path: str, code: str) -> None:
    target = FolderTarget(path if "://" in path else str(tmp_path / path))
    with pytest.raises(OutputError) as refusal:
        write_folder("Test", TABLE.to_reader, target, overwrite=False)
    assert refusal.value.code == code
