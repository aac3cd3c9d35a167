"""Rows of edges as a simple graph.

Self-loops are dropped, both directions and repeats of a pair joined. So one row more or less adds
or removes at most one edge: its own pair, and only if no other row has that pair; a loop none.
That is edge privacy under `unit = "row"`.
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


# So many pairs of ends of paths of two edges are looked at together, of some 50 bytes each.
_BLOCK = 1 << 21


class Shared(NamedTuple):
    """What pairs of nodes share."""

    triangles: int
    single: IntArray
    """By the number of neighbours that a pair shares, the most that only one of them has."""


@dataclass(frozen=True)
class Graph:
    """A simple graph: how many nodes, and each edge once, the lower node first."""

    nodes: int
    edges: IntArray

    @cached_property
    def degrees(self) -> IntArray:
        """How many edges each node has."""
        return np.bincount(self.edges.ravel(), minlength=self.nodes)

    @cached_property
    def adjacency(self) -> sparse.csr_array:
        """The symmetric matrix of its edges."""
        first, second = self.edges.T
        ends = np.concatenate([first, second]), np.concatenate([second, first])
        entries = np.ones(2 * len(self.edges), dtype=np.int32)
        return sparse.csr_array((entries, ends), shape=(self.nodes, self.nodes))

    @cached_property
    def shared(self) -> Shared:
        """What pairs of nodes share, counted a block of nodes at a time: memory stays bounded."""
        adjacency, degrees = self.adjacency, self.degrees
        work = np.cumsum(adjacency @ degrees)
        total = int(work.max(initial=0))
        ends = np.searchsorted(work, np.arange(_BLOCK, total + _BLOCK, _BLOCK)) + 1
        largest_single, largest = np.zeros(self.nodes + 1, dtype=np.int64), 0
        closed, start = 0, 0
        for end in np.unique(np.minimum(ends, self.nodes)).tolist():
            rows = adjacency[start:end]
            products = (rows @ adjacency).tocoo()
            later = products.col > products.row + start
            first, second, shared_count = (
                products.row[later],
                products.col[later],
                products.data[later],
            )
            if not len(first):  # of no places scipy gives a matrix
                start = end
                continue
            tied = np.asarray(rows[first, second]).ravel().astype(np.int64)
            closed += int((shared_count * tied).sum())
            single = degrees[first + start] + degrees[second] - 2 * shared_count - 2 * tied
            np.maximum.at(largest_single, shared_count, single)
            largest = max(largest, int(shared_count.max(initial=0)))
            start = end
        return Shared(closed // 3, largest_single[: largest + 1])


def graph_of(pairs: IntArray, nodes: int) -> Graph:
    """A simple graph of pairs of codes of nodes."""
    ends = np.sort(pairs.reshape(-1, 2), axis=1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    return Graph(nodes, np.unique(ends, axis=0) if len(ends) else ends)


def read_graph(rows: pa.Table) -> Graph:
    """The graph of a table of two columns, whose values name nodes."""
    return _coded(rows)[1]


def read_named(rows: pa.Table) -> tuple[list[str], Graph]:
    """The same with the names of its nodes, as texts."""
    names, graph = _coded(rows)
    return pc.cast(names, pa.string()).to_pylist(), graph


def _coded(rows: pa.Table) -> tuple[pa.Array, Graph]:
    named = pa.chunked_array([*rows.column(0).chunks, *rows.column(1).chunks], rows.column(0).type)
    coded = named.combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    return coded.dictionary, graph_of(codes.reshape(2, -1).T, len(coded.dictionary))


# A graph cut down to so many ties of each node, in an order that all graphs share.
#
# An edge stays if it is among the first `most` edges of both of its ends, in an order by keyed
# hash
# of the names of the pair. One edge more takes a place among the first of each end from at most
# one
# other: at most three edges change, itself and these two. Visiting edges in turn and counting
# what
# was kept so far would hand a freed place on from node to node, along a path of any length: good
# for
# degrees (`node_degrees`), not for what edges are counted by.


def keyed_order(edges: Sequence[tuple[str, str]], salt: str) -> list[int]:
    """The places of edges in an order that neighbours share: by keyed hash of the pair of names."""
    key = salt.encode()[:64]

    def sort_key(edge: int) -> tuple[bytes, tuple[str, ...]]:
        pair = tuple(sorted(edges[edge]))
        text = "\0".join(f"{len(name)}:{name}" for name in pair).encode()
        return hashlib.blake2b(text, key=key, digest_size=16).digest(), pair

    return sorted(range(len(edges)), key=sort_key)


def order_of(graph: Graph, names: Sequence[str], salt: str) -> IntArray:
    """The places of a graph's edges in that order."""
    named = [(names[first], names[second]) for first, second in graph.edges.tolist()]
    return np.array(keyed_order(named, salt), dtype=np.int64)


def truncated(graph: Graph, order: IntArray, most: int) -> Graph:
    """The edges that are among the first `most` of both ends."""
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.arange(len(order))
    ends = graph.edges.T.ravel()
    sorted_ = np.lexsort((np.tile(turn, 2), ends))
    starts = np.concatenate([[0], np.cumsum(graph.degrees)])
    rank = np.empty(len(ends), dtype=np.int64)
    rank[sorted_] = np.arange(len(ends)) - starts[ends[sorted_]]
    is_kept = (rank.reshape(2, -1) < most).all(axis=0)
    return Graph(graph.nodes, graph.edges[is_kept])
