"""Graphs are the same from every engine, given the same noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Values
from sfumato.data.schema.schema import Edges, Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.graph import synthesize
from sfumato.methods.method import Dataset, KindPlan
from sfumato.methods.publish.request import FormRequest
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.data.engines.base import Engine


def _key(name: str) -> Column:
    return Column(name, Kind.INTEGER, Role.IDENTIFIER, nullable=False)


FORM = Edges("from", "to")
FRIENDS = Schema("friends", (_key("from"), _key("to")), form=FORM)
PEOPLE = Schema(
    "people",
    (_key("id"), Column("club", Kind.TEXT, domain=Values(("a", "b")))),
    Entity("id", max_rows=1),
)
# Repeats, both directions and a loop are in it.
ROWS = [(one, (one + step) % 30) for one in range(30) for step in (0, 1, 2, 29)]
EDGES = pa.table({"from": [one for one, _ in ROWS], "to": [other for _, other in ROWS]})
NODES = pa.table({"id": range(30), "club": ["a", "b", None] * 10})


def made_up(open_on: Callable[[pa.Table], Engine]) -> Mapping[str, pa.Table]:
    request = FormRequest(
        dataset="friends",
        schema=FRIENDS,
        form=FORM,
        unit=FRIENDS.unit,
        price=price(epsilon=4),
        linked={"people": PEOPLE},
    )
    method = synthesize.prepare(request, nodes=30, people="people")
    data = {}
    for schema, table in ((FRIENDS, EDGES), (PEOPLE, NODES)):
        engine = open_on(table)
        data[schema.table] = Dataset(schema.table, engine, engine.table, schema, schema.unit)
    planned = KindPlan("graph", request, method, "synthesize")
    return planned.run(data, SeededEntropy(7)).tables


def test_a_made_up_graph_is_the_same_from_every_engine(
    open_engine: Callable[[pa.Table], Engine],
) -> None:
    opened: list[Engine] = []

    def here(table: pa.Table) -> Engine:
        opened.append(open_duckdb(table))
        return opened[-1]

    expected = made_up(here)
    for one in opened:
        one.close()
    found = made_up(open_engine)
    assert found["people"].num_rows == 30
    for name, table in expected.items():
        assert found[name].equals(table)
