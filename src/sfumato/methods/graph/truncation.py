"""A graph cut down to so many ties of each node, in an order that all graphs share.

An edge stays if it is among the first `most` edges of both of its ends, in an order by keyed hash
of the names of the pair. One edge more takes a place among the first of each end from at most one
other: at most three edges change, itself and these two. Visiting edges in turn and counting what
was kept so far would hand a freed place on from node to node, along a path of any length: good for
degrees (`node_degrees`), not for what edges are counted by.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.graph.edges import Graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import IntArray


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
