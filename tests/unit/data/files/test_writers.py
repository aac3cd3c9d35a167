"""Files are written whole or not at all."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sfumato.data.files.csv import CsvFile
from sfumato.data.files.writers import format_of, write_file
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import FileLayout
from sfumato.errors import InternalError, OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = pa.table({"a": list(range(100_000))})


def write(target: Path, *, overwrite: bool = False) -> None:
    write_file(lambda: TABLE.to_reader(max_chunksize=1000), target, overwrite=overwrite)


def test_gzip_is_the_same_every_time(tmp_path: Path) -> None:
    write(tmp_path / "a.csv.gz")
    write(tmp_path / "b.csv.gz")
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b"a\n0\n1\n")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a.doc", "format_unknown"),
        (".csv", "format_unknown"),
        ("missing/a.csv", "output_unwritable"),
        ("file/a.csv", "output_unwritable"),
        ("x" * 300 + ".csv", "output_unwritable"),
        ("directory.csv", "output_unwritable"),
        ("pipe.csv", "output_unwritable"),
        ("device.csv", "output_unwritable"),
    ],
)
def test_refused(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "device.csv").symlink_to("/dev/null")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OutputError) as refusal:
        write(tmp_path / name, overwrite=True)
    assert refusal.value.code == code
    assert "\n" not in str(refusal.value)
    assert sorted(tmp_path.iterdir()) == before


def test_query_is_not_started_in_vain(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    with pytest.raises(OutputError):
        write_file(pytest.fail, tmp_path / "a.csv", overwrite=False)


def test_link_is_kept(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "a.csv").symlink_to("real.csv")
    write(tmp_path / "a.csv", overwrite=True)
    assert (tmp_path / "a.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("a\n0\n")


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_disk_full(tmp_path: Path, name: str) -> None:
    script = (
        "import sys, resource, signal\n"
        "import pyarrow as pa\n"
        "from pathlib import Path\n"
        "from sfumato.data.files.writers import write_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "table = pa.table({'a': list(range(100_000))})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    write_file(table.to_reader, Path(sys.argv[1]), overwrite=True)\n"
        "except Exception as error:\n    print(error.code)\n"
    )
    (tmp_path / name).write_text("old")
    done = subprocess.run(
        # -B: a module compiled under that limit would be cut off, and broken for good.
        [sys.executable, "-B", "-c", script, str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "output_unwritable\n", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def test_no_space_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InternalError) as refusal:
        write(tmp_path / "a.csv")
    assert refusal.value.code == "disk_full"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", [KeyboardInterrupt, ValueError])
def test_interrupted(tmp_path: Path, end: type[BaseException]) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches(max_chunksize=1000)[0]
        raise end

    for name in ("a.csv", "a.csv.gz", "a.parquet"):
        with pytest.raises(end):
            write_file(
                lambda: pa.RecordBatchReader.from_batches(TABLE.schema, batches()),
                tmp_path / name,
                overwrite=False,
            )
    assert list(tmp_path.iterdir()) == []


def test_appearing_file_is_kept(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        (tmp_path / "a.csv").write_text("theirs")
        yield TABLE.to_batches()[0]

    with pytest.raises(OutputError) as refusal:
        write_file(
            lambda: pa.RecordBatchReader.from_batches(TABLE.schema, batches()),
            tmp_path / "a.csv",
            overwrite=False,
        )
    assert refusal.value.code == "output_exists"
    assert (tmp_path / "a.csv").read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 1


WORDS = pa.table({"Größe": ["1,83", "a;b", "=x", None], "n": [1, 2, 3, 4]})


@pytest.mark.parametrize(
    ("name", "layout", "text", "kept"),
    [
        ("a.csv", FileLayout(), 'Größe,n\n"1,83",1\n"a;b",2\n', FileLayout()),
        ("a.csv", FileLayout(None, ";"), 'Größe;n\n1,83;1\n"a;b";2\n', FileLayout(None, ";")),
        ("a.tsv", FileLayout(None, ";"), "Größe\tn\n1,83\t1\na;b\t2\n", FileLayout()),
        ("a.txt", FileLayout(None, "|"), "Größe|n\n1,83|1\na;b|2\n", FileLayout(None, "|")),
        ("a.csv", FileLayout("cp1252"), 'Größe,n\n"1,83",1\n"a;b",2\n', FileLayout("cp1252")),
        ("a.csv", FileLayout("utf-16", ";"), "Größe;n\n", FileLayout("utf-16", ";")),
        ("a.csv", FileLayout("utf-8-sig"), "Größe,n\n", FileLayout("utf-8-sig")),
        ("a.tsv.gz", FileLayout("cp1252"), "Größe\tn\n", FileLayout("cp1252")),
    ],
)
def test_separator_and_encoding_are_kept(
    tmp_path: Path, name: str, layout: FileLayout, text: str, kept: FileLayout
) -> None:
    with (tmp_path / name).open("wb") as stream:
        assert format_of(tmp_path / name)(WORDS.to_reader(), stream, layout) == kept
    data = (tmp_path / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    assert data.decode(layout.encoding or "utf-8").startswith(text)
    with closing(CsvFile(tmp_path / name, kept, declared=("n",), ours=True)) as file:
        read = pa.Table.from_batches(file.read({"n": Kind.INTEGER}))
    assert read.to_pydict() == WORDS.to_pydict()


def test_letters_that_the_encoding_lacks_are_refused_by_column(tmp_path: Path) -> None:
    table = pa.table({"a": ["x"], "b": ["≥ 5"]})
    with pytest.raises(OutputError, match="Column 'b' has letters that latin-1") as refusal:
        write_file(
            table.to_reader, tmp_path / "a.csv", overwrite=False, layout=FileLayout("latin-1")
        )
    assert refusal.value.code == "output_text_unfit"
    assert "≥" not in refusal.value.message
    assert list(tmp_path.iterdir()) == []
