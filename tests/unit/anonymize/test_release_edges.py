"""Cells that some format holds and another cannot; files for one pair of eyes."""

from __future__ import annotations

import os
import stat
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlglot import exp

import sfumato as sf
from sfumato.anonymize.measure import measure
from sfumato.anonymize.pipeline import anonymize
from sfumato.data.schema.schema_file import load
from sfumato.errors import OutputError, SourceError
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.schema import Schema
    from sfumato.release.open_table import Table

DATED = """\
table = "people"
[columns.born]
role = "quasi"
kind = "date"
hierarchy = { dates = "all" }
"""


@pytest.fixture
def dated(tmp_path: Path) -> Schema:
    path = tmp_path / "dated.toml"
    path.write_text(DATED)
    return load(path)


def _days(*days: int) -> pa.Table:
    return pa.table({"born": pa.array(days, type=pa.int32()).cast(pa.date32())})


@pytest.mark.parametrize("far", [3_000_000, -800_000])
@pytest.mark.parametrize("end", ["memory", "parquet"])
def test_dates_that_python_has_not_are_refused_at_reading(
    dated: Schema, tmp_path: Path, far: int, end: str
) -> None:
    table = _days(0, far)
    source: Source = table
    if end == "parquet":
        source = tmp_path / "far.parquet"
        parquet.write_table(table, source)
    for act in (read, measure, lambda one, _schema: read(one)):
        with pytest.raises(SourceError) as refusal:
            act(source, dated)
        assert refusal.value.code == "cell_malformed"
        assert "born" in refusal.value.message


def test_the_first_and_the_last_date_are_read(dated: Schema) -> None:
    rows = pa.table({"born": [date.min, date.max, None, None]})
    assert read(rows, dated).anonymize(sf.KAnonymity(2)).table.num_rows == 4


def test_a_nul_byte_goes_to_parquet_alone(schema: Schema, people: Table, tmp_path: Path) -> None:
    text = pa.array(["a\0b"] * 24)
    rows = people.engine.run(exp.select(exp.Star()).from_(people.engine.table))
    strange = read(rows.set_column(2, "zip", text), schema).anonymize(sf.KAnonymity(1))
    for name in ("out.csv", "out.csv.gz"):
        with pytest.raises(OutputError) as refusal:
            strange.save(tmp_path / name)
        assert refusal.value.code == "output_text_unfit"
        assert "zip" in refusal.value.message
    assert list(tmp_path.glob("out*")) == []
    strange.save(tmp_path / "out.parquet")
    assert sf.Release.load(tmp_path / "out.parquet").table["zip"].to_pylist() == ["a\0b"] * 24


def test_the_report_of_the_holder_is_for_the_holder(people: Table, tmp_path: Path) -> None:
    mine, public = tmp_path / "mine.html", tmp_path / "public.html"
    decided = anonymize(people, [sf.KAnonymity(2)], suppress="0.1")
    before = os.umask(0)
    try:
        decided.write(tmp_path / "out.csv", report=mine, public_report=public)
        release = decided.release()
        release.report(tmp_path / "mine_too.html")
        release.report(tmp_path / "public_too.html", public=True)
    finally:
        os.umask(before)
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.glob("*.html")}
    assert modes == {
        "mine.html": 0o600,
        "mine_too.html": 0o600,
        "public.html": 0o666,
        "public_too.html": 0o666,
    }
