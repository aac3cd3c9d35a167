"""The plan of an encoding: from the schema alone, and the same from its record."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.data.counting.axes import Grid, Listed
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.constraints import DeclaredRows
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import dump, parse
from sfumato.data.schema.unit import Entity
from sfumato.errors import ParameterError, SchemaError, SourceError
from sfumato.methods.synth.encode.axes import Bins
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

SCHEMA = Schema(
    "stays",
    (
        Column("patient", Kind.TEXT, nullable=False),
        Column("sex", Kind.TEXT, domain=Values(("F", "M"))),
        Column("ssn", Kind.TEXT, Role.IDENTIFIER, length=4),
        Column("age", Kind.INTEGER, domain=Bounds(0, 110)),
        Column("town", Kind.TEXT),
        Column("born", Kind.DATE, Role.IDENTIFIER, Bounds(date(1950, 1, 1), date(1950, 1, 9))),
        Column("one", Kind.REAL, domain=Bounds(Decimal("2.5"), Decimal("2.5")), nullable=False),
        Column("odd", Kind.REAL, domain=Bounds(Decimal(0), Decimal("1.2345678"))),
        Column("notes", Kind.TEXT),
    ),
    Entity("patient", 3),
    constraints=(DeclaredRows(17),),
)
PLAN = Encoding(SCHEMA, ("notes",))
KNOWN = PLAN.discovered({"town": ["Ulm"]})


def test_every_column_has_its_way() -> None:
    assert [one.name for one in PLAN.invented] == ["patient", "ssn"]
    assert [one.name for one in PLAN.open] == ["town"]
    assert [one.name for one in PLAN.measured] == ["sex", "age", "born", "one", "odd"]
    assert [type(axis) for axis in KNOWN.axes[:2]] == [Listed, Bins]
    assert [axis.size for axis in KNOWN.axes[2:5]] == [3, 10, 1]
    assert isinstance(KNOWN.axes[5], Grid)
    assert PLAN.rows == 17


def test_rows_have_the_input_s_form() -> None:
    codes = [np.zeros(3, dtype=np.int64) for _ in KNOWN.axes]
    table = KNOWN.table(KNOWN.columns(codes, SeededEntropy(1)), 5, 3)
    assert table.column_names == [column.name for column in SCHEMA.columns[:-1]]
    assert table.column("patient").to_pylist() == ["6", "7", "8"]
    assert table.column("ssn").to_pylist() == ["0006", "0007", "0008"]
    assert table.column("one").to_pylist() == [2.5] * 3
    assert table.column("town").to_pylist() == ["Ulm"] * 3


def test_discovery_is_paid_out_of_the_price() -> None:
    discovery, _, atoms, rest = PLAN.paid(price(rho=1, delta="1e-6"))
    assert discovery is not None
    assert atoms is None  # 17 rows are declared: no point can hold more than noise
    assert discovery.spending.rho == Fraction(1, 20)
    assert discovery.delta == Fraction(1, 10**6)
    assert rest == price(rho=Fraction(19, 20))
    discovery, _, _, rest = PLAN.paid(price(epsilon=1, delta="1e-6"))
    assert discovery is not None
    assert discovery.delta == Fraction(1, 2 * 10**6)
    assert rest.rho is not None
    assert discovery.spending.rho == rest.rho / 19
    closed = Encoding(SCHEMA, ("notes", "town")).paid(price(epsilon=1))
    assert closed == (None, None, None, price(epsilon=1))
    with pytest.raises(ParameterError, match="delta") as refused:
        PLAN.paid(price(epsilon=1))
    assert refused.value.code == "parameter_missing"


def test_record_is_json_and_comes_back() -> None:
    record = json.loads(json.dumps(KNOWN.to_record()))
    assert Encoding.from_record(SCHEMA, record) == KNOWN
    wider = Schema("stays", (Column("age", Kind.INTEGER, domain=Bounds(0, 100)),))
    other = json.loads(json.dumps(Encoding(wider).to_record()))
    other["columns"]["age"]["high"] = "110"
    with pytest.raises(SourceError) as refused:
        Encoding.from_record(wider, other)
    assert refused.value.code == "schema_differs"


def test_what_cannot_be_measured_is_refused_at_once() -> None:
    free = Schema("t", (Column("x", Kind.INTEGER), Column("y", Kind.BOOLEAN)))
    with pytest.raises(SchemaError) as refused:
        Encoding(free)
    assert refused.value.code == "domain_missing"
    assert [axis.column for axis in Encoding(free, ("x",)).axes] == ["y"]
    with pytest.raises(ParameterError) as nothing:
        Encoding(free, ("x", "y"))
    assert nothing.value.code == "columns_invalid"
    with pytest.raises(ParameterError):
        Encoding(free, ("x",), most_bins=1)
    with pytest.raises(SchemaError) as unknown:
        Encoding(free, ("z",))
    assert unknown.value.code == "column_unknown"


@pytest.mark.parametrize(
    "declared",
    [
        "bounds = [0, 60000]",
        "bounds = [140, 210]\nstep = 0.1",
        "bounds = [-5, 2.50]\nstep = 0.5",
        "bounds = [1e3, 2e3]",
    ],
)
def test_a_plan_is_the_same_however_the_schema_was_written(declared: str) -> None:
    """A model keeps its schema in our own spelling, which writes whole ends of reals as 0.0."""
    schema = parse(f'table = "t"\n[columns.x]\nkind = "real"\n{declared}\n', "t", Path())
    again = parse(dump(schema, folder=Path()), "t", Path())
    record = json.loads(json.dumps(Encoding(schema).to_record()))
    assert Encoding.from_record(again, record).to_record() == record
