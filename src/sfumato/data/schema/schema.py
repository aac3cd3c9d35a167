"""A schema: what a table's steward has declared about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.data.schema.advice import NOT_NULLABLE, add_line
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.constraints import check_constraint
from sfumato.data.schema.layout import FileLayout
from sfumato.data.schema.names import check_name, check_names, count, quoted, suggestion
from sfumato.data.schema.row_forms import FORMS, check_form
from sfumato.data.schema.unit import UNITS, Rows, Unit
from sfumato.errors import SchemaError
from sfumato.filesystem import check_apart
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.constraints import Constraint
    from sfumato.data.schema.row_forms import Form

_FORMS = "Edges, Points or Items of sfumato.data.schema.row_forms"


@dataclass(frozen=True, repr=False)
class Schema(Shown):
    """A table's name, its columns in order, what one person can change in it, how its file is."""

    table: str
    columns: tuple[Column, ...]
    unit: Unit = field(default_factory=Rows)
    layout: FileLayout = field(default_factory=FileLayout)
    constraints: tuple[Constraint, ...] = ()
    form: Form | None = None
    """What its rows are where they are not people: edges, points or items."""

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
        # Rows are bounded by person in queries that name what they add `sf_person`, `sf_count` and
        # so on. A column of that name would stand for the people, and one person for many.
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
        """Look a column up by its exact name."""
        try:
            return self._by_name[arguments.text(name, "The name of a column")]
        except KeyError:
            raise SchemaError(
                "column_unknown",
                f"Table {quoted(self.table)} has no column {quoted(name)}; "
                + suggestion(name, self._by_name),
            ) from None

    def by_role(self, role: Role) -> tuple[Column, ...]:
        """List the columns of a role, in order."""
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
        """Its columns, and what is declared of each, for people."""
        titles = ("Column", "Kind", "Role", "Declared", "Hierarchy", "Missing")
        return CardTable(titles, [column.describe() for column in self.columns])

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file; hierarchy files are found relative to it."""
        from sfumato.data.schema.schema_file import load

        return load(arguments.path(path, "path"))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write it to a schema file, which every door reads."""
        from sfumato.data.schema.schema_file import save

        target = arguments.path(path, "path")
        trees = (getattr(column.hierarchy, "source", None) for column in self.columns)
        check_apart(target, tuple(source for source in trees if source is not None))
        save(self, target, overwrite=overwrite)
