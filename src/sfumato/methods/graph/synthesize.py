"""Synthetic graphs with about the degrees and triangles of a private one, under edge privacy.

Decision `graphs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError, option
from sfumato.methods.graph.attributes import correlations, node_table
from sfumato.methods.graph.degrees import DegreeSequence, public_nodes
from sfumato.methods.graph.drawing import (
    apportion,
    assigned,
    chung_lu,
    drawn_edges,
    ends_of,
    shares,
    with_triangles,
)
from sfumato.methods.graph.edge_mechanisms import LadderCount, edge_privacy
from sfumato.methods.graph.simple_graph import order_of, read_named, truncated
from sfumato.methods.graph.subgraphs import TriangleSensitivity, triangles
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import IntArray
    from sfumato.methods.graph.attributes import NodeTable
    from sfumato.methods.graph.simple_graph import Graph
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


METHODS = ("tricycle", "chung-lu")
_SHARES = {"degrees": Fraction(3, 4), "triangles": Fraction(1, 4)}
_WITH_NODES = {
    "degrees": Fraction(3, 8),
    "triangles": Fraction(1, 8),
    "nodes": Fraction(1, 8),
    "ties": Fraction(3, 8),
}


@dataclass(frozen=True)
class NodeFigures:
    """The noise on the table of nodes: on counts of kinds, and on ties between kinds."""

    table: NodeTable
    most: int
    kinds: Geometric
    ties: Geometric


@dataclass(frozen=True)
class GraphSynthesis:
    """Measure a graph with noise, and draw a synthetic graph from the noisy figures.

    The figures are the degrees; with tricycle the number of triangles; and with a table of nodes
    the number of nodes of each kind (combination of values) and of ties between kinds.

    *Guarantee*: the price as pure epsilon, for graphs that differ in one edge, and tables of nodes
    that differ in one row: the shares of all figures add up to it, and the graph is drawn from
    the noisy figures alone.
    *Sensitivity*: of the sorted degrees 2; of the triangles as `LadderCount` says; of the kinds of
    nodes 1, of ties between them as `correlations` says, k being the cube root of the number of
    nodes; twice both where people are replaced.
    *Error*: not stated, because it depends on the graph; the guide has measurements.
    *Edges*: synthetic nodes are numbered from 1 and stand for no real ones. Ties of nodes without a
    row or with undeclared values are not counted by kind.
    *Reference*: Jorgensen, Yu & Cormode 2016 (AGM, TriCycLe); Hay, Li, Miklau & Jensen 2009.
    """

    request: FormRequest
    degrees: DegreeSequence
    ladder: LadderCount | None
    nodes: NodeFigures | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The table of nodes."""
        return () if self.nodes is None else (self.nodes.table.dataset,)

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        node_events = () if self.nodes is None else (self.nodes.kinds.event, self.nodes.ties.event)
        if self.ladder is None:
            return self.degrees.event
        return Composed((self.degrees.event, self.ladder.event, *node_events))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The method, the number of nodes, and the columns of nodes."""
        choices = {"method": METHODS[self.ladder is None], "nodes": self.degrees.nodes}
        if self.nodes is None:
            return choices
        columns = [column.name for column in self.nodes.table.columns]
        return {**choices, "people": self.nodes.table.dataset, "columns": columns,
                "most": self.nodes.most}  # fmt: skip

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of the measured figures."""
        errors: dict[str, Any] = {"degree": self.degrees.error["degree"]}
        if self.nodes is not None:
            errors["nodes"] = {"sd": self.nodes.kinds.stddev}
            errors["ties"] = {"sd": self.nodes.ties.stddev}
        return errors

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of edges and, with a table of nodes, of nodes, without a row."""
        no_codes = np.zeros(0, dtype=np.int64)
        return self._tables(no_codes.reshape(-1, 2), no_codes)

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Measure with noise, then draw edges, and nodes if they have a table."""
        names, graph = read_named(rows.read([name for name, _ in self.request.form.roles.values()]))
        degrees = np.round(self.degrees.fitted(graph, entropy)).astype(np.int64)
        if self.ladder is None:
            return self._tables(chung_lu(degrees, entropy), None)
        count = triangles(graph)
        noisy = self.ladder.sample(count, TriangleSensitivity.of(graph), entropy)
        edge_count = int(degrees.sum()) // 2
        codes, edge_counts = np.zeros(len(degrees), dtype=np.int64), np.array([edge_count])
        if self.nodes is not None:
            kinds, ties = self._measure_ties(self.nodes, rows, graph, names, entropy)
            edge_counts = apportion(shares(ties), edge_count)
            node_counts = apportion(shares(kinds), len(degrees))
            codes = assigned(degrees, node_counts, ends_of(edge_counts), entropy)
        drawn = drawn_edges(degrees, codes, edge_counts, entropy)
        drawn = with_triangles(drawn, max(noisy, 0), entropy, codes)
        return self._tables(drawn, codes)

    @staticmethod
    def _measure_ties(
        nodes: NodeFigures, rows: FormRows, graph: Graph, names: list[str], entropy: Entropy
    ) -> tuple[IntArray, IntArray]:
        """Return the noisy numbers of nodes of each kind, and of ties between kinds."""
        kinds, codes = nodes.table.read(rows, names)
        cut = truncated(graph, order_of(graph, names, rows.salt), nodes.most)
        ties = correlations(cut, codes, nodes.table.kinds)
        return nodes.kinds.steps(kinds, entropy), nodes.ties.steps(ties, entropy)

    def _tables(self, edges: IntArray, codes: IntArray | None) -> Mapping[str, pa.Table]:
        names = [name for name, _ in self.request.form.roles.values()]
        tied = pa.table({name: pa.array(edges[:, at] + 1) for at, name in enumerate(names)})
        if self.nodes is None or codes is None:
            return {self.request.dataset: tied}
        return {self.request.dataset: tied, self.nodes.table.dataset: self.nodes.table.table(codes)}


