"""Rows of edges as a simple graph, and its truncation to a bounded degree.

Self-loops are dropped, and both directions and repeats of a pair become one edge. So one row more
or less adds or removes at most one edge: its own pair, and only if no other row has that pair. This
is edge privacy under `unit = "row"`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import IntArray


# Paths of two edges that are counted at a time, at about 50 bytes each: it bounds memory.
_BLOCK = 1 << 21


class Shared(NamedTuple):
    """The triangles, and the neighbours that pairs of nodes share."""

    triangles: int
    single: IntArray
    """By the number of shared neighbours of a pair: the most neighbours of only one of the two."""


@dataclass(frozen=True)
class Graph:
    """A simple graph: the number of nodes, and each edge once, the lower node first."""

    nodes: int
    edges: IntArray

    @cached_property
    def degrees(self) -> IntArray:
        """The number of edges of each node."""
        return np.bincount(self.edges.ravel(), minlength=self.nodes)

    @cached_property
    def adjacency(self) -> sparse.csr_array:
        """The symmetric adjacency matrix."""
        first, second = self.edges.T
        ends = np.concatenate([first, second]), np.concatenate([second, first])
        entries = np.ones(2 * len(self.edges), dtype=np.int32)
        return sparse.csr_array((entries, ends), shape=(self.nodes, self.nodes))

    @cached_property
    def shared(self) -> Shared:
        """Count triangles and shared neighbours, a block of nodes at a time to bound memory."""
        adjacency, degrees = self.adjacency, self.degrees
        work = np.cumsum(adjacency @ degrees)
        total = int(work.max(initial=0))
        ends = np.searchsorted(work, np.arange(_BLOCK, total + _BLOCK, _BLOCK)) + 1
        largest_single, largest = np.zeros(self.nodes + 1, dtype=np.int64), 0
        closed_paths, start = 0, 0
        for end in np.unique(np.minimum(ends, self.nodes)).tolist():
            rows = adjacency[start:end]
            products = (rows @ adjacency).tocoo()
            above_diagonal = products.col > products.row + start
            first, second, common = (
                products.row[above_diagonal],
                products.col[above_diagonal],
                products.data[above_diagonal],
            )
            if not len(first):  # an empty index makes scipy return a matrix
                start = end
                continue
            tied = np.asarray(rows[first, second]).ravel().astype(np.int64)
            closed_paths += int((common * tied).sum())
            single = degrees[first + start] + degrees[second] - 2 * common - 2 * tied
            np.maximum.at(largest_single, common, single)
            largest = max(largest, int(common.max(initial=0)))
            start = end
        return Shared(closed_paths // 3, largest_single[: largest + 1])


def graph_of(pairs: IntArray, nodes: int) -> Graph:
    """Return the simple graph of pairs of node codes."""
    ends = np.sort(pairs.reshape(-1, 2), axis=1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    return Graph(nodes, np.unique(ends, axis=0) if len(ends) else ends)


def read_graph(rows: pa.Table) -> Graph:
    """Return the graph of a table of two columns, whose values name nodes."""
    return _code_nodes(rows)[1]


def read_named(rows: pa.Table) -> tuple[list[str], Graph]:
    """Return the names of the nodes as texts, and the graph."""
    names, graph = _code_nodes(rows)
    return pc.cast(names, pa.string()).to_pylist(), graph


def _code_nodes(rows: pa.Table) -> tuple[pa.Array, Graph]:
    named = pa.chunked_array([*rows.column(0).chunks, *rows.column(1).chunks], rows.column(0).type)
    coded = named.combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    return coded.dictionary, graph_of(codes.reshape(2, -1).T, len(coded.dictionary))


# Truncation to a bounded degree, in an order of edges that neighbouring graphs share.
#
# An edge stays if it is among the first `most` edges of both of its ends, in the order of a keyed
# hash of the names of the pair. One more edge displaces at most one other edge at each of its ends,
# so that at most three edges change: itself and these two. A greedy pass that counts the edges kept
# so far would pass a freed place on from node to node along a path of any length: that is enough
# for degrees (`projected` in `degrees`), but not for counts of edges.


def keyed_order(edges: Sequence[tuple[str, str]], salt: str) -> list[int]:
    """Return the positions of edges, sorted by a keyed hash of their names."""
    key = salt.encode()[:64]

    def sort_key(edge: int) -> tuple[bytes, tuple[str, ...]]:
        pair = tuple(sorted(edges[edge]))
        text = "\0".join(f"{len(name)}:{name}" for name in pair).encode()
        return hashlib.blake2b(text, key=key, digest_size=16).digest(), pair

    return sorted(range(len(edges)), key=sort_key)


def order_of(graph: Graph, names: Sequence[str], salt: str) -> IntArray:
    """Return the positions of a graph's edges in that order."""
    named = [(names[first], names[second]) for first, second in graph.edges.tolist()]
    return np.array(keyed_order(named, salt), dtype=np.int64)


def truncated(graph: Graph, order: IntArray, most: int) -> Graph:
    """Return the edges that are among the first `most` of both ends."""
    turns = np.empty(len(order), dtype=np.int64)
    turns[order] = np.arange(len(order))
    ends = graph.edges.T.ravel()
    sorted_ = np.lexsort((np.tile(turns, 2), ends))
    starts = np.concatenate([[0], np.cumsum(graph.degrees)])
    rank = np.empty(len(ends), dtype=np.int64)
    rank[sorted_] = np.arange(len(ends)) - starts[ends[sorted_]]
    is_kept = (rank.reshape(2, -1) < most).all(axis=0)
    return Graph(graph.nodes, graph.edges[is_kept])
