"""The engines that cells are run on, and how a test tells which cells it covered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.registry.cells import Cell, Opener, open_here, refusal, run_pair
from tests.registry.coverage import PROPERTY
from tests.registry.tables import Layout, Pair, Relation

import sfumato as sf
from sfumato.data.engines.base import named

if TYPE_CHECKING:
    import pyarrow as pa

Check = Callable[..., None]


@pytest.fixture
def check(record_property: Callable[[str, object], None]) -> Check:
    """Run pairs of a cell, tell of them, and fail with what was found."""

    def run(
        cell: Cell,
        pairs: Callable[[], list[Pair]],
        *,
        what: str,
        opener: Opener = open_here,
        engine: str = "duckdb",
        layout: Layout | None = None,
        rows: int | None = None,
        seeds: tuple[int, ...] = (1,),
    ) -> None:
        relation = "add" if cell.relation is Relation.ADD_REMOVE else "replace"
        facts = {"method": cell.method.title, "unit": cell.unit, "relation": relation,
                 "engine": engine, "price": cell.price, "what": what}  # fmt: skip
        refused = refusal(cell, cell.declared(rows), layout)
        if refused is not None:
            record_property(PROPERTY, {**facts, "refused": refused.code})
            return
        found, count, spent = [], 0, []
        for pair in pairs():
            for seed in seeds:
                coupled = run_pair(cell, pair, opener, rows=rows, seed=seed)
                count += 1
                spent.append((float(coupled.claimed_share), float(coupled.loss_share)))
                found += [f"{cell.title}, {pair.label}: {one}" for one in coupled.findings]
        told = {"pairs": count, "findings": len(found), "spent": spent}
        record_property(PROPERTY, {**facts, **told})
        assert found == [], "\n".join(found)

    return run


@pytest.fixture
def open_postgres(postgres_url: str) -> Opener:
    """Open tables in PostgreSQL."""
    from sfumato.data.engines.postgres import Postgres

    def opener(table: pa.Table, schema: sf.Schema) -> Any:
        engine = Postgres(postgres_url, named("none"))
        own = ExitStack()
        own.callback(engine.close)
        return _lent(own, engine, table, schema)

    return opener


@pytest.fixture
def open_spark(spark_session: Any) -> Opener:
    """Open tables in Spark, whose session outlives them."""
    from sfumato.data.engines.spark.engine import Spark

    return lambda table, schema: _lent(
        ExitStack(), Spark(spark_session, named("none")), table, schema
    )


def _lent(own: ExitStack, engine: Any, table: pa.Table, schema: sf.Schema) -> Any:
    """A table that is taken back when it is closed, before its engine is."""
    engine._table = own.enter_context(engine.lend(table))
    engine.close = own.close
    return sf.Table(engine, schema, ("declared",) * len(schema.columns))
