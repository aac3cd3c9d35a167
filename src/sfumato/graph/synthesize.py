"""A made-up graph with about the degrees and the triangles of a private one, under edge privacy.

Decision 0391.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError
from sfumato.graph.degrees import DegreeSequence, public_nodes
from sfumato.graph.edges import read_graph
from sfumato.graph.ladder import LadderCount
from sfumato.graph.triangles import TriangleSensitivity, triangles
from sfumato.graph.tricycle import chung_lu, with_triangles
from sfumato.graph.units import edge_privacy
from sfumato.mechanisms.laplace import Geometric
from sfumato.privacy.events import Composed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.publish.forms import FormRequest, FormRows

METHODS = ("tricycle", "chung-lu")
_DEGREES = Fraction(1, 2)
"""The share of the price for degrees, where triangles are paid for too."""


@dataclass(frozen=True)
class GraphTwin:
    """Noisy degrees and, by tricycle, a noisy number of triangles; then a graph drawn from both.

    *Guarantee*: the price as pure epsilon, for graphs that differ in one edge: the shares of the
    degrees and of the triangles add up to it, and the graph is drawn from what they told alone.
    *Sensitivity*: of the sorted degrees 2; of the triangles as `LadderCount` says.
    *Error*: not stated: it depends on the graph. Measures of twins are in the guide.
    *Edges*: nodes are numbered anew, from 1; who is who is not kept.
    *Reference*: Jorgensen, Yu & Cormode 2016 (TriCycLe); Hay, Li, Miklau & Jensen 2009.
    """

    request: FormRequest
    degrees: DegreeSequence
    ladder: LadderCount | None

    reads = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        if self.ladder is None:
            return self.degrees.event
        return Composed((self.degrees.event, self.ladder.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The method, and the number of nodes."""
        return {"method": METHODS[self.ladder is None], "nodes": self.degrees.nodes}

    @property
    def error(self) -> Mapping[str, Any]:
        """Of the degrees that it is drawn by."""
        return {"degree": self.degrees.error["degree"]}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The edges."""
        return {self.request.dataset: self._table(np.zeros((0, 2), dtype=np.int64))}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The edges of a graph drawn from noisy figures."""
        graph = read_graph(rows.read([name for name, _ in self.request.form.parts.values()]))
        wanted = np.round(self.degrees.fitted(graph, entropy)).astype(np.int64)
        drawn = chung_lu(wanted, entropy)
        if self.ladder is not None:
            count = triangles(graph)
            noisy = self.ladder.sample(count, TriangleSensitivity.of(graph), entropy)
            drawn = with_triangles(drawn, max(noisy, 0), entropy)
        return {self.request.dataset: self._table(drawn)}

    def _table(self, edges: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
        names = [name for name, _ in self.request.form.parts.values()]
        return pa.table({name: pa.array(edges[:, at] + 1) for at, name in enumerate(names)})


def prepare(request: FormRequest, *, nodes: object = None, method: object = "auto") -> GraphTwin:
    """Share the price among degrees and triangles; by chung-lu degrees have it all."""
    chosen = METHODS[0] if method == "auto" else method
    if chosen not in METHODS:
        raise ParameterError(
            "option_not_allowed",
            f"A graph is made up by method {' or '.join(map(repr, METHODS))}. Give one of them.",
        )
    epsilon, most = edge_privacy(request, "graph"), public_nodes(nodes, "A synthesis as graph")
    share = _DEGREES if chosen == METHODS[0] else Fraction(1)
    noise = Geometric(epsilon=epsilon * share, l1_sensitivity=Fraction(2))
    ladder = LadderCount(epsilon=epsilon * (1 - share)) if share < 1 else None
    return GraphTwin(request, DegreeSequence(request, most, noise), ladder)
