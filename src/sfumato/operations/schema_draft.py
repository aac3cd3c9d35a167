"""A schema in the making: what is still to be declared, and what was seen, for its owner's eyes.

Nothing that was seen is declared before the owner says so. Decision `schemas`.
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
    """Numbers and dates of which nothing is declared, but for those that only name people."""
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
    """A column that seems to number people and has one of them in several rows."""
    numbers = [column.name for column in table.schema.columns if could_number_people(column)]
    for name in numbers:
        person = exp.column(name, quoted=True)
        distinct = exp.Count(this=exp.Distinct(expressions=[person]))
        counts = [exp.alias_(distinct, "people"), exp.alias_(exp.Count(this=person), "cells")]
        found = table.engine.run(exp.select(*counts).from_(table.engine.table)).to_pylist()[0]
        if 1 < found["people"] < found["cells"]:
            return name
    return None


@dataclass
class SchemaDraft:
    """A schema in the making, and the same schema with all that was seen."""

    schema: Schema
    seen: Schema
    source: Source

    def open_columns(self) -> list[Column]:
        """What is to be asked: columns without bounds, and texts whose few values were seen."""
        bare = unbounded(self.schema)
        return [column for column in self.schema.columns if column in bare or self._listed(column)]

    def _listed(self, column: Column) -> bool:
        seen = self.seen.column(column.name).domain
        return column.public_domain is None and isinstance(seen, Values)

    def gapless(self) -> list[str]:
        """Columns without a missing value, of which the schema does not say so."""
        return [
            column.name
            for column in self.schema.columns
            if column.nullable and not self.seen.column(column.name).nullable
        ]

    def proposed(self, name: str) -> str | None:
        """What was seen of a column, as `declare` reads it."""
        seen = self.seen.column(name).domain
        match seen:
            case Bounds(low=low, high=high):
                return f"{spell(low)}, {spell(high)}"
            case Values(values=values):
                return ", ".join(_cell(spell(value)) for value in values)
        return None

    def declare(self, name: str, said: str) -> None:
        """Declare what a person said: low and high of a number or date, the values of a text."""
        column = self.schema.column(name)
        self._put(replace(column, domain=_domain(column, said)))

    def leave_out(self, name: str) -> None:
        """Leave a column out of the schema: no question sees it then."""
        rest = tuple(column for column in self.schema.columns if column.name != name)
        self.schema = replace(self.schema, columns=rest)

    def never_missing(self, names: list[str]) -> None:
        """Declare that no cell of these columns is ever missing."""
        for name in names:
            self._put(replace(self.schema.column(name), nullable=False))

    def people(self, name: str, max_rows: int) -> None:
        """Declare that rows which share a value of a column are one person's."""
        self.never_missing([name])
        self.schema = replace(self.schema, unit=Entity(name, max_rows))

    def _put(self, changed: Column) -> None:
        columns = (changed if one.name == changed.name else one for one in self.schema.columns)
        self.schema = replace(self.schema, columns=tuple(columns))

    def text(self, folder: Path) -> str:
        """The schema as a file in this folder would have it."""
        return dump(self.schema, folder=folder)

    def save(self, path: Path, *, overwrite: bool) -> None:
        """Write it, but never over a file in use."""
        files = (*source_files(self.source), *hierarchy_files(self.schema))
        check_target(path, overwrite=overwrite, kept=(*files, *vault_files_around(path)))
        save(self.schema, path, overwrite=overwrite)


def draft(source: Source, schema: Path | None, progress: Progress | None = None) -> SchemaDraft:
    """Begin with a schema file or, where there is none, with what inspecting the source guesses."""
    with closing(read(source, progress=progress)) as table:
        guessed = seen = table.schema if table.seen is None else table.seen
        if schema is None:
            return SchemaDraft(with_people(table.schema, seen), seen, source)
    known = load(schema)
    met = {column.name: column for column in guessed.columns}
    columns = tuple(_completed(one, met.get(one.name)) for one in known.columns)
    unit = known.unit
    people = seen.unit.column
    if not unit.by_person and people is not None and not _nullable(columns, people):
        unit = seen.unit
    return SchemaDraft(known, replace(known, columns=columns, unit=unit), source)


def _cell(text: str) -> str:
    """A value as a list with commas has it: in quotes where it would be read otherwise."""
    if text.strip() == text and not set(text) & {",", '"'} and text:
        return text
    return '"' + text.replace('"', '""') + '"'


def _nullable(columns: tuple[Column, ...], name: str) -> bool:
    return next((one.nullable for one in columns if one.name == name), True)


def _completed(column: Column, met: Column | None) -> Column:
    """A declared column with what was seen of it, where it was read as the same kind."""
    if met is None or met.kind is not column.kind:
        return column
    domain = column.domain
    if column.public_domain is None and column.length is None:
        domain = met.domain
    return replace(column, domain=domain, nullable=column.nullable and met.nullable)


def _domain(column: Column, said: str) -> Domain:
    """Two ends of what has an order, else all values; two whole numbers are ends too."""
    words = [word.strip() for word in next(csv.reader([said], skipinitialspace=True), [])]
    values = tuple(from_text(word, column.kind) for word in words)
    if column.kind in _MEASURED and len(values) == 2:
        return Bounds(values[0], values[1])  # type: ignore[arg-type]  # of ordered kinds
    if column.kind in (Kind.REAL, Kind.DATE):
        raise SchemaError(
            "bounds_invalid", f"bounds must be [low, high]; {len(values)} given: {quoted(said)}."
        )
    return Values(values)
