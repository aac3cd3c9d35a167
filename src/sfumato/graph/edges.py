"""Rows of edges as a simple graph.

Self-loops are dropped, both directions and repeats of a pair joined. So one row more or less adds
or removes at most one edge: its own pair, and only if no other row has that pair; a loop none.
That is edge privacy under `unit = "row"`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Graph:
    """A simple graph: how many nodes, and each edge once, the lower node first."""

    nodes: int
    edges: NDArray[np.int64]

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """How many edges each node has."""
        return np.bincount(self.edges.ravel(), minlength=self.nodes)

    @cached_property
    def adjacency(self) -> sparse.csr_array:
        """The symmetric matrix of its edges."""
        first, second = self.edges.T
        ends = np.concatenate([first, second]), np.concatenate([second, first])
        ones = np.ones(2 * len(self.edges), dtype=np.int64)
        return sparse.csr_array((ones, ends), shape=(self.nodes, self.nodes))

    @cached_property
    def shared(self) -> sparse.csr_array:
        """How many neighbours two nodes share, for every pair that shares any."""
        return sparse.csr_array(sparse.triu(self.adjacency @ self.adjacency, k=1))


def graph_of(pairs: NDArray[np.int64], nodes: int) -> Graph:
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
