"""Graphs of networkx as tables of edges and of nodes, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping


def from_networkx(graph: Any, *, ends: tuple[str, str] = ("from", "to")) -> dict[str, pa.Table]:
    """Turn a networkx graph into a table of edges and a table of nodes.

    Parameters
    ----------
    graph:
        A networkx graph. Its nodes must all be texts or all be integers.
    ends:
        The names of the two columns of edges.

    Returns
    -------
    dict of str to pyarrow.Table
        `edges`, and `nodes` with a column for each attribute.

    Raises
    ------
    ParameterError
        If it is not a graph of networkx, or its nodes are of several kinds.

    Example
    -------
    >>> tables = from_networkx(graph)
    >>> edges = sf.read(tables["edges"], schema="edges.toml")
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
    """Turn a table of edges, and perhaps a table of nodes, into a networkx graph.

    Parameters
    ----------
    tables:
        A table whose first two columns are the ends of edges; or a mapping of two tables, of which
        the second describes nodes and names them in its first column.

    Returns
    -------
    networkx.Graph
        The graph, with the other columns of nodes as attributes.

    Raises
    ------
    ParameterError
        If networkx is not installed.

    Example
    -------
    >>> graph = to_networkx(release.tables)
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
