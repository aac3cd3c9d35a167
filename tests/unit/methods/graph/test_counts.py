"""Stars, cliques, joint degrees and truncation on every small graph and all of its neighbours."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import networkx as nx  # type: ignore[import-untyped]  # it has no types
import numpy as np
import pytest

from sfumato.methods.graph.degrees import joint_degrees, projected, sensitivity
from sfumato.methods.graph.edge_mechanisms import smooth_sensitivity
from sfumato.methods.graph.simple_graph import Graph, graph_of, truncated
from sfumato.methods.graph.subgraphs import (
    CliqueSensitivity,
    StarSensitivity,
    TriangleSensitivity,
    cliques,
    stars,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = list(combinations(range(5), 2))
COUNTS: dict[str, tuple[Callable[[Graph], int], Callable[[Graph], Callable[[int], int]]]] = {
    "3-stars": (lambda graph: stars(graph, 3), lambda graph: StarSensitivity.of(graph, 3)),
    "4-cliques": (
        lambda graph: cliques(graph, 4),
        lambda graph: CliqueSensitivity(TriangleSensitivity.of(graph), 4),
    ),
}


def _neighbours() -> list[tuple[int, int]]:
    every = range(1 << len(PAIRS))
    return [(mask, mask | 1 << at) for mask in every for at in range(10) if not mask >> at & 1]


@pytest.mark.parametrize("kind", COUNTS)
def test_bounds_hold_for_every_flip_and_are_smooth(kind: str, small_graphs: list[Graph]) -> None:
    count, of = COUNTS[kind]
    counts = np.array([count(one) for one in small_graphs])
    found = [of(one) for one in small_graphs]
    table = np.array([[one(t) for t in range(6)] for one in found])
    for one, other in _neighbours():
        moved = abs(counts[one] - counts[other])
        assert moved <= min(table[one, 0], table[other, 0])
        assert (table[one, :-1] <= table[other, 1:]).all()
        assert (table[other, :-1] <= table[one, 1:]).all()


def test_stars_move_by_the_top_degrees_no_further_than_they_must(small_graphs: list[Graph]) -> None:
    """Local sensitivity is met: by a flip of five nodes, or an edge to somebody new."""
    counts = [stars(one, 3) for one in small_graphs]
    for mask, graph in enumerate(small_graphs):
        flips = [abs(counts[mask] - counts[mask ^ 1 << at]) for at in range(10)]
        new = max(degree * (degree - 1) // 2 for degree in graph.degrees)
        assert StarSensitivity.of(graph, 3)(0) == max(*flips, new)


def _cut(graph: Graph, turns: dict[tuple[int, int], int], most: int) -> Graph:
    return truncated(graph, _order(graph, turns), most)


def _order(graph: Graph, turns: dict[tuple[int, int], int]) -> np.ndarray:
    return np.argsort([turns[one, other] for one, other in graph.edges.tolist()]).astype(np.int64)


def _changed(one: Graph, other: Graph) -> int:
    return len(set(map(tuple, one.edges.tolist())) ^ set(map(tuple, other.edges.tolist())))


@pytest.mark.parametrize("most", [1, 2, 3])
def test_an_edge_changes_three_of_a_truncated_graph(most: int, small_graphs: list[Graph]) -> None:
    shuffled = np.random.default_rng(most).permutation(len(PAIRS)).tolist()
    turns = dict(zip(PAIRS, shuffled, strict=True))
    cut = [_cut(one, turns, most) for one in small_graphs]
    assert max(int(one.degrees.max(initial=0)) for one in cut) == most
    joint = np.array([joint_degrees(one, most) for one in cut])
    assert max(_changed(cut[one], cut[other]) for one, other in _neighbours()) <= 3
    moved = max(np.abs(joint[one] - joint[other]).sum() for one, other in _neighbours())
    assert moved <= sensitivity(most)


def test_places_that_are_handed_on_are_caught() -> None:
    """Twins: edges kept in turn by what was kept so far, and edges taken as they lie."""
    path = [(at, at + 1) for at in range(20)]
    graph, shorter = Graph(21, np.array(path)), Graph(21, np.array(path[1:]))
    handed = _changed(projected(graph, range(20), 1), projected(shorter, range(19), 1))
    assert handed > 3  # each edge frees or takes the place of the next
    turns = dict(zip(path, range(20), strict=True))
    assert _changed(_cut(graph, turns, 1), _cut(shorter, turns, 1)) <= 3
    crowd = Graph(9, np.array([(0, at) for at in range(1, 9)]))
    lying = [truncated(crowd, order, 3) for order in (np.arange(8), np.arange(8)[::-1])]
    assert _changed(*lying) > 3  # one table in two orders


@pytest.mark.parametrize(
    ("graph", "threes", "fours"),
    [(nx.karate_club_graph(), 1764, 11), (nx.les_miserables_graph(), 15_177, 639)],
)
def test_check_figures(graph: nx.Graph, threes: int, fours: int) -> None:
    plain = nx.convert_node_labels_to_integers(graph)
    found = graph_of(np.array(plain.edges, dtype=np.int64), len(plain))
    brute = sum(degree * (degree - 1) * (degree - 2) // 6 for _, degree in plain.degree)
    assert stars(found, 3) == brute == threes
    alike = sum(len(one) == 4 for one in nx.enumerate_all_cliques(plain))
    assert cliques(found, 4) == alike == fours


def test_the_largest_of_a_smooth_bound_is_found() -> None:
    graph = graph_of(np.array(nx.karate_club_graph().edges, dtype=np.int64), 34)
    for power, at in ((2, StarSensitivity.of(graph, 3)), (1, TriangleSensitivity.of(graph))):
        for beta in (0.02, 0.5):
            far = max(np.exp(-beta * t) * at(t) for t in range(4000))
            assert smooth_sensitivity(at, beta, power=power) == pytest.approx(far)
