"""Centres are found in rounds that are fixed ahead, whatever the rows are."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.methods.learn.learnt import dataset, fitted, model_of, people, planned, spent

from sfumato.data.engines.sources import open_duckdb
from sfumato.errors import ParameterError
from sfumato.methods.learn.features import GRID
from sfumato.methods.learn.kmeans import count_weight, packed_points, update_centres
from sfumato.methods.method import SaltedData
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    import pyarrow as pa

MIDDLES = np.array([[-0.6, -0.5], [0.5, -0.4], [0.1, 0.6]])
POINTS = np.repeat(MIDDLES, 300, axis=0) + np.random.default_rng(1).normal(0, 0.1, (900, 2))


def test_clusters_are_found_where_noise_is_small() -> None:
    learning = planned("kmeans", 2, clusters=3, epsilon=100, rounds=8)
    found = model_of(learning, fitted(learning, people(POINTS), 5))
    nearest = np.linalg.norm(found.centres[:, None] - MIDDLES, axis=2)  # type: ignore[attr-defined]
    assert sorted(nearest.argmin(axis=1)) == [0, 1, 2]
    assert nearest.min(axis=1).max() < 0.05
    told = found.predict(POINTS)
    assert [len(set(told[at : at + 300])) for at in (0, 300, 600)] == [1, 1, 1]
    assert sum(found.tables["sizes"].column("size").to_pylist()) == pytest.approx(900, abs=20)


def test_the_price_is_spent_in_full_and_rounds_are_fixed_ahead() -> None:
    learning = planned("kmeans", 2, clusters=3, epsilon="3/10", rounds=7)
    assert spent(learning.event) == Fraction(3, 10)
    assert learning.method.parameters == {"clusters": 3, "rounds": 7, "reach": 0.599609}


def _looks(learning: Any, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a learner asks an engine for something."""
    asked = []
    with closing(open_duckdb(table)) as engine:
        run = type(engine).run

        def counted(self: Any, query: Any, *more: Any, **named: Any) -> Any:
            asked.append(query)
            return run(self, query, *more, **named)

        monkeypatch.setattr(type(engine), "run", counted)
        learning.method.release(SaltedData(dataset(learning, engine), "salt"), SeededEntropy(1))
    monkeypatch.undo()
    return len(asked)


def test_rows_are_looked_at_as_often_as_was_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """However quickly centres settle, or whether there is anything to settle at all."""
    learning = planned("kmeans", 2, clusters=2, epsilon=1, rounds=3)
    for cells in (POINTS, np.zeros((0, 2)), np.zeros((50, 2))):
        assert _looks(learning, people(cells), monkeypatch) == 1 + 3


def test_shares_are_those_of_su() -> None:
    """At offsets as wide as the bounds; swapped, as a peer has them, they spend 2.28 as much."""
    width, radius = 64, 0.225
    weight = count_weight(width * GRID) / GRID
    assert weight == pytest.approx(np.cbrt(4 * width * radius**2), rel=1e-3)
    assert (1 + width * weight) / (width + weight) == pytest.approx(2.28, abs=0.005)


def test_the_weight_of_counts_is_the_best_for_what_noise_does() -> None:
    def harm(reach: float, weight: float) -> float:
        return (reach + weight) ** 2 * (1 + 4 * 0.225**2 / weight**2)

    for reach in (0.3, 2.0, 64.0):
        weight = count_weight(round(reach * GRID)) / GRID
        assert harm(reach, weight) <= min(harm(reach, weight * 1.1), harm(reach, weight / 1.1))


def test_a_group_without_rows_moves_like_all_others() -> None:
    """A count of 0, below 0 or of noise alone has a floor; no case asks which it is."""
    centres = np.array([[0.5], [-0.5]])
    counts = [np.array([100.0, low]) for low in (-40.0, 0.0, 3.0)]
    found = [update_centres(centres, one, np.array([[10.0], [5.0]]), 2.0)[1, 0] for one in counts]
    assert found[0] == pytest.approx(found[1])
    assert len(set(found)) > 1
    assert all(-0.5 < one < 1 for one in found)
    # What few rows say beside much noise moves a centre little.
    assert update_centres(centres, counts[1], np.array([[0.0], [5.0]]), 500.0)[1, 0] < -0.49


def test_starting_points_are_far_apart_and_from_the_border() -> None:
    points = packed_points(4, 2, 0.6, SeededEntropy(2))
    far = np.linalg.norm(points[:, None] - points, axis=2) + 9 * np.eye(4)
    assert far.min() > 0.4
    assert np.abs(points).max() < 0.6 - 0.2
    assert packed_points(1, 1, 0.6, SeededEntropy(2)).shape == (1, 1)
    assert packed_points(64, 1, 0.6, SeededEntropy(2)).shape == (64, 1)


@pytest.mark.parametrize("clusters", [None, 0, 65, "many", 2.5])
def test_the_number_of_clusters_is_a_number(clusters: object) -> None:
    with pytest.raises(ParameterError, match="clusters must be a whole number from 1 to 64"):
        planned("kmeans", 2, clusters=clusters)
    assert planned("kmeans", 2).method.parameters["clusters"] == 3
