"""Drafts of tables and uploads."""

from __future__ import annotations

import gzip
from io import BytesIO
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fixtures.ledgers import code_of

from sfumato.console.owner import drafts as uploads
from sfumato.console.owner.drafts import (
    CONNECTIONS,
    TableDrafts,
    server_sources,
    store_upload,
    suggest_name,
)
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path


ROWS = "city,age\n" + "".join(f"{'north' if at % 2 else 'south'},{at % 90}\n" for at in range(200))


def test_a_draft_declares_nothing_that_was_only_seen(tmp_path: Path) -> None:
    drafts = TableDrafts(tmp_path)
    assert drafts.list() == []
    draft = drafts.from_upload(BytesIO(ROWS.encode()), "people.csv")
    assert draft.name == "people"
    assert [column.name for column in draft.schema.columns] == ["city", "age"]
    assert draft.schema.column("age").domain is None
    assert draft.seen.column("age").domain is not None
    assert drafts.list() == [draft] == [drafts.get(draft.id)]
    assert (tmp_path / "tables").stat().st_mode & 0o077 == 0
    drafts.drop(draft)
    assert drafts.list() == []
    assert not draft.folder.exists()


def test_once_it_is_added_a_table_stays_and_is_no_draft(tmp_path: Path) -> None:
    drafts = TableDrafts(tmp_path)
    draft = drafts.from_upload(BytesIO(ROWS.encode()), "people.csv")
    draft.finish()
    assert drafts.get(draft.id) is None
    assert (draft.folder / "table.csv").exists()
    assert draft.schema_file.exists()


def test_what_cannot_be_read_leaves_nothing_behind(tmp_path: Path) -> None:
    drafts = TableDrafts(tmp_path)
    with pytest.raises(SourceError) as refused:
        drafts.from_upload(BytesIO(b"\xff\xfe\x00"), "a.csv")
    assert "'table.csv'" in refused.value.message
    assert str(tmp_path) not in refused.value.message
    assert list((tmp_path / "tables").iterdir()) == []


def test_no_path_leads_out_of_the_drafts(tmp_path: Path) -> None:
    for name in ("..", "../x", "0" * 15, "", "0" * 16, "A" * 16, "/etc"):
        assert TableDrafts(tmp_path).get(name) is None


def test_the_server_offers_what_its_operator_put_there(tmp_path: Path) -> None:
    data, drafts = tmp_path / "data", TableDrafts(tmp_path)
    data.mkdir()
    (data / "people.csv").write_text(ROWS)
    (data / CONNECTIONS).write_text('clinic = "duckdb:///nowhere.duckdb#visits"\nport = 5\n')
    assert server_sources(data) == ["connection clinic", "people.csv"]
    assert drafts.from_server("people.csv", data).source == str(data / "people.csv")
    assert code_of(drafts.from_server, "../people.csv", data) == "permission_missing"
    assert code_of(drafts.from_server, "postgresql://host/db#t", data) == "permission_missing"
    assert code_of(drafts.from_server, "connection other", data) == "connection_unknown"
    assert code_of(drafts.from_server, "connection clinic", data) != "no error"
    assert server_sources(None) == []
    assert code_of(drafts.from_server, "people.csv", None) == "permission_missing"
    (data / CONNECTIONS).write_text("clinic = \n")
    assert code_of(server_sources, data) == "connection_unknown"


def parquet(table: pa.Table) -> bytes:
    stream = BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def test_a_table_is_kept_for_its_owner_alone_under_a_name_of_ours(tmp_path: Path) -> None:
    stored = store_upload(BytesIO(b"a,b\n1,2\n"), "../../../etc/cron.d/x.CSV", tmp_path)
    assert stored == tmp_path / "table.csv"
    assert stored.stat().st_mode & 0o077 == 0
    content = parquet(pa.table({"a": [1, 2]}))
    assert store_upload(BytesIO(content), "C:\\t\\a.parquet", tmp_path).name == "table.parquet"


NO_TABLES = {
    "empty": (b"", "a.csv", "request_malformed"),
    "program": (b"x", "a.exe", "request_malformed"),
    "packed-by-name": (b"x", "a.csv.gz", "request_malformed"),
    "no-ending": (b"x", "a", "request_malformed"),
    "packed": (gzip.compress(b"a,b\n" * 10_000), "a.csv", "request_malformed"),
    "zip": (b"PK\x03\x04....", "a.tsv", "request_malformed"),
    "text-as-parquet": (b"no parquet at all", "a.parquet", "request_malformed"),
    "hollow-parquet": (b"PAR1....PAR1", "a.parquet", "request_malformed"),
    "many-columns": (b"," * 2000 + b"\n", "a.csv", "request_malformed"),
    "long-line": (b"x" * (1024**2 + 5), "a.csv", "request_malformed"),
}


@pytest.mark.parametrize(("content", "name", "code"), NO_TABLES.values(), ids=NO_TABLES)
def test_what_is_no_table_is_refused(content: bytes, name: str, code: str, tmp_path: Path) -> None:
    assert code_of(store_upload, BytesIO(content), name, tmp_path) == code


def test_what_unfolds_to_too_much_is_refused_by_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes that say of themselves that they are a hundred times as many."""
    bomb = parquet(pa.table({"a": ["x" * 1000] * 20_000}))
    assert len(bomb) < 10_000
    monkeypatch.setattr(uploads, "_MOST_ROWS", 10_000)
    assert code_of(store_upload, BytesIO(bomb), "a.parquet", tmp_path) == "request_malformed"
    wide = parquet(pa.table({f"c{number}": [1] for number in range(1100)}))
    folder = tmp_path / "other"
    folder.mkdir()
    assert code_of(store_upload, BytesIO(wide), "a.parquet", folder) == "request_malformed"


def test_more_than_may_be_sent_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_BYTES", 100)
    assert code_of(store_upload, BytesIO(b"a\n" * 100), "a.csv", tmp_path) == "request_too_large"
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
    assert suggest_name(name) == suggested