def prepare(
    request: FormRequest,
    *,
    nodes: object = None,
    method: object = "auto",
    people: object = None,
    columns: object = None,
) -> GraphSynthesis:
    """Plan a synthetic graph; with chung-lu the degrees get the whole price."""
    chosen = METHODS[0] if method == "auto" else method
    plain = chosen == METHODS[1]
    if chosen not in METHODS or (plain and people is not None):
        raise ParameterError(
            "option_not_applicable",
            f"A graph is synthesized by method {' or '.join(map(repr, METHODS))}, with a table of "
            f"nodes by {METHODS[0]!r}. Choose one of them.",
        )
    if columns is not None and people is None:
        raise ParameterError(
            "parameter_missing",
            "Columns of a graph are those of a table of nodes. Name it with "
            f"{option('people', metavar='NAME')}.",
            parameter="people",
        )
    epsilon, node_count = (
        edge_privacy(request, "graph"),
        public_nodes(nodes, "A synthesis as graph"),
    )
    shares = _SHARES if people is None else _WITH_NODES
    share = Fraction(1) if plain else shares["degrees"]
    noise = Geometric(epsilon=epsilon * share, l1_sensitivity=Fraction(2))
    degrees = DegreeSequence(request, node_count, noise)
    if plain:
        return GraphSynthesis(request, degrees, None)
    ladder = LadderCount(epsilon=epsilon * shares["triangles"])
    if people is None:
        return GraphSynthesis(request, degrees, ladder)
    table = node_table(request, people, columns)
    most = max(round(node_count ** (1 / 3)), 2)
    worst = max(3, most) * table.weight
    figures = NodeFigures(
        table,
        most,
        Geometric(epsilon=epsilon * shares["nodes"], l1_sensitivity=Fraction(table.weight)),
        Geometric(epsilon=epsilon * shares["ties"], l1_sensitivity=Fraction(worst)),
    )
    return GraphSynthesis(request, degrees, ladder, figures)
