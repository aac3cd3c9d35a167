"""Rows of codes: chunk by chunk in the input's form, with every constraint kept."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.constraints import (
    DeclaredRows,
    FunctionalDependency,
    ImpossibleCombination,
    OrderedColumns,
    UniqueKey,
)
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.methods.synth.encode.decoder import RowDecoder, lost_constraints
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.data.schema.constraints import Constraint

DAYS = Bounds(date(2019, 5, 3), date(2022, 1, 1))
COLUMNS = (
    Column("id", Kind.INTEGER, Role.IDENTIFIER),
    Column("sex", Kind.TEXT, domain=Values(("F", "M")), nullable=False),
    Column("pregnant", Kind.BOOLEAN),
    Column("zip", Kind.INTEGER, domain=Bounds(0, 40)),
    Column("city", Kind.TEXT, domain=Values(tuple("vwxyz"))),
    Column("admitted", Kind.DATE, domain=DAYS),
    Column("discharged", Kind.DATE, domain=DAYS),
    Column("bed", Kind.INTEGER, domain=Bounds(1, 2000), nullable=False),
)
IMPOSSIBLE = ImpossibleCombination((("sex", ("M",)), ("pregnant", (True,))))
CITY = FunctionalDependency(("zip",), ("city",))
STAY = OrderedColumns(("admitted", "discharged"))


def decoder(*constraints: Constraint, without: tuple[str, ...] = ()) -> RowDecoder:
    schema = Schema("t", COLUMNS, constraints=constraints)
    return RowDecoder(Encoding(schema, without), SeededEntropy(4))


def chunk(rows: int, seed: int, one: RowDecoder) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, axis.size, rows) for axis in one._encoding.axes]


def test_all_constraints_hold_over_all_chunks() -> None:
    one = decoder(IMPOSSIBLE, CITY, STAY, UniqueKey(("bed",)), UniqueKey(("id",)), DeclaredRows(9))
    rows = pa.concat_tables([one.rows(chunk(500, seed, one)) for seed in range(3)])
    assert rows.num_rows + one.left_out == 1500
    assert one.left_out < 5
    assert lost_constraints(one._encoding) == []
    pregnant = rows.filter(pc.field("pregnant"))
    assert set(pregnant.column("sex").to_pylist()) == {"F"}
    assert rows.group_by(["zip", "city"]).aggregate([]).num_rows == 42
    ordered = pc.less_equal(rows.column("admitted"), rows.column("discharged"))
    assert pc.all(ordered).as_py()
    for key in ("bed", "id"):
        assert len(pc.unique(rows.column(key))) == rows.num_rows
    assert one.changed["zip determines city"] > 500
    assert one.changed["never sex = M with pregnant = True"] > 100
    assert one.changed["admitted <= discharged"] > 300


def test_nothing_to_keep_changes_nothing() -> None:
    one, free = decoder(DeclaredRows(3)), decoder()
    assert one.rows(chunk(50, 1, one)) == free.rows(chunk(50, 1, free))
    assert (one.changed, one.replaced, one.left_out) == ({}, 0, 0)


def test_columns_that_are_not_there_are_said() -> None:
    one = decoder(CITY, UniqueKey(("bed", "sex")), STAY, without=("zip", "bed"))
    lost = "zip determines city; bed with sex unique"
    assert lost_constraints(one._encoding) == [
        f"Not kept, as columns of it are left out or made up: {lost}."
    ]
    made_up = decoder(OrderedColumns(("id", "zip", "bed")), without=("zip",))
    assert "id <= zip <= bed" in lost_constraints(made_up._encoding)[0]


def test_what_follows_for_the_columns_that_are_left_is_kept() -> None:
    """The ends of an order without its middle, and what else is determined."""
    order, both = (
        OrderedColumns(("zip", "id", "bed")),
        FunctionalDependency(("city",), ("sex", "pregnant")),
    )
    one = decoder(order, both, without=("id", "pregnant"))
    rows = one.rows(chunk(300, 1, one))
    assert lost_constraints(one._encoding) == []
    assert one.changed.keys() == {"zip <= bed", "city determines sex"}
    assert min(one.changed.values()) > 0
    assert pc.all(pc.less_equal(rows.column("zip"), rows.column("bed"))).as_py()
    assert rows.group_by(["city", "sex"]).aggregate([]).num_rows == 6


def test_rows_that_cannot_be_mended_go() -> None:
    always = ImpossibleCombination((("sex", ("F", "M")),))
    one = decoder(always)
    assert one.rows(chunk(20, 1, one)).num_rows == 0
    assert one.left_out == 20
    only = ImpossibleCombination((("sex", ("F",)), ("city", tuple("vwxyz"))))
    some = decoder(only)
    axes = [axis.column for axis in some._encoding.axes]
    codes = chunk(20, 1, some)
    # Every woman has a city, so that none is there to take from but men.
    codes[axes.index("city")][:] = 0
    rows = some.rows(codes)
    assert rows.num_rows == 20
    assert set(rows.column("sex").to_pylist()) == {"M"}
    assert some.replaced > 0


def test_a_key_of_few_values_leaves_rows_out() -> None:
    one = decoder(UniqueKey(("sex",)))
    assert one.rows(chunk(30, 1, one)).num_rows == 2
    assert one.left_out == 28
    assert one.rows(chunk(30, 2, one)).num_rows == 0


def test_no_rows() -> None:
    one = decoder(IMPOSSIBLE, CITY, STAY, UniqueKey(("bed",)))
    assert one.rows(chunk(0, 1, one)).num_rows == 0
