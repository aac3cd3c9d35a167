"""Small tables of every kind of column to learn classes of, and learners made for them."""

from __future__ import annotations

from contextlib import closing
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.engines.sources import open_duckdb
from sfumato.method import Dataset
from sfumato.mining import kinds
from sfumato.mining.request import LearningRequest
from sfumato.privacy.price import price
from sfumato.privacy.units import Rows
from sfumato.schema.column import Column, Kind, Role
from sfumato.schema.domain import Bounds, Values
from sfumato.schema.schema import Schema
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.mining.model import Model
    from sfumato.mining.request import Learning
    from sfumato.privacy.units import Unit

PERSON = Column("person", Kind.INTEGER, Role.IDENTIFIER)
AGE = Column("age", Kind.INTEGER, domain=Bounds(0, 99))
WEIGHT = Column("weight", Kind.REAL, domain=Bounds(Decimal(0), Decimal(150)))
CITY = Column("city", Kind.TEXT, domain=Values(("Rome", "Pisa", "Bari")))
SMOKES = Column("smokes", Kind.BOOLEAN)
SEEN = Column("seen", Kind.DATE, domain=Bounds(date(2020, 1, 1), date(2020, 12, 31)))
FEATURES = (AGE, WEIGHT, CITY, SMOKES, SEEN)
ILL = Column("ill", Kind.TEXT, domain=Values(("no", "yes")))
STAGE = Column("stage", Kind.INTEGER, domain=Values((1, 2, 3)))
TYPES = {
    "person": pa.int64(),
    "age": pa.int64(),
    "weight": pa.float64(),
    "city": pa.string(),
    "smokes": pa.bool_(),
    "seen": pa.date32(),
    "ill": pa.string(),
    "stage": pa.int64(),
}

Row = tuple[Any, ...]
"""Person, age, weight, city, smokes, seen, ill, stage."""


def table(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table."""
    columns = zip(*rows, strict=True) if rows else [()] * len(TYPES)
    arrays = [pa.array(list(one), TYPES[name]) for name, one in zip(TYPES, columns, strict=True)]
    return pa.table(dict(zip(TYPES, arrays, strict=True)))


def spread(many: int) -> list[Row]:
    """So many rows of so many people: the old are ill, and some cells are missing or outside."""
    rows: list[Row] = []
    for one in range(many):
        age = one * 37 % 100
        rows.append(
            (
                one,
                None if one % 17 == 3 else age + (200 if one % 23 == 5 else 0),
                float("nan") if one % 19 == 4 else one * 7 % 160 - 3.5,
                [*CITY.public_domain.values, "Oslo", None][one % 5],  # type: ignore[union-attr]
                [True, False, None][one % 3],
                date(2020, 1 + one % 12, 1 + one % 28),
                "yes" if age > 49 else "no",
                1 + min(age // 30, 2),
            )
        )
    return rows


def planned(
    kind: str,
    *,
    features: tuple[Column, ...] = FEATURES,
    target: Column = ILL,
    unit: Unit = Rows(),  # noqa: B008  # frozen
    cost: Mapping[str, Any] | None = None,
    rows: int | None = None,
    **options: Any,
) -> Learning:
    """A kind of model, planned for a table of these columns."""
    request = LearningRequest(
        dataset="people",
        schema=Schema("people", (PERSON, *features, target)),
        features=features,
        target=target,
        unit=unit,
        price=price(**({"epsilon": 1} if cost is None else cost)),
        rows=rows,
    )
    return kinds.prepare(kind, request, options)


def learnt(plan: Learning, rows: pa.Table, seed: int = 1) -> Model:
    """The model that a plan makes of rows."""
    request = plan.request
    with closing(open_duckdb(rows)) as engine:
        data = Dataset("people", engine, engine.table, request.schema, request.unit)
        tables = plan.learner.fit(data, "salt", SeededEntropy(seed))
    return kinds.model_type(plan.kind)(
        kind=plan.kind,
        kinds={one.name: str(one.kind) for one in request.features},
        target=None if request.target is None else request.target.name,
        facts=dict(plan.learner.facts),
        tables=tables,
        error=dict(plan.error),
    )
