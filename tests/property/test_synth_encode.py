"""Whatever is declared, rows that are drawn can be written and read back, and hold nothing else."""

from __future__ import annotations

from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import sfumato as sf
from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.files.writers import write_file
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Calendar, Widths
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.spelling import DateSpelling
from sfumato.data.schema.unit import Rows
from sfumato.methods.synth.encode.axes import Bins
from sfumato.methods.synth.encode.decoder import RowDecoder
from sfumato.methods.synth.encode.discovery import Discovered
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.methods.synth.synthesis import Synthesis
from sfumato.methods.synth.synthesis_model import SynthesisModel
from sfumato.methods.synth.synthesis_model import drawn as rows_drawn
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

WORDS = st.text("abcXYZ ,;\"'é0", min_size=1, max_size=6).filter(lambda text: text == text.strip())


@st.composite
def bounds(draw: st.DrawFn, kind: Kind) -> Bounds:
    points = draw(st.sampled_from([1, 2, 60, 65, 300, 100_000]))
    if kind is Kind.DATE:
        step = draw(st.integers(1, 9))
        low = draw(st.dates(date(1900, 1, 1), date(2000, 1, 1)))
        days = step * (min(points, 10_000) - 1)
        return Bounds(low, low + timedelta(days=days), step)
    if kind is Kind.INTEGER:
        low_number, step = draw(st.integers(-(2**62), 2**61)), draw(st.integers(1, 2**40))
        return Bounds(low_number, low_number + step * (points - 1), step)
    low_real = draw(st.decimals(-1000, 1000, places=3))
    if draw(st.booleans()):
        return Bounds(low_real, low_real + draw(st.decimals(0, 1000, places=4)))
    width = draw(st.sampled_from([Decimal("0.1"), Decimal("0.25"), Decimal(3), Decimal(50)]))
    return Bounds(low_real, low_real + width * (points - 1), width)


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(st.sampled_from(list(Kind)))
    facts: dict[str, Any] = {"nullable": draw(st.booleans())}
    if draw(st.integers(0, 5)) == 0 and kind in (Kind.TEXT, Kind.INTEGER):
        length = draw(st.sampled_from([None, 3])) if kind is Kind.TEXT else None
        return Column(name, kind, Role.IDENTIFIER, length=length, **facts)
    if kind is Kind.TEXT:
        listed = draw(
            st.lists(WORDS, min_size=1, max_size=5, unique=True)
            | st.just([f"c{number}" for number in range(1000)])
            | st.none()
        )
        return Column(name, kind, domain=Values(tuple(listed)) if listed else None, **facts)
    if kind is Kind.BOOLEAN:
        return Column(name, kind, **facts)
    if kind is Kind.DATE:
        facts["hierarchy"] = draw(st.sampled_from([None, Calendar()]))
        facts["spelling"] = draw(st.sampled_from([None, DateSpelling("%d.%m.%Y")]))
    if kind is Kind.INTEGER:
        facts["hierarchy"] = draw(st.sampled_from([None, Widths((5, 10))]))
    return Column(name, kind, domain=draw(bounds(kind)), **facts)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    many = draw(st.integers(1, 4))
    listed = tuple(draw(columns(f"c{place}")) for place in range(many))
    return Schema("t", (*listed, Column("last", Kind.BOOLEAN)))


def rows_of(schema: Schema, rows: int, seed: int) -> pa.Table:
    """Rows of a schema by its own axes; of open text a few words, of identifiers numbers."""
    found = {column.name: ("often", "seldom") for column in Encoding(schema).open}
    encoding = Encoding(schema).discovered(found)
    draw = np.random.default_rng(seed)
    codes = [draw.integers(0, axis.size, rows) for axis in encoding.axes]
    return RowDecoder(encoding, SeededEntropy(seed)).rows(codes)


