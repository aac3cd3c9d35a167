"""Every small graph and every neighbour of it: sensitivities, ladders, projections."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import exp

import networkx as nx  # type: ignore[import-untyped]  # it has no types
import numpy as np
import pytest

from sfumato.methods.graph.degrees import cumulative, projected, sorted_degrees
from sfumato.methods.graph.simple_graph import Graph, graph_of, keyed_order
from sfumato.methods.graph.subgraphs import StarSensitivity, TriangleSensitivity, stars, triangles

PAIRS = list(combinations(range(5), 2))


def _graph(mask: int, pairs: list[tuple[int, int]] = PAIRS, nodes: int = 5) -> Graph:
    kept = [pair for at, pair in enumerate(pairs) if mask >> at & 1]
    return graph_of(np.array(kept, dtype=np.int64).reshape(-1, 2), nodes)


ALL = [_graph(mask) for mask in range(1 << len(PAIRS))]


@pytest.mark.parametrize("kind", ["triangles", "stars"])
def test_local_sensitivities_bound_every_flip_and_move_by_one_rung(kind: str) -> None:
    count = triangles if kind == "triangles" else lambda graph: stars(graph, 2)
    sensitivity = TriangleSensitivity.of if kind == "triangles" else StarSensitivity.of
    counts, found = [count(one) for one in ALL], [sensitivity(one) for one in ALL]
    table = np.array([[one(t) for t in range(8)] for one in found])
    assert (table[:, 1:] <= table[:, :1] + np.arange(1, 8)).all()  # what the ladder's draw needs
    for mask in range(len(ALL)):
        for at in range(len(PAIRS)):
            other = mask ^ (1 << at)
            assert abs(counts[mask] - counts[other]) <= table[mask, 0]
            assert (table[mask, :-1] <= table[other, 1:]).all()


def _weights(value: int, sensitivity: TriangleSensitivity, epsilon: float) -> dict[int, float]:
    weights, low, high = {value: 1.0}, value, value
    for rung in range(1, 60):
        for _ in range(sensitivity(rung - 1)):
            low, high = low - 1, high + 1
            weights[low] = weights[high] = exp(-epsilon * rung / 2)
    total = sum(weights.values())
    return {place: weight / total for place, weight in weights.items()}


def test_the_ladder_of_neighbours_differs_by_no_more_than_epsilon() -> None:
    """On all graphs of 4 nodes; rungs far out, of chances below 1e-12, are left aside."""
    pairs, epsilon = list(combinations(range(4), 2)), 1.0
    graphs = [_graph(mask, pairs, 4) for mask in range(1 << len(pairs))]
    chances = [_weights(triangles(one), TriangleSensitivity.of(one), epsilon) for one in graphs]
    for mask, mine in enumerate(chances):
        for at in range(len(pairs)):
            other = chances[mask ^ (1 << at)]
            for place in range(-30, 31):
                assert mine[place] <= other[place] * exp(epsilon) * (1 + 1e-9)


def test_sorted_degrees_move_by_two() -> None:
    karate = nx.karate_club_graph()
    edges = np.array(karate.edges, dtype=np.int64)
    graph, worst = graph_of(edges, 34), 0
    before = sorted_degrees(graph, 40)
    tied = set(map(tuple, graph.edges.tolist()))
    for pair in combinations(range(34), 2):
        kept = tied ^ {pair}
        after = sorted_degrees(graph_of(np.array(sorted(kept)), 34), 40)
        worst = max(worst, int(np.abs(after - before).sum()))
    assert worst == 2


def _without(graph: Graph, node: int) -> Graph:
    return Graph(graph.nodes, graph.edges[(graph.edges != node).all(axis=1)])


def _kept(graph: Graph, most: int, order: dict[tuple[int, int], int]) -> np.ndarray:
    places = sorted(range(len(graph.edges)), key=lambda at: order[tuple(graph.edges[at].tolist())])
    return np.array(cumulative(projected(graph, places, most), most))


def test_a_person_moves_the_projected_numbers_by_no_more_than_twice_the_bound() -> None:
    generator = np.random.default_rng(3)
    worst: dict[int, int] = {}
    for most in (1, 2, 3):
        order = dict(zip(PAIRS, generator.permutation(len(PAIRS)).tolist(), strict=True))
        for graph in ALL:
            for node in range(5):
                moved = _kept(graph, most, order) - _kept(_without(graph, node), most, order)
                worst[most] = max(worst.get(most, 0), int(np.abs(moved).sum()))
    assert worst == {1: 2, 2: 4, 3: 6}


def test_an_order_of_the_data_is_caught() -> None:
    """A planted twin: edges visited as they lie, so that a person shifts everybody's turns."""
    # Two paths of three edges: the middle edges first keep 4 people tied, the outer ones all 8.
    paths = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
    graph = Graph(8, np.array(paths))
    told = [
        cumulative(projected(graph, order, 1), 1)[0] for order in ([1, 4, 0, 2, 3, 5], range(6))
    ]
    assert told == [4, 8]  # one table in two orders: more than twice the bound apart
    star = [(str(one), "hub") for one in range(6)]
    assert [star[at] for at in keyed_order(star, "s")] == [
        star[::-1][at] for at in keyed_order(star[::-1], "s")
    ]


def test_wrong_sensitivities_are_caught() -> None:
    """Planted twins: b with the pair's own edge, and LS(0) at every distance."""

    def broken(graph: Graph, twin: str, distance: int) -> int:
        right = TriangleSensitivity.of(graph)
        if twin == "flat":
            return right(0)
        single = right.single + 2 * int(len(graph.edges) > 0)
        return int((right.shared + (distance + np.minimum(distance, single)) // 2).max())

    for twin in ("flat", "edge"):
        caught = any(
            broken(ALL[mask], twin, t) > broken(ALL[mask ^ (1 << at)], twin, t + 1)
            for mask in range(len(ALL))
            for at in range(len(PAIRS))
            for t in range(6)
        )
        assert caught, twin


@pytest.mark.parametrize(
    ("graph", "figures"),
    [(nx.karate_club_graph(), (45, 10, 15)), (nx.les_miserables_graph(), (467, 16, 21))],
)
def test_check_figures(graph: nx.Graph, figures: tuple[int, int, int]) -> None:
    plain = nx.convert_node_labels_to_integers(graph)
    found = graph_of(np.array(plain.edges, dtype=np.int64), len(plain))
    at = TriangleSensitivity.of(found)
    assert (triangles(found), at(0), at(5)) == figures
    if len(plain) == 34:
        assert (stars(found, 2), stars(found, 3)) == (528, 1764)
        smooth = max(exp(-t / 6) * at(t) for t in range(60))
        assert round(smooth) == 10
    assert Fraction(at(0)) >= 1
