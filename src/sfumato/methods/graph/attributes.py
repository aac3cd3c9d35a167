"""Attributes of nodes: a second table about the same people, and ties between their kinds.

Decision `graphs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.engines.kinds import STORED
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Values
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError, option
from sfumato.methods.options import several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import IntArray
    from sfumato.data.schema.column import Column
    from sfumato.methods.graph.simple_graph import Graph
    from sfumato.methods.publish.request import FormRequest, FormRows


# The most combinations of values of a node: all pairs of combinations are counted.
MAX_KINDS = 256


@dataclass(frozen=True)
class NodeTable:
    """The table of nodes: its key, and its columns of public values."""

    dataset: str
    key: str
    columns: tuple[Column, ...]
    weight: int
    """The rows that differ between neighbours: 1 if added or removed, 2 if replaced."""

    @property
    def values(self) -> list[pa.Array]:
        """The public values of each column."""
        return [pa.array(_values(column)) for column in self.columns]

    @property
    def kinds(self) -> int:
        """The number of combinations of values."""
        return prod(len(values) for values in self.values)

    def read(self, rows: FormRows, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """The rows of each combination, and the combination of each named node; -1 if unknown."""
        rows_of_nodes = rows.of(self.dataset, [self.key, *(item.name for item in self.columns)])
        code = np.zeros(rows_of_nodes.num_rows, dtype=np.int64)
        known = np.ones(rows_of_nodes.num_rows, dtype=bool)
        for column, values in zip(self.columns, self.values, strict=True):
            cells = rows_of_nodes.column(column.name).combine_chunks()
            stored = STORED[column.kind]
            among = pc.index_in(cells.cast(stored, safe=False), values.cast(stored))
            position = pc.fill_null(among, -1).to_numpy()
            known &= position >= 0
            code = code * len(values) + position
        node_names = rows_of_nodes.column(self.key).combine_chunks().cast(pa.string()).to_pylist()
        by_name = dict(zip(node_names, np.where(known, code, -1).tolist(), strict=True))
        of_nodes = np.array([by_name.get(item, -1) for item in names], dtype=np.int64)
        return np.bincount(code[known], minlength=self.kinds), of_nodes

    def table(self, codes: IntArray) -> pa.Table:
        """Synthetic nodes, numbered from 1, with the values of their combinations."""
        columns = {self.key: pa.array(np.arange(1, len(codes) + 1))}
        quotients, decoded = codes, []
        for column, values in zip(reversed(self.columns), reversed(self.values), strict=True):
            decoded.append((column.name, values.take(pa.array(quotients % len(values)))))
            quotients = quotients // len(values)
        return pa.table({**columns, **dict(reversed(decoded))})


def correlations(graph: Graph, codes: IntArray, kinds: int) -> IntArray:
    """Count the edges between each two combinations of values: an upper triangle, row by row.

    If no node has more than `most` edges, a node whose values appear or disappear moves these
    counts by at most `most` in L1, and one whose values change by twice that. One more edge of the
    whole graph changes up to three edges of the truncated graph. So the sensitivity for a truncated
    graph is max(3, `most`), times two if people are replaced.
    """
    low, high = np.sort(codes[graph.edges], axis=1).T
    counts = np.zeros((kinds, kinds), dtype=np.int64)
    np.add.at(counts, (low[low >= 0], high[low >= 0]), 1)
    return counts[np.triu_indices(kinds)]


def node_table(request: FormRequest, people: object, columns: object) -> NodeTable:
    """Find the named table of nodes; refuse one whose key or values do not fit."""
    name = str(people)
    schema = request.linked.get(name)
    if schema is None:
        raise ParameterError(
            "linked_table_invalid",
            f"No data set {quoted(name)} of the people of {quoted(request.dataset)}; "
            f"{suggestion(name, request.linked)} Add it with {option('population')} of this one.",
        )
    unit = schema.unit
    if len(unit.columns) != 1 or unit.max_rows != 1:
        raise ParameterError(
            "linked_table_invalid",
            f"Data set {quoted(name)} must have one row for each node. Declare in its schema "
            'unit = { column = "id", max_rows = 1 }.',
        )
    [key] = unit.columns
    end = next(iter(request.form.roles.values()))[0]
    if schema.column(key).kind is not request.schema.column(end).kind:
        raise ParameterError(
            "linked_table_invalid",
            f"Column {quoted(key)} of {quoted(name)} and column {quoted(end)} of "
            f"{quoted(request.dataset)} name nodes by different kinds of values. Declare one kind.",
        )
    column_names = None if columns is None else several(columns, "columns")
    chosen = [
        column
        for column in (schema.columns if column_names is None else map(schema.column, column_names))
        if column.name != key and (column_names is not None or _values(column))
    ]
    missing = [column.name for column in chosen if not _values(column)]
    kind_count = prod(len(_values(column)) for column in chosen)
    if missing or not chosen or kind_count > MAX_KINDS:
        problem = (
            f"{quoted(missing[0])} has none"
            if missing
            else f"there are {kind_count:,} of all columns"
        )
        raise ParameterError(
            "linked_table_invalid",
            f"Columns of {quoted(name)} go with a graph by their declared values, 1 to "
            f"{MAX_KINDS} combinations in all, but {problem}. Name others with "
            f"{option('columns', ['A', 'B'])}.",
        )
    weight = 1 if unit.relation is Neighbours.ADD_REMOVE else 2
    return NodeTable(name, key, tuple(chosen), weight)


def _values(column: Column) -> tuple[object, ...]:
    if column.kind is Kind.BOOLEAN:
        return (False, True)
    domain = column.public_domain
    return tuple(domain.values) if isinstance(domain, Values) else ()
