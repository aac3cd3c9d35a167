"""How many people have how many ties, under node privacy by edge-addition projection."""

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
from sfumato.methods.graph.simple_graph import Graph, order_of, read_named
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.methods.publish.form_kinds import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


def projected(graph: Graph, order: Sequence[int], most: int) -> Graph:
    """Visit edges in an order, and keep each whose ends have kept fewer than `most` so far."""
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
    """How many nodes that have an edge at all have at least 1, 2, ..., `most` in the projection.

    A node more moves these numbers by at most twice `most` in sum: itself by its own degree d, and
    all others together by d, since each of its edges that is kept moves the end of one chain of
    kept and dropped edges (Day, Li & Lyu 2016). Their cumulative histogram of "at most" moves by
    `most` + 1 only, but counts people without a tie, who are in no row here: with the hub of a
    star all its leaves would go.
    """
    counts = np.bincount(graph.degrees, minlength=most + 1)
    return [int(counts[at:].sum()) for at in range(1, most + 1)]


@dataclass(frozen=True)
class NodeDegrees:
    """Noise on how many people have at least each number of ties, up to the unit's bound.

    *Guarantee*: the price as pure epsilon, for graphs that differ in a person and all its ties.
    *Sensitivity*: L1, twice the bound on ties, of these numbers in the projected graph.
    *Error*: noise of that scale; who has more ties than the bound counts as having about it.
    *Edges*: people without a tie are in no row, so from 1 tie on.
    *Reference*: Day, Li & Lyu 2016.
    """

    request: FormRequest
    most: int
    noise: Geometric

    reads = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The bound of the projection."""
        return {"projection": "edge-addition", "most": self.most}

    @property
    def error(self) -> Mapping[str, Any]:
        """Of one figure before the fit, in the projected graph."""
        noise_error = {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        return {"count": noise_error, "note": "what the projection leaves out is not counted in"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """A row for each number of ties."""
        return {"node-degrees": _table([])}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The fitted cumulative histogram."""
        read = rows.read([name for name, _ in self.request.form.roles.values()])
        names, graph = read_named(read)
        graph = projected(graph, order_of(graph, names, rows.salt).tolist(), self.most)
        noisy = self.noise.steps(np.array(cumulative(graph, self.most)), entropy)
        fit = isotonic_regression(noisy.astype(np.float64), increasing=False).x
        return {"node-degrees": _table(np.maximum(fit, 0).tolist())}


def _table(counts: list[float]) -> pa.Table:
    ties = pa.array(range(1, len(counts) + 1), pa.int64())
    return pa.table({"ties_at_least": ties, "count": pa.array(counts, pa.float64())})


def prepare_node_degrees(request: FormRequest) -> NodeDegrees:
    """Release how many people have at least so many ties, for a pure epsilon."""
    unit = request.unit
    if not isinstance(unit, Ties):
        raise ParameterError(
            "unit_unsupported",
            f"A publication of kind 'node-degrees' hides a person with all ties, but the unit of "
            f"{quoted(request.dataset)} is another. Declare unit = {{ people = ["
            '"from", "to"], max_rows = 40 }.',
        )
    epsilon = spendings(request.price)[0].pure_epsilon()
    noise = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(2 * unit.max_rows))
    return NodeDegrees(request, unit.max_rows, noise)
