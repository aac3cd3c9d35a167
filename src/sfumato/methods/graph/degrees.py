"""Degrees of graphs: sorted and joint ones under edge privacy, a histogram under node privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy.optimize import isotonic_regression

from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import Ties
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.graph.edge_mechanisms import edge_privacy
from sfumato.methods.graph.simple_graph import Graph, order_of, read_graph, read_named, truncated
from sfumato.privacy.estimation.monotone import sorted_fit
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


MOST_NODES = 1 << 26


def public_nodes(nodes: object, kind: str) -> int:
    """Check the number of nodes, which must be public: whether a person has an edge is private."""
    if nodes is None:
        raise ParameterError(
            "parameter_missing",
            f"{kind} needs the number of nodes as a public number: whether a person has a tie at "
            "all is private. Give nodes=N.",
            parameter="nodes",
        )
    return options.whole(nodes, "nodes", least=2, most=MOST_NODES)


def sorted_degrees(graph: Graph, nodes: int) -> IntArray:
    """Return the `nodes` largest degrees, ascending; nodes without an edge have 0.

    One more edge raises two entries of the sorted list by 1 each, and dropping the smallest entries
    adds nothing: L1 sensitivity 2.
    """
    largest = np.sort(graph.degrees)[-nodes:]
    return np.concatenate([np.zeros(nodes - len(largest), dtype=np.int64), largest])


@dataclass(frozen=True)
class DegreeSequence:
    """Geometric noise of sensitivity 2 on the sorted degrees, then the most likely sorted list.

    *Guarantee*: the price as pure epsilon, for graphs that differ in one edge.
    *Sensitivity*: L1, 2: sorting comes before the noise.
    *Error*: at most the noise of a degree; far less if many nodes have the same degree.
    *Edges*: there are as many degrees as declared nodes; of a larger graph the smallest degrees are
    dropped.
    *Reference*: Hay, Li, Miklau & Jensen 2009, whose fit is by least squares; decision `graphs`.
    """

    request: FormRequest
    nodes: int
    noise: Geometric

    reads = ()

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number of nodes."""
        return {"nodes": self.nodes}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of one degree before the fit, which lowers the error."""
        noise_error = {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        return {
            "degree": noise_error,
            "note": "upper bounds: fitting a sorted list removes most of the noise",
        }

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table of degrees by rank, without a row."""
        return {"degrees": degree_table(np.zeros(0))}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Release the fitted degrees."""
        graph = read_graph(rows.read([name for name, _ in self.request.form.roles.values()]))
        return {"degrees": degree_table(self.fitted(graph, entropy))}

    def fitted(self, graph: Graph, entropy: Entropy) -> FloatArray:
        """Add noise and fit the nearest sorted list, clamped to 0 ... nodes - 1."""
        noisy = self.noise.steps(sorted_degrees(graph, self.nodes), entropy)
        return np.clip(sorted_fit(noisy), 0, self.nodes - 1)


def degree_table(degrees: FloatArray) -> pa.Table:
    """Return the released table: degrees from the largest on, with their ranks."""
    node_ranks = pa.array(np.arange(1, len(degrees) + 1))
    return pa.table({"rank_of_node": node_ranks, "degree": pa.array(np.round(degrees[::-1], 3))})


def prepare(request: FormRequest, *, nodes: object = None) -> DegreeSequence:
    """Plan the sorted degrees, for a pure epsilon."""
    epsilon = edge_privacy(request, "degrees")
    noise = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(2))
    return DegreeSequence(request, public_nodes(nodes, "A publication of degrees"), noise)


# Joint degrees: the number of edges by the degrees of their ends, under edge privacy.

MOST_TIES = 100


def joint_degrees(graph: Graph, most: int) -> IntArray:
    """Count the edges of a graph of degrees up to `most` by the degrees of their ends.

    Cells are those of the upper triangle, row by row.
    """
    lower, higher = np.sort(graph.degrees[graph.edges], axis=1).T - 1
    counts = np.zeros((most, most), dtype=np.int64)
    np.add.at(counts, (lower, higher), 1)
    return counts[np.triu_indices(most)]


def sensitivity(most: int) -> int:
    """Return the L1 sensitivity of joint degrees to one edge: 3 + 2 x 2 x (most - 1).

    Up to three edges of the truncated graph appear or disappear. At most two nodes change their
    degree: ends with a free place, or nodes whose edge was displaced; a node that gains one and
    loses one keeps its degree. Each of their up to `most` - 1 other edges moves from one cell to
    another, which counts twice.
    """
    return 4 * most - 1


@dataclass(frozen=True)
class JointDegrees:
    """Geometric noise on the joint degrees of the graph truncated to `most` ties of each node.

    *Guarantee*: the price as pure epsilon, for graphs that differ in one edge.
    *Sensitivity*: L1, 4 most - 1, of the truncated graph.
    *Error*: noise of that scale on each cell; ties beyond the bound are not counted.
    *Edges*: degrees are those in the truncated graph, from 1 to `most`.
    *Reference*: Mahadevan, Krioukov, Fall & Vahdat 2006 (dK-2); truncation after Jorgensen, Yu &
    Cormode 2016.
    """

    request: FormRequest
    most: int
    noise: Geometric

    reads = ()

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The bound of the truncation."""
        return {"most": self.most}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of one cell, for the truncated graph."""
        noise_error = {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        return {"count": noise_error, "note": "edges beyond the truncation are not counted"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table of pairs of degrees, without a row."""
        return {"joint-degrees": self._table(np.zeros(0, dtype=np.int64))}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Release the noisy counts."""
        form_roles = self.request.form.roles.values()
        names, graph = read_named(rows.read([name for name, _ in form_roles]))
        cut = truncated(graph, order_of(graph, names, rows.salt), self.most)
        noisy = self.noise.steps(joint_degrees(cut, self.most), entropy)
        return {"joint-degrees": self._table(noisy)}

    def _table(self, counts: IntArray) -> pa.Table:
        low, high = (indices[: len(counts)] + 1 for indices in np.triu_indices(self.most))
        return pa.table(
            {"degree": low, "other_degree": high, "count": pa.array(counts, pa.int64())}
        )


def prepare_joint_degrees(request: FormRequest, *, most: object = 20) -> JointDegrees:
    """Plan joint degrees, for a pure epsilon."""
    bound = options.whole(most, "most", least=1, most=MOST_TIES)
    epsilon = edge_privacy(request, "joint-degrees")
    noise = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(sensitivity(bound)))
    return JointDegrees(request, bound, noise)


# The cumulative histogram of degrees under node privacy, by edge-addition projection.


def projected(graph: Graph, order: Sequence[int], most: int) -> Graph:
    """Visit edges in order, and keep each edge whose ends both have fewer than `most` kept ones."""
    degrees = [0] * graph.nodes
    projected_edges, ends = [], graph.edges.tolist()
    for edge in order:
        first, second = ends[edge]
        if degrees[first] < most and degrees[second] < most:
            degrees[first] += 1
            degrees[second] += 1
            projected_edges.append(edge)
    return Graph(graph.nodes, graph.edges[np.array(sorted(projected_edges), dtype=np.int64)])


def cumulative(graph: Graph, most: int) -> list[int]:
    """Return the number of nodes with at least 1, 2, ..., `most` edges in the projection.

    One more node moves these numbers by at most 2 x `most` in L1: by its own degree d, and by d for
    all other nodes together, because each of its kept edges moves the end of one chain of kept and
    dropped edges (Day, Li & Lyu 2016). Their histogram of "at most" moves by `most` + 1 only, but
    it counts people without a tie, and these are in no row here: the leaves of a star would
    disappear together with its hub.
    """
    counts = np.bincount(graph.degrees, minlength=most + 1)
    return [int(counts[at:].sum()) for at in range(1, most + 1)]


@dataclass(frozen=True)
class NodeDegrees:
    """Noise on the number of people with at least 1, 2, ... ties, up to the unit's bound.

    *Guarantee*: the price as pure epsilon, for graphs that differ in a person with all ties.
    *Sensitivity*: L1, twice the bound on ties, of these numbers in the projected graph.
    *Error*: noise of that scale; a person with more ties than the bound counts about as the bound.
    *Edges*: people without a tie are in no row, so that the table starts with 1 tie.
    *Reference*: Day, Li & Lyu 2016.
    """

    request: FormRequest
    most: int
    noise: Geometric

    reads = ()

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The bound of the projection."""
        return {"projection": "edge-addition", "most": self.most}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of one figure before the fit, for the projected graph."""
        noise_error = {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        return {"count": noise_error, "note": "edges beyond the projection are not counted"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table of numbers of ties, without a row."""
        return {"node-degrees": _table([])}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Release the fitted cumulative histogram."""
        edge_rows = rows.read([name for name, _ in self.request.form.roles.values()])
        names, graph = read_named(edge_rows)
        graph = projected(graph, order_of(graph, names, rows.salt).tolist(), self.most)
        noisy = self.noise.steps(np.array(cumulative(graph, self.most)), entropy)
        fit = isotonic_regression(noisy.astype(np.float64), increasing=False).x
        return {"node-degrees": _table(np.maximum(fit, 0).tolist())}


def _table(counts: list[float]) -> pa.Table:
    ties = pa.array(range(1, len(counts) + 1), pa.int64())
    return pa.table({"ties_at_least": ties, "count": pa.array(counts, pa.float64())})


def prepare_node_degrees(request: FormRequest) -> NodeDegrees:
    """Plan the cumulative histogram of ties, for a pure epsilon."""
    unit = request.unit
    if not isinstance(unit, Ties):
        raise ParameterError(
            "unit_unsupported",
            f"A publication of kind 'node-degrees' protects a person with all ties, but the unit "
            f"of {quoted(request.dataset)} is another. Declare unit = {{ people = ["
            '"from", "to"], max_rows = 40 }.',
        )
    epsilon = spendings(request.price)[0].pure_epsilon()
    noise = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(2 * unit.max_rows))
    return NodeDegrees(request, unit.max_rows, noise)
