"""Graphs of networkx as tables of edges and of nodes, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping


def from_networkx(graph: Any, *, ends: tuple[str, str] = ("from", "to")) -> dict[str, pa.Table]:
    """The `edges` of a networkx graph, and its `nodes` with what it says of them, as tables.

    Read them with a schema: `sf.read(tables["edges"], schema=...)`. Nodes must be named by values
    of one kind, all texts or all whole numbers.
    """
    if not hasattr(graph, "edges") or not hasattr(graph, "nodes"):
        raise ParameterError(
            "linked_table_invalid",
            "A graph of networkx is needed, such as networkx.Graph(). Give one.",
        )
    names = list(graph.nodes)
    if len({type(first) for first in names}) > 1:
        raise ParameterError(
            "linked_table_invalid",
            "The nodes of the graph are named by values of several kinds. Name them alike, for "
            "example by networkx.convert_node_labels_to_integers.",
        )
    pairs = [(first, second) for first, second in graph.edges()]
    attributes = list(dict.fromkeys(name for _, data in graph.nodes(data=True) for name in data))
    columns = {name: [data.get(name) for _, data in graph.nodes(data=True)] for name in attributes}
    kind = pa.array(names).type if names else pa.int64()
    edges = {name: pa.array([first[at] for first in pairs], kind) for at, name in enumerate(ends)}
    return {"edges": pa.table(edges), "nodes": pa.table({"node": pa.array(names, kind), **columns})}


def to_networkx(tables: Mapping[str, pa.Table] | pa.Table) -> Any:
    """A networkx graph of a table of edges; of two tables the second says what nodes are.

    Ends are the first two columns of the edges; a node is named by the first column of its table.
    """
    try:
        import networkx as nx  # type: ignore[import-untyped]  # it has no types
    except ImportError:
        raise ParameterError(
            "package_missing",
            "A graph of networkx needs a package that is not installed. Install it with: pip "
            "install 'sfumato[graph]'.",
        ) from None
    edges, *nodes = [tables] if isinstance(tables, pa.Table) else list(tables.values())
    graph = nx.Graph()
    for table in nodes:
        key, *attributes = table.column_names
        graph.add_nodes_from(
            (row[key], {name: row[name] for name in attributes}) for row in table.to_pylist()
        )
    graph.add_edges_from(zip(*(edges.column(at).to_pylist() for at in (0, 1)), strict=True))
    return graph
