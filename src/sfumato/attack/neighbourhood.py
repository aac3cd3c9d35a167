"""Neighbourhood: how many neighbours a person has in a graph, and how many these have.

*Attacker*: has a graph without names, and knows of the victim how many neighbours there are (one
hop), how many each of these has (two hops), and so on; whoever looks the same is a candidate.
*Success*: the chance to pick the victim among those who look the same, on average. With the
original, what is known comes from there, and is looked for in the release, where people have the
same names. Loops and edges that come twice do not count.
*Baseline*: anybody.
*Victims*: people who look like nobody else.
*Reference*: Hay, Miklau, Jensen, Towsley and Weis, Resisting structural re-identification in
anonymized social networks, 2008, vertex refinement queries H1, H2, ...; looks are compared by sums
of 64-bit hashes, which differ but for a chance of about (people)^2 / 2^64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.attack.case import cannot_run
from sfumato.attack.draws import mixed
from sfumato.attack.finding import MOST_EXAMPLES, Finding, Rate, percent, plain
from sfumato.attack.roles import needed_column

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import Case, HeldTable


NAME = "neighbourhood"


def run(case: Case) -> Finding:
    """Look everybody up by what their neighbourhood looks like."""
    ends = [needed_column(case, NAME, what) for what in ("source", "target")]
    tables = [case.release.table, *([] if case.original is None else [case.original])]
    if any(name not in table.names for table in tables for name in ends):
        raise cannot_run(NAME, "the original lacks a column of these. Name columns alike.")
    nodes, graphs, there = _graphs(tables, ends)
    here, tried = there[0], there[-1]
    many = int(tried.sum())
    if not graphs[0].size or not graphs[-1].size:
        raise cannot_run(NAME, "the graph has no edge between two people.")
    looks = _looks(graphs, len(nodes), case.options.hops)
    chances = [_chances(level[0], level[-1], here) for level in looks]
    shares = [float(one[tried].mean()) for one in chances]
    alone = tried & (chances[-1] == 1)
    told = ", ".join(f"{hop} {percent(share)}" for hop, share in enumerate(shares, start=1))
    told += "; further ones tell no more" if len(shares) < case.options.hops else ""
    shown = nodes.take(pa.array(np.flatnonzero(alone)[:MOST_EXAMPLES])).to_pylist()
    return Finding(
        attack=NAME,
        attacker=f"knows how many neighbours people have, to {case.options.hops} hops",
        meaning="People whose node is found",
        success=Rate.share(float(chances[-1][tried].sum()), many),
        baseline=Rate.share(many / int(here.sum()), many),
        victims=int(alone.sum()),
        examples=[{"node": plain(one)} for one in shown],
        remarks=[f"Right by so many hops: {told}."],
        rows=sum(graph.shape[1] // 2 for graph in graphs),
        reference="Hay et al. 2008",
    )


def _graphs(
    tables: list[HeldTable], ends: list[str]
) -> tuple[pa.Array, list[IntArray], list[BoolArray]]:
    """The names of nodes, of each table its edges both ways by numbers, and which nodes it has.

    Who is only with themselves, or with nobody, is a node without edges.
    """
    counted = [table.counted(ends) for table in tables]
    columns = [
        axis.decode(codes).cast(pa.string())
        for one in counted
        for axis, codes in zip(one.axes, one.codes, strict=True)
    ]
    every = pa.chunked_array(columns).combine_chunks().dictionary_encode()
    number = every.indices.to_numpy(zero_copy_only=False)
    number = np.nan_to_num(number, nan=-1).astype(np.int64)
    parts = np.split(number, np.cumsum([len(one) for one in columns])[:-1])
    size = len(every.dictionary)
    graphs, there = [], []
    for one, other in zip(parts[::2], parts[1::2], strict=True):
        real = (one != other) & (one >= 0) & (other >= 0)
        low, high = np.minimum(one, other)[real], np.maximum(one, other)[real]
        low, high = np.divmod(np.unique(low * size + high), size)
        graphs.append(np.stack([np.concatenate([low, high]), np.concatenate([high, low])]))
        ends_of = np.concatenate([one, other])
        there.append(np.bincount(ends_of[ends_of >= 0], minlength=size) > 0)
    return every.dictionary, graphs, there


def _looks(graphs: list[IntArray], nodes: int, hops: int) -> list[list[IntArray]]:
    """For each number of hops what every node looks like, as numbers, in each graph.

    A hop that parts nobody from anybody is the last: none behind it does.
    """
    looks = [np.zeros(nodes, dtype=np.int64) for _ in graphs]
    found = []
    for hop in range(hops):
        size = int(max(one.max(initial=0) for one in looks)) + 1
        words = mixed(size, hop)
        every = []
        for look, (here, there) in zip(looks, graphs, strict=True):
            around = np.zeros(nodes, dtype=np.uint64)
            np.add.at(around, here, words[look[there]])
            every.append(around * np.uint64(2 * hop + 3) + words[look] * np.uint64(0x9E3779B9))
        numbers = np.unique(np.concatenate(every), return_inverse=True)[1]
        looks = [one.astype(np.int64) for one in np.split(numbers, len(graphs))]
        found.append(looks)
        if int(numbers.max(initial=0)) + 1 == size:
            break
    return found


def _chances(released: IntArray, known: IntArray, here: BoolArray) -> FloatArray:
    """For each node the chance to be picked among the released ones that look as it does."""
    size = int(max(released.max(initial=0), known.max(initial=0))) + 1
    alike = np.bincount(released[here], minlength=size)
    right = (released == known) & here
    chances: FloatArray = right / np.maximum(alike[known], 1)
    return chances
