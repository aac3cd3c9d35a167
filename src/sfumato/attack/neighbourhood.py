"""Neighbourhood: the number of neighbours of a person in a graph, and the numbers of theirs.

*Attacker*: has a graph without names, and knows the victim's number of neighbours (one hop), the
numbers of these neighbours' neighbours (two hops), and so on. All nodes that look alike are
candidates.
*Success*: the mean chance to pick the victim among the candidates. With the original, the knowledge
comes from there, and the release has the same names. Loops and repeated edges do not count.
*Baseline*: anybody.
*Victims*: people who look like nobody else.
*Reference*: Hay, Miklau, Jensen, Towsley and Weis, Resisting structural re-identification in
anonymized social networks, 2008, vertex refinement queries H1, H2, ...; looks are compared by sums
of 64-bit hashes, which collide with a chance of about (people)^2 / 2^64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.attack.case import cannot_run, needed_column
from sfumato.attack.finding import MOST_EXAMPLES, Finding, Rate, percent, plain
from sfumato.attack.sampling import mixed

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import Case, HeldTable


NAME = "neighbourhood"


def run(case: Case) -> Finding:
    """Look everybody up by their neighbourhood."""
    ends = [needed_column(case, NAME, role) for role in ("source", "target")]
    tables = [case.release.table, *([] if case.original is None else [case.original])]
    if any(name not in table.names for table in tables for name in ends):
        raise cannot_run(NAME, "the original lacks a column of these. Name columns alike.")
    nodes, graphs, nodes_present = _graphs(tables, ends)
    released_nodes, tried = nodes_present[0], nodes_present[-1]
    node_count = int(tried.sum())
    if not graphs[0].size or not graphs[-1].size:
        raise cannot_run(NAME, "the graph has no edge between two people.")
    looks = _looks(graphs, len(nodes), case.options.hops)
    chances = [_chances(level[0], level[-1], released_nodes) for level in looks]
    shares = [float(chance[tried].mean()) for chance in chances]
    alone = tried & (chances[-1] == 1)
    shares_text = ", ".join(f"{hop} {percent(share)}" for hop, share in enumerate(shares, start=1))
    shares_text += "; further ones tell no more" if len(shares) < case.options.hops else ""
    shown = nodes.take(pa.array(np.flatnonzero(alone)[:MOST_EXAMPLES])).to_pylist()
    return Finding(
        attack=NAME,
        attacker=f"knows how many neighbours people have, to {case.options.hops} hops",
        meaning="People whose node is found",
        success=Rate.share(float(chances[-1][tried].sum()), node_count),
        baseline=Rate.share(node_count / int(released_nodes.sum()), node_count),
        victims=int(alone.sum()),
        examples=[{"node": plain(node)} for node in shown],
        remarks=[f"Right by so many hops: {shares_text}."],
        rows=sum(graph.shape[1] // 2 for graph in graphs),
        reference="Hay et al. 2008",
    )


def _graphs(
    tables: list[HeldTable], ends: list[str]
) -> tuple[pa.Array, list[IntArray], list[BoolArray]]:
    """Return the names of all nodes, and for each table its edges and the nodes that it has.

    Edges are pairs of node numbers, once in each direction. A node whose only edge is a loop, or
    whose other end is missing, has no edges.
    """
    counted = [table.counted(ends) for table in tables]
    columns = [
        axis.decode(codes).cast(pa.string())
        for table in counted
        for axis, codes in zip(table.axes, table.codes, strict=True)
    ]
    every = pa.chunked_array(columns).combine_chunks().dictionary_encode()
    number = every.indices.to_numpy(zero_copy_only=False)
    number = np.nan_to_num(number, nan=-1).astype(np.int64)
    node_columns = np.split(number, np.cumsum([len(column) for column in columns])[:-1])
    size = len(every.dictionary)
    graphs, nodes_present = [], []
    for sources, targets in zip(node_columns[::2], node_columns[1::2], strict=True):
        real = (sources != targets) & (sources >= 0) & (targets >= 0)
        low, high = np.minimum(sources, targets)[real], np.maximum(sources, targets)[real]
        # Undirected: an edge counts once, whatever its direction and however often it is listed.
        low, high = np.divmod(np.unique(low * size + high), size)
        graphs.append(np.stack([np.concatenate([low, high]), np.concatenate([high, low])]))
        ends_of = np.concatenate([sources, targets])
        nodes_present.append(np.bincount(ends_of[ends_of >= 0], minlength=size) > 0)
    return every.dictionary, graphs, nodes_present


def _looks(graphs: list[IntArray], nodes: int, hops: int) -> list[list[IntArray]]:
    """Number the look of every node in each graph, for each number of hops.

    Stops at the first hop that separates no two nodes, because later hops cannot either.
    """
    looks = [np.zeros(nodes, dtype=np.int64) for _ in graphs]
    by_hop = []
    for hop in range(hops):
        size = int(max(look.max(initial=0) for look in looks)) + 1
        hashes = mixed(size, hop)
        every = []
        # A node's look is its own hash plus the sum of its neighbours' hashes (Weisfeiler-Leman).
        for look, (near, far) in zip(looks, graphs, strict=True):
            # Sums of hashes modulo 2^64 do not depend on the order of neighbours.
            around = np.zeros(nodes, dtype=np.uint64)
            np.add.at(around, near, hashes[look[far]])
            every.append(around * np.uint64(2 * hop + 3) + hashes[look] * np.uint64(0x9E3779B9))
        numbers = np.unique(np.concatenate(every), return_inverse=True)[1]
        looks = [look_numbers.astype(np.int64) for look_numbers in np.split(numbers, len(graphs))]
        by_hop.append(looks)
        if int(numbers.max(initial=0)) + 1 == size:
            break
    return by_hop


def _chances(released: IntArray, known: IntArray, released_nodes: BoolArray) -> FloatArray:
    """Return the chance to pick each node among the released nodes that look like it."""
    size = int(max(released.max(initial=0), known.max(initial=0))) + 1
    alike = np.bincount(released[released_nodes], minlength=size)
    right = (released == known) & released_nodes
    chances: FloatArray = right / np.maximum(alike[known], 1)
    return chances
