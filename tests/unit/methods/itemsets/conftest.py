"""Tables of items as methods read them once they are paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Items, Schema
from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.method import Dataset
from sfumato.methods.publish.request import FormRequest, FormRows
from sfumato.privacy.accounting.price import price

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    MakeRequest = Callable[..., FormRequest]
    MakeRows = Callable[..., FormRows]


def requested(
    *,
    max_rows: int = 3,
    values: Sequence[str] | None = None,
    rated: bool = False,
    relation: Neighbours = Neighbours.ADD_REMOVE,
    **cost: Any,
) -> FormRequest:
    """A request for baskets of items, which may be public and rated."""
    unit = Entity("basket", max_rows, relation=relation)
    columns = [
        Column("basket", Kind.INTEGER, nullable=False),
        Column("item", Kind.TEXT, domain=None if values is None else Values(tuple(values))),
        Column("stars", Kind.INTEGER, domain=Bounds(1, 5)),
    ]
    form = Items("basket", "item", "stars" if rated else None)
    schema = Schema("shop", tuple(columns), unit, form=form)
    paid = price(**(cost or {"epsilon": 1}))
    return FormRequest(dataset="shop", schema=schema, form=form, unit=unit, price=paid)


def held(request: FormRequest, baskets: Sequence[Sequence[str]], stars: int = 3) -> FormRows:
    """Rows of baskets, as an engine has them."""
    pairs = [(owner, item) for owner, items in enumerate(baskets) for item in items]
    table = pa.table(
        {
            "basket": pa.array([owner for owner, _ in pairs], pa.int64()),
            "item": pa.array([item for _, item in pairs], pa.string()),
            "stars": pa.array([stars] * len(pairs), pa.int64()),
        }
    )
    engine = open_source(table)
    data = Dataset("shop", engine, engine.table, request.schema, request.unit)
    return FormRows(data, "salt")


@pytest.fixture(name="make_request")
def _make_request() -> MakeRequest:
    return requested


@pytest.fixture(name="make_rows")
def _make_rows() -> MakeRows:
    return held
