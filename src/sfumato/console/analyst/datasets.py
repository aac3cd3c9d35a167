"""The data sets that a visitor may ask about, with their declared columns. No row is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.console.page_request import Page, Visit, member_page
from sfumato.data.schema.json_form import schema_to_json
from sfumato.methods.query.sql.tables import PrivateRows
from sfumato.report.blocks import PageTable
from sfumato.server.problem_json import not_found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.query.sql.tables import PublicRows

PUBLIC_TABLE = "A public table: it is not about people."
_MOST_VALUES = 12


def list_datasets(visit: Visit) -> Page:
    """List the data sets that the visitor may ask about."""
    catalogue = visit.vault.questions(principal=visit.principal).catalogue
    datasets = [
        (name, _privacy_unit(declared), len(declared.schema.columns))
        for name, declared in catalogue.items()
    ]
    return Page({"datasets": datasets})


def dataset_page(visit: Visit) -> Page:
    """Show the declared columns of a data set and questions to begin with."""
    catalogue = visit.vault.questions(principal=visit.principal).catalogue
    name = visit.path["name"]
    if name not in catalogue:  # a hidden data set is answered like one that never was
        raise not_found()
    declared = catalogue[name]
    rows = [_column_row(column) for column in schema_to_json(declared.schema)["columns"]]
    return Page(
        {
            "title": name,
            "unit": _privacy_unit(declared),
            "private": isinstance(declared, PrivateRows),
            "table": PageTable(f"Columns of {name}", ("Column", "Kind", "Role", "Declared"), rows),
            "purposes": visit.vault.purposes(name),
            "examples": _example_questions(name, declared),
        }
    )


def _privacy_unit(declared: PrivateRows | PublicRows) -> str:
    return declared.unit.sentence() if isinstance(declared, PrivateRows) else PUBLIC_TABLE


def _column_row(column: Mapping[str, Any]) -> tuple[str, str, str, str]:
    domain = ""
    if "bounds" in column:
        low, high = column["bounds"]
        domain = f"{low} to {high}"
    elif "values" in column:
        values = [str(value) for value in column["values"]]
        hidden_count = len(values) - _MOST_VALUES
        domain = ", ".join(values[:_MOST_VALUES])
        domain += f" and {hidden_count:,} more" if hidden_count > 0 else ""
    return str(column["name"]), str(column["kind"]), str(column.get("role", "other")), domain


def _example_questions(name: str, declared: PrivateRows | PublicRows) -> list[str]:
    """Questions that the declared columns allow: the number of rows, in all and by one column."""
    table = _sql_name(name)
    questions = [f"SELECT COUNT(*) AS n FROM {table}"]
    for column in schema_to_json(declared.schema)["columns"]:
        if "values" in column:
            group = _sql_name(str(column["name"]))
            questions.append(f"SELECT {group}, COUNT(*) AS n FROM {table} GROUP BY {group}")
            break
    return questions


def _sql_name(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


_DATASETS = "/console/datasets"
PAGES = (
    member_page(
        "GET", _DATASETS, "Data sets", list_datasets, "datasets.html",
        shape="explain", nav="Data sets",
    ),
    member_page(
        "GET", f"{_DATASETS}/{{name}}", "Data set", dataset_page, "dataset.html", shape="explain"
    ),
)  # fmt: skip
