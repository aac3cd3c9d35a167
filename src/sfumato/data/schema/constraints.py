"""Constraints that the owner of a table declares. They are public, like all that is declared.

Nothing checks the private rows against them. Synthetic tables satisfy them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Scalar


@dataclass(frozen=True)
class ImpossibleCombination:
    """A combination of values that no row has: each of these columns has one of its values."""

    cells: tuple[tuple[str, tuple[Scalar, ...]], ...]

    key = "never"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it names."""
        return tuple(name for name, _ in self.cells)

    @property
    def fact(self) -> object:
        """The value of its key in a schema file."""
        return {name: values[0] if len(values) == 1 else values for name, values in self.cells}

    def among(self, columns: Collection[str]) -> Self | None:
        """What still holds for a table of these columns: nothing where one is missing."""
        return self if all(name in columns for name in self.columns) else None

    def check(self, known: Mapping[str, Column]) -> None:
        """Refuse values of another kind, and a combination without columns or values."""
        if not self.cells or not all(values for _, values in self.cells):
            raise _wrong("never must name a column and a value, such as never = { x = 1 }")
        for name, values in self.cells:
            kind = known[name].kind
            for value in values:
                if type(value) is not kind.type:
                    raise _wrong(f"{quoted(str(value))} is no value of column {quoted(name)}")


@dataclass(frozen=True)
class FunctionalDependency:
    """Rows that agree in `given` columns agree in `determined` ones: one zip code, one city."""

    given: tuple[str, ...]
    determined: tuple[str, ...]

    key = "determines"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it names."""
        return (*self.given, *self.determined)

    @property
    def fact(self) -> object:
        """The value of its key in a schema file."""
        return {"from": _one_or_all(self.given), "to": _one_or_all(self.determined)}

    def among(self, columns: Collection[str]) -> FunctionalDependency | None:
        """What still holds for a table of these columns: it determines those that are left."""
        determined = tuple(name for name in self.determined if name in columns)
        is_implied = determined and all(name in columns for name in self.given)
        return FunctionalDependency(self.given, determined) if is_implied else None

    def check(self, known: Mapping[str, Column]) -> None:  # noqa: ARG002
        """Refuse a side without columns, or a column on both."""
        if not self.given or not self.determined or len({*self.columns}) < len(self.columns):
            raise _wrong(
                "determines must name different columns, as in "
                'determines = { from = "zip", to = "city" }'
            )


@dataclass(frozen=True)
class OrderedColumns:
    """In every row, each column's value is at most that of every later column.

    A missing value is skipped: the values before and after it must still be in order.
    """

    columns: tuple[str, ...]

    key = "ordered"

    @property
    def fact(self) -> object:
        """The value of its key in a schema file."""
        return self.columns

    def among(self, columns: Collection[str]) -> OrderedColumns | None:
        """What still holds for a table of these columns: those that are left are in order."""
        columns_left = tuple(name for name in self.columns if name in columns)
        return OrderedColumns(columns_left) if len(columns_left) > 1 else None

    def check(self, known: Mapping[str, Column]) -> None:
        """Refuse fewer than two columns, or columns that cannot be compared."""
        kinds = {known[name].kind for name in self.columns}
        comparable = kinds == {Kind.DATE} or kinds <= {Kind.INTEGER, Kind.REAL}
        if len({*self.columns}) < max(len(self.columns), 2) or not comparable:
            raise _wrong(
                "ordered must name two or more different columns, all dates or all numbers, as in "
                'ordered = ["admitted", "discharged"]'
            )


@dataclass(frozen=True)
class UniqueKey:
    """No two rows agree in all of these columns; rows with a missing value in one are exempt."""

    columns: tuple[str, ...]

    key = "unique"

    @property
    def fact(self) -> object:
        """The value of its key in a schema file."""
        return _one_or_all(self.columns)

    def among(self, columns: Collection[str]) -> Self | None:
        """What still holds for a table of these columns: nothing where one is missing."""
        return self if all(name in columns for name in self.columns) else None

    def check(self, known: Mapping[str, Column]) -> None:  # noqa: ARG002
        """Refuse a key without columns, or with a column twice."""
        if not self.columns or len({*self.columns}) < len(self.columns):
            raise _wrong('unique must name different columns, as in unique = ["ward", "bed"]')


@dataclass(frozen=True)
class DeclaredRows:
    """The number of rows of the table, where it is public."""

    rows: int

    key = "rows"
    columns = ()

    @property
    def fact(self) -> object:
        """The value of its key in a schema file."""
        return self.rows

    def among(self, columns: Collection[str]) -> Self:  # noqa: ARG002
        """What still holds for a table of these columns: all of it."""
        return self

    def check(self, known: Mapping[str, Column]) -> None:  # noqa: ARG002
        """Refuse a value that is not a number of rows."""
        if type(self.rows) is not int or not 0 <= self.rows < 1 << 53:
            raise _wrong("rows must be a whole number of rows, such as rows = 1000")


Constraint = (
    ImpossibleCombination | FunctionalDependency | OrderedColumns | UniqueKey | DeclaredRows
)

CONSTRAINT_KEYS = ("never", "determines", "ordered", "unique", "rows")


def check_constraint(constraint: Constraint, known: Mapping[str, Column]) -> None:
    """Refuse a constraint that names an unknown column or does not fit the kinds of its columns."""
    for name in constraint.columns:
        if name not in known:
            raise _wrong(f"there is no column {quoted(name)}; {suggestion(name, known)}", end="")
    constraint.check(known)


def describe(constraint: Constraint) -> str:
    """A constraint as a short text, for pages and messages."""
    match constraint:
        case ImpossibleCombination(cells=cells):
            conditions = (f"{name} = {' or '.join(map(str, values))}" for name, values in cells)
            return f"never {' with '.join(conditions)}"
        case FunctionalDependency(given=given, determined=determined):
            return f"{' and '.join(given)} determines {' and '.join(determined)}"
        case OrderedColumns(columns=columns):
            return " <= ".join(columns)
        case UniqueKey(columns=columns):
            return f"{' with '.join(columns)} unique"
        case DeclaredRows(rows=rows):
            return f"{rows:,} rows"


def _one_or_all(names: tuple[str, ...]) -> Any:
    return names[0] if len(names) == 1 else names


def _wrong(why: str, *, end: str = ".") -> SchemaError:
    return SchemaError("schema_malformed", f"This constraint cannot be used: {why}{end}")
