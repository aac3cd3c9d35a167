"""How many triangles a graph has, under edge privacy.

Decision `graphs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods import options
from sfumato.methods.graph.edge_mechanisms import LadderCount, SmoothCount, edge_privacy
from sfumato.methods.graph.simple_graph import read_graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import IntArray
    from sfumato.methods.graph.simple_graph import Graph
    from sfumato.methods.publish.form_kinds import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

MECHANISMS = ("ladder", "smooth")


def triangles(graph: Graph) -> int:
    """How many triples of nodes are all tied."""
    return graph.shared.triangles


@dataclass(frozen=True)
class TriangleSensitivity:
    """How far one edge moves the number of triangles, in a graph or t edges away from it.

    LS(t) is the largest, over all pairs of nodes, of a + floor((t + min(t, b)) / 2): a nodes are
    joined to both, b to exactly one (the pair's own edge aside), and each further edge completes
    one of these, or is half of a new one. Nodes are as many as anybody likes, so that nothing is
    told of how many there are.
    """

    shared: IntArray
    """For pairs that can be the largest: how many nodes are joined to both ..."""
    single: IntArray
    """... and to exactly one."""

    @classmethod
    def of(cls, graph: Graph) -> TriangleSensitivity:
        """The pairs of a graph that can be the largest at some distance."""
        most = graph.shared.single.copy()
        most[0] = _largest_without_shared(graph)
        return cls(np.arange(len(most)), most)

    def __call__(self, distance: int) -> int:
        """LS at a distance."""
        grown = (distance + np.minimum(distance, self.single)) // 2
        return int((self.shared + grown).max())


def _largest_without_shared(graph: Graph) -> int:
    """The most nodes joined to exactly one of two that share none; one of them may be new."""
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


@dataclass(frozen=True)
class TriangleCount:
    """The number of triangles; its promise is that of `LadderCount` or `SmoothCount`."""

    request: FormRequest
    mechanism: LadderCount | SmoothCount

    reads = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.mechanism.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The mechanism."""
        return {"mechanism": MECHANISMS[isinstance(self.mechanism, SmoothCount)]}

    @property
    def error(self) -> Mapping[str, Any]:
        """It depends on the graph, and is not known beforehand."""
        return {"note": "how far off it is depends on the graph, and is not known"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """One figure."""
        return {"triangles": one_count([])}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The noisy number."""
        form = self.request.form
        graph = read_graph(rows.read([name for name, _ in form.roles.values()]))
        noisy = self.mechanism.sample(triangles(graph), TriangleSensitivity.of(graph), entropy)
        return {"triangles": one_count([noisy])}


def one_count(counts: list[int]) -> pa.Table:
    """A table of one figure; what lies beyond 64 bits ends there."""
    low, high = -(2**63), 2**63 - 1
    return pa.table(
        {"count": pa.array([min(max(count, low), high) for count in counts], pa.int64())}
    )


def prepare_triangles(request: FormRequest, *, mechanism: object = "ladder") -> TriangleCount:
    """Release the number by the ladder, or by smooth sensitivity, for a pure epsilon."""
    chosen = options.choice(mechanism, "mechanism", MECHANISMS)
    epsilon = edge_privacy(request, "triangles")
    mechanism_class = LadderCount if chosen == MECHANISMS[0] else SmoothCount
    return TriangleCount(request, mechanism_class(epsilon=epsilon))
