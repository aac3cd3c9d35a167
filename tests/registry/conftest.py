"""The engines that cells are run on, and how a test tells which cells it covered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.registry import engines
from tests.registry.cells import Cell, refusal, run_pair
from tests.registry.coverage import PROPERTY
from tests.registry.engines import DUCKDB, TestedEngine
from tests.registry.tables import Relation

if TYPE_CHECKING:
    from tests.registry.tables import Layout, Pair

Check = Callable[..., None]


@pytest.fixture
def check(record_property: Callable[[str, object], None]) -> Check:
    """Run pairs of a cell, tell of them, and fail with what was found."""

    def run(
        cell: Cell,
        pairs: Callable[[], list[Pair]],
        *,
        what: str,
        engine: TestedEngine = DUCKDB,
        layout: Layout | None = None,
        rows: int | None = None,
        seeds: tuple[int, ...] = (1,),
    ) -> None:
        relation = "add" if cell.relation is Relation.ADD_REMOVE else "replace"
        facts = {"method": cell.method.title, "unit": cell.unit, "relation": relation,
                 "engine": engine.name, "price": cell.price, "what": what,
                 "gaps": engine.gaps(layout) if layout else []}  # fmt: skip
        layout = engine.held(layout) if layout else None
        refused = refusal(cell, cell.declared(rows), layout, engine)
        if refused is not None:
            record_property(PROPERTY, {**facts, "refused": refused.code})
            return
        found, count, spent = [], 0, []
        for pair in pairs():
            for seed in seeds:
                coupled = run_pair(cell, pair, engine, rows=rows, seed=seed)
                count += 1
                spent.append((float(coupled.claimed_share), float(coupled.loss_share)))
                found += [f"{cell.title}, {pair.label}: {one}" for one in coupled.findings]
        told = {"pairs": count, "findings": len(found), "spent": spent}
        record_property(PROPERTY, {**facts, **told})
        assert found == [], "\n".join(found)

    return run


@pytest.fixture
def on_postgres(postgres_url: str) -> TestedEngine:
    """PostgreSQL."""
    return engines.postgres(postgres_url)


@pytest.fixture
def on_spark(spark_session: Any) -> TestedEngine:
    """Spark."""
    return engines.spark(spark_session)
