"""Every kind says before anything is spent which tables it will release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.methods.publish.catalogue import KINDS_OF_ROWS

if TYPE_CHECKING:
    from sfumato.vault.private import Private

FIGURES = {"count", "running", "rank", "sd", "line", "bucket"}
ASKED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(KINDS_OF_ROWS, ("x", "y")),
    "continual": ("x",),
    "dawa": ("x",),
    "fourier": ("x",),
    "quantiles": ("x",),
}


@pytest.fixture(scope="module")
def private() -> Private:
    schema = Schema(
        "visits",
        (
            Column("x", Kind.INTEGER, domain=Bounds(0, 15)),
            Column("y", Kind.INTEGER, domain=Bounds(0, 7), nullable=False),
            Column("city", Kind.TEXT, domain=Values(("north", "south"))),
        ),
    )
    rows = pa.table({"x": [3, None, 7] * 40, "y": [1, 2, 3] * 40, "city": ["north"] * 120})
    return sf.protect(sf.read(rows, schema=schema), epsilon=10, delta=1e-6)


@pytest.mark.parametrize(
    ("kind", "columns"),
    [*ASKED.items(), ("marginals", ("x", "city")), ("fourier", ("y", "city")), ("tree", ("x",))],
)
def test_a_kind_foretells_its_tables(private: Private, kind: str, columns: tuple[str, ...]) -> None:
    watched: dict[str, Any] = {"workload": [[(0, 3), (0, 7)]], "threshold": 9}
    asked = watched if kind == "above" else {}
    released = private.publish(kind, columns=columns, epsilon="0.1", delta="1e-9", **asked)
    foretold = released.publication.method.tables
    assert list(foretold) == list(released.tables)
    for name, blank in foretold.items():
        table = released.tables[name]
        assert blank.num_rows == 0
        for field in blank.schema:
            assert field.name in table.column_names
            if field.name not in FIGURES:
                assert field.type == table.schema.field(field.name).type
        if blank.column_names != ["count"]:  # of missing values only the figure is foretold
            assert set(table.column_names) - set(blank.column_names) <= {
                *("level", "parent", "leaf", "sd")
            }
