"""Schemas: what the owner of a table declares about it. All of it is public.

The rows of a table can be edges of a graph, points of a path or items of a set. In every engine
such a table is a plain table of rows; the form names the role of each column. Decision
`table-forms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from sfumato import arguments
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.constraints import check_constraint
from sfumato.data.schema.layout import FileLayout
from sfumato.data.schema.names import check_name, check_names, count, quoted, suggestion
from sfumato.data.schema.toml_document import NOT_NULLABLE, add_line
from sfumato.data.schema.unit import UNITS, Rows, Unit
from sfumato.errors import SchemaError
from sfumato.filesystem import check_apart
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sfumato.data.schema.constraints import Constraint


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
        """Return the form as a schema file has it."""
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
        """Return the form as a schema file has it."""
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
        """Return the form as a schema file has it."""
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


_FORMS = "Edges, Points or Items of sfumato.data.schema.schema"


@dataclass(frozen=True, repr=False)
class Schema(Shown):
    """The declarations of a table: its columns, its privacy unit and the layout of its file.

    Parameters
    ----------
    table : str
        The name of the table.
    columns : tuple of Column
        The columns in order; names differ in more than case.
    unit : Rows, Entity or Ties
        What one person can change; `Rows()` unless given.
    layout : FileLayout
        Encoding, separator and sheet of the file, where they differ from the default.
    constraints : tuple
        What holds for every row, for synthetic tables.
    form : Edges, Points or Items, optional
        What the rows are where they are not people.

    Raises
    ------
    SchemaError
        If declarations contradict each other.

    Example
    -------
    >>> import sfumato as sf
    >>> schema = sf.Schema("visits", (sf.Column("age", "integer", "quasi"),))
    >>> [column.name for column in schema.by_role("quasi")]
    ['age']
    """

    table: str
    columns: tuple[Column, ...]
    unit: Unit = field(default_factory=Rows)
    layout: FileLayout = field(default_factory=FileLayout)
    constraints: tuple[Constraint, ...] = ()
    form: Form | None = None

    def __post_init__(self) -> None:
        check_name(arguments.text(self.table, "The name of a table"), "The table")
        columns = arguments.require(self.columns, "columns", (tuple, list), "a tuple of sf.Column")
        for column in columns:
            arguments.require(column, "Each of the columns", Column, "an sf.Column")
        arguments.require(self.unit, "unit", UNITS, "sf.Rows() or sf.Entity(...)")
        object.__setattr__(self, "columns", tuple(columns))
        if not self.columns:
            raise SchemaError("columns_invalid", "A schema must declare at least one column.")
        check_names([column.name for column in self.columns])
        for name in self.unit.columns:
            self._check_unit(name)
        listed = arguments.require(
            self.constraints, "constraints", (tuple, list), "a tuple of them"
        )
        object.__setattr__(self, "constraints", tuple(listed))
        for constraint in self.constraints:
            check_constraint(constraint, self._by_name)
        if self.form is not None:
            check_form(arguments.require(self.form, "form", FORMS, _FORMS), self._by_name)

    def _check_unit(self, name: str) -> None:
        column = self._by_name.get(name)
        if column is None:
            raise SchemaError(
                "column_unknown",
                f"The privacy unit names the column {quoted(name)}, which is not declared; "
                + suggestion(name, self._by_name),
                parameter="unit",
            )
        # Queries that bound rows by person add columns `sf_person`, `sf_count` and so on. A column
        # of such a name in the table would take the place of the person, so that one person
        # counted as many.
        reserved = next(
            (
                column_name
                for column_name in self._by_name
                if column_name.casefold().startswith("sf_")
            ),
            None,
        )
        if reserved is not None:
            raise SchemaError(
                "name_taken",
                "Names that begin with sf_ are kept for Sfumato's own queries, and "
                f"{quoted(reserved)} is one.",
                hint="Rename the column, in a database by a view.",
            )
        if column.nullable:
            raise SchemaError(
                "unit_invalid",
                f"The privacy unit's column {quoted(column.name)} may be missing, so a row could "
                f"belong to nobody. {add_line(column.name, NOT_NULLABLE, schema='the schema')}",
                parameter="unit",
            )
        if column.kind is Kind.REAL:
            raise SchemaError(
                "unit_invalid",
                f"The privacy unit's column {quoted(column.name)} is real, and reals do not "
                "compare exactly; use an integer or text column.",
                parameter="unit",
            )

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Column:
        """Return the column of this exact name.

        Parameters
        ----------
        name : str
            The name of the column.

        Returns
        -------
        Column

        Raises
        ------
        SchemaError
            If no column has this name.
        """
        try:
            return self._by_name[arguments.text(name, "The name of a column")]
        except KeyError:
            raise SchemaError(
                "column_unknown",
                f"Table {quoted(self.table)} has no column {quoted(name)}; "
                + suggestion(name, self._by_name),
            ) from None

    def by_role(self, role: Role) -> tuple[Column, ...]:
        """Return the columns of a role, in order.

        Parameters
        ----------
        role : Role
            One of the four roles.

        Returns
        -------
        tuple of Column
        """
        arguments.one_of(role, "role", tuple(Role))
        return tuple(column for column in self.columns if column.role == role)

    def _card(self) -> Card:
        roles = {str(role): len(self.by_role(role)) for role in Role}
        role_counts = ", ".join(
            f"{column_count} {role}" for role, column_count in roles.items() if column_count
        )
        line = f"{self.table}, {count(len(self.columns), 'column')}: {role_counts}"
        return Card(line, {"Unit": self.unit.sentence()}, self.listed())

    def listed(self) -> CardTable:
        """A table of the columns and their declarations, for display."""
        titles = ("Column", "Kind", "Role", "Declared", "Hierarchy", "Missing")
        return CardTable(titles, [column.describe() for column in self.columns])

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file.

        Parameters
        ----------
        path : str or Path
            The file. Paths of hierarchy files in it are relative to the file.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If the file cannot be read, or declares something impossible.
        """
        from sfumato.data.schema.schema_file import load

        return load(arguments.path(path, "path"))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the schema to a file that the command, the server and Python read.

        Parameters
        ----------
        path : str or Path
            The file to write.
        overwrite : bool
            Whether to replace an existing file.

        Raises
        ------
        OutputError
            If the file exists, is in use, or cannot be written.
        """
        from sfumato.data.schema.schema_file import save

        target = arguments.path(path, "path")
        trees = (getattr(column.hierarchy, "source", None) for column in self.columns)
        check_apart(target, tuple(source for source in trees if source is not None))
        save(self, target, overwrite=overwrite)
