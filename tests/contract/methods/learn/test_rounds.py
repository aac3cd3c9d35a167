"""Models made in rounds are the same from every engine, given the same noise."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.unit.methods.learn.learnt import dataset, people, planned

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.unit import Entity
from sfumato.methods.method import SaltedData
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from sfumato.data.engines.base import Engine

RNG = np.random.default_rng(8)
CELLS = np.where(RNG.random((90, 3)) < 0.1, np.nan, RNG.normal(0, 0.6, (90, 3)))
TOLD: list[str | None] = [["no", "yes", None][at % 3] for at in range(90)]
ROWS = people(CELLS, TOLD, [at % 30 for at in range(90)])
KINDS: dict[str, dict[str, Any]] = {
    "kmeans": {"clusters": 3, "rounds": 1},
    "logistic": {"solver": "newton"},
    "perceptron": {"rounds": 1},
}


def made(engine: Engine) -> dict[str, pa.Table]:
    """The tables of every kind, of people with three rows of which two may count."""
    found: dict[str, pa.Table] = {}
    for kind, options in KINDS.items():
        learning = planned(kind, 3, unit=Entity("who", 2), epsilon=20, **options)
        tables = learning.method.release(
            SaltedData(dataset(learning, engine), "salt"), SeededEntropy(3)
        )
        found |= {f"{kind} {name}": table for name, table in tables.items()}
    return found


def test_models_of_rounds_are_the_same_from_every_engine(
    open_engine: Callable[[pa.Table], Engine],
) -> None:
    with closing(open_duckdb(ROWS)) as engine:
        expected = made(engine)
    found = made(open_engine(ROWS))
    assert len(expected) == 5
    for name, table in expected.items():
        assert found[name].equals(table), name
