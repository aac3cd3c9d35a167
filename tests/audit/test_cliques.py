"""Cliques of 4 and 5 nodes: their bound on every graph of 5 nodes, on some of 6, and its noise.

What one edge moves is counted here by brute force, at every distance, and not by the code.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations
from math import comb, exp
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.methods.graph.edge_mechanisms import smooth_sensitivity
from sfumato.methods.graph.simple_graph import Graph, graph_of
from sfumato.methods.graph.subgraphs import CliqueSensitivity, TriangleSensitivity, cliques
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.noise.discrete import rounded_cauchy
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

    Ints = NDArray[np.int64]

SIZES = [4, 5]
_FAR = 8
_BETA = 0.5


def _pairs(nodes: int) -> list[tuple[int, int]]:
    return list(combinations(range(nodes), 2))


def _graph(mask: int, nodes: int) -> Graph:
    """Nodes without an edge are not in it, as they are in no table of edges."""
    kept = np.array([pair for at, pair in enumerate(_pairs(nodes)) if mask >> at & 1])
    names, codes = np.unique(kept.reshape(-1, 2), return_inverse=True)
    return graph_of(codes.astype(np.int64).reshape(-1, 2), len(names))


def _counted(nodes: int, k: int) -> Ints:
    """How many cliques each graph of so many nodes has, by the bits of its edges."""
    place = {pair: at for at, pair in enumerate(_pairs(nodes))}
    masks = np.arange(1 << len(place))
    counts = np.zeros(len(masks), dtype=np.int64)
    for chosen in combinations(range(nodes), k):
        whole = sum(1 << place[pair] for pair in combinations(chosen, 2))
        counts += masks & whole == whole
    return counts


def _farthest(counts: Ints, edges: int) -> Ints:
    """What one edge moves the count by, of each graph and at each distance from it."""
    masks = np.arange(len(counts))
    beside = [masks ^ (1 << at) for at in range(edges)]
    here = np.max([np.abs(counts - counts[one]) for one in beside], axis=0)
    found = [here]
    for _ in range(_FAR - 1):
        here = np.max([here, *(here[one] for one in beside)], axis=0)
        found.append(here)
    return np.stack(found, axis=1)


@cache
def _triangles(mask: int, nodes: int) -> TriangleSensitivity:
    return TriangleSensitivity.of(_graph(mask, nodes))


def _bounds(masks: Sequence[int], nodes: int, k: int) -> tuple[Ints, NDArray[np.float64]]:
    """By the code: the bound at each distance, and the smooth one."""
    made = [CliqueSensitivity(_triangles(one, nodes), k) for one in masks]
    at = np.array([[one(distance) for distance in range(_FAR + 1)] for one in made])
    return at, np.array([smooth_sensitivity(one, _BETA, power=k - 2) for one in made])


@pytest.fixture(scope="module", params=SIZES)
def five(request: pytest.FixtureRequest) -> tuple[int, Ints, NDArray[np.float64]]:
    """The size of cliques, and the bounds of every graph of five nodes."""
    return request.param, *_bounds(range(1 << 10), 5, request.param)


def _flips(values: NDArray[Any]) -> NDArray[Any]:
    """The same of each neighbour of every graph of five nodes: a row for each edge."""
    masks = np.arange(1 << 10)
    return np.stack([values[masks ^ (1 << at)] for at in range(10)])


def test_every_flip_of_five_nodes_is_bounded_at_every_distance(five: Any) -> None:
    k, at, smooth = five
    counts = _counted(5, k)
    assert [cliques(_graph(mask, 5), k) for mask in range(1 << 10)] == counts.tolist()
    assert (_farthest(counts, 10) <= at[:, :_FAR]).all()
    assert (at[:, :-1] <= _flips(at)[:, :, 1:]).all()
    assert (smooth <= _flips(smooth) * exp(_BETA) * (1 + 1e-12)).all()
    assert (at[:, 0] <= smooth).all()


@pytest.mark.parametrize("k", SIZES)
def test_graphs_of_six_nodes_and_all_their_neighbours(k: int) -> None:
    counts = _counted(6, k)
    true = _farthest(counts, 15)
    full = (1 << 15) - 1  # graphs that are nearly whole have the most to lose
    drawn = np.random.default_rng(6).integers(0, 1 << 15, 20).tolist()
    for mask in [full, full ^ 1, full ^ 0b11, *drawn]:
        near = [mask, *(mask ^ (1 << edge) for edge in range(15))]
        at, smooth = _bounds(near, 6, k)
        assert cliques(_graph(mask, 6), k) == counts[mask]
        assert (true[near] <= at[:, :_FAR]).all()
        assert (at[0, :-1] <= at[1:, 1:]).all()
        assert (at[1:, :-1] <= at[0, 1:]).all()
        ratio = smooth[1:] / smooth[0]
        assert np.maximum(ratio, 1 / ratio).max() <= exp(_BETA) * (1 + 1e-12)


def test_wrong_bounds_are_caught(five: Any) -> None:
    """Twins: what one edge moves here, as scale; the same at every distance; one too few."""
    k, at, _ = five
    local = at[:, 0].astype(float)
    assert (local > _flips(local) * exp(_BETA)).any()
    flat = np.tile(at[:, :1], _FAR)
    assert (_farthest(_counted(5, k), 10) > flat).any()
    made = [_triangles(mask, 5) for mask in range(1 << 10)]
    fewer = np.array([[comb(one(t) - 1, k - 2) if one(t) else 0 for t in range(_FAR)]
                      for one in made])  # fmt: skip
    assert (_farthest(_counted(5, k), 10) > fewer).any()


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("twin", [False, True])
def test_cliques_by_smooth_sensitivity(k: int, *, twin: bool) -> None:
    """Twin: the local sensitivity as the scale, which tells by itself which graph it is."""
    # Two nodes that share k - 2 neighbours, all tied: their own edge would close a clique. In the
    # other graph they share one less, and no edge closes any.
    shared = range(2, k)
    ties = [*combinations(shared, 2), *((end, one) for end in (0, 1) for one in shared)]
    pair = graph_of(np.array(ties), k), graph_of(np.array(ties[:-1]), k)
    epsilon = Fraction(1, 2)

    def outputs(graph: Graph, draws: int, entropy: Entropy) -> NDArray[Any]:
        at = CliqueSensitivity(TriangleSensitivity.of(graph), k)
        smooth = smooth_sensitivity(at, float(epsilon / 2), power=k - 2)
        local = int(_farthest(_counted(k, k), len(_pairs(k)))[_mask(graph), 0])
        scale = 2 * Fraction(max(local, 0.01) if twin else smooth) / epsilon
        return np.asarray(cliques(graph, k) + rounded_cauchy(scale, draws, entropy))

    found = audit(
        outputs, pair, Pure(epsilon=epsilon), entropy=SeededEntropy(k), draws=20_000
    )  # fmt: skip
    assert found.violated == twin, found.sentence()


def _mask(graph: Graph) -> int:
    place = {pair: at for at, pair in enumerate(_pairs(graph.nodes))}
    return sum(1 << place[one, other] for one, other in graph.edges.tolist())
