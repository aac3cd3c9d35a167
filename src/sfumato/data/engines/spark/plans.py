"""Analyzed plans of Spark: which tables and files a plan reads, and whether its rows can change.

A contribution bound or a count is meaningless over rows that change between queries. Spark calls a
plan deterministic if no value is drawn at random. But the rows of a limit or a sample, and the
first row of a group, depend on the order in which rows arrive, which depends on the columns that a
query reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sfumato.data.engines.base import render
from sfumato.data.engines.source_identity import (
    Identity,
    identity_of_folder,
    identity_of_path,
    unresolved,
)
from sfumato.data.engines.spark.session import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from sqlglot import exp


def identity_of(session: SparkSession, named: exp.Table) -> Identity:
    """Return the tables and folders that a name reads, through views of any depth."""
    name = render(named, "spark")
    described = session.catalog.getTable(name)
    if described.isTemporary:
        raise unresolved("it is a temporary view, which ends with its session")
    home = f"spark {session.conf.get('spark.sql.warehouse.dir')}"
    path = [described.catalog, *(described.namespace or ()), described.name]
    names = {f"{home}#{'.'.join(component.lower() for component in path if component)}"}
    also, nodes = set[str](), set[str]()
    if is_remote(session):  # Spark Connect does not expose the plan
        read = [_described_location(session, name)]
    else:
        plan = session.table(name)._jdf.queryExecution().analyzed()  # noqa: SLF001
        read = [_relation_location(leaf) for leaf in _leaves(plan)]
    for table, folders in read:
        names |= {f"{home}#{table.lower()}"} if table else set()
        for identity in map(identity_of_location, folders):
            names |= identity.names
            also |= identity.also
            nodes |= identity.nodes
    return Identity(frozenset(names), frozenset(also), frozenset(nodes))


def _described_location(session: SparkSession, name: str) -> tuple[str | None, list[str]]:
    """The location in the description of a table; refuse views, whose tables it does not name."""
    rows = session.sql(f"DESCRIBE EXTENDED {name}").toArrow().to_pylist()
    starts = [index for index, row in enumerate(rows) if row["col_name"].startswith("# Detailed ")]
    details = rows[starts[-1] :] if starts else []
    description = {row["col_name"]: row["data_type"] for row in details}
    if description.get("Type") not in {"MANAGED", "EXTERNAL"} or not description.get("Location"):
        raise unresolved(
            "over Spark Connect only tables tell where they lie, and this is a view or lies in no "
            "files"
        )
    return None, [unquote(description["Location"])]


# Relations whose rows are written in the view itself.
_OF_NOBODY = {"OneRowRelation", "LocalRelation", "Range"}


def _leaves(plan: Any) -> list[Any]:
    """Return the relations that a plan and its subqueries read, without rows written in a view."""
    plans = [plan, *listed(plan.subqueriesAll())]
    leaves = [leaf for root in plans for leaf in listed(root.collectLeaves())]
    return [leaf for leaf in leaves if leaf.getClass().getSimpleName() not in _OF_NOBODY]


def _relation_location(leaf: Any) -> tuple[str | None, list[str]]:
    """Return the catalogue name of a relation, if it has one, and the folders of its files."""
    match leaf.getClass().getSimpleName():
        case "LogicalRelation":
            relation, table = leaf.relation(), leaf.catalogTable()
            if relation.getClass().getSimpleName() == "HadoopFsRelation":
                folders = [str(path.toString()) for path in listed(relation.location().rootPaths())]
                called = table.get().identifier().unquotedString() if table.isDefined() else None
                return called, folders
        case "HiveTableRelation":
            table = leaf.tableMeta()
            return table.identifier().unquotedString(), [unquote(table.location().toString())]
        case "DataSourceV2Relation":
            return leaf.table().name(), []
    raise unresolved("it reads rows that lie in no files of Spark's own catalogue")


def identity_of_location(location: str) -> Identity:
    """Return the identity of a location: by its files on this machine, else by its address."""
    local = local_path(location)
    if local is None:
        return Identity(frozenset({location.rstrip("/")}))
    if local.is_file():
        return identity_of_path(local)
    if local.is_dir():
        return identity_of_folder(local)
    return Identity(frozenset({str(local.resolve())}))


def local_path(location: str) -> Path | None:
    """Return the path of a file: address; None for other addresses."""
    if not location.startswith("file:"):
        return None
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def listed(sequence: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [sequence.apply(index) for index in range(sequence.size())]


_ROWS_AS_THEY_COME = {
    "Sample": "it is a sample",
    "Tail": "it takes the last rows of an unsorted frame",
    "GlobalLimit": "it takes the first rows (limit) without sorting by every column right before",
    "Offset": "it leaves out the first rows (offset) without sorting by every column right before",
    "Deduplicate": "it keeps one row of several that differ (dropDuplicates on some columns)",
}

# Functions that depend on the order of rows: Spark's class names and the SQL names.
_VALUES_AS_THEY_COME = {
    "First": "first()",
    "Last": "last()",
    "AnyValue": "any_value()",
    "NthValue": "nth_value()",
    "CollectList": "collect_list()",
    "ListAgg": "listagg()",
    "MaxBy": "max_by()",
    "MinBy": "min_by()",
    "Mode": "mode()",
    "RowNumber": "row_number()",
    "NTile": "ntile()",
    "Lag": "lag()",
    "Lead": "lead()",
    "ApproximatePercentile": "approx_percentile()",
}

# Functions of the current time; Spark keeps it constant within a query, not between queries.
_CLOCK = {
    "CurrentTimestamp": "current_timestamp()",
    "Now": "now()",
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "LocalTimestamp": "localtimestamp()",
}


def why_not_fixed(plan: Any) -> str | None:
    """Return why an analyzed plan may read other rows in the next query; None if it does not."""
    for node in _nodes(plan):
        if not node.deterministic():
            return "it draws at random, or numbers rows as they happen to come"
        reason = _ROWS_AS_THEY_COME.get(_kind(node))
        if reason is not None and not _keeps_same_rows(node):
            return reason
        for expression in listed(node.expressions()):
            for inner in _tree(expression):
                reason = _why_unstable(inner)
                if reason is not None:
                    return reason
    return None


def _why_unstable(node: Any) -> str | None:
    """Why an expression may give another value in the next query."""
    kind = _kind(node)
    if kind in _CLOCK:
        return f"{_CLOCK[kind]} is another at each look"
    if kind in _VALUES_AS_THEY_COME:
        return f"{_VALUES_AS_THEY_COME[kind]} depends on the order in which rows come"
    if kind == "WindowExpression" and _counts_rows(node):
        return "a window of rows depends on the order in which rows come; say RANGE instead of ROWS"
    return None


def _counts_rows(window: Any) -> bool:
    """Whether an aggregate's window is bounded by a number of rows, whose order among ties varies.

    Ranks have such a window too, but give ties the same value.
    """
    frame = window.windowSpec().frameSpecification()
    if _kind(window.windowFunction()) != "AggregateExpression":
        return False
    if _kind(frame) != "SpecifiedWindowFrame" or _kind(frame.frameType()) != "RowFrame$":
        return False
    ends = {_kind(frame.lower()), _kind(frame.upper())}
    return ends != {"UnboundedPreceding$", "UnboundedFollowing$"}


def file_indexes(plan: Any) -> list[Any]:
    """Return the file indexes of a plan, which Spark lists once and caches."""
    relations = (node.relation() for node in _nodes(plan) if _kind(node) == "LogicalRelation")
    return [relation.location() for relation in relations if _kind(relation) == "HadoopFsRelation"]


def _keeps_same_rows(node: Any) -> bool:
    """Return whether a limit or deduplication keeps the same rows for every order of arrival."""
    if _kind(node) == "Deduplicate":
        return _ids(node.keys()) >= _ids(node.output())
    below = node.child()
    while _kind(below) in {"LocalLimit", "GlobalLimit", "Offset"}:
        below = below.child()
    if _kind(below) != "Sort" or not getattr(below, "global")():
        return False
    keys = [order.child() for order in listed(below.order())]
    plain = {key.exprId().id() for key in keys if _kind(key) == "AttributeReference"}
    return plain >= _ids(below.output())


def _ids(attributes: Any) -> set[int]:
    return {attribute.exprId().id() for attribute in listed(attributes)}


def _nodes(plan: Any) -> Iterator[Any]:
    for root in (plan, *listed(plan.subqueriesAll())):
        yield from _tree(root)


def _tree(node: Any) -> Iterator[Any]:
    yield node
    for child in listed(node.children()):
        yield from _tree(child)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
