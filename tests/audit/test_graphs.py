"""The ladder draws what it says, within 1e-6 of a false alarm; wrong twins are caught."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.methods.graph.attributes import correlations
from sfumato.methods.graph.degrees import (
    cumulative,
    joint_degrees,
    projected,
    sensitivity,
    sorted_degrees,
)
from sfumato.methods.graph.edge_mechanisms import LadderCount, smooth_sensitivity
from sfumato.methods.graph.simple_graph import Graph, graph_of, truncated
from sfumato.methods.graph.subgraphs import StarSensitivity, stars
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.noise.discrete import rounded_cauchy
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

_DRAWS = 1500
_BINS = range(-6, 7)


def _grows(distance: int) -> int:
    return 2 + distance


def _chances(epsilon: float, *, first: int = 1) -> dict[int, float]:
    """By rungs, one number after the other; `first` is how wide the rung of the count is."""
    weights, place = {0: float(first)}, 0
    for rung in range(1, 200):
        for _ in range(_grows(rung - 1)):
            place += 1
            weights[place] = weights[-place] = exp(-epsilon * rung / 2)
    total = sum(weights.values())
    return {at: weight / total for at, weight in weights.items()}


def _farthest(told: list[int], chances: dict[int, float]) -> float:
    """How many times a share is farther off than it may be, by Hoeffding's inequality."""
    allowed = sqrt(log(2 * len(_BINS) / 1e-6) / (2 * len(told)))
    shares = [told.count(at) / len(told) - chances[at] for at in _BINS]
    return float(np.abs(shares).max() / allowed)


def test_the_ladder_draws_rungs_by_their_weights() -> None:
    entropy = SeededEntropy(5)
    ladder = LadderCount(epsilon=Fraction(2))
    told = [ladder.sample(0, _grows, entropy) for _ in range(_DRAWS)]
    assert _farthest(told, _chances(2.0)) < 1
    # Twins: the whole of epsilon in each rung, and a centre that is as wide as the next rung.
    assert _farthest(told, _chances(4.0)) > 1
    assert _farthest(told, _chances(2.0, first=4)) > 1


EPSILON = Fraction(2)
_AUDITED = 30_000


def _order(graph: Graph) -> NDArray[np.int64]:
    """An order that both graphs share: by the nodes of an edge."""
    return np.lexsort((graph.edges[:, 1] * 7 % 11, graph.edges[:, 0] * 5 % 11)).astype(np.int64)


def _star(leaves: int, more: int = 0) -> Graph:
    pairs = [(0, at) for at in range(1, leaves + 1)] + [(at, 9) for at in range(1, more + 1)]
    return graph_of(np.array(pairs, dtype=np.int64), 10)


CODES = np.array([0, 1, 1, 1, 1, 1, 1, 1, 1, 1])
FIGURES: dict[str, tuple[Any, tuple[Graph, Graph], int, int]] = {
    # What is told of a graph; neighbours it moves most between; its sensitivity; a wrong one.
    "degrees": (lambda one: sorted_degrees(one, 10), (_star(3), _star(4)), 2, 1),
    "node-degrees": (
        lambda one: np.array(cumulative(projected(one, _order(one).tolist(), 2), 2)),
        (_star(2, 2), graph_of(np.array([(1, 9), (2, 9)]), 10)),
        4,
        1,
    ),
    "joint-degrees": (
        lambda one: joint_degrees(truncated(one, _order(one), 3), 3),
        (graph_of(np.array([(0, 1), (0, 2), (3, 4), (3, 5)]), 10),
         graph_of(np.array([(0, 1), (0, 2), (3, 4), (3, 5), (0, 3)]), 10)),
        sensitivity(3),
        3,
    ),
}  # fmt: skip


def _told(figures: Any, scale: int, pair: tuple[Graph, Graph]) -> Any:
    """Noisy figures, along the direction in which the two graphs differ: nothing else tells."""
    noise = Geometric(epsilon=EPSILON, l1_sensitivity=Fraction(scale))
    before, after = (figures(one) for one in pair)
    moves, middle = np.sign(after - before), (before + after) / 2

    def outputs(graph: Graph, draws: int, entropy: Entropy) -> NDArray[Any]:
        noisy = noise.steps(np.tile(figures(graph), (draws, 1)), entropy)
        return np.asarray(((noisy - middle) * moves > 0).sum(axis=1))

    return outputs


@pytest.mark.parametrize("kind", FIGURES)
def test_figures_of_graphs_keep_what_they_claim(kind: str) -> None:
    figures, pair, right, wrong = FIGURES[kind]
    claim = Pure(epsilon=EPSILON)
    found = audit(
        _told(figures, right, pair), pair, claim, entropy=SeededEntropy(2), draws=_AUDITED
    )
    assert not found.violated, found.sentence()
    caught = audit(
        _told(figures, wrong, pair), pair, claim, entropy=SeededEntropy(3), draws=_AUDITED
    )
    assert caught.violated, caught.sentence()


def test_ties_between_kinds_pay_for_a_node_and_not_for_an_edge_alone() -> None:
    """A node whose kind becomes known moves as many ties as it has, up to the truncation."""
    graph, most = _star(8), 4
    cut = truncated(graph, _order(graph), most)
    unknown = np.array([-1, *CODES[1:]])
    pair = (CODES, unknown)

    def told(scale: int) -> Any:
        noise = Geometric(epsilon=EPSILON, l1_sensitivity=Fraction(scale))
        return lambda codes, draws, entropy: noise.steps(
            np.full(draws, int(correlations(cut, codes, 2).sum())), entropy
        )

    assert [int(correlations(cut, one, 2).sum()) for one in pair] == [most, 0]
    claim = Pure(epsilon=EPSILON)
    found = audit(told(most), pair, claim, entropy=SeededEntropy(4), draws=_AUDITED)
    assert not found.violated, found.sentence()
    # Twin: the three edges that one edge changes, and nothing for what nodes are.
    caught = audit(told(3), pair, claim, entropy=SeededEntropy(5), draws=_AUDITED)
    assert caught.violated, caught.sentence()


@pytest.mark.parametrize("twin", [False, True])
def test_stars_by_smooth_sensitivity(*, twin: bool) -> None:
    """Twin: the local sensitivity as the scale, which tells by itself which graph it is."""
    pair, epsilon = (_star(1), _star(2)), Fraction(1, 2)

    def outputs(graph: Graph, draws: int, entropy: Entropy) -> NDArray[Any]:
        at = StarSensitivity.of(graph, 3)
        smooth = smooth_sensitivity(at, float(epsilon / 2), power=2)
        scale = 2 * Fraction(max(at(0), 0.01) if twin else smooth) / epsilon
        return np.asarray(stars(graph, 3) + rounded_cauchy(scale, draws, entropy))

    claim = Pure(epsilon=epsilon)
    found = audit(outputs, pair, claim, entropy=SeededEntropy(6), draws=_AUDITED)
    assert found.violated == twin, found.sentence()
