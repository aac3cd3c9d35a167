"""Counts of subgraphs under edge privacy: triangles, k-stars and k-cliques."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.methods import options
from sfumato.methods.graph.edge_mechanisms import LadderCount, SmoothCount, edge_privacy
from sfumato.methods.graph.simple_graph import read_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.arrays import IntArray
    from sfumato.methods.graph.simple_graph import Graph
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class SubgraphCount(ABC):
    """A noisy count of subgraphs; its guarantee is that of `LadderCount` or `SmoothCount`."""

    request: FormRequest
    k: int
    mechanism: LadderCount | SmoothCount

    name: ClassVar[str]
    reads = ()

    @abstractmethod
    def counted(self, graph: Graph) -> tuple[int, Callable[[int], int]]:
        """Return the exact count, and its local sensitivity at each distance. Both are private."""

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        return self.mechanism.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The mechanism, and the size k."""
        return {"mechanism": MECHANISMS[isinstance(self.mechanism, SmoothCount)], "k": self.k}

    @property
    def error(self) -> Mapping[str, Any]:
        """It depends on the graph, and is not known beforehand."""
        return {"note": "how far off it is depends on the graph, and is not known"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """One figure."""
        return {self.name: one_count([])}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Return the noisy number."""
        graph = read_graph(rows.read([name for name, _ in self.request.form.roles.values()]))
        value, sensitivity = self.counted(graph)
        return {self.name: one_count([self.mechanism.sample(value, sensitivity, entropy)])}


# Triangles under edge privacy.
#
# Decision `graphs`.

MECHANISMS = ("ladder", "smooth")


def triangles(graph: Graph) -> int:
    """Return the number of triangles."""
    return graph.shared.triangles


@dataclass(frozen=True)
class TriangleSensitivity:
    """The local sensitivity of the number of triangles at each distance.

    LS(t) is the maximum over pairs of nodes of a + floor((t + min(t, b)) / 2): a nodes are joined
    to both, b to exactly one (without the edge of the pair). Each further edge completes one of the
    b nodes, or is half of a new common neighbour. The number of nodes is not bounded, so that LS
    does not depend on it.
    """

    shared: IntArray
    """a of the pairs that can be the maximum: nodes joined to both ends."""
    single: IntArray
    """b of the same pairs: the most nodes joined to exactly one end."""

    @classmethod
    def of(cls, graph: Graph) -> TriangleSensitivity:
        """Return the pairs of a graph that can be the maximum at some distance."""
        most = graph.shared.single.copy()
        most[0] = _largest_without_shared(graph)
        return cls(np.arange(len(most)), most)

    def __call__(self, distance: int) -> int:
        """LS at a distance."""
        grown = (distance + np.minimum(distance, self.single)) // 2
        return int((self.shared + grown).max())


def _largest_without_shared(graph: Graph) -> int:
    """Return the maximum of b over pairs without common neighbours; one end may be a new node."""
    order = np.argsort(-graph.degrees, kind="stable")
    degrees, best = graph.degrees[order], int(graph.degrees.max(initial=0))
    for position, node in enumerate(order[:-1].tolist()):
        if degrees[position] + degrees[position + 1] <= best:
            break
        free = np.ones(graph.nodes, dtype=bool)
        free[(graph.adjacency[[node]] @ graph.adjacency).indices] = False
        tied = graph.adjacency.indices[
            graph.adjacency.indptr[node] : graph.adjacency.indptr[node + 1]
        ]
        degree_sums = degrees[position] + graph.degrees
        degree_sums[tied] -= 2
        later_nodes = order[position + 1 :]
        best = max(best, int(degree_sums[later_nodes][free[later_nodes]].max(initial=0)))
    return best


class TriangleCount(SubgraphCount):
    """The noisy number of triangles; its guarantee is that of `LadderCount` or `SmoothCount`."""

    name = "triangles"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The mechanism."""
        return {"mechanism": MECHANISMS[isinstance(self.mechanism, SmoothCount)]}

    def counted(self, graph: Graph) -> tuple[int, Callable[[int], int]]:
        """Return the number of triangles, and its sensitivity."""
        return triangles(graph), TriangleSensitivity.of(graph)


def one_count(counts: list[int]) -> pa.Table:
    """A table of one figure, clamped to 64 bits."""
    low, high = -(2**63), 2**63 - 1
    return pa.table(
        {"count": pa.array([min(max(count, low), high) for count in counts], pa.int64())}
    )


def prepare_triangles(request: FormRequest, *, mechanism: object = "ladder") -> TriangleCount:
    """Plan a count of triangles by the ladder or by smooth sensitivity, for a pure epsilon."""
    chosen = options.choice(mechanism, "mechanism", MECHANISMS)
    epsilon = edge_privacy(request, "triangles")
    mechanism_class = LadderCount if chosen == MECHANISMS[0] else SmoothCount
    return TriangleCount(request, 3, mechanism_class(epsilon=epsilon))


# k-stars, sets of k ties that meet in one node, under edge privacy.

MOST_TIES = 5


def stars(graph: Graph, k: int) -> int:
    """Return the number of k-stars."""
    degrees, nodes = np.unique(graph.degrees, return_counts=True)
    pairs = zip(degrees.tolist(), nodes.tolist(), strict=True)
    return sum(comb(degree, k) * node_count for degree, node_count in pairs)


@dataclass(frozen=True)
class StarSensitivity:
    """The local sensitivity of the number of k-stars at each distance.

    An edge between nodes of degrees d >= e, not counting itself, is in C(d, k - 1) + C(e, k - 1)
    stars. Each further edge at one of them adds 1 to its degree, as nodes are not bounded; by
    convexity the maximum has all t edges at the larger one.
    """

    pairs: tuple[tuple[int, int], ...]
    """Degrees of two nodes without an edge between them, of pairs that can be the maximum."""
    k: int

    @classmethod
    def of(cls, graph: Graph, k: int = 2) -> StarSensitivity:
        """Return the pairs of degrees that no other pair dominates."""
        order = np.argsort(-graph.degrees, kind="stable")
        degrees, tied = graph.degrees, graph.adjacency
        top = int(degrees.max(initial=0))
        best = {top: 0}  # with a node that has no edge
        floor = 0
        for position, node in enumerate(order[:-1].tolist()):
            # Both degrees of all later pairs are at most this, so a known pair dominates them.
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
    """The noisy number of k-stars, by `LadderCount` for k = 2, else by `SmoothCount`.

    The ladder's exact draw needs I_t <= I_0 + t, which holds only for k = 2.
    """

    name = "stars"

    def counted(self, graph: Graph) -> tuple[int, Callable[[int], int]]:
        """Return the number, and its sensitivity."""
        return stars(graph, self.k), StarSensitivity.of(graph, self.k)


def prepare_stars(request: FormRequest, *, k: object = 2) -> StarCount:
    """Plan a count of k-stars, for a pure epsilon."""
    ties = options.whole(k, "k", least=2, most=MOST_TIES)
    epsilon = edge_privacy(request, "stars")
    ladder = LadderCount(epsilon=epsilon)
    return StarCount(
        request, ties, ladder if ties == 2 else SmoothCount(epsilon=epsilon, power=ties - 1)
    )


# k-cliques, sets of k nodes that are all tied, under edge privacy.

MOST_NODES_OF_A_CLIQUE = 5


def cliques(graph: Graph, k: int) -> int:
    """Return the number of k-cliques; each is counted from its node of lowest degree."""
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
    """A bound of the local sensitivity of the number of k-cliques, at each distance.

    The k-cliques of an edge contain k - 2 nodes joined to both of its ends: at most C(a, k - 2),
    with a the local sensitivity of triangles. LS_triangles(t) of a graph is at most LS(t + 1) of
    its neighbour, and therefore so is this bound, which is all that smooth sensitivity needs. For
    triangles it is the local sensitivity itself.
    """

    triangles: TriangleSensitivity
    k: int

    def __call__(self, distance: int) -> int:
        """Return the bound at a distance."""
        return comb(self.triangles(distance), self.k - 2)


class CliqueCount(SubgraphCount):
    """The noisy number of k-cliques; its guarantee is that of `LadderCount` or `SmoothCount`."""

    name = "cliques"

    def counted(self, graph: Graph) -> tuple[int, Callable[[int], int]]:
        """Return the number, and its sensitivity."""
        return cliques(graph, self.k), CliqueSensitivity(TriangleSensitivity.of(graph), self.k)


def prepare_cliques(request: FormRequest, *, k: object = 4) -> CliqueCount:
    """Plan a count of k-cliques: triangles by the ladder, larger ones by smooth sensitivity."""
    size = options.whole(k, "k", least=3, most=MOST_NODES_OF_A_CLIQUE)
    epsilon = edge_privacy(request, "cliques")
    ladder = LadderCount(epsilon=epsilon)
    return CliqueCount(
        request, size, ladder if size == 3 else SmoothCount(epsilon=epsilon, power=size - 2)
    )
