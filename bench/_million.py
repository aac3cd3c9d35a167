"""A generated table of twenty features with a class and a number to tell, for mining at scale."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.constraints import DeclaredRows
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema

REALS, WHOLES, TEXTS = 12, 4, 4
LETTERS = ("a", "b", "c")
FEATURES = (
    *(f"real{place}" for place in range(REALS)),
    *(f"whole{place}" for place in range(WHOLES)),
    *(f"text{place}" for place in range(TEXTS)),
)
"""Twenty: two texts have three letters, two have two."""
NUMERIC = FEATURES[: REALS + WHOLES]


def table(rows: int, seed: int = 1) -> pa.Table:
    """Features that hang together by three hidden ones, of which class and number come too."""
    draws = np.random.default_rng(seed)
    hidden = draws.normal(size=(rows, 3))
    mixed = hidden @ draws.normal(size=(3, len(FEATURES))) + draws.normal(size=(rows, 20))
    columns: dict[str, object] = {}
    for place, name in enumerate(FEATURES):
        told = mixed[:, place]
        if name.startswith("real"):
            columns[name] = np.round(told * 10 + 50, 2)
        elif name.startswith("whole"):
            columns[name] = np.round(told * 5 + 20).astype(np.int64)
        else:
            letters = np.digitize(told, [-1, 1] if place % 2 else [0])
            columns[name] = pa.array(np.array(LETTERS)[letters])
    score = hidden @ np.array([2.0, -1.0, 0.5]) + draws.logistic(size=rows)
    columns["outcome"] = (score > 0).astype(np.int64)
    columns["amount"] = np.round(score * 10 + 50, 2)
    return pa.table(columns)


def schema(rows: int | None) -> Schema:
    """What is declared of it: bounds that hold nearly all rows."""
    made = []
    for place, name in enumerate(FEATURES):
        if name.startswith("real"):
            made.append(Column(name, Kind.REAL, domain=_bounds()))
        elif name.startswith("whole"):
            made.append(Column(name, Kind.INTEGER, domain=Bounds(0, 40)))
        else:
            letters = LETTERS if place % 2 else LETTERS[:2]
            made.append(Column(name, Kind.TEXT, domain=Values(letters)))
    made.append(Column("outcome", Kind.INTEGER, domain=Values((0, 1))))
    made.append(Column("amount", Kind.REAL, domain=_bounds()))
    declared = () if rows is None else (DeclaredRows(rows),)
    return Schema("million", tuple(made), constraints=declared)


def _bounds() -> Bounds:
    return Bounds(Decimal(0), Decimal(100), Decimal("0.01"))
