"""What may be asked about: what is declared of each data set, and no row of any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.console.page_request import Page, PageRoute, Visit, Who
from sfumato.data.schema.json_form import schema_to_json
from sfumato.methods.query.sql.tables import PrivateRows
from sfumato.report.blocks import PageTable
from sfumato.server.problem_json import not_found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.query.sql.tables import PublicRows

_NOBODY = "Public: it is about nobody."
_MOST_VALUES = 12


def listed(visit: Visit) -> Page:
    """The data sets that the visitor may ask."""
    seen = visit.vault.questions(principal=visit.principal).catalogue
    found = [(name, _hides(one), len(one.schema.columns)) for name, one in seen.items()]
    return Page({"datasets": found})


def one(visit: Visit) -> Page:
    """What is declared of a data set."""
    seen, name = visit.vault.questions(principal=visit.principal).catalogue, visit.path["name"]
    if name not in seen:
        raise not_found()
    declared = seen[name]
    columns = [_column(one) for one in schema_to_json(declared.schema)["columns"]]
    headers = ("Column", "Kind", "Role", "Declared")
    return Page(
        {
            "title": name,
            "hides": _hides(declared),
            "private": isinstance(declared, PrivateRows),
            "table": PageTable(f"Columns of {name}", headers, columns),
            "purposes": visit.vault.purposes(name),
            "examples": _examples(name, declared),
        }
    )


def _hides(declared: PrivateRows | PublicRows) -> str:
    return declared.unit.sentence() if isinstance(declared, PrivateRows) else _NOBODY


def _column(told: Mapping[str, Any]) -> tuple[str, str, str, str]:
    said = ""
    if "bounds" in told:
        low, high = told["bounds"]
        said = f"{low} to {high}"
    elif "values" in told:
        values = [str(one) for one in told["values"]]
        rest = len(values) - _MOST_VALUES
        said = ", ".join(values[:_MOST_VALUES]) + (f" and {rest:,} more" if rest > 0 else "")
    return str(told["name"]), str(told["kind"]), str(told.get("role", "other")), said


def _examples(name: str, declared: PrivateRows | PublicRows) -> list[str]:
    """Questions to begin with, made of what is declared."""
    table = f'"{name}"' if not name.isidentifier() else name
    found = [f"SELECT COUNT(*) AS n FROM {table}"]
    for one in schema_to_json(declared.schema)["columns"]:
        if "values" in one:
            column = one["name"] if str(one["name"]).isidentifier() else f'"{one["name"]}"'
            found.append(f"SELECT {column}, COUNT(*) AS n FROM {table} GROUP BY {column}")
            break
    return found


PAGES = (
    PageRoute(
        method="GET",
        path="/console/datasets",
        title="Data sets",
        who=Who.SIGNED_IN,
        handler=listed,
        template="datasets.html",
        shape="explain",
        nav="Data sets",
    ),
    PageRoute(
        method="GET",
        path="/console/datasets/{name}",
        title="Data set",
        who=Who.SIGNED_IN,
        handler=one,
        template="dataset.html",
        shape="explain",
    ),
)
