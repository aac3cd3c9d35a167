"""Marginals of any columns: what one person can do stays within the price; no plan is wasteful."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.publish import fourier
from sfumato.methods.publish.marginals import families, prepare
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.price import price
from sfumato.privacy.estimation.residuals import MarginalLattice
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.publish.marginals import MarginalStrategy
    from sfumato.privacy.mechanisms.gaussian import Gaussian

SIZES = st.lists(st.integers(1, 5), min_size=2, max_size=4)
PRICES: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": "1/3"}]


def request(sizes: list[int], unit: Entity, cost: dict[str, Any]) -> Request:
    axes = tuple(
        Grid(f"c{place}", Kind.INTEGER, Bounds(0, size - 1), nullable=False)
        for place, size in enumerate(sizes)
    )
    return Request(dataset="d", axes=axes, unit=unit, price=price(**cost))


@dataclass
class Silent:
    """No noise, and what was measured."""

    variance: float = 1.0
    seen: list[NDArray[np.int64]] = field(default_factory=list)

    def steps(self, values: NDArray[np.int64], entropy: object) -> NDArray[np.int64]:
        del entropy
        self.seen.append(values)
        return values


def measured(
    strategy: MarginalStrategy, asked: Request, cells: list[int]
) -> list[NDArray[np.int64]]:
    """The whole numbers that noise would be added to, for rows in the cells of these numbers."""
    sizes = [axis.size for axis in asked.axes]
    codes = np.unravel_index(np.array(cells, dtype=np.int64), sizes)
    counts = Frequencies(asked.axes, codes, np.ones(len(cells), dtype=np.int64))
    silent = tuple(Silent() for _ in strategy.noises)
    watched = replace(strategy, noises=silent)  # type: ignore[arg-type]
    columns = [axis.column for axis in asked.axes if axis.size > 1]
    watched.measure(counts, columns, SeededEntropy(1))
    return [noise.seen[0] for noise in silent]


def loss(noise: Geometric | Gaussian, move: NDArray[Any]) -> Fraction:
    """The loss of one measurement that moves so far: epsilon or rho."""
    if isinstance(noise, Geometric):
        return Fraction(int(np.abs(move).sum())) / noise.scale
    return Fraction(int(np.square(move).sum())) / (2 * noise.steps_variance)


@settings(max_examples=150, deadline=None)
@given(st.data(), SIZES, st.sampled_from(PRICES), st.sampled_from(Neighbours), st.integers(1, 3))
def test_no_person_moves_all_measurements_by_more_than_the_price(
    data: st.DataObject, sizes: list[int], cost: dict[str, Any], relation: Neighbours, rows: int
) -> None:
    asked = request(sizes, Entity("p", max_rows=rows, relation=relation), cost)
    way = data.draw(st.integers(1, len(sizes)))
    cells = st.lists(st.integers(0, math.prod(sizes) - 1), max_size=rows)
    others, before = data.draw(cells), data.draw(cells)
    after = data.draw(cells) if relation is Neighbours.REPLACE_ONE else []
    strategy = prepare(asked, way=way).strategy
    moves = [
        one - other
        for one, other in zip(
            measured(strategy, asked, others + before),
            measured(strategy, asked, others + after),
            strict=True,
        )
    ]
    lost = sum(loss(noise, move) for noise, move in zip(strategy.noises, moves, strict=True))
    assert lost <= (asked.price.epsilon or asked.price.rho or 0)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.integers(2, 4), min_size=2, max_size=3), st.sampled_from(Neighbours))
def test_no_person_moves_all_parities_by_more_than_the_price(
    data: st.DataObject, sizes: list[int], relation: Neighbours
) -> None:
    cost = data.draw(st.sampled_from(PRICES))
    asked = request(sizes, Entity("p", max_rows=2, relation=relation), cost)
    method = fourier.prepare_parities(asked, way=data.draw(st.integers(1, len(sizes))))
    cells = st.lists(st.integers(0, math.prod(sizes) - 1), max_size=2)
    before = data.draw(cells)
    after = data.draw(cells) if relation is Neighbours.REPLACE_ONE else []
    move = method.matrix[:, before].sum(axis=1) - method.matrix[:, after].sum(axis=1)
    assert loss(method.noise, move) <= (asked.price.epsilon or asked.price.rho or 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(2, 12), min_size=2, max_size=6), st.integers(1, 3))
def test_a_plan_beats_the_wanted_tables_alone_and_all_cells_at_once(
    sizes: list[int], way: int
) -> None:
    way = min(way, len(sizes))
    pure = prepare(request(sizes, Entity("p", max_rows=1), {"epsilon": "1/100"}), way=way)
    cells = [math.prod(one) for one in combinations(sizes, way)]
    unit = 2 * 100**2  # the variance of Laplace noise at the whole epsilon, nearly
    alone = unit * sum(cell ** (1 / 3) for cell in cells) ** 3
    together = unit * len(cells) * math.prod(sizes)
    assert pure.strategy.total_variance <= min(alone, together) * 1.0001


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.integers(2, 6), min_size=2, max_size=3))
def test_no_other_gaussian_plan_beats_the_residuals(data: st.DataObject, sizes: list[int]) -> None:
    """Precisions of plain tables, in any mixture that costs the same, give no less error."""
    asked = request(sizes, Entity("p", max_rows=1), {"rho": "1/2"})
    plan = prepare(asked, way=data.draw(st.integers(1, len(sizes)))).strategy
    lattice = plan.lattice
    mixture = st.lists(
        st.integers(1, 100), min_size=len(lattice.residuals), max_size=len(lattice.residuals)
    )
    weights = np.array(data.draw(mixture), dtype=np.float64)
    told = lattice.links(lattice.residuals).precisions(weights / weights.sum(), len(weights))
    # rho 1/2 pays for variance 1; the plan's shares are rounded to 2^-30.
    assert plan.total_variance <= float(lattice.importance @ (1 / told)) * (1 + 1e-7)


def best_union(
    tables: list[tuple[frozenset[int], float]], sizes: list[int]
) -> list[tuple[frozenset[int], float]]:
    """Merge the pair that most lowers the sum of (weight x cells)^(1/3), trying all of them."""

    def root(places: frozenset[int], weight: float) -> float:
        return float((weight * math.prod(sizes[place] for place in places)) ** (1 / 3))

    def gain(pair: tuple[int, int]) -> float:
        (one, first), (other, second) = (tables[place] for place in pair)
        return root(one, first) + root(other, second) - root(one | other, first + second)

    first, second = max(combinations(range(len(tables)), 2), key=gain)
    union = (tables[first][0] | tables[second][0], tables[first][1] + tables[second][1])
    return [table for place, table in enumerate(tables) if place not in {first, second}] + [union]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.integers(2, 6), min_size=2, max_size=5), st.integers(1, 3))
def test_tables_are_merged_as_by_trying_every_pair(
    data: st.DataObject, sizes: list[int], way: int
) -> None:
    wanted = tuple(combinations(range(len(sizes)), min(way, len(sizes))))
    drawn = data.draw(st.permutations(range(len(wanted))))
    # Odd weights, so that no two pairs gain the same.
    weights = tuple(1 + 0.1 * math.sin(1 + place) for place in drawn)
    found = list(families(MarginalLattice(tuple(sizes), wanted, weights), power=2))
    tables = [(frozenset(one), weight) for one, weight in zip(wanted, weights, strict=True)]
    for family in found:
        assert {frozenset(one) for one in family} == {one for one, _ in tables}
        assert all(any(set(one) <= set(other) for other in family) for one in wanted)
        if len(tables) > 1:
            tables = best_union(tables, sizes)
    assert len(found) == len(wanted)
