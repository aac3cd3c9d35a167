"""A schema draft for the owner: the columns still to be declared, and what was seen of them.

Nothing that was seen is declared before the owner confirms it: bounds and values that come from the
rows would tell about people. Decision `schemas`.
"""

from __future__ import annotations

import csv
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.inspection.guesses import could_number_people, with_people
from sfumato.data.schema.column import Kind, Role, from_text
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import spell
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema_file import dump, load, save
from sfumato.data.schema.unit import Entity
from sfumato.errors import SchemaError
from sfumato.filesystem import check_target
from sfumato.release.files_in_use import hierarchy_files, source_files, vault_files_around
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.domain import Domain
    from sfumato.data.schema.schema import Schema
    from sfumato.release.open_table import Progress, Table

_MEASURED = (Kind.INTEGER, Kind.REAL, Kind.DATE)


def unbounded(schema: Schema) -> list[Column]:
    """Numbers and dates without a declared domain, except those that only identify people."""
    return [
        column
        for column in schema.columns
        if column.kind in _MEASURED
        and column.public_domain is None
        and column.role is not Role.IDENTIFIER
        and column.name != schema.unit.column
    ]


def lacks_bounds(schema: Path) -> bool:
    """Whether a schema file leaves numbers or dates without a domain."""
    return bool(unbounded(load(schema)))


def repeated_number(table: Table) -> str | None:
    """A column that seems to number people and has some numbers in several rows."""
    numbers = [column.name for column in table.schema.columns if could_number_people(column)]
    for name in numbers:
        person = exp.column(name, quoted=True)
        distinct = exp.Count(this=exp.Distinct(expressions=[person]))
        counts = [exp.alias_(distinct, "people"), exp.alias_(exp.Count(this=person), "cells")]
        [totals] = table.engine.run(exp.select(*counts).from_(table.engine.table)).to_pylist()
        # One value in all rows is a constant, and as many values as cells number rows, not people.
        if 1 < totals["people"] < totals["cells"]:
            return name
    return None


@dataclass
class SchemaDraft:
    """A schema draft, and the same schema with the domains that were seen in the rows."""

    schema: Schema
    seen: Schema
    source: Source

    def open_columns(self) -> list[Column]:
        """The columns to ask about: without bounds, or texts of which few values were seen."""
        without_bounds = unbounded(self.schema)
        return [
            column
            for column in self.schema.columns
            if column in without_bounds or self._listed(column)
        ]

    def _listed(self, column: Column) -> bool:
        seen = self.seen.column(column.name).domain
        return column.public_domain is None and isinstance(seen, Values)

    def gapless(self) -> list[str]:
        """Columns that may be missing by the schema, and have no missing value."""
        return [
            column.name
            for column in self.schema.columns
            if column.nullable and not self.seen.column(column.name).nullable
        ]

    def proposed(self, name: str) -> str | None:
        """The seen domain of a column, as text that `declare` reads."""
        seen = self.seen.column(name).domain
        match seen:
            case Bounds(low=low, high=high):
                return f"{spell(low)}, {spell(high)}"
            case Values(values=values):
                return ", ".join(_cell(spell(value)) for value in values)
        return None

    def declare(self, name: str, text: str) -> None:
        """Declare the domain of a column from text: two bounds, or all values."""
        column = self.schema.column(name)
        self._put(replace(column, domain=_domain(column, text)))

    def leave_out(self, name: str) -> None:
        """Leave a column out of the schema, so that no query can use it."""
        columns = tuple(column for column in self.schema.columns if column.name != name)
        self.schema = replace(self.schema, columns=columns)

    def never_missing(self, names: list[str]) -> None:
        """Declare that no cell of these columns is ever missing."""
        for name in names:
            self._put(replace(self.schema.column(name), nullable=False))

    def people(self, name: str, max_rows: int) -> None:
        """Declare that rows with the same value of a column belong to one person."""
        self.never_missing([name])
        self.schema = replace(self.schema, unit=Entity(name, max_rows))

    def _put(self, changed: Column) -> None:
        columns = (
            changed if column.name == changed.name else column for column in self.schema.columns
        )
        self.schema = replace(self.schema, columns=tuple(columns))

    def text(self, folder: Path) -> str:
        """The text of the schema file in this folder."""
        return dump(self.schema, folder=folder)

    def save(self, path: Path, *, overwrite: bool) -> None:
        """Write the schema, but never over a file in use."""
        files = (*source_files(self.source), *hierarchy_files(self.schema))
        check_target(path, overwrite=overwrite, kept=(*files, *vault_files_around(path)))
        save(self.schema, path, overwrite=overwrite)


def draft(source: Source, schema: Path | None, progress: Progress | None = None) -> SchemaDraft:
    """Begin with a schema file or, if there is none, with the guesses of an inspection."""
    with closing(read(source, progress=progress)) as table:
        guessed = seen = table.schema if table.seen is None else table.seen
        if schema is None:
            return SchemaDraft(with_people(table.schema, seen), seen, source)
    declared = load(schema)
    guesses = {column.name: column for column in guessed.columns}
    columns = tuple(_completed(column, guesses.get(column.name)) for column in declared.columns)
    unit = declared.unit
    people = seen.unit.column
    # A column with missing cells cannot name the person of every row.
    if not unit.by_person and people is not None and not _nullable(columns, people):
        unit = seen.unit
    return SchemaDraft(declared, replace(declared, columns=columns, unit=unit), source)


def _cell(text: str) -> str:
    """A value of a comma-separated list, quoted where needed."""
    if text.strip() == text and not set(text) & {",", '"'} and text:
        return text
    return '"' + text.replace('"', '""') + '"'


def _nullable(columns: tuple[Column, ...], name: str) -> bool:
    return next((column.nullable for column in columns if column.name == name), True)


def _completed(column: Column, guess: Column | None) -> Column:
    """A declared column with its seen domain, if it was read as the same kind."""
    if guess is None or guess.kind is not column.kind:
        return column
    domain = column.domain
    if column.public_domain is None and column.length is None:
        # Only what the owner has not declared is proposed from the rows.
        domain = guess.domain
    return replace(column, domain=domain, nullable=column.nullable and guess.nullable)


def _domain(column: Column, text: str) -> Domain:
    """Bounds for two values of an ordered kind, else the values. Two whole numbers are bounds."""
    cells = [cell.strip() for cell in next(csv.reader([text], skipinitialspace=True), [])]
    values = tuple(from_text(cell, column.kind) for cell in cells)
    if column.kind in _MEASURED and len(values) == 2:
        return Bounds(values[0], values[1])  # type: ignore[arg-type]  # of ordered kinds
    if column.kind in (Kind.REAL, Kind.DATE):
        raise SchemaError(
            "bounds_invalid", f"bounds must be [low, high]; {len(values)} given: {quoted(text)}."
        )
    return Values(values)
