"""The degrees of a graph, sorted, under edge privacy; and how many edges there are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.graph.edge_mechanisms import edge_privacy
from sfumato.methods.graph.simple_graph import read_graph
from sfumato.privacy.estimation.monotone import sorted_fit
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.graph.simple_graph import Graph
    from sfumato.methods.publish.form_kinds import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

MOST_NODES = 1 << 26


def public_nodes(nodes: object, kind: str) -> int:
    """The number of nodes, which must be public: who has an edge is private."""
    if nodes is None:
        raise ParameterError(
            "parameter_missing",
            f"{kind} needs the number of nodes, a number that everybody may know: who has a tie at "
            "all is private. Give nodes=N.",
        )
    return options.whole(nodes, "nodes", least=2, most=MOST_NODES)


def sorted_degrees(graph: Graph, nodes: int) -> IntArray:
    """So many of the largest degrees, ascending; nodes without an edge have 0.

    One edge more raises two entries of the sorted list by 1 each, and leaving the smallest out
    moves it no further: L1 sensitivity 2.
    """
    largest = np.sort(graph.degrees)[-nodes:]
    return np.concatenate([np.zeros(nodes - len(largest), dtype=np.int64), largest])


@dataclass(frozen=True)
class DegreeSequence:
    """Geometric noise of sensitivity 2 on the sorted degrees, then the likeliest sorted list.

    *Guarantee*: the price as pure epsilon, for graphs that differ in one edge.
    *Sensitivity*: L1, 2: sorting comes before the noise.
    *Error*: of a degree at most that of its noise; far less where many nodes have the same degree.
    *Edges*: as many degrees as nodes are declared to be; more nodes than that lose the smallest.
    *Reference*: Hay, Li, Miklau & Jensen 2009, whose fit is by least squares; decision `graphs`.
    """

    request: FormRequest
    nodes: int
    noise: Geometric

    reads = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number of nodes."""
        return {"nodes": self.nodes}

    @property
    def error(self) -> Mapping[str, Any]:
        """Of one degree before the fit, which only comes nearer to the truth."""
        noise_error = {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        return {
            "degree": noise_error,
            "note": "bounds: fitting a sorted list takes most of the noise out",
        }

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """A row for each node, by its rank."""
        return {"degrees": degree_table(np.zeros(0))}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The fitted degrees."""
        graph = read_graph(rows.read([name for name, _ in self.request.form.roles.values()]))
        return {"degrees": degree_table(self.fitted(graph, entropy))}

    def fitted(self, graph: Graph, entropy: Entropy) -> FloatArray:
        """Noise, and the nearest list that is sorted, from 0 to one less than the nodes."""
        noisy = self.noise.steps(sorted_degrees(graph, self.nodes), entropy)
        return np.clip(sorted_fit(noisy), 0, self.nodes - 1)


def degree_table(degrees: FloatArray) -> pa.Table:
    """Degrees from the largest on, each with its rank."""
    ranks = pa.array(np.arange(1, len(degrees) + 1))
    return pa.table({"rank_of_node": ranks, "degree": pa.array(np.round(degrees[::-1], 3))})


def prepare(request: FormRequest, *, nodes: object = None) -> DegreeSequence:
    """Release the sorted degrees, for a pure epsilon."""
    epsilon = edge_privacy(request, "degrees")
    noise = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(2))
    return DegreeSequence(request, public_nodes(nodes, "A publication of degrees"), noise)
