"""Trees and wavelets over any nestings: variances, sensitivities, round trips."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.counts import Silence, frequencies, request_for, whole_numbers
from tests.fixtures.publications import measured_by_plan

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.publish import quadtree, wavelet
from sfumato.methods.publish import tree as kind
from sfumato.methods.publish.strategy import BlockCounts, MeasuredLevel
from sfumato.privacy.estimation.blocks import Nesting, balanced, variances
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.publish.strategy import StrategyMethod

UNITS: list[Unit] = [
    Rows(),
    Rows(relation=Neighbours.REPLACE_ONE),
    Entity("person", max_rows=3),
    Entity("person", max_rows=2, relation=Neighbours.REPLACE_ONE),
]


@st.composite
def nestings(draw: Any) -> tuple[Nesting, ...]:
    found = []
    for _ in range(draw(st.integers(1, 3))):
        cells = draw(st.integers(1, 9))
        depth = draw(st.integers(1, max((cells - 1).bit_length(), 1)))
        found.append(Nesting(cells, balanced(cells, depth)))
    return tuple(found)


class Fixed(Silence):
    """No noise, of a variance that is claimed."""

    def __init__(self, variance: float) -> None:
        self.variance = variance


@given(nestings(), st.data())
@settings(max_examples=60, deadline=None)
def test_without_noise_the_estimate_is_the_truth(chosen: tuple[Nesting, ...], data: Any) -> None:
    leaf = tuple(one.depth for one in chosen)
    levels = data.draw(
        st.lists(st.tuples(*(st.integers(0, one.depth) for one in chosen)), max_size=5, unique=True)
    )
    measured = tuple(
        MeasuredLevel(level, Fraction(1), Fixed(data.draw(st.floats(0.1, 10))))  # type: ignore[arg-type]
        for level in {*levels, leaf}
    )
    cells = np.arange(np.prod([one.size for one in chosen])).reshape([one.size for one in chosen])
    found, nulls = BlockCounts(chosen, measured).estimate(cells, np.array([3]), SeededEntropy(1))
    assert np.allclose(found, cells, atol=1e-8)
    assert np.allclose(nulls, 3)


@given(nestings(), st.data())
@settings(max_examples=60, deadline=None)
def test_more_levels_never_make_a_range_worse(chosen: tuple[Nesting, ...], data: Any) -> None:
    leaf = tuple(one.depth for one in chosen)
    other = tuple(data.draw(st.integers(0, one.depth)) for one in chosen)
    few = BlockCounts(chosen, (MeasuredLevel(leaf, Fraction(1), Fixed(2.0)),))  # type: ignore[arg-type]
    more = BlockCounts(chosen, (*few.measured, MeasuredLevel(other, Fraction(1), Fixed(3.0))))  # type: ignore[arg-type]
    box = [sorted(data.draw(st.integers(0, one.cells - 1)) for _ in range(2)) for one in chosen]
    boxes = np.array([box])
    before, after = (variances(chosen, boxes, one.precisions)[0] for one in (few, more))
    assert np.isclose(before, 2.0 * np.prod([high - low + 1 for low, high in box]))
    if other != leaf:
        assert after <= before * (1 + 1e-9)


def plans(unit: Unit, cost: dict[str, Any], shape: tuple[int, ...]) -> list[StrategyMethod]:
    request = request_for(whole_numbers(*shape, nullable=True), unit=unit, **cost)
    found = [
        kind.prepare(request, budget="uniform"),
        kind.prepare(request, fanout=3, budget="uniform", root="no"),
        wavelet.prepare(request),
        wavelet.prepare(request, budget="optimised"),
    ]
    return [*found, quadtree.of_cells(request)] if len(shape) == 2 else found


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_no_person_costs_more_than_the_price(data: Any) -> None:
    """All rows of one person go from some cells to others: the exact loss stays within."""
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))
    unit = data.draw(st.sampled_from(UNITS))
    cost = data.draw(st.sampled_from([{"epsilon": 1}, {"rho": "1/2"}]))
    rows = unit.max_rows if isinstance(unit, Entity) else 1
    places = st.tuples(*(st.integers(0, size) for size in shape))
    dense = np.full([size + 1 for size in shape], rows, dtype=np.int64)
    other = dense.copy()
    for _ in range(rows):
        dense[data.draw(places)] += 1
        if unit.relation is Neighbours.REPLACE_ONE:
            other[data.draw(places)] += 1
    claimed = Fraction(1) if "epsilon" in cost else Fraction(1, 2)
    for plan in plans(unit, cost, shape):
        if (dense != other).any():
            assert measured_by_plan(plan, dense, other).loss <= claimed


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_range_is_the_sum_of_its_cells(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    axes = whole_numbers(*shape)
    dense = np.arange(np.prod(shape)).reshape(shape)
    plan = kind.prepare(request_for(axes), fanout=2, budget="uniform")
    tables = plan.release(frequencies(axes, dense), SeededEntropy(data.draw(st.integers(0, 99))))
    cells = tables["cells"]["count"].to_numpy().reshape(shape)
    box = [[data.draw(st.integers(0, size - 1)) for _ in range(2)] for size in shape]
    expected = cells[tuple(slice(low, high + 1) for low, high in box)].sum()
    assert np.isclose(plan.ranges(tables, np.array([box]))[0], expected, atol=1e-6)
