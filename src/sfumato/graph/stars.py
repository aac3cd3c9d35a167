"""How many k-stars a graph has, k ties that meet in one node, under edge privacy."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.graph.edges import read_graph
from sfumato.graph.ladder import LadderCount
from sfumato.graph.units import edge_privacy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.graph.edges import Graph
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.publish.forms import FormRequest, FormRows


def stars(graph: Graph, k: int) -> int:
    """How many sets of k ties meet in one node."""
    degrees, nodes = np.unique(graph.degrees, return_counts=True)
    pairs = zip(degrees.tolist(), nodes.tolist(), strict=True)
    return sum(comb(degree, k) * many for degree, many in pairs)


@dataclass(frozen=True)
class StarSensitivity:
    """How far one edge moves the number of 2-stars, in a graph or t edges away from it.

    An edge between nodes of degrees d and e, itself aside, is in d + e stars. LS(0) is the largest
    d + e over all pairs, and each further edge at either of them adds 1: LS(t) = LS(0) + t, nodes
    being as many as anybody likes.
    """

    largest: int

    @classmethod
    def of(cls, graph: Graph) -> StarSensitivity:
        """By the two nodes of the largest degrees that are not tied, or tied and still larger."""
        order = np.argsort(-graph.degrees, kind="stable")
        degrees, best, tied = graph.degrees, 0, graph.adjacency
        for place, node in enumerate(order[:-1].tolist()):
            if degrees[node] + degrees[order[place + 1]] <= best:
                break
            found = degrees[node] + degrees
            found[tied.indices[tied.indptr[node] : tied.indptr[node + 1]]] -= 2
            best = max(best, int(found[order[place + 1 :]].max()))
        alone = int(degrees.max(initial=0))  # with a node that has no edge
        return cls(max(best, alone))

    def __call__(self, distance: int) -> int:
        """LS at a distance."""
        return self.largest + distance


@dataclass(frozen=True)
class StarCount:
    """The number of 2-stars by the ladder; its promise is that of `LadderCount`."""

    request: FormRequest
    ladder: LadderCount

    reads = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.ladder.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The mechanism, and how many ties meet."""
        return {"mechanism": "ladder", "k": 2}

    @property
    def error(self) -> Mapping[str, Any]:
        """It depends on the graph, and is not known beforehand."""
        return {"note": "how far off it is depends on the graph, and is not known"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """One figure."""
        return {"stars": pa.table({"count": pa.array([], pa.int64())})}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The noisy number."""
        graph = read_graph(rows.read([name for name, _ in self.request.form.parts.values()]))
        found = self.ladder.sample(stars(graph, 2), StarSensitivity.of(graph), entropy)
        return {"stars": pa.table({"count": pa.array([found], pa.int64())})}


def prepare(request: FormRequest) -> StarCount:
    """Release the number of 2-stars by the ladder, for a pure epsilon."""
    return StarCount(request, LadderCount(epsilon=edge_privacy(request, "stars")))
