"""Row forms: tables whose rows are edges of a graph, points of a path or items of a set.

In every engine such a table is a plain table of rows. The form says which column has which role. It
is public, like all that a schema declares. Decision `table-forms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sfumato import arguments
from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.column import Column

Roles = dict[str, tuple[str, tuple[Kind, ...]]]

_NUMBERS = (Kind.INTEGER, Kind.REAL)
_NAMES = (Kind.INTEGER, Kind.TEXT, Kind.DATE, Kind.BOOLEAN)
_TIMES = (Kind.INTEGER, Kind.REAL, Kind.DATE, Kind.TEXT)


@dataclass(frozen=True)
class Edges:
    """Each row is an undirected edge between two nodes of a graph."""

    source: str
    target: str

    name: ClassVar[str] = "edges"

    def __post_init__(self) -> None:
        _check_texts(self)

    @property
    def roles(self) -> Roles:
        """For each role its column and the kinds that the column may have."""
        return {"from": (self.source, _NAMES), "to": (self.target, _NAMES)}

    def facts(self) -> dict[str, object]:
        """The form as a schema file has it."""
        return {"edges": [self.source, self.target]}


@dataclass(frozen=True)
class Points:
    """Each row is one point of a path: a time and two coordinates."""

    path: str
    time: str
    x: str
    y: str

    name: ClassVar[str] = "points"

    def __post_init__(self) -> None:
        _check_texts(self)

    @property
    def roles(self) -> Roles:
        """For each role its column and the kinds that the column may have."""
        return {
            "path": (self.path, _NAMES),
            "time": (self.time, _TIMES),
            "x": (self.x, _NUMBERS),
            "y": (self.y, _NUMBERS),
        }

    def facts(self) -> dict[str, object]:
        """The form as a schema file has it."""
        return {"points": {"path": self.path, "time": self.time, "at": [self.x, self.y]}}


@dataclass(frozen=True)
class Items:
    """Each row is one item of a set, such as a product in a basket, perhaps rated and dated."""

    owner: str
    item: str
    rating: str | None = None
    time: str | None = None

    name: ClassVar[str] = "items"

    def __post_init__(self) -> None:
        _check_texts(self)

    @property
    def roles(self) -> Roles:
        """For each role its column and the kinds that the column may have."""
        roles: Roles = {"of": (self.owner, _NAMES), "item": (self.item, _NAMES)}
        if self.rating is not None:
            roles["rating"] = (self.rating, _NUMBERS)
        if self.time is not None:
            roles["time"] = (self.time, _TIMES)
        return roles

    def facts(self) -> dict[str, object]:
        """The form as a schema file has it."""
        return {"items": {role: column for role, (column, _) in self.roles.items()}}


Form = Edges | Points | Items
FORMS = (Edges, Points, Items)


def _check_texts(form: Form) -> None:
    for role, (column, _) in form.roles.items():
        arguments.text(column, f"The column of {role!r}")
    names = [column for column, _ in form.roles.values()]
    if len(set(names)) < len(names):
        raise SchemaError(
            "form_invalid",
            f"The form {form.name!r} names one column twice: {', '.join(map(quoted, names))}. "
            "Each of its parts has a column of its own.",
            parameter="form",
        )


def check_form(form: Form, columns: Mapping[str, Column]) -> None:
    """Refuse a form whose columns are not declared or have the wrong kind for their role."""
    for role, (name, kinds) in form.roles.items():
        column = columns.get(name)
        if column is None:
            raise SchemaError(
                "column_unknown",
                f"The form names the column {quoted(name)}, which is not declared; "
                + suggestion(name, columns),
                parameter="form",
            )
        if column.kind not in kinds:
            raise SchemaError(
                "form_invalid",
                f"Column {quoted(name)} is {column.kind}, which {role!r} of the form "
                f"{form.name!r} cannot be.",
                hint=f"Name a column that is {' or '.join(map(str, kinds))}.",
                parameter="form",
            )
    if isinstance(form, Edges) and columns[form.source].kind is not columns[form.target].kind:
        raise SchemaError(
            "form_invalid",
            f"Columns {quoted(form.source)} and {quoted(form.target)} name the same nodes but are "
            f"{columns[form.source].kind} and {columns[form.target].kind}.",
            hint="Declare one kind.",
            parameter="form",
        )
