"""Files that come with a form: kept under a name of ours, bombs and tricks refused."""

from __future__ import annotations

import gzip
from io import BytesIO
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fixtures.ledgers import code_of

from sfumato.console.owner import drafts as uploads
from sfumato.console.owner.drafts import keep_upload, suggested_name

if TYPE_CHECKING:
    from pathlib import Path


def parquet(table: pa.Table) -> bytes:
    stream = BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def test_a_table_is_kept_for_its_owner_alone_under_a_name_of_ours(tmp_path: Path) -> None:
    kept = keep_upload(BytesIO(b"a,b\n1,2\n"), "../../../etc/cron.d/x.CSV", tmp_path)
    assert kept == tmp_path / "table.csv"
    assert kept.stat().st_mode & 0o077 == 0
    content = parquet(pa.table({"a": [1, 2]}))
    assert keep_upload(BytesIO(content), "C:\\t\\a.parquet", tmp_path).name == "table.parquet"


NO_TABLES = {
    "empty": (b"", "a.csv", "upload_invalid"),
    "program": (b"x", "a.exe", "upload_invalid"),
    "packed-by-name": (b"x", "a.csv.gz", "upload_invalid"),
    "no-ending": (b"x", "a", "upload_invalid"),
    "packed": (gzip.compress(b"a,b\n" * 10_000), "a.csv", "upload_invalid"),
    "zip": (b"PK\x03\x04....", "a.tsv", "upload_invalid"),
    "text-as-parquet": (b"no parquet at all", "a.parquet", "upload_invalid"),
    "hollow-parquet": (b"PAR1....PAR1", "a.parquet", "upload_invalid"),
    "many-columns": (b"," * 2000 + b"\n", "a.csv", "upload_invalid"),
    "long-line": (b"x" * (1024**2 + 5), "a.csv", "upload_invalid"),
}


@pytest.mark.parametrize(("content", "name", "code"), NO_TABLES.values(), ids=NO_TABLES)
def test_what_is_no_table_is_refused(content: bytes, name: str, code: str, tmp_path: Path) -> None:
    assert code_of(keep_upload, BytesIO(content), name, tmp_path) == code


def test_what_unfolds_to_too_much_is_refused_by_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes that say of themselves that they are a hundred times as many."""
    bomb = parquet(pa.table({"a": ["x" * 1000] * 20_000}))
    assert len(bomb) < 10_000
    monkeypatch.setattr(uploads, "_MOST_ROWS", 10_000)
    assert code_of(keep_upload, BytesIO(bomb), "a.parquet", tmp_path) == "upload_invalid"
    wide = parquet(pa.table({f"c{place}": [1] for place in range(1100)}))
    folder = tmp_path / "other"
    folder.mkdir()
    assert code_of(keep_upload, BytesIO(wide), "a.parquet", folder) == "upload_invalid"


def test_more_than_may_be_sent_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_BYTES", 100)
    assert code_of(keep_upload, BytesIO(b"a\n" * 100), "a.csv", tmp_path) == "request_too_large"
    assert (tmp_path / "table.csv").stat().st_size == 0


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("visits 2026.csv", "visits_2026"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Data\\Zürich.parquet", "Z_rich"),
        ("2026.csv", "table"),
        ("", "table"),
    ],
)
def test_a_name_is_made_of_the_files(name: str, suggested: str) -> None:
    assert suggested_name(name) == suggested
