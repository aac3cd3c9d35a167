"""A schema: what a table's steward has declared about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from sfumato.errors import SchemaError
from sfumato.privacy.units import Rows, Unit
from sfumato.schema.advice import NOT_NULLABLE, add_line
from sfumato.schema.column import Column, Kind, Role
from sfumato.schema.layout import FileLayout
from sfumato.schema.names import check_name, check_names, quoted, suggestion


@dataclass(frozen=True)
class Schema:
    """A table's name, its columns in order, what one person can change in it, how its file is."""

    table: str
    columns: tuple[Column, ...]
    unit: Unit = field(default_factory=Rows)
    layout: FileLayout = field(default_factory=FileLayout)

    def __post_init__(self) -> None:
        check_name(self.table, "The table")
        if not self.columns:
            raise SchemaError("columns_none", "A schema must declare at least one column.")
        check_names([column.name for column in self.columns])
        if self.unit.column is not None:
            self._check_unit(self.unit.column)

    def _check_unit(self, name: str) -> None:
        column = self._by_name.get(name)
        if column is None:
            raise SchemaError(
                "unit_column_missing",
                f"The privacy unit names the column {quoted(name)}, which is not declared; "
                + suggestion(name, self._by_name),
            )
        if column.nullable:
            raise SchemaError(
                "unit_column_nullable",
                f"The privacy unit's column {quoted(column.name)} may be missing, so a row could "
                f"belong to nobody. {add_line(column.name, NOT_NULLABLE, schema='the schema')}",
            )
        if column.kind is Kind.REAL:
            raise SchemaError(
                "unit_column_real",
                f"The privacy unit's column {quoted(column.name)} is real, and reals do not "
                "compare exactly; use an integer or text column.",
            )

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Column:
        """Look a column up by its exact name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise SchemaError(
                "column_unknown",
                f"Table {quoted(self.table)} has no column {quoted(name)}; "
                + suggestion(name, self._by_name),
            ) from None

    def by_role(self, role: Role) -> tuple[Column, ...]:
        """List the columns of a role, in order."""
        return tuple(column for column in self.columns if column.role is role)
