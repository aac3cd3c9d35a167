"""Kinds of nodes: sensitivities on all small graphs, twins, and graphs drawn to exact figures."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import networkx as nx  # type: ignore[import-untyped]  # it has no types
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.methods.graph.attributes import correlations
from sfumato.methods.graph.drawing import (
    apportion,
    assigned,
    drawn_edges,
    ends_of,
    shares,
    with_triangles,
)
from sfumato.methods.graph.simple_graph import Graph, graph_of, truncated
from sfumato.methods.graph.subgraphs import triangles
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAIRS = list(combinations(range(5), 2))
TURNS = dict(zip(PAIRS, np.random.default_rng(4).permutation(10).tolist(), strict=True))
EDGES = """table = "friends"
unit = "row"
form = { edges = ["from", "to"] }
[columns.from]
role = "identifier"
kind = "integer"
nullable = false
[columns.to]
role = "identifier"
kind = "integer"
nullable = false
"""
MEMBERS = """table = "members"
unit = { column = "node", max_rows = 1 }
[columns.node]
role = "identifier"
kind = "integer"
nullable = false
[columns.club]
kind = "text"
values = ["Mr. Hi", "Officer"]
nullable = false
"""


def _ties(graph: Graph, codes: np.ndarray, most: int) -> np.ndarray:
    turns = [TURNS[one, other] for one, other in graph.edges.tolist()]
    return correlations(truncated(graph, np.argsort(turns).astype(np.int64), most), codes, 3)


def test_an_edge_or_a_node_moves_ties_by_no_more_than_said(small_graphs: list[Graph]) -> None:
    generator, most = np.random.default_rng(6), 2
    codes = generator.integers(0, 3, 5)
    table = np.array([_ties(one, codes, most) for one in small_graphs])
    flipped = [np.abs(table[mask] - table[mask ^ 1 << at]).sum()
               for mask in range(1024) for at in range(10)]  # fmt: skip
    assert max(flipped) <= 3
    gone: list[int] = []
    changed: list[int] = []
    for mask, graph in enumerate(small_graphs):
        for node in range(5):
            for to, moved in ((-1, gone), ((codes[node] + 1) % 3, changed)):
                other = codes.copy()
                other[node] = to
                moved.append(np.abs(_ties(graph, other, most) - table[mask]).sum())
    assert (max(gone), max(changed)) == (most, 2 * most)


def test_ties_of_a_whole_graph_are_caught() -> None:
    """Twins: no truncation at all, and one by the order in which edges lie."""
    hub = Graph(9, np.array([(0, at) for at in range(1, 9)]))
    codes = np.array([0, *[0, 1] * 4])
    other = np.array([1, *[0, 1] * 4])
    free = [correlations(hub, one, 2) for one in (codes, other)]
    assert np.abs(free[0] - free[1]).sum() > 2 * 2
    # Two of one kind first or two of the other: the same table in another order.
    lying = [correlations(truncated(hub, np.array(order), 2), codes, 2)
             for order in ([0, 2, 1, 3, 4, 5, 6, 7], [1, 3, 0, 2, 4, 5, 6, 7])]  # fmt: skip
    assert np.abs(lying[0] - lying[1]).sum() > 3


def test_without_noise_a_drawn_graph_has_the_figures_of_the_data() -> None:
    """Of 2,000 nodes in four groups that keep to themselves: n, m, degrees, ties, triangles."""
    made = nx.random_partition_graph([500] * 4, 0.02, 0.001, seed=3)
    graph = graph_of(np.array(made.edges, dtype=np.int64), 2000)
    codes, entropy = np.repeat(np.arange(4), 500), SeededEntropy(8)
    ties = correlations(graph, codes, 4)
    many = len(graph.edges)
    wanted = apportion(shares(ties), many)
    assert (wanted == ties).all()
    found = assigned(graph.degrees, np.full(4, 500), ends_of(wanted), entropy)
    assert (np.bincount(found) == 500).all()
    edges = drawn_edges(graph.degrees, found, wanted, entropy)
    edges = with_triangles(edges, triangles(graph), entropy, found)
    drawn = graph_of(edges, 2000)
    assert (correlations(drawn, found, 4) == ties).all()
    assert len(drawn.edges) == many
    assert abs(triangles(drawn) - triangles(graph)) <= 0.1 * triangles(graph)
    assert np.abs(np.sort(drawn.degrees) - np.sort(graph.degrees)).sum() <= 0.01 * many


def test_shares_are_the_nearest() -> None:
    found = shares(np.array([10, -4, 2]))
    assert found.tolist() == [1, 0, 0]
    assert apportion(np.array([0.5, 0.25, 0.25]), 6).tolist() == [3, 2, 1]


@pytest.fixture(scope="module")
def karate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Private]:
    folder: Path = tmp_path_factory.mktemp("club")
    from sfumato.methods.graph import from_networkx

    tables = from_networkx(nx.karate_club_graph())
    budget: dict[str, Any] = {"epsilon": 10}
    with sf.init(folder / "vault") as vault:
        for name, table, schema, more in (
            ("friends", tables["edges"], EDGES, budget),
            (
                "members",
                tables["nodes"].select(["node", "club"]),
                MEMBERS,
                {"population": "friends"},
            ),
        ):
            pq.write_table(table, folder / f"{name}.parquet")
            (folder / f"{name}.toml").write_text(schema)
            vault.add(name, folder / f"{name}.parquet", folder / f"{name}.toml", **more)
        yield vault.private("friends")


def test_edges_and_nodes_come_as_two_tables_for_one_price(karate: sf.Private) -> None:
    twin = karate.synthesize(nodes=34, people="members", epsilon=8)
    assert twin.cost == {"epsilon": 8}
    assert list(twin.tables) == ["friends", "members"]
    members = twin.tables["members"]
    assert members.column_names == ["node", "club"]
    assert members.num_rows == 34
    assert members["node"].to_pylist() == list(range(1, 35))
    ends = pa.concat_arrays([one.combine_chunks() for one in twin.tables["friends"].columns])
    assert set(ends.to_pylist()) <= set(range(1, 35))


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"people": "memberz"}, "linked_table_invalid"),
        ({"people": "members", "columns": ["node"]}, "linked_table_invalid"),
        ({"columns": ["club"]}, "parameter_missing"),
        ({"people": "members", "method": "chung-lu"}, "option_not_applicable"),
    ],
)
def test_tables_of_nodes_that_do_not_fit_are_refused(
    karate: sf.Private, said: dict[str, Any], code: str
) -> None:
    with pytest.raises(ParameterError) as refusal:
        karate.synthesize(nodes=34, epsilon=1, **said)
    assert refusal.value.code == code
