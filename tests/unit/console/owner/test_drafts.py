"""Tables in the making: read from an upload or from what the server's operator allows."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.ledgers import code_of

from sfumato.console.owner.drafts import CONNECTIONS, TableDrafts, offered
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = "city,age\n" + "".join(f"{'north' if at % 2 else 'south'},{at % 90}\n" for at in range(200))


def test_a_draft_declares_nothing_that_was_only_seen(tmp_path: Path) -> None:
    drafts = TableDrafts(tmp_path)
    assert drafts.list() == []
    made = drafts.from_upload(BytesIO(ROWS.encode()), "people.csv")
    assert made.name == "people"
    assert [one.name for one in made.schema.columns] == ["city", "age"]
    assert made.schema.column("age").domain is None
    assert made.seen.column("age").domain is not None
    assert drafts.list() == [made] == [drafts.get(made.id)]
    assert (tmp_path / "tables").stat().st_mode & 0o077 == 0
    drafts.drop(made)
    assert drafts.list() == []
    assert not made.folder.exists()


def test_once_it_is_added_a_table_stays_and_is_no_draft(tmp_path: Path) -> None:
    drafts = TableDrafts(tmp_path)
    made = drafts.from_upload(BytesIO(ROWS.encode()), "people.csv")
    made.settle()
    assert drafts.get(made.id) is None
    assert (made.folder / "table.csv").exists()
    assert made.schema_file.exists()


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
    assert offered(data) == ["connection clinic", "people.csv"]
    assert drafts.from_server("people.csv", data).source == str(data / "people.csv")
    assert code_of(drafts.from_server, "../people.csv", data) == "permission_missing"
    assert code_of(drafts.from_server, "postgresql://host/db#t", data) == "permission_missing"
    assert code_of(drafts.from_server, "connection other", data) == "connection_unknown"
    assert code_of(drafts.from_server, "connection clinic", data) != "no error"
    assert offered(None) == []
    assert code_of(drafts.from_server, "people.csv", None) == "permission_missing"
    (data / CONNECTIONS).write_text("clinic = \n")
    assert code_of(offered, data) == "connection_unknown"
