"""Sums are exact, bounded by person, and safe from every overflow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.counting.axes import literal
from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.engines.base import column
from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.learn import row_sums
from sfumato.methods.learn.row_sums import (
    clip_layers,
    clipped,
    coordinate,
    person_sensitivity,
    sums,
    whole_row,
)
from sfumato.methods.method import Dataset

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Unit

COLUMNS = [column("a"), column("b")]
DRAWN = np.random.default_rng(5)
ROWS = pa.table(
    {
        "p": DRAWN.integers(0, 40, 200),
        "a": DRAWN.integers(-1024, 1025, 200),
        "b": DRAWN.integers(-1024, 1025, 200),
    }
)


def summed(table: pa.Table, unit: Unit, *given: Any, **more: Any) -> Any:
    engine = open_duckdb(table)
    schema = Schema("t", tuple(Column(name, Kind.INTEGER) for name in table.column_names))
    found = sums(Dataset("t", engine, engine.table, schema, unit), *given, **more)
    engine.close()
    return found


def weights(unit: Unit) -> Any:
    people = np.asarray(ROWS["p"])
    own = np.bincount(people)[people]
    within = own <= unit.max_rows
    return (
        np.where(within, FULL_WEIGHT, unit.max_rows * FULL_WEIGHT // own) if unit.by_person else 1
    )


def test_sums_of_shrunk_rows_are_exact() -> None:
    values = np.stack([np.asarray(ROWS["a"]), np.asarray(ROWS["b"])], axis=1)
    length = np.ceil(np.sqrt((values**2).sum(axis=1))).astype(int)[:, None]
    norm = 900
    shrunk = np.where(length > norm, np.trunc(values * norm / length), values).astype(int)
    assert (shrunk**2).sum(axis=1).max() <= norm**2
    terms = [literal(1), clipped(0), clipped(0) * clipped(1)]
    for unit in (Rows(), Entity("p", 3)):
        found = summed(ROWS, unit, COLUMNS, terms, layers=clip_layers(2, norm))
        each = [np.ones(200, int), shrunk[:, 0], shrunk[:, 0] * shrunk[:, 1]]
        assert found[0].tolist() == [int((one * weights(unit)).sum()) for one in each]


def test_sums_by_group_leave_others_out() -> None:
    group = exp.case().when(coordinate(0) < literal(0), literal(0))
    group = group.when(coordinate(0) > literal(500), literal(2)).else_(literal(-1))
    found = summed(ROWS, Rows(), COLUMNS, [literal(1), coordinate(1)], group=group, groups=4)
    a, b = np.asarray(ROWS["a"]), np.asarray(ROWS["b"])
    expected = [[int(s.sum()), int(b[s].sum())] for s in (a < 0, a > 500)]
    assert found.tolist() == [expected[0], [0, 0], expected[1], [0, 0]]


def test_more_terms_than_one_query_holds() -> None:
    terms = [coordinate(0) + literal(at) for at in range(7)]
    with patch.object(row_sums, "_TERMS_PER_QUERY", 3):
        found = summed(ROWS, Rows(), COLUMNS, terms)[0]
    first = int(np.asarray(ROWS["a"]).sum())
    assert found.tolist() == [first + 200 * at for at in range(7)]


def test_sums_beyond_64_bits_do_not_wrap() -> None:
    huge = literal(2**45 - 1)
    for unit, whole in ((Rows(), 1), (Entity("p", 40), FULL_WEIGHT)):
        terms = [huge * literal(1), literal(-(2**45))]
        found = summed(ROWS, unit, COLUMNS, terms)[0]
        assert found.tolist() == [200 * whole * (2**45 - 1), -200 * whole * 2**45]


def test_an_engine_that_sums_in_64_bits_is_given_pieces() -> None:
    narrow = replace(DuckDB.traits, sums_widely=False)
    terms = [literal(2**45 - 1), literal(1 - 2**45), coordinate(0) * coordinate(1)]
    small = [coordinate(0) * coordinate(1)]
    for unit in (Rows(), Entity("p", 3)):
        wide = summed(ROWS, unit, COLUMNS, terms).tolist()
        with patch.object(DuckDB, "traits", narrow):
            assert summed(ROWS, unit, COLUMNS, terms).tolist() == wide
            assert summed(ROWS, unit, COLUMNS, small, bits=21).tolist() == [wide[0][2:]]
            assert summed(ROWS.slice(0, 0), unit, COLUMNS, terms).tolist() == [[0, 0, 0]]


def test_no_piece_is_so_large_that_its_sum_overflows() -> None:
    term = exp.cast(exp.column("t"), "BIGINT")
    pieces, _ = row_sums._piece_sums([term], [1, 2**21, 2**42])
    most = pa.table({"t": [2**62 - 1, 1 - 2**62]})
    engine = open_duckdb(most)
    found = engine.run(
        exp.select(*(one.this.this.as_(one.alias) for one in pieces)).from_(engine.table)
    )
    engine.close()
    for digits in found.columns:
        assert max(map(abs, digits.to_pylist())) < 2**21


def test_no_rows_and_no_owners_sum_to_nothing() -> None:
    nobody = pa.table({"p": pa.nulls(3, pa.int64()), "a": [1, 2, 3], "b": [1, 2, 3]})
    terms = [literal(1), coordinate(0)]
    assert summed(ROWS.slice(0, 0), Rows(), COLUMNS, terms).tolist() == [[0, 0]]
    assert summed(nobody, Entity("p", 2), COLUMNS, terms).tolist() == [[0, 0]]


def test_a_person_is_worth_so_many_rows() -> None:
    assert whole_row(Rows()) == 1
    once = person_sensitivity(Rows(), l1=3, l2_squared=9)
    assert [once.l1, once.l2_squared] == [3, 9]
    person = person_sensitivity(Entity("p", 2), l1=3, l2_squared=9)
    assert [person.l1, person.l2_squared] == [6 * FULL_WEIGHT, 36 * FULL_WEIGHT**2]
    replaced = Rows(relation=Neighbours.REPLACE_ONE)
    both = person_sensitivity(replaced, l1=3, l2_squared=9)
    apart = person_sensitivity(replaced, l1=3, l2_squared=9, signed=False)
    assert [both.l1, both.l2_squared, apart.l2_squared] == [6, 36, 18]
