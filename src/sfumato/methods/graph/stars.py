"""How many k-stars a graph has, k ties that meet in one node, under edge privacy."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods import options
from sfumato.methods.graph.edge_mechanisms import LadderCount, SmoothCount, edge_privacy
from sfumato.methods.graph.subgraphs import SubgraphCount

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.graph.simple_graph import Graph
    from sfumato.methods.publish.form_kinds import FormRequest

MOST_TIES = 5


def stars(graph: Graph, k: int) -> int:
    """How many sets of k ties meet in one node."""
    degrees, nodes = np.unique(graph.degrees, return_counts=True)
    pairs = zip(degrees.tolist(), nodes.tolist(), strict=True)
    return sum(comb(degree, k) * node_count for degree, node_count in pairs)


@dataclass(frozen=True)
class StarSensitivity:
    """How far one edge moves the number of k-stars, in a graph or t edges away from it.

    An edge between nodes of degrees d >= e, itself aside, is in C(d, k - 1) + C(e, k - 1) stars.
    Each further edge at either of them adds 1 to its degree, nodes being as many as anybody likes;
    by convexity all of t at the larger one move it farthest.
    """

    pairs: tuple[tuple[int, int], ...]
    """Degrees of two nodes, an edge between them aside: of those that can be the largest."""
    k: int

    @classmethod
    def of(cls, graph: Graph, k: int = 2) -> StarSensitivity:
        """The pairs that no other has both degrees at least as large as."""
        order = np.argsort(-graph.degrees, kind="stable")
        degrees, tied = graph.degrees, graph.adjacency
        top = int(degrees.max(initial=0))
        best = {top: 0}  # with a node that has no edge
        floor = 0
        for position, node in enumerate(order[:-1].tolist()):
            # Both degrees of all pairs from here on are at most that.
            if degrees[node] <= floor:
                break
            later_nodes = order[position + 1 :]
            aside = np.zeros(graph.nodes, dtype=np.int64)
            aside[tied.indices[tied.indptr[node] : tied.indptr[node + 1]]] = 1
            for loss in (0, 1):
                among = later_nodes[aside[later_nodes] == loss]
                if len(among):
                    pair = int(degrees[node]) - loss, int(degrees[among[0]]) - loss
                    best[pair[0]] = max(best.get(pair[0], 0), pair[1])
                    floor = max(floor, pair[1])
        return cls(tuple(sorted(best.items())), k)

    def __call__(self, distance: int) -> int:
        """LS at a distance."""
        reach = self.k - 1
        return max(
            comb(larger + distance, reach) + comb(smaller, reach) for larger, smaller in self.pairs
        )


class StarCount(SubgraphCount):
    """The number of k-stars; its promise is that of `LadderCount`, or of `SmoothCount` from 3 on.

    The ladder's exact draw needs rungs that grow by at most 1, as those of pairs do.
    """

    name = "stars"

    def counted(self, graph: Graph) -> tuple[int, Callable[[int], int]]:
        """The number, and its sensitivity."""
        return stars(graph, self.k), StarSensitivity.of(graph, self.k)


def prepare_stars(request: FormRequest, *, k: object = 2) -> StarCount:
    """Release the number of k-stars for a pure epsilon."""
    ties = options.whole(k, "k", least=2, most=MOST_TIES)
    epsilon = edge_privacy(request, "stars")
    ladder = LadderCount(epsilon=epsilon)
    return StarCount(
        request, ties, ladder if ties == 2 else SmoothCount(epsilon=epsilon, power=ties - 1)
    )
