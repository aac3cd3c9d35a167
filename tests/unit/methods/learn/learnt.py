"""Small tables of people, and learners run on them in memory, for tests of models."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Rows
from sfumato.methods.learn.request import LearningRequest, model_type
from sfumato.methods.learn.request import prepare as plan_model
from sfumato.methods.method import Dataset, SaltedData
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.learn.model import Model
    from sfumato.methods.learn.request import Learning
    from sfumato.privacy.accounting.events import Event

TARGET = Column("told", Kind.TEXT, domain=Values(("no", "yes")))


def features(width: int) -> tuple[Column, ...]:
    """Reals from -1 to 1, so that a cell is its coordinate."""
    bounds = Bounds(Decimal(-1), Decimal(1))
    return tuple(Column(f"f{at}", Kind.REAL, domain=bounds) for at in range(width))


def people(
    values: Any, told: Sequence[str | None] | None = None, who: list[int] | None = None
) -> pa.Table:
    """A table of these features; everybody says no unless something else is said."""
    cells = np.asarray(values, dtype=np.float64)
    columns = {f"f{at}": pa.array(column) for at, column in enumerate(cells.T)}
    columns["told"] = pa.array(list(told or ["no"] * len(cells)), pa.string())
    columns["who"] = pa.array(who or list(range(len(cells))), pa.int64())
    return pa.table(columns)


def planned(
    kind: str,
    width: int,
    *,
    unit: Unit | None = None,
    target: Column = TARGET,
    rows: int | None = None,
    epsilon: object = 1,
    delta: object = 0,
    **options: object,
) -> Learning:
    """A kind made ready for a table of so many features."""
    columns = features(width)
    who = Column("who", Kind.INTEGER, nullable=False)
    schema = Schema("people", (*columns, target, who), unit or Rows())
    request = LearningRequest(
        dataset="people",
        schema=schema,
        features=columns,
        target=None if kind == "kmeans" else target,
        unit=schema.unit,
        price=price(epsilon=epsilon, delta=delta, maximum=10**7),  # type: ignore[arg-type]
        rows=rows,
    )
    return plan_model(kind, request, options)


def dataset(learning: Learning, engine: Engine) -> Dataset:
    """The data set of an engine's table, as a learner sees it."""
    request = learning.request
    return Dataset("people", engine, engine.table, request.schema, request.unit)


def fitted(learning: Learning, table: pa.Table, seed: int = 1) -> Mapping[str, pa.Table]:
    """What a learner releases of a table."""
    with closing(open_duckdb(table)) as engine:
        return learning.method.release(
            SaltedData(dataset(learning, engine), "salt"), SeededEntropy(seed)
        )


def model_of(learning: Learning, tables: Mapping[str, pa.Table]) -> Model:
    """The model of released tables."""
    request = learning.request
    return model_type(learning.kind)(
        kind=learning.kind,
        kinds={one.name: str(one.kind) for one in request.features},
        target=None if request.target is None else request.target.name,
        facts=dict(learning.method.facts),
        tables=tables,
        error=dict(learning.error),
    )


def spent(event: Event) -> Fraction:
    """The epsilon that an event costs, which has no delta."""
    amounts = total(event, basic_price)
    assert amounts is not None
    assert amounts[1] == 0
    return amounts[0]
