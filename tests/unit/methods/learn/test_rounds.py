"""Offsets from centres are cut to a ball in whole numbers, and summed by group."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from sqlglot import exp
from tests.unit.methods.learn.learnt import dataset, features, people, planned, spent

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.unit import Entity, Rows
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.rounds import (
    GriddedRows,
    OffsetRound,
    best_spending,
    nearest_layers,
    reach_of,
    round_to_grid,
)
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

RNG = np.random.default_rng(4)
CELLS = np.round(RNG.uniform(-1.2, 1.2, (60, 3)) * GRID) / GRID
CENTRES = np.array([[-900, 0, 300], [512, -512, 7], [-900, 0, 300], [1024, 1024, -1024]])


def cut(apart: np.ndarray, reach: int) -> np.ndarray:
    """The same in NumPy, of Python's integers."""
    norm = np.abs(apart).sum(axis=1)[:, None]
    shrunk = np.sign(apart) * (np.abs(apart) * reach // np.maximum(norm, 1))
    return np.where(norm <= reach, apart, shrunk)


@pytest.mark.parametrize("reach", [1, 700, 2000, 9000])
def test_rows_are_summed_around_the_nearest_centre_within_a_ball(reach: int) -> None:
    learning = planned("kmeans", 3, clusters=2)
    layers, group = nearest_layers(CENTRES)
    with closing(open_duckdb(people(CELLS))) as engine:
        rows = GriddedRows(dataset(learning, engine), FeatureSpace(features(3)).expressions(), 3)
        told = rows.group_sums(CENTRES, reach, group, layers)
    places = np.rint(np.clip(CELLS, -1, 1) * GRID).astype(np.int64)
    far = ((places[:, None] - CENTRES) ** 2).sum(axis=2)
    nearest = far.argmin(axis=1)  # of equal ones the first, as for the two that are the same
    offsets = cut(places - CENTRES[nearest], reach)
    expected = [
        [int((nearest == at).sum()), *offsets[nearest == at].sum(axis=0)] for at in range(4)
    ]
    assert told.tolist() == expected
    assert told[2].tolist() == [0, 0, 0, 0]
    assert np.abs(offsets).sum(axis=1).max() <= reach


def test_one_centre_is_the_nearest_of_all() -> None:
    layers, group = nearest_layers(CENTRES[:1])
    assert layers == []
    assert group == exp.convert(0)


def test_the_mean_of_all_rows_is_found_where_noise_is_small() -> None:
    learning = planned("kmeans", 3, clusters=2, epsilon=10**6)
    with closing(open_duckdb(people(CELLS / 3))) as engine:
        rows = GriddedRows(dataset(learning, engine), FeatureSpace(features(3)).expressions(), 3)
        found = rows.middle(learning.method.middle, SeededEntropy(1))  # type: ignore[attr-defined]
    assert found == pytest.approx((CELLS / 3).mean(axis=0), abs=2 / GRID)


@pytest.mark.parametrize("unit", [Rows(), Entity("who", 3)])
def test_a_round_spends_its_share_and_no_more(unit: Rows | Entity) -> None:
    reach = reach_of(Fraction(3, 10), 5)
    spending = best_spending(price(epsilon="1/2"), unit, reach)
    one = OffsetRound.of(spending, unit, reach, weight=200, share=Fraction(1, 3))
    assert spent(one.event) == Fraction(1, 6)
    # One scale of noise on all: in rows for counts, times the weight, and in steps for sums.
    assert one.counts.stddev * 200 == pytest.approx(one.sums.stddev, rel=0.01)
    assert one.sum_sd == pytest.approx(2**0.5 * (reach + 200) * 6 * unit.max_rows / GRID, rel=1e-3)


def test_a_delta_buys_gaussian_noise_where_that_is_smaller() -> None:
    ways = {
        (width, told): best_spending(one, Rows(), reach_of(Fraction(3, 10), width))
        for width in (5, 500)
        for told, one in {
            "pure": price(epsilon=1),
            "delta": price(epsilon=1, delta="1e-6"),
            "rho": price(rho=1),
        }.items()
    }
    assert [one for one, way in ways.items() if way.rho is not None] == [
        (5, "rho"), (500, "delta"), (500, "rho"),
    ]  # fmt: skip


def test_points_beyond_the_bounds_go_to_them() -> None:
    assert round_to_grid(np.array([-3.0, 0.25, 1.0])).tolist() == [-GRID, GRID // 4, GRID]
    assert reach_of(Fraction(1, 10**9), 1) == 1
