"""Nodes are known by their edges: a new one counts as one there; a hub takes bounded memory."""

from __future__ import annotations

import tracemalloc
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.methods.graph.simple_graph import Graph, graph_of
from sfumato.methods.graph.subgraphs import (
    CliqueSensitivity,
    StarSensitivity,
    TriangleSensitivity,
    cliques,
    stars,
    triangles,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = list(combinations(range(5), 2))
COUNTS: dict[str, tuple[Callable[[Graph], int], Callable[[Graph], Callable[[int], int]]]] = {
    "triangles": (triangles, TriangleSensitivity.of),
    "2-stars": (lambda graph: stars(graph, 2), StarSensitivity.of),
    "3-stars": (lambda graph: stars(graph, 3), lambda graph: StarSensitivity.of(graph, 3)),
    "4-cliques": (
        lambda graph: cliques(graph, 4),
        lambda graph: CliqueSensitivity(TriangleSensitivity.of(graph), 4),
    ),
}


def _known_by_edges(graph: Graph, spare: int = 0) -> Graph:
    """The graph as a table of edges tells it, and so many nodes that have none, as of loops."""
    there, codes = np.unique(graph.edges, return_inverse=True)
    return graph_of(codes.reshape(-1, 2).astype(np.int64), len(there) + spare)


@pytest.mark.parametrize("kind", COUNTS)
def test_an_edge_to_somebody_new_is_a_neighbour_as_any(
    kind: str, small_graphs: list[Graph]
) -> None:
    """The fifth node of a graph of four is new; nodes without an edge change nothing."""
    count, of = COUNTS[kind]
    counts = [count(one) for one in small_graphs]
    found = [of(_known_by_edges(one)) for one in small_graphs]
    table = np.array([[one(t) for t in range(6)] for one in found])
    for mask, graph in enumerate(small_graphs):
        padded = of(_known_by_edges(graph, spare=2))
        assert [padded(t) for t in range(6)] == table[mask].tolist()
        for at in range(len(PAIRS)):
            other = mask ^ (1 << at)
            assert abs(counts[mask] - counts[other]) <= table[mask, 0]
            assert (table[mask, :-1] <= table[other, 1:]).all()


def test_one_edge_is_a_triangle_away_from_moving_triangles() -> None:
    at = TriangleSensitivity.of(graph_of(np.array([[0, 1]]), 2))
    assert [at(t) for t in range(6)] == [0, 1, 1, 2, 2, 3]


def test_a_hub_takes_bounded_memory() -> None:
    """All pairs of a hub's neighbours at once would be 9 million, of some 50 bytes each."""
    leaves = np.arange(1, 3001)
    star = graph_of(np.stack([np.zeros(3000, dtype=np.int64), leaves], axis=1), 3001)
    tracemalloc.start()
    try:
        assert triangles(star) == 0
        assert TriangleSensitivity.of(star)(0) == 1
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 256 << 20
