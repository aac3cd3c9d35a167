"""A million rows by twenty features: each kind within half a minute, alike on every engine."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from bench._million import schema, table
from bench.mining_scale import asked, kinds, load

from sfumato.methods.learn.request import LearningRequest
from sfumato.methods.learn.request import prepare as plan_model
from sfumato.methods.method import Dataset
from sfumato.privacy.accounting.price import price
from sfumato.release.open_table import read
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

ROWS, SECONDS = 1_000_000, 30
DECLARED = schema(ROWS)


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("million") / "million.parquet"
    pq.write_table(table(ROWS), file)
    return file


def learnt(source: object, kind: str) -> tuple[Mapping[str, pa.Table], float]:
    """What a kind releases with the same noise, and its seconds."""
    told: dict[str, Any] = asked(kind)
    request = LearningRequest(
        dataset=DECLARED.table,
        schema=DECLARED,
        features=tuple(DECLARED.column(name) for name in told["features"]),
        target=None if told["target"] is None else DECLARED.column(told["target"]),
        unit=DECLARED.unit,
        price=price(epsilon=1),
        rows=ROWS,
    )
    planned = plan_model(kind, request, {})
    started = time.perf_counter()
    with closing(read(source, DECLARED, strict=False)) as held:  # type: ignore[arg-type]
        engine = held.engine
        data = {
            DECLARED.table: Dataset(DECLARED.table, engine, engine.table, DECLARED, DECLARED.unit)
        }
        return planned.run(data, SeededEntropy(7)).tables, time.perf_counter() - started


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("server", ["postgres", "spark"])
def test_a_million_rows_are_learnt_from_alike(
    million: Path, server: str, request: pytest.FixtureRequest
) -> None:
    if server == "postgres":
        url = request.getfixturevalue("postgres_url")
        load(url, million)
        source = f"{url}#million"
    else:
        request.getfixturevalue("spark_session")
        source = f"spark+parquet://{million}"
    for kind in kinds():
        here, quick = learnt(million, kind)
        there, slow = learnt(source, kind)
        assert quick < SECONDS, kind
        assert slow < SECONDS, (kind, server)
        assert {name: one.to_pylist() for name, one in here.items()} == {
            name: one.to_pylist() for name, one in there.items()
        }, kind
