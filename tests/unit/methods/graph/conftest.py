"""Every graph of five nodes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.methods.graph.simple_graph import Graph, graph_of

PAIRS = list(combinations(range(5), 2))


@pytest.fixture(scope="session")
def small_graphs() -> list[Graph]:
    """By the bits of their number, one for each pair of nodes."""
    masks = range(1 << len(PAIRS))
    kept = [[pair for at, pair in enumerate(PAIRS) if mask >> at & 1] for mask in masks]
    return [graph_of(np.array(one, dtype=np.int64).reshape(-1, 2), 5) for one in kept]
