"""Atoms are found for a part of the price, and bins begin at them and where rows crowd."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.atoms import ABSENT, released_copies

import sfumato as sf
from sfumato.data.counting.axes import Grid, declared
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.publish.sparse import gaussian_tail
from sfumato.methods.synth.encode.atoms import MOST_ATOMS, AtomSearch, HeavyPoints, PointCounts
from sfumato.methods.synth.encode.axes import Bins, starts
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.methods.synth.request import with_room
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import Spending, spendings
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Unit

ROWS = 20_000
LOUD = Spending(rho=Fraction(1, 10))


def grid_of(high: int, name: str = "paid") -> Grid:
    axis = declared(Column(name, Kind.INTEGER, domain=Bounds(0, high), nullable=False))
    assert isinstance(axis, Grid)
    return axis


def search(*highs: int, spending: Spending = LOUD, unit: Unit = Rows()) -> AtomSearch:  # noqa: B008
    grids = tuple(grid_of(high, f"c{place}") for place, high in enumerate(highs))
    bins = tuple(starts(grid, None, 64) or (0,) for grid in grids)
    return AtomSearch(grids, bins, unit, spending)


def found(high: int, values: Any, spending: Spending = LOUD, seed: int = 1) -> tuple[int, ...]:
    """Where bins of one column begin."""
    made = search(high, spending=spending)
    points, counts = np.unique(values, return_counts=True)
    counter = Frequencies(made.grids, (points,), counts)
    return made.find(counter, SeededEntropy(seed))["c0"]


def alone(cuts: tuple[int, ...], point: int) -> bool:
    """Whether a point has a bin of its own."""
    return point in cuts and point + 1 in cuts


@pytest.mark.parametrize(
    ("epsilon", "stddev", "threshold"), [("0.1", 582, 1799), ("1", 63, 196), ("10", 7.4, 23)]
)
def test_the_check_figures_of_adult(epsilon: str, stddev: float, threshold: int) -> None:
    """Six columns of about 88 points, delta 1e-9, a share of 5 %."""
    spending = spendings(price(epsilon=epsilon, delta="1e-9"))[-1]
    points = search(84, 99, 99, 99, 98, 84, spending=spending).points
    assert points.noise.stddev == pytest.approx(stddev, rel=0.02)
    assert points.threshold == pytest.approx(threshold, rel=0.03, abs=1)  # whole numbers


def test_sensitivity_is_that_of_rows_and_columns() -> None:
    one = search(999).points.noise
    assert one == Gaussian(rho=Fraction(1, 200), l2_sensitivity_squared=Fraction(1))
    many = search(999, 999, 999, unit=Entity("who", 4)).points.noise
    assert isinstance(many, Gaussian)
    assert many.l2_sensitivity_squared == 3 * 4**2
    replaced = search(999, 999, unit=Rows(relation=Neighbours.REPLACE_ONE)).points.noise
    assert isinstance(replaced, Gaussian)
    assert replaced.l2_sensitivity_squared == 2 * 2
    pure = search(999, 999, unit=Entity("who", 4), spending=Spending(epsilon=Fraction(1)))
    assert pure.points.noise == Geometric(epsilon=Fraction(1, 20), l1_sensitivity=Fraction(8))
    # 99,999 points in 64 bins of 2,000: these, parts of 125 and of 8 points.
    wide = search(99_999, 99).intervals
    assert isinstance(wide, Gaussian)
    assert wide.l2_sensitivity_squared == 3 + 1


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(7), Fraction(900), Fraction(10**6)])
@pytest.mark.parametrize("bits", [64, 256])
def test_the_gaussian_tail_lies_within_its_bounds(variance: Fraction, bits: int) -> None:
    threshold = math.ceil(3 * float(variance) ** 0.5)
    low, high = gaussian_tail(variance, threshold, bits)
    assert 0 < low <= high <= low + Fraction(1, 1 << bits)
    reach = math.ceil(40 * float(variance) ** 0.5) + 2
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * float(variance)))
    assert float(low) == pytest.approx(weights[reach + threshold :].sum() / weights.sum(), 1e-9)


@pytest.mark.parametrize(
    "noise", [Gaussian(rho=Fraction(1, 50)), Geometric(epsilon=Fraction(1, 4))]
)
@pytest.mark.parametrize("threshold", [2, 9])
def test_points_without_rows_pass_as_noise_lets_them(noise: Any, threshold: int) -> None:
    """The released cells of a mostly empty grid against noise on every cell of it."""
    copies = 40_000
    sparse = released_copies([0, 0, 7, 0], noise, threshold, copies, SeededEntropy(2))
    exact = np.tile([0, 0, 7, 0], (copies, 1))
    dense = noise.steps(exact, SeededEntropy(3))
    dense = np.where(dense >= threshold, dense, ABSENT)
    for column in range(4):
        values = np.union1d(sparse[:, column], dense[:, column])
        sides = [np.searchsorted(values, side[:, column]) for side in (sparse, dense)]
        ours, theirs = (np.bincount(side, minlength=len(values)) for side in sides)
        common = ours + theirs > 20
        squares = (ours - theirs)[common] ** 2 / (ours + theirs)[common]
        degrees = common.sum() - 1
        assert squares.sum() < degrees + 5 * math.sqrt(2 * degrees) + 5


def test_half_of_a_point_without_rows_passes_in_the_mean() -> None:
    for noise in (Gaussian(rho=Fraction(1, 5000)), Geometric(epsilon=Fraction(1, 40))):
        points = HeavyPoints((1 << 40, 1 << 20), noise)
        empty = [PointCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))] * 2
        passed = [points.sample(empty, SeededEntropy(seed)) for seed in range(60)]
        assert 10 < sum(len(one.points) for run in passed for one in run) < 60
        assert all((one.counts >= points.threshold).all() for run in passed for one in run)


def test_zeros_heaps_and_the_top_are_bins_of_their_own() -> None:
    draws = np.random.default_rng(1)
    values = np.concatenate(
        [
            np.zeros(ROWS // 2, dtype=int),
            draws.choice([500, 1000, 5000], ROWS // 4),
            np.full(ROWS // 20, 99_999),
            np.minimum(draws.lognormal(7, 1, ROWS // 5).astype(int), 99_998),
        ]
    )
    cuts = found(99_999, values)
    for atom in (0, 500, 1000, 5000):
        assert alone(cuts, atom)
    assert cuts[-1] == 99_999
    assert len(cuts) < 64 + 2 * MOST_ATOMS + 64
    assert cuts == tuple(sorted(set(cuts)))


def test_bins_are_cut_where_rows_crowd() -> None:
    """A few of a million points hold all rows, smoothly."""
    draws = np.random.default_rng(2)
    values = np.minimum(draws.gamma(4, 300, ROWS * 5).astype(int), 10**6)
    cuts = np.array([*found(10**6, values), 10**6 + 1])
    assert np.histogram(values, cuts)[0].max() / len(values) < 0.1
    declared_bins = np.array(search(10**6).bins[0])
    assert set(declared_bins) <= set(cuts.tolist())


def test_a_smooth_column_has_no_atoms() -> None:
    values = np.random.default_rng(3).integers(0, 1000, ROWS)
    cuts = found(999, values)
    assert len(cuts) <= 60


def test_no_more_than_so_many_atoms() -> None:
    values = np.repeat(np.arange(0, 10_000, 100), ROWS // 100)  # 1 % each
    cuts = found(9_999, values, Spending(rho=Fraction(10)))
    assert sum(alone(cuts, atom) for atom in range(0, 10_000, 100)) == MOST_ATOMS
    rare = np.concatenate([np.repeat([7, 77], 60), np.full(ROWS, 5000)])  # .3 % each
    assert not alone(found(9_999, rare, Spending(rho=Fraction(10))), 7)


def test_a_small_grid_has_no_bins_where_rows_suffice() -> None:
    values = np.random.default_rng(4).integers(0, 100, ROWS)
    assert found(99, values) == tuple(range(100))
    assert len(found(99, values, Spending(rho=Fraction(1, 10_000)))) <= 64


def test_a_grid_of_any_size_takes_no_time() -> None:
    values = np.concatenate([np.full(ROWS, 3), np.arange(ROWS) * 10**12])
    cuts = found((1 << 60) - 1, values)
    assert alone(cuts, 3)


def test_an_empty_table_has_bins_too() -> None:
    cuts = found(9_999, np.zeros(0, dtype=np.int64))
    assert cuts[0] == 0


def test_public_facts_say_whether_anything_is_looked_for() -> None:
    assert not search(999, spending=Spending(rho=Fraction(1, 10**9))).worthwhile
    assert search(999, spending=Spending(epsilon=Fraction(1, 10**9))).worthwhile
    assert search(999).worthwhile
    assert not replace(search(999), rows=3).worthwhile


SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("gain", Kind.INTEGER, domain=Bounds(0, 99_999), nullable=False),
        sf.Column("paid", Kind.REAL, domain=Bounds(Decimal(0), Decimal(5000), Decimal("0.01"))),
        sf.Column("born", Kind.DATE, domain=Bounds(date(1900, 1, 1), date(2024, 12, 31))),
        sf.Column("age", Kind.INTEGER, domain=Bounds(0, 49), nullable=False),
    ),
)


@pytest.mark.parametrize("cost", [{"epsilon": 2}, {"epsilon": 1, "delta": 1e-7}])
def test_point_masses_are_kept_by_every_kind(cost: dict[str, Any]) -> None:
    draws = np.random.default_rng(5)
    gain = np.where(draws.random(ROWS) < 0.9, 0, draws.integers(1, 99_999, ROWS))
    paid = np.where(draws.random(ROWS) < 0.3, 99.99, draws.integers(0, 500_000, ROWS) / 100)
    born = draws.integers(0, 45_000, ROWS)
    born[draws.random(ROWS) < 0.4] = 0  # unknown dates
    table = pa.table(
        {
            "gain": gain,
            "paid": pa.array(np.round(paid, 2), mask=draws.random(ROWS) < 0.1),
            "born": pa.array(np.datetime64("1900-01-01") + born).cast(pa.date32()),
            "age": draws.integers(0, 50, ROWS),
        }
    )
    with closing(sf.read(table, schema=SCHEMA)) as people:
        private = sf.protect(people, unit=sf.Rows(), epsilon=4, delta=1e-6)
        assert "gain, paid, born that many rows share" in private.plan_synthesis(**cost).text()
        made = private.synthesize(**cost, method="independent")
    frame, rows = table.to_pandas(), made.table.to_pandas()
    assert (rows["gain"] == 0).mean() == pytest.approx((gain == 0).mean(), abs=0.01)
    asked = (frame["paid"] == 99.99).mean()
    assert (rows["paid"] == 99.99).mean() == pytest.approx(asked, abs=0.01)
    assert (rows["born"] == date(1900, 1, 1)).mean() == pytest.approx((born == 0).mean(), abs=0.01)
    assert made.cost["epsilon"] == cost["epsilon"]
    read = Encoding.from_record(SCHEMA, made.model.encoding.to_record())
    assert read == made.model.encoding
    axis = made.model.encoding.axes[0]
    assert isinstance(axis, Bins)
    assert axis.starts[:2] == (0, 1)


def test_atoms_are_paid_out_of_the_price() -> None:
    paid = Encoding(SCHEMA).paid(price(rho=1))
    assert paid.searched == ("gain", "paid", "born")
    assert paid.remaining.rho == 1 - Fraction(1, 20) - Fraction(1, 40)
    assert len(paid.events) == 1
    other = Encoding(SCHEMA, by_quantiles=("gain",), weekdays=("born",)).paid(price(rho=1))
    assert other.searched == ("paid",)


def test_bins_that_follow_rows_leave_room_for_named_sets() -> None:
    plan = Encoding(SCHEMA, cuts={"gain": tuple(range(400)), "paid": tuple(range(300))})
    names = ("gain", "paid", "age")
    assert with_room(plan, (names,)).cuts == {"paid": tuple(range(300))}
    assert with_room(plan, (names[:2],)) == plan
