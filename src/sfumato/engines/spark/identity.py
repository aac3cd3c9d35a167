"""What a table of Spark's catalogue is, however it is spelled: the analyzer sees through views."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sfumato.engines.base import render
from sfumato.engines.identity import Identity, of_folder, unresolved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from sqlglot import exp


def identity_of(session: SparkSession, named: exp.Table) -> Identity:
    """Ask the analyzer which tables and which folders a name leads to, through all views."""
    name = render(named, "spark")
    described = session.catalog.getTable(name)
    if described.isTemporary:
        raise unresolved("it is a temporary view, which ends with its session")
    plan = session.table(name)._jdf.queryExecution().analyzed()  # noqa: SLF001
    home = f"spark {session.conf.get('spark.sql.warehouse.dir')}"
    path = [described.catalog, *(described.namespace or ()), described.name]
    names = {f"{home}#{'.'.join(part.lower() for part in path if part)}"}
    also, nodes = set[str](), set[str]()
    for leaf in _leaves(plan):
        table, folders = _lies(leaf)
        names |= {f"{home}#{table.lower()}"} if table else set()
        for found in map(_of_location, folders):
            names |= found.names
            also |= found.also
            nodes |= found.nodes
    return Identity(frozenset(names), frozenset(also), frozenset(nodes))


_OF_NOBODY = {"OneRowRelation", "LocalRelation", "Range"}
"""What a view may read that is written in the view itself."""


def _leaves(plan: Any) -> list[Any]:
    """The relations that a plan reads, in its subqueries too, without what a view spells out."""
    plans = [plan, *_listed(plan.subqueriesAll())]
    leaves = [leaf for one in plans for leaf in _listed(one.collectLeaves())]
    return [leaf for leaf in leaves if leaf.getClass().getSimpleName() not in _OF_NOBODY]


def _lies(leaf: Any) -> tuple[str | None, list[str]]:
    """What a relation is called in the catalogue, if it is, and the folders of its files."""
    match leaf.getClass().getSimpleName():
        case "LogicalRelation":
            relation, table = leaf.relation(), leaf.catalogTable()
            if relation.getClass().getSimpleName() == "HadoopFsRelation":
                places = [str(one.toString()) for one in _listed(relation.location().rootPaths())]
                called = table.get().identifier().unquotedString() if table.isDefined() else None
                return called, places
        case "HiveTableRelation":
            table = leaf.tableMeta()
            return table.identifier().unquotedString(), [unquote(table.location().toString())]
        case "DataSourceV2Relation":
            return leaf.table().name(), []
    raise unresolved("it reads rows that lie in no files of Spark's own catalogue")


def _of_location(location: str) -> Identity:
    """A folder of this machine by its files, another one by its address."""
    if not location.startswith("file:"):
        return Identity(frozenset({location}))
    local = Path("/" + location.removeprefix("file:").lstrip("/"))
    return of_folder(local) if local.is_dir() else Identity(frozenset({str(local.resolve())}))


def _listed(sequence: Any) -> list[Any]:
    """A sequence of Scala's as a list."""
    return [sequence.apply(place) for place in range(sequence.size())]
