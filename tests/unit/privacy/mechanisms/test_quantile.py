"""Quantiles: the law over ranges equals the exponential mechanism over all grid points."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit
from sfumato.errors import ParameterError
from sfumato.privacy.accounting.events import ExponentialChoice
from sfumato.privacy.mechanisms.quantile import Counted, Quantile
from sfumato.testing.audit import fit, fit_uniform
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE = Fraction(1)


def scores(rows: NDArray[np.int64], rank: Fraction, size: int) -> NDArray[np.float64]:
    grid = np.arange(size)
    below = np.array([(rows < point).sum() for point in grid])
    up_to = np.array([(rows <= point).sum() for point in grid])
    wanted = float(rank) * len(rows)
    return -np.maximum(0, np.maximum(below - wanted, wanted - up_to))


def many(tables: list[list[int]], copies: int) -> Counted:
    """Give each table `copies` times, as interleaved groups with rows in no order."""
    counted = [Counted.of(np.array(table, dtype=np.int64)) for table in tables]
    points = np.concatenate([np.tile(one.points, copies) for one in counted])
    counts = np.concatenate([np.tile(one.counts, copies) for one in counted])
    groups = np.concatenate(
        [
            np.repeat(np.arange(copies) * len(tables) + at, len(one.points))
            for at, one in enumerate(counted)
        ]
    )
    order = np.random.default_rng(1).permutation(len(points))
    return Counted(points[order], counts[order], groups[order], copies * len(tables))


@pytest.mark.parametrize(
    "rank", [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), ONE]
)
def test_many_groups_at_once_have_the_law_of_the_whole_grid(rank: Fraction) -> None:
    tables = [[3, 3, 9, 0, 11], [], [5], [0, 0, 11], [2, 3, 4, 5]]
    mechanism = Quantile(epsilon=Fraction(2), rank=rank, size=12)
    chosen = mechanism.sample(many(tables, 20_000), SeededEntropy(1)).reshape(-1, len(tables))
    for at, table in enumerate(tables):
        score = scores(np.array(table), rank, 12)
        law = np.exp(score * 2 / (2 * float(max(rank, 1 - rank))))
        law /= law.sum()
        assert fit(chosen[:, at], law.__getitem__).p_value > 1e-6


def test_empty_group_gives_a_uniform_point() -> None:
    empty = np.zeros(0, dtype=np.int64)
    mechanism = Quantile(epsilon=ONE, rank=Fraction(1, 2), size=9)
    draws = mechanism.sample(Counted(empty, empty, empty, 50_000), SeededEntropy(2))
    assert fit_uniform(draws, 9).p_value > 1e-6


def test_points_outside_the_grid_count_at_its_ends() -> None:
    mechanism = Quantile(epsilon=Fraction(10), rank=Fraction(1, 2), size=5)
    for value, end in ((-7, 0), (99, 4)):
        counted = Counted.of(np.full(50, value))
        assert mechanism.sample(counted, SeededEntropy(3)).tolist() == [end]


def test_equal_points_given_apart_are_one() -> None:
    apart = Counted(np.array([2, 2, 2]), np.array([5, 5, 5]), np.zeros(3, dtype=np.int64), 1)
    together = Counted(np.array([2]), np.array([15]), np.zeros(1, dtype=np.int64), 1)
    mechanism = Quantile(epsilon=ONE, rank=Fraction(1, 2), size=8)
    for seed in range(20):
        first = mechanism.sample(apart, SeededEntropy(seed))
        assert np.array_equal(first, mechanism.sample(together, SeededEntropy(seed)))


def test_score_sensitivity_by_relation() -> None:
    def sensitivity(rank: Fraction, unit: Unit) -> Fraction:
        return Quantile(epsilon=ONE, rank=rank, size=5, unit=unit).sensitivity

    replaced = Rows(relation=Neighbours.REPLACE_ONE)
    assert sensitivity(Fraction(1, 2), Rows()) == Fraction(1, 2)
    assert sensitivity(Fraction(9, 10), Rows()) == Fraction(9, 10)
    assert sensitivity(Fraction(1, 10), Rows()) == Fraction(9, 10)
    assert sensitivity(Fraction(1, 2), replaced) == 1
    assert sensitivity(Fraction(1, 2), Entity("person", max_rows=4)) == 2


def test_rank_error_stays_within_its_bound() -> None:
    mechanism = Quantile(epsilon=ONE, rank=Fraction(1, 2), size=1000)
    rows = np.arange(1000)
    one = Counted.of(rows)
    chosen = mechanism.sample(
        Counted(
            np.tile(one.points, 200),
            np.tile(one.counts, 200),
            np.repeat(np.arange(200), 1000),
            200,
        ),
        SeededEntropy(4),
    )
    assert np.abs(chosen - 500).max() <= mechanism.bound(1e-6 / 200) + 1
    assert mechanism.bound(0.05) == pytest.approx(math.log(1000 / 0.05))


def test_cost_and_refusals() -> None:
    assert Quantile(epsilon=ONE, rank=Fraction(1, 2), size=2).event == ExponentialChoice(
        epsilon=ONE
    )
    bad: list[tuple[dict[str, Any], str]] = [
        ({"rank": Fraction(3, 2)}, "parameter_out_of_range"),
        ({"rank": Fraction(-1, 2)}, "parameter_out_of_range"),
        ({"rank": Fraction(1, 3**20)}, "parameter_out_of_range"),
        ({"size": 0}, "parameter_out_of_range"),
        ({"epsilon": 0}, "parameter_out_of_range"),
    ]
    for change, code in bad:
        parameters: dict[str, Any] = {"epsilon": ONE, "rank": Fraction(1, 2), "size": 2}
        with pytest.raises(ParameterError) as caught:
            Quantile(**(parameters | change))
        assert caught.value.code == code


def test_a_single_grid_point_is_always_chosen() -> None:
    mechanism = Quantile(epsilon=ONE, rank=Fraction(1, 2), size=1)
    assert mechanism.sample(Counted.of([0, 0]), SeededEntropy(5)).tolist() == [0]