@settings(max_examples=20, deadline=None)
@given(schema=schemas(), rows=st.sampled_from([0, 1, 40]), seed=st.integers(0, 99))
def test_synthetic_rows_are_read_back_by_the_schema(schema: Schema, rows: int, seed: int) -> None:
    original = rows_of(schema, rows, seed)
    plan = Encoding(schema)
    finer = tuple(axis.column for axis in plan.declared_axes if isinstance(axis, Bins))
    plan = Encoding(schema, by_quantiles=finer[:2])
    paid = plan.paid(price(epsilon=4, delta="1e-3"))
    with closing(open_duckdb(original)) as engine:
        encoding = plan.discovered(*paid.run(engine, engine.table, "salt", SeededEntropy(seed)))
        counter = BoundedCounter(engine, engine.table, encoding.axes, Rows(), "salt")
        synthesis = Synthesis(
            axes=encoding.axes, unit=Rows(), price=paid.remaining, method="independent"
        )
        log = synthesis.measure(counter, SeededEntropy(seed))
    model = SynthesisModel(encoding, synthesis.fit(log), log)
    drawn = rows_drawn(model, model.rows, SeededEntropy(seed))
    assert drawn.schema.equals(original.schema, check_metadata=True)
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.arrow")
        loaded = SynthesisModel.load(Path(folder) / "model.arrow")
        more = rows_drawn(loaded, model.rows, SeededEntropy(seed))
        assert (more.schema, str(more.to_pylist())) == (drawn.schema, str(drawn.to_pylist()))
        path = Path(folder) / "drawn.csv"
        write_file(drawn.to_reader, path, overwrite=False)
        with closing(sf.read(path, schema=schema)) as back:
            kept = back.engine.run(exp.select("*").from_(back.engine.table))
    assert kept.num_rows == drawn.num_rows
    for column in schema.columns:
        assert kept.column(column.name).null_count == drawn.column(column.name).null_count
    for column in schema.columns:
        _check_inside(column, drawn.column(column.name), encoding)


def _check_inside(column: Column, cells: pa.ChunkedArray, encoding: Encoding) -> None:
    present = [one for one in cells.to_pylist() if one is not None and one == one]
    assert column.nullable or (len(present) == len(cells))
    if column in encoding.open:
        axis = next(one for one in encoding.axes if one.column == column.name)
        assert isinstance(axis, Discovered)
        assert set(present) <= set(axis.values.to_pylist())
    match column.domain:
        case Values(values=values):
            assert set(present) <= set(values)
        case Bounds(low=low, high=high) as declared if present:
            ends = (float(low), float(high)) if column.kind is Kind.REAL else (low, high)  # type: ignore[arg-type]
            assert ends[0] <= min(present) <= max(present) <= ends[1]
            if column.kind is Kind.INTEGER and declared.step:
                assert all((one - low) % declared.step == 0 for one in present)


@settings(max_examples=20, deadline=None)
@given(schema=schemas(), seed=st.integers(0, 99))
def test_values_are_counted_where_they_were_drawn(schema: Schema, seed: int) -> None:
    found = {column.name: ("often", "it's") for column in Encoding(schema).open}
    encoding = Encoding(schema).discovered(found)
    draw = np.random.default_rng(seed)
    codes = [draw.integers(0, axis.size, 50) for axis in encoding.axes]
    table = pa.table(encoding.columns(codes, SeededEntropy(seed)))
    with closing(open_duckdb(table)) as engine:
        counter = BoundedCounter(engine, engine.table, encoding.axes, Rows(), "salt")
        for axis, drawn in zip(encoding.axes, codes, strict=True):
            counts = counter.of([axis.column]).dense()
            expected = np.bincount(drawn, minlength=axis.size)
            if isinstance(axis, Grid) and axis.size == axis.points + 2:  # NaN is drawn as missing
                expected[-2:] = expected[-2:].sum(), 0
            assert counts.tolist() == expected.tolist()
            if isinstance(axis, Grid) and not isinstance(axis, Bins):
                assert axis.points <= encoding.most_bins
