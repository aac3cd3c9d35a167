"""Anatomy, permutation and perturbation: guarantees, uniformity, refusals."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.anonymize.buckets import anatomize, permute, shuffled
from sfumato.anonymize.criteria import KAnonymity
from sfumato.anonymize.perturbative_release import moments, perturb, strays
from sfumato.anonymize.problem import Problem
from sfumato.anonymize.search import run
from sfumato.anonymize.taxonomy import grow
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.errors import CriterionError, SchemaError
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from sfumato.data.counting.frequencies import Frequencies

    Counted = Callable[[Sequence[str], Sequence[Sequence[object]]], Frequencies]

AGE = Column("age", Kind.INTEGER, Role.QUASI)


def lines(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("seed", range(30))
def test_no_bucket_has_a_value_twice(counted: Counted, seed: int) -> None:
    generator = np.random.default_rng(seed)
    wanted = int(generator.integers(1, 5))
    ills = [f"i{i}" for i in (generator.random(40) ** 1.3 * 8).astype(int)]
    ills = [ill for place, ill in enumerate(ills) if ills[:place].count(ill) < 40 // 8]
    rows = [(place // 3, ill) for place, ill in enumerate(ills)]
    wanted = min(wanted, len(ills) // max(Counter(ills).values()))
    found = anatomize(counted(("age", "ill"), rows), "ill", l=wanted, entropy=SeededEntropy(seed))
    buckets: dict[object, list[object]] = defaultdict(list)
    for number, ill, many in lines(found.sensitive):
        assert many == 1
        buckets[number].append(ill)
    assert set(buckets) == set(range(1, len(rows) // wanted + 1))
    assert found.groups == len(rows) // wanted
    assert min(map(len, buckets.values())) >= wanted
    assert sum(map(len, buckets.values())) == len(rows)
    shares = found.quasi.shares
    # The rows of each raw combination go to groups that hold its value.
    ages = found.quasi.maps[0].values.to_pylist()
    values = found.quasi.maps[1].values.to_pylist()
    dealt: Counter[tuple[object, object]] = Counter()
    for age, ill, many, shown, number in lines(shares):
        assert ages[age] == shown
        assert values[ill] in buckets[number]
        dealt[ages[age], values[ill]] += many  # type: ignore[operator]
    assert dealt == Counter(rows)


def test_a_value_that_is_too_common_is_refused(counted: Counted) -> None:
    table = counted(("age", "ill"), [(1, "flu"), (2, "flu"), (3, "cold")])
    with pytest.raises(CriterionError) as error:
        anatomize(table, "ill", l=2)
    assert error.value.code == "criterion_not_reachable"
    assert anatomize(table, "ill", l=1).groups == 3


def test_a_column_named_group_is_refused(counted: Counted) -> None:
    with pytest.raises(SchemaError) as error:
        anatomize(counted(("group", "ill"), [(1, "flu")]), "ill", l=1)
    assert error.value.code == "name_taken"


def test_shuffles_stay_inside_their_groups_and_are_uniform() -> None:
    """24 orders of 4 rows, 4,800 draws: chi-squared with 23 degrees is above 78 once in 1e7."""
    entropy = SeededEntropy(7)
    groups = np.array([1, 0, 1, 1, 0, 1])
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(4_800):
        order = shuffled(groups, entropy)
        assert (groups[order] == groups).all()
        seen[tuple(order[groups == 1].tolist())] += 1
    assert len(seen) == 24
    assert sum((n - 200) ** 2 / 200 for n in seen.values()) < 78


@pytest.mark.parametrize("algorithm", ["mondrian", "mondrian-relaxed", "optimal", "k-optimize"])
def test_permutation_keeps_the_values_of_each_group(counted: Counted, algorithm: str) -> None:
    rows = [(age, f"i{(age * 7) % 5}") for age in (1, 1, 1, 2, 3, 8, 9, 9, 9, 9)]
    table = counted(("age", "ill"), rows)
    problem = Problem.build(
        table, {"age": grow(AGE, {row[0] for row in rows})}, ["age"], [KAnonymity(3)]
    )
    shares = permute(table, run(problem, algorithm), ["ill"], entropy=SeededEntropy(3)).shares
    assert shares.column_names == ["code_0", "code_1", "rows", "age", "ill"]
    ages: Counter[object] = Counter()
    ills: Counter[object] = Counter()
    for _, _, many, age, ill in lines(shares):
        ages[age] += many  # type: ignore[operator]
        ills[ill] += many  # type: ignore[operator]
    assert ages == Counter(age for age, _ in rows)
    assert ills == Counter(ill for _, ill in rows)


def test_suppressed_rows_are_not_permuted_but_left_out(counted: Counted) -> None:
    rows = [(1, "a"), (1, "b"), (9, "c")]
    table = counted(("age", "ill"), rows)
    problem = Problem.build(
        table, {"age": grow(AGE, {1, 9})}, ["age"], [KAnonymity(2)], suppression_limit="0.34"
    )
    outcome = run(problem, "optimal", cost="loss")
    assert outcome.suppressed == 1
    shares = permute(table, outcome, ["ill"]).shares
    assert sorted(zip(shares["age"].to_pylist(), shares["ill"].to_pylist(), strict=True)) == [
        (1, "a"),
        (1, "b"),
    ]


PAY = Column("pay", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 100, 10))


def test_perturbation_moves_by_whole_steps_within_the_bounds(counted: Counted) -> None:
    table = counted(["pay"], [(0,), (50,), (96,), (None,)])
    shares = perturb(
        table,
        [PAY],
        stddev={"pay": 20},
        draw=lambda variance, size: np.array([-3, 2, 5, 1])[:size] * (variance == 4),
    ).shares
    assert shares["pay"].to_pylist() == [30, 70, 50, None]


def test_perturbation_heaps_nothing_on_the_bounds_and_states_its_moments(counted: Counted) -> None:
    """Half of the noise on 20,000 values at a bound would pass it; each moment is 5 errors wide."""
    table = counted(["pay"], [(0,)] * 20_000)
    wide = Column("pay", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 100))
    shares = perturb(table, [wide], stddev={"pay": 5}, entropy=SeededEntropy(7)).shares
    moved = np.repeat(shares["pay"].to_numpy(), shares["rows"].to_numpy()).astype(float)
    assert 0.05 < np.mean(moved == 0) < 0.1  # the odds of no noise at all, 0.0798
    stated = moments(wide, 5, at_bound=True)
    assert abs(moved.mean() - stated.shift) < 0.11
    assert abs(moved.std() - stated.stddev) < 0.08
    assert stated == pytest.approx((3.976, 3.032), abs=0.001)
    assert moments(wide, 5, at_bound=False) == pytest.approx((0, 5), abs=1e-6)


def test_moments_of_few_and_of_many_points() -> None:
    """Two points swap or stay; a million points are summed in coarser steps."""
    two = Column("two", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 1))
    swapped = sum(np.exp(-(n**2) / 2) for n in range(-31, 32, 2))
    odds = swapped / sum(np.exp(-(n**2) / 2) for n in range(-31, 32))
    assert moments(two, 1, at_bound=True) == pytest.approx(
        (odds, np.sqrt(odds * (1 - odds))), abs=1e-9
    )
    many = Column("many", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 1_000_000))
    assert moments(many, 50_000, at_bound=True) == pytest.approx((39_894, 30_141), rel=1e-3)


def test_perturbation_has_the_stated_deviation(counted: Counted) -> None:
    """The variance of 20,000 draws lies within 1 of 16 steps but once in 1e8."""
    table = counted(["pay"], [(500,)] * 20_000)
    wide = Column("pay", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 1_000))
    shares = perturb(table, [wide], stddev={"pay": 4}, entropy=SeededEntropy(5)).shares
    moved = np.repeat(shares["pay"].to_numpy() - 500, shares["rows"].to_numpy())
    assert abs(float(moved.var()) - 16) < 1


def test_perturbation_of_dates_and_reals(counted: Counted) -> None:
    day = Column("day", Kind.DATE, domain=Bounds(date(2020, 1, 1), date(2020, 12, 31)))
    mass = Column("mass", Kind.REAL, domain=Bounds(Decimal(0), Decimal(2), Decimal("0.5")))
    table = counted(("day", "mass"), [(date(2020, 3, 1), 0.7), (date(2020, 5, 1), float("inf"))])
    seen: list[Fraction] = []

    def draw(variance: Fraction, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        seen.append(variance)
        return np.full(size, -1, dtype=np.int64)

    shares = perturb(table, [day, mass], stddev={"day": 7, "mass": "0.25"}, draw=draw).shares
    assert seen == [49, Fraction(1, 4)]
    assert shares["day"].to_pylist() == [date(2020, 2, 29), date(2020, 4, 30)]
    assert shares["mass"].to_pylist() == [0.0, 1.5]


def test_values_off_the_grid_are_counted(counted: Counted) -> None:
    table = counted(["pay"], [(0,), (50,), (96,), (96,), (None,), (-1,), (500,), (101,), (100,)])
    assert strays(table, PAY) == (3, 2)
    tenth = Column("mass", Kind.REAL, domain=Bounds(Decimal(0), Decimal(1), Decimal("0.1")))
    reals = [(0.1 + 0.2,), (0.7,), (0.75,), (float("inf"),), (float("nan"),), (1.0,)]
    assert strays(counted(["mass"], reals), tenth) == (1, 1)


def test_a_column_without_a_grid_is_refused(counted: Counted) -> None:
    bare = Column("pay", Kind.INTEGER, Role.SENSITIVE)
    with pytest.raises(SchemaError) as error:
        perturb(counted(["pay"], [(1,)]), [bare], stddev={"pay": 1})
    assert error.value.code == "domain_missing"
