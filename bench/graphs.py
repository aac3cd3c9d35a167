"""Graphs: made-up ones against a Chung-Lu baseline, by epsilon; and a million edges.

Figures of ../shared/data, skipped where that is not there.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.methods.graph.attributes import correlations
from sfumato.methods.graph.simple_graph import Graph, graph_of
from sfumato.methods.graph.subgraphs import triangles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "graphs"
EPSILONS = (0.25, 0.5, 1, 2, 8)
DRAWS = 4
MEASURES = ("degrees", "clustering", "ties")
GRAPHS = {"lastfm_asia": "country", "facebook_pages": "page_type"}
_EDGES = """table = "ties"
unit = "row"
form = { edges = ["source", "target"] }
[columns.source]
role = "identifier"
kind = "integer"
nullable = false
[columns.target]
role = "identifier"
kind = "integer"
nullable = false
"""
_NODES = """table = "nodes"
unit = {{ column = "id", max_rows = 1 }}
[columns.id]
role = "identifier"
kind = "integer"
nullable = false
[columns.kind]
kind = "text"
nullable = false
values = {values}
"""


def rows() -> Iterator[dict[str, object]]:
    """Every measurement."""
    if FOLDER.exists():
        for name, kind in GRAPHS.items():
            yield from _twins(name, kind)
    yield from _million()


def _twins(name: str, kind: str) -> Iterator[dict[str, object]]:
    """Means of draws, each of a vault of its own: one vault gives the same answer again."""
    edges = pacsv.read_csv(FOLDER / f"{name}_edges.csv.gz")
    nodes = pacsv.read_csv(FOLDER / f"{name}_nodes.csv.gz")
    nodes = pa.table({"id": nodes["id"], "kind": nodes[kind].cast(pa.string())})
    values = sorted(set(nodes["kind"].to_pylist()))
    true = Shape.of(edges, nodes["kind"].to_pylist(), values)
    found: dict[tuple[float, str, str], list[float]] = {}
    for _ in range(DRAWS):
        with TemporaryDirectory() as folder:
            vault = _vault(Path(folder), edges, nodes, values)
            with sf.open(vault) as held:
                private = held.private("ties")
                for epsilon in EPSILONS:
                    for who, one in _drawn(private, nodes, values, epsilon).items():
                        for what in MEASURES:
                            apart = true.apart(one, what)
                            found.setdefault((epsilon, what, who), []).append(apart)
    for (epsilon, what, who), each in found.items():
        yield {"name": f"{name}, epsilon {epsilon}, {what}: {who}, mean of {DRAWS}",
               "value": float(np.mean(each)), "unit": ""}  # fmt: skip


def _drawn(
    private: sf.Private, nodes: pa.Table, values: list[str], epsilon: float
) -> dict[str, Shape]:
    """A made-up graph with kinds of nodes, and one by Chung-Lu."""
    people: dict[str, Any] = {"people": "nodes", "nodes": nodes.num_rows}
    twin = private.synthesize(epsilon=epsilon, **people)
    kinds = twin.tables["nodes"]["kind"].to_pylist()
    plain = private.synthesize(epsilon=epsilon, nodes=nodes.num_rows, method="chung-lu")
    # Chung-Lu has no kinds: nodes get those of the data, at random.
    shuffled = np.random.default_rng(1).permutation(nodes["kind"].to_pylist())
    return {
        "twin": Shape.of(twin.tables["ties"], kinds, values, start=1),
        "chung-lu": Shape.of(plain.table, shuffled.tolist(), values, start=1),
    }


def _vault(folder: Path, edges: pa.Table, nodes: pa.Table, values: list[str]) -> Path:
    pq.write_table(edges, folder / "ties.parquet")
    pq.write_table(nodes, folder / "nodes.parquet")
    (folder / "ties.toml").write_text(_EDGES)
    (folder / "nodes.toml").write_text(_NODES.format(values=values))
    sf.init(folder / "vault").close()
    config = folder / "vault" / "vault.toml"
    config.write_text(config.read_text().replace("max_epsilon = 10", "max_epsilon = 99"))
    with sf.open(folder / "vault") as vault:
        vault.add("ties", folder / "ties.parquet", folder / "ties.toml", epsilon=99)
        vault.add("nodes", folder / "nodes.parquet", folder / "nodes.toml", population="ties")
    return folder / "vault"


class Shape:
    """What is compared of two graphs."""

    def __init__(self, graph: Graph, ties: NDArray[np.int64]) -> None:
        self.degrees, self.ties = np.sort(graph.degrees), ties / max(ties.sum(), 1)
        pairs = float((graph.degrees * (graph.degrees - 1)).sum()) / 2
        self.clustering = 3 * triangles(graph) / max(pairs, 1.0)

    @classmethod
    def of(cls, edges: pa.Table, kinds: list[str], values: list[str], start: int = 0) -> Shape:
        """Of edges between numbered nodes, and the kind of each node."""
        pairs = np.stack([one.to_numpy() for one in edges.columns], axis=1) - start
        graph = graph_of(pairs, len(kinds))
        codes = np.searchsorted(values, kinds)
        return cls(graph, correlations(graph, codes, len(values)))

    def apart(self, other: Shape, what: str) -> float:
        """Kolmogorov-Smirnov of degrees, relative difference of clustering, Hellinger of ties."""
        if what == "clustering":
            return abs(other.clustering / self.clustering - 1)
        if what == "ties":
            return float(np.sqrt(max(1 - np.sqrt(self.ties * other.ties).sum(), 0)))
        at = np.arange(max(self.degrees[-1], other.degrees[-1]) + 1)
        below = [np.searchsorted(one.degrees, at, "right") / len(one.degrees)
                 for one in (self, other)]  # fmt: skip
        return float(np.abs(below[0] - below[1]).max())


def _million() -> Iterator[dict[str, object]]:
    generator = np.random.default_rng(5)
    ends = (generator.pareto(2.5, (1_010_000, 2)) * 20_000).astype(np.int64) % 200_000
    edges = pa.table({"source": ends[:, 0], "target": ends[:, 1]})
    nodes = pa.table({"id": np.arange(200_000), "kind": pa.array(["a", "b"] * 100_000)})
    with TemporaryDirectory() as folder:
        vault = _vault(Path(folder), edges, nodes, ["a", "b"])
        for word, people in (("edges alone", None), ("with nodes", "nodes")):
            begin, cpu = time.perf_counter(), time.process_time()
            with sf.open(vault) as held:
                twin = held.private("ties").synthesize(epsilon=1, nodes=200_000, people=people)
            took, spent = time.perf_counter() - begin, time.process_time() - cpu
            name = f"1 M edges made up, {word} ({twin.tables['ties'].num_rows:,} drawn)"
            yield {"name": name, "value": took, "unit": "s", "aim": "< 60 s"}
            yield {"name": f"{name}: CPU", "value": spent, "unit": "s"}
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield {"name": "1 M edges: memory at most", "value": most, "unit": "GiB", "aim": "< 4 GiB"}
