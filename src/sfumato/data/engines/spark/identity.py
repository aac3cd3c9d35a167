"""The identity of a table of Spark's catalogue; the analyzer resolves views."""

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
    from pyspark.sql import SparkSession
    from sqlglot import exp


def identity_of(session: SparkSession, named: exp.Table) -> Identity:
    """The tables and folders that a name reads, through views of any depth."""
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
    """The relations that a plan and its subqueries read, without rows written in a view."""
    plans = [plan, *listed(plan.subqueriesAll())]
    leaves = [leaf for root in plans for leaf in listed(root.collectLeaves())]
    return [leaf for leaf in leaves if leaf.getClass().getSimpleName() not in _OF_NOBODY]


def _relation_location(leaf: Any) -> tuple[str | None, list[str]]:
    """The catalogue name of a relation, if it has one, and the folders of its files."""
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
    """The identity of a location: by its files on this machine, else by its address."""
    local = local_path(location)
    if local is None:
        return Identity(frozenset({location.rstrip("/")}))
    if local.is_file():
        return identity_of_path(local)
    if local.is_dir():
        return identity_of_folder(local)
    return Identity(frozenset({str(local.resolve())}))


def local_path(location: str) -> Path | None:
    """The path of a file: address; None for other addresses."""
    if not location.startswith("file:"):
        return None
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def listed(sequence: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [sequence.apply(index) for index in range(sequence.size())]
