"""How many edges tie nodes of which two degrees, under edge privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods import options
from sfumato.methods.graph.edge_mechanisms import edge_privacy
from sfumato.methods.graph.simple_graph import order_of, read_named, truncated
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import IntArray
    from sfumato.methods.graph.simple_graph import Graph
    from sfumato.methods.publish.form_kinds import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

MOST_TIES = 100


def joint_degrees(graph: Graph, most: int) -> IntArray:
    """How many edges of a graph of degrees up to `most` tie a degree and one at least as large.

    Cells are those of the upper triangle, row by row.
    """
    low, high = np.sort(graph.degrees[graph.edges], axis=1).T - 1
    counts = np.zeros((most, most), dtype=np.int64)
    np.add.at(counts, (low, high), 1)
    return counts[np.triu_indices(most)]


def sensitivity(most: int) -> int:
    """How far one edge moves these counts in all.

    Three edges of the truncated graph may come or go. Two nodes at most change their degree: ends
    that had a place left, or those whose edge lost its place; a node that wins one and loses one
    keeps its degree. The up to `most` - 1 other edges of each move from one cell to another.
    """
    return 4 * most - 1


@dataclass(frozen=True)
class JointDegrees:
    """Geometric noise on the joint degrees of the graph cut down to `most` ties of each node.

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
        """What it costs."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The bound of the truncation."""
        return {"most": self.most}

    @property
    def error(self) -> Mapping[str, Any]:
        """Of one cell, in the truncated graph."""
        noise_error = {"sd": self.noise.stddev, "bound95": self.noise.bound(0.05)}
        return {"count": noise_error, "note": "what the truncation leaves out is not counted in"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """A row for each two degrees."""
        return {"joint-degrees": self._table(np.zeros(0, dtype=np.int64))}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The noisy counts."""
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
    """Release how many edges tie nodes of which degrees, for a pure epsilon."""
    bound = options.whole(most, "most", least=1, most=MOST_TIES)
    epsilon = edge_privacy(request, "joint-degrees")
    noise = Geometric(epsilon=epsilon, l1_sensitivity=Fraction(sensitivity(bound)))
    return JointDegrees(request, bound, noise)
