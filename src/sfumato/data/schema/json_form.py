"""Schemas as JSON, with the keys of the schema file, for clients of a server.

Decimals are texts, so that they stay exact. Trees are lists of rows in the declared order, because
the order of values is declared too. Values that were only read from the rows are private and are
left out: decision `schemas`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.data.schema.column import Kind, from_toml
from sfumato.data.schema.domain import Values
from sfumato.data.schema.hierarchy import Tree
from sfumato.data.schema.schema_file import Parser, column_facts, rule_facts
from sfumato.data.schema.toml_document import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema

_NUMBERS = ("values", "bounds", "step")
_ROWS = "rows"


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """Return the declarations of a schema as a JSON document."""
    content = {
        "table": schema.table,
        "unit": schema.unit.facts() or "row",
        "form": {} if schema.form is None else schema.form.facts(),
        "file": schema.layout.facts(),
        "columns": [_column(column) for column in schema.columns],
        "constraints": [{rule.key: rule.fact} for rule in schema.constraints],
    }
    return {key: _plain(value) for key, value in content.items() if value}


def schema_from_json(content: Mapping[str, Any]) -> Schema:
    """Read what `schema_to_json` wrote; other content is refused as in a schema file."""
    document, trees = dict(content), dict[str, Tree]()
    kinds = {column["name"]: Kind(column["kind"]) for column in content["columns"]}
    document["columns"] = {
        column["name"]: _read_column(column, kinds[column["name"]], trees)
        for column in content["columns"]
    }
    document["constraints"] = [
        _read_constraint(constraint, kinds) for constraint in content.get("constraints", ())
    ]
    name = str(content["table"])
    schema = Parser(Lines("", name), Path()).schema(document)
    columns = tuple(
        replace(column, hierarchy=trees[column.name]) if column.name in trees else column
        for column in schema.columns
    )
    return replace(schema, columns=columns)


def _column(column: Column) -> dict[str, object]:
    facts = {"name": column.name, **column_facts(column)}
    if isinstance(column.hierarchy, Tree):
        rows = _rows(column.hierarchy, column)
        if rows:
            seen = {"seen": True} if column.hierarchy.seen else {}
            facts["hierarchy"] = {_ROWS: rows, **seen}
    elif column.hierarchy is not None:
        facts["hierarchy"] = rule_facts(column.hierarchy)
    return facts


def _rows(tree: Tree, column: Column) -> list[list[object]]:
    """Return the public leaves of a tree, each followed by its ancestors."""
    ancestors_of = dict(zip(tree.leaves, tree.ancestors, strict=True))
    public_leaves = tree.listed
    if tree.seen:
        domain = column.domain
        declared = set(domain.values) if isinstance(domain, Values) else set()
        public_leaves = tuple(leaf for leaf in public_leaves if leaf in declared)
    return [[leaf, *ancestors_of[leaf]] for leaf in public_leaves]


def _plain(value: Any) -> Any:
    match value:
        case bool() | int() | str():
            return value
        case Decimal() | date():
            return str(value)
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _read_column(column: Mapping[str, Any], kind: Kind, trees: dict[str, Tree]) -> dict[str, Any]:
    facts = {key: value for key, value in column.items() if key != "name"}
    hierarchy = facts.get("hierarchy", {})
    if _ROWS in hierarchy:
        del facts["hierarchy"]
        leaves = tuple(from_toml(_exact(row[0], kind), kind) for row in hierarchy[_ROWS])
        ancestors = tuple(tuple(row[1:]) for row in hierarchy[_ROWS])
        trees[column["name"]] = Tree(leaves, ancestors, seen=hierarchy.get("seen", False))
    elif "widths" in hierarchy:
        facts["hierarchy"] = {"widths": _exact(hierarchy["widths"], kind)}
    return {key: _exact(value, kind) if key in _NUMBERS else value for key, value in facts.items()}


def _read_constraint(constraint: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    if "never" not in constraint:
        return dict(constraint)
    return {
        "never": {name: _exact(values, kinds[name]) for name, values in constraint["never"].items()}
    }


def _exact(value: Any, kind: Kind) -> Any:
    """Convert a JSON value to what a TOML parser gives: texts of reals become decimals."""
    if isinstance(value, list):
        return [_exact(item, kind) for item in value]
    return Decimal(value) if kind is Kind.REAL and isinstance(value, str) else value
