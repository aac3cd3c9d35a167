"""Excel: what is written to a sheet, and what no sheet can hold."""

from __future__ import annotations

import zipfile
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.data.engines.base import everything
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.files import workbook
from sfumato.data.files.writers import write_file
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import FileLayout
from sfumato.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    with closing(open_duckdb(path, **options)) as engine:
        rows: list[dict[str, Any]] = engine.run(everything(engine.table)).to_pylist()
    return rows


def write(table: pa.Table, path: Path, layout: FileLayout | None = None) -> None:
    write_file(table.to_reader, path, overwrite=True, layout=layout or FileLayout())


TYPED = {
    "i": (Kind.INTEGER, st.integers(-(2**63), 2**63 - 1)),
    "r": (Kind.REAL, st.floats().map(lambda real: float(f"{real:.15G}"))),  # so do all programs
    "t": (Kind.TEXT, st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)),
    "d": (Kind.DATE, st.dates()),
    "b": (Kind.BOOLEAN, st.booleans()),
}
ARROW = {"i": pa.int64(), "r": pa.float64(), "t": pa.string(), "d": pa.date32(), "b": pa.bool_()}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(*(st.none() | values for _, values in TYPED.values())), max_size=5))
def test_what_is_written_is_read(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    rows = [row for row in rows if any(cell is not None for cell in row)]  # a row must be one
    columns = {
        name: pa.array([row[place] for row in rows], ARROW[name])
        for place, name in enumerate(TYPED)
    }
    table = pa.table(columns)
    write(table, tmp_path / "t.xlsx")
    kinds = {name: kind for name, (kind, _) in TYPED.items()}
    assert str(read(tmp_path / "t.xlsx", kinds=kinds)) == str(table.to_pylist())


def test_nothing_that_is_written_is_a_formula(tmp_path: Path) -> None:
    risky = ["=1+1", "+1", "-1", "@x", "=HYPERLINK(1)", "http://x", "{=1}", "\tx"]
    write(pa.table({"=a": risky}), tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx") as made:
        sheet = made.read("xl/worksheets/sheet1.xml")
        assert b"<f" not in sheet
        assert b"quotePrefix" in made.read("xl/styles.xml")
        assert not [name for name in made.namelist() if "rels/sheet" in name]  # no links
    assert [row["=a"] for row in read(tmp_path / "t.xlsx")] == risky


def test_equal_tables_give_equal_files(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    for name in ("a.xlsx", "b.xlsx"):
        write(table, tmp_path / name)
    assert (tmp_path / "a.xlsx").read_bytes() == (tmp_path / "b.xlsx").read_bytes()


@pytest.mark.parametrize(
    ("table", "code"),
    [
        (pa.table({"a": ["x" * 40_000]}), "output_text_unfit"),
        (pa.table({"a": ["x\0y"]}), "output_text_unfit"),
        (pa.table({f"c{n}": [1] for n in range(16_385)}), "file_too_large"),
    ],
)
def test_what_a_sheet_cannot_hold_is_refused(tmp_path: Path, table: pa.Table, code: str) -> None:
    with pytest.raises(OutputError) as refusal:
        write(table, tmp_path / "t.xlsx")
    assert refusal.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "MOST_ROWS", 3)
    write(pa.table({"a": [1, 2]}), tmp_path / "t.xlsx")
    with pytest.raises(OutputError) as refusal:
        write(pa.table({"a": [1, 2, 3]}), tmp_path / "u.xlsx")
    assert refusal.value.code == "file_too_large"


def test_rows_do_not_wait_where_others_can_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbook, "temporary_folder", lambda: tmp_path)
    seen: list[int] = []
    rows = pa.table({"a": ["secret"] * 3000})

    def batches() -> Any:
        for batch in rows.to_batches(max_chunksize=1000):
            seen.extend(one.stat().st_mode & 0o077 for one in tmp_path.glob("sfumato-*"))
            yield batch

    write_file(
        lambda: pa.RecordBatchReader.from_batches(rows.schema, batches()),
        tmp_path / "t.xlsx",
        overwrite=False,
    )
    assert seen
    assert not any(seen)
    assert [one.name for one in tmp_path.iterdir()] == ["t.xlsx"]


def test_the_header_stays_in_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, layout = pa.table({"a": [1, 2], "b": ["x", None]}), FileLayout(header_row=3)
    write(table, tmp_path / "t.xlsx", layout)
    kinds = {"a": Kind.INTEGER, "b": Kind.TEXT}
    for options in ({"layout": layout, "kinds": kinds}, {"layout": layout}, {}):
        assert read(tmp_path / "t.xlsx", **options) == table.to_pylist()
    monkeypatch.setattr(workbook, "MOST_ROWS", 4)
    with pytest.raises(OutputError, match="at most 1 below its header"):
        write(table, tmp_path / "u.xlsx", layout)
