"""How many k-cliques a graph has, k nodes that are all tied, under edge privacy."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods import options
from sfumato.methods.graph.edge_mechanisms import LadderCount, SmoothCount, edge_privacy
from sfumato.methods.graph.subgraphs import SubgraphCount
from sfumato.methods.graph.triangles import TriangleSensitivity

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.graph.simple_graph import Graph
    from sfumato.methods.publish.form_kinds import FormRequest

MOST_NODES_OF_A_CLIQUE = 5


def cliques(graph: Graph, k: int) -> int:
    """How many sets of k nodes are all tied: each found from its node of the lowest degree on."""
    rank = np.empty(graph.nodes, dtype=np.int64)
    rank[np.argsort(graph.degrees, kind="stable")] = np.arange(graph.nodes)
    later_neighbours: dict[int, set[int]] = {}
    for first, second in graph.edges.tolist():
        low, high = (first, second) if rank[first] < rank[second] else (second, first)
        later_neighbours.setdefault(low, set()).add(high)
    no_nodes: set[int] = set()

    def grown(candidates: set[int], missing: int) -> int:
        if missing == 1:
            return len(candidates)
        return sum(
            grown(candidates & later_neighbours.get(node, no_nodes), missing - 1)
            for node in candidates
        )

    return sum(grown(neighbours, k - 1) for neighbours in later_neighbours.values())


@dataclass(frozen=True)
class CliqueSensitivity:
    """A bound on how far one edge moves the number of k-cliques, at each distance.

    The cliques of an edge are sets of k - 2 nodes joined to both of its ends: at most C(a, k - 2)
    of them, a being at most what one edge moves triangles by. That is at most what it is in a
    neighbour a step further, and so is this: all that smooth sensitivity needs. For triangles it
    is the local sensitivity itself.
    """

    triangles: TriangleSensitivity
    k: int

    def __call__(self, distance: int) -> int:
        """The bound at a distance."""
        return comb(self.triangles(distance), self.k - 2)


class CliqueCount(SubgraphCount):
    """The number of k-cliques; its promise is that of `LadderCount` or `SmoothCount`."""

    name = "cliques"

    def counted(self, graph: Graph) -> tuple[int, Callable[[int], int]]:
        """The number, and its sensitivity."""
        return cliques(graph, self.k), CliqueSensitivity(TriangleSensitivity.of(graph), self.k)


def prepare_cliques(request: FormRequest, *, k: object = 4) -> CliqueCount:
    """Release the number for a pure epsilon: triangles by the ladder, others by a smooth bound."""
    size = options.whole(k, "k", least=3, most=MOST_NODES_OF_A_CLIQUE)
    epsilon = edge_privacy(request, "cliques")
    ladder = LadderCount(epsilon=epsilon)
    return CliqueCount(
        request, size, ladder if size == 3 else SmoothCount(epsilon=epsilon, power=size - 2)
    )
