"""Legal but extreme cells of one person decide nothing about failure.

F29: Arrow refuses to convert 2^53 + 1 to a float64, so one such rating or place made a release
fail. Methods read numbers on their declared grid, or as floats, from the engine.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Items, Points, Schema
from sfumato.data.schema.unit import Entity
from sfumato.errors import ParameterError
from sfumato.methods.itemsets import ratings
from sfumato.methods.itemsets import synthesize as baskets
from sfumato.methods.itemsets.baskets import ItemFacts, read_items
from sfumato.methods.method import Dataset, KindPlan
from sfumato.methods.publish.catalogue import KINDS
from sfumato.methods.publish.request import FormRequest, FormRows
from sfumato.methods.trajectory import synthesize as paths
from sfumato.methods.trajectory.paths import read_paths
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.schema import Form

    Open = Callable[[pa.Table], Engine]

INTEGERS = [2**53 - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
REALS = [1.7e308, -1.7e308, 5e-324, -5e-324, 2.0**53, float("inf"), float("-inf"), float("nan")]
STARS: dict[Kind, tuple[Bounds, pa.DataType, list[Any]]] = {
    Kind.INTEGER: (Bounds(1, 5), pa.int64(), INTEGERS),
    Kind.REAL: (Bounds(Decimal(1), Decimal(5), Decimal("0.5")), pa.float64(), REALS),
}


def asked(columns: tuple[Column, ...], form: Form, unit: Entity) -> FormRequest:
    schema = Schema("t", columns, unit, form=form)
    return FormRequest(
        dataset="t", schema=schema, form=form, unit=unit, price=price(epsilon=2, delta="1e-3")
    )


def deduplicated_ratings(kind: Kind, bounds: Bounds) -> FormRequest:
    columns = (
        Column("who", Kind.INTEGER, nullable=False),
        Column("item", Kind.TEXT),
        Column("stars", kind, domain=bounds),
    )
    return asked(columns, Items("who", "item", "stars"), Entity("who", 3))


def dataset(engine: Engine, request: FormRequest) -> Dataset:
    return Dataset("t", engine, engine.table, request.schema, request.unit)


def run(engine: Engine, request: FormRequest, kind: str, method: Any) -> None:
    data = dataset(engine, request)
    KindPlan(kind, request, method, "publish").run({"t": data}, SeededEntropy(1))


@pytest.mark.parametrize("kind", STARS)
def test_F29_ratings_of_any_size_are_moved_onto_the_scale(open_engine: Open, kind: Kind) -> None:
    bounds, stored, cells = STARS[kind]
    request = deduplicated_ratings(kind, bounds)
    table = pa.table(
        {
            "who": pa.array(range(len(cells) + 1), pa.int64()),
            "item": ["x"] * (len(cells) + 1),
            "stars": pa.array([*cells, 3], stored),
        }
    )
    engine = open_engine(table)
    scale = ratings.RatingScale.of(request, "stars")
    rows = FormRows(dataset(engine, request), "s")
    held = read_items(ItemFacts.of(request), rows, ratings=scale.grid)
    _, codes = ratings.deduplicated_ratings(held, scale, "stars")
    inside = np.clip(np.nan_to_num(np.array([*cells, 3], dtype=np.float64), nan=1), 1, 5)
    expected = np.rint((inside - scale.low) / scale.step).astype(int)
    assert sorted(codes.tolist()) == sorted(expected.tolist())
    run(engine, request, "ratings", ratings.prepare(request))
    run(engine, request, "baskets", baskets.prepare(request))


@pytest.mark.parametrize("kind", [Kind.INTEGER, Kind.REAL])
def test_F29_places_and_times_of_any_size_are_read(open_engine: Open, kind: Kind) -> None:
    _, stored, cells = STARS[kind]
    bounds = Bounds(0, 100) if kind is Kind.INTEGER else Bounds(Decimal(0), Decimal(100))
    columns = (
        Column("who", Kind.INTEGER, nullable=False),
        Column("trip", Kind.INTEGER, nullable=False),
        *(Column(name, kind, domain=bounds) for name in ("at", "x", "y")),
    )
    request = asked(columns, Points("trip", "at", "x", "y"), Entity("who", 4))
    many = len(cells)
    rows = {
        "who": pa.array([*range(many)] * 3 + [many] * 2, pa.int64()),
        "trip": pa.array([1] * (3 * many + 2), pa.int64()),
    }
    for place, name in enumerate(("at", "x", "y")):
        column = [7] * (3 * many + 2)
        column[place * many : (place + 1) * many] = cells
        rows[name] = pa.array(column, stored)
    engine = open_engine(pa.table(rows))
    found = read_paths(FormRows(dataset(engine, request), "s"), request.form)  # type: ignore[arg-type]
    finite = int(np.isfinite(np.array(cells, dtype=np.float64)).sum())
    assert found.lengths.sum() == 3 * finite + 2
    assert np.isfinite(np.diff(found.times)).all()
    run(engine, request, "paths", paths.prepare(request, cells=4, rows=5))
    for one in ("trips", "visits", "lengths"):
        run(engine, request, one, KINDS[one].maker(request))


def test_F21_a_scale_whose_sums_could_wrap_is_refused_in_planning() -> None:
    """At 2^62 points three ratings leave 64 bits; what is allowed cannot with any memory."""
    with pytest.raises(ParameterError) as caught:
        ratings.prepare(deduplicated_ratings(Kind.INTEGER, Bounds(0, 2**62 - 2)))
    assert caught.value.code == "problem_too_large"
    widest = ratings.prepare(deduplicated_ratings(Kind.INTEGER, Bounds(0, ratings.MOST_POINTS - 1)))
    assert widest.scale.last * 2**38 < 2**63


def test_F21_sums_of_the_widest_scale_are_exact(duckdb_engine: Open) -> None:
    request = deduplicated_ratings(Kind.INTEGER, Bounds(0, ratings.MOST_POINTS - 1))
    people = 2_000
    table = pa.table(
        {
            "who": pa.array(range(people), pa.int64()),
            "item": ["x"] * people,
            "stars": pa.array([2**63 - 1] * people, pa.int64()),
        }
    )
    method = ratings.prepare(request)
    rows = FormRows(dataset(duckdb_engine(table), request), "s")
    released = method.release(rows, SeededEntropy(1))["ratings"]
    assert released["mean"].to_pylist() == pytest.approx([method.scale.last], rel=0.05)


def test_baskets_refuse_a_wide_scale_in_planning(duckdb_engine: Open) -> None:
    """Wider ones failed after the charge: the tilt of the ratings was no float any more."""
    with pytest.raises(ParameterError) as caught:
        baskets.prepare(deduplicated_ratings(Kind.INTEGER, Bounds(0, 2**20)))
    assert caught.value.code == "problem_too_large"
    request = deduplicated_ratings(Kind.INTEGER, Bounds(0, baskets.MOST_RATINGS - 1))
    people = 300
    stars = pa.array([0, baskets.MOST_RATINGS - 1] * (people // 2), pa.int64())
    table = pa.table(
        {"who": pa.array(range(people), pa.int64()), "item": ["x"] * people, "stars": stars}
    )
    with np.errstate(all="raise", under="ignore"):
        run(duckdb_engine(table), request, "baskets", baskets.prepare(request, rows=50))
