"""A table as its steward holds it: where it lives, what it is, what can be done with it.

A malformed cell is refused or missing: decision 0162.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.data.counting.frequencies import count_held
from sfumato.data.engines.base import everything
from sfumato.data.engines.duckdb import DuckDB
from sfumato.data.engines.kinds import check_cells
from sfumato.data.engines.sources import open_source
from sfumato.data.files.formats import separator_hint
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.layout import USUAL, FileLayout
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import load, save
from sfumato.errors import ParameterError, SchemaError, option
from sfumato.filesystem import check_apart
from sfumato.release.files_in_use import hierarchy_files, source_files, vault_files_around
from sfumato.release.released_table import described, open_labels, released_rows
from sfumato.release.table_actions import TableActions, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.data.engines.sources import Source
    from sfumato.data.inspection import Inspection

    Progress = Callable[[float, float], None]


@dataclass(frozen=True, repr=False)
class Table(TableActions):
    """A source opened in an engine, with its schema and why each column is what it is.

    It is `starred` where it is a release with suppressed rows in it, which nobody can be among, and
    `released` where it is any.
    """

    engine: Engine
    schema: Schema
    reasons: tuple[str, ...]
    starred: bool = False
    files: tuple[Path, ...] = ()
    """The files that it is made from and described by, which no output may replace."""
    released: bool = False
    source: Source = field(default=(), repr=False, compare=False)
    declared: Schema | None = field(default=None, repr=False, compare=False)
    """What was opened, and what is declared of it; where it is a release, of its original."""
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    """What its owner must know of how columns were taken, where nothing was declared."""
    seen: Schema | None = field(default=None, repr=False, compare=False)
    """Where nothing is declared: the schema with all that its owner could declare, as seen."""

    @property
    def layout(self) -> FileLayout:
        """How it lies in its file: as declared, and as its header tells."""
        return self.engine.layout if isinstance(self.engine, DuckDB) else USUAL

    def inspect(
        self, *, population: Source | Table | None = None, progress: Progress | None = None
    ) -> Inspection:
        """See the risk in it. What this finds is for the steward, not for release.

        Where it was drawn from a `population`, whoever looks for anyone of them is counted too.
        """
        from sfumato.data.inspection import inspect
        from sfumato.data.inspection.roles import Guess

        people = source_of(population)
        known = None if people is None else self._counted_population(people)
        guesses = [
            Guess(column, reason, self.warnings.get(column.name, ()))
            for column, reason in zip(self.schema.columns, self.reasons, strict=True)
        ]
        unit = self.schema.unit
        with ExitStack() as views:
            table = self.engine.table
            if self.starred:
                table = views.enter_context(self.engine.view(released_rows(self.engine)))
            return inspect(
                self.engine, table, guesses, progress=progress, person=unit.column, population=known
            )

    def _counted_population(self, source: Source) -> Frequencies:
        if self.released:
            raise ParameterError(
                "population_of_release",
                "This table is a release, whose labels are compared with a population by measure, "
                f"not by inspect. Use measure with its schema and {option('population')}.",
            )
        with closing(read_population(source, self.schema)) as people:
            names = [column.name for column in people.schema.columns]
            return count_held(people.engine, people.engine.table, names)


def read(
    source: Source,
    schema: str | Path | Schema | None = None,
    *,
    strict: bool = True,
    short_texts: bool = False,
    progress: Progress | None = None,
) -> Table:
    """Open a table: a file, a database URL, or a table in memory.

    In memory it may be of pandas, polars (lazy ones too), Arrow or DuckDB, a list of records, or
    columns by name.

    Without a schema the columns are measured and their kinds and roles guessed. Of a release of
    ours, which its side-car tells, the schema is that of its original: labels are read as labels.

    A cell that is not of its declared kind is refused by its place or, where that is not `strict`,
    read as NULL: so a table that answers others is to be read, lest one cell tell them of its row.
    With `short_texts`, where a file is copied to be read, texts are copied as far as private
    methods read them.
    """
    arguments.flag(strict, "strict")
    if not (schema is None or isinstance(schema, Schema)):
        schema = arguments.require(schema, "schema", (str, Path), "a path or an sf.Schema")
    if isinstance(source, str | Path):
        arguments.path(source, "source")
    release = described(source)
    place = source if release is None else release.table
    starred = release is not None and release.starred
    if schema is None:
        table = _read_unknown(place, progress, ours=release is not None)
        return replace(table, starred=starred, source=source, released=release is not None)
    known = declared = schema if isinstance(schema, Schema) else load(Path(schema))
    if release is None:
        asked = {column.name: column for column in known.columns}
        engine = open_source(
            place, kinds=asked, layout=known.layout, strict=strict, short_texts=short_texts
        )
    else:
        engine, known = open_labels(place, known, strict=strict)
    try:
        check_columns(engine, known, strict=strict)
    except BaseException:
        engine.close()
        raise
    reasons = ("declared in the schema",) * len(known.columns)
    schema_file = () if isinstance(schema, Schema) else (Path(schema),)
    files = (*source_files(source), *schema_file, *hierarchy_files(known))
    return Table(engine, known, reasons, starred, files, release is not None, source, declared)


def read_population(source: Source, schema: Schema) -> Table:
    """Open a table of the people among whom others hide: only quasi-identifiers are looked at."""
    if described(source) is not None:
        raise ParameterError(
            "population_released",
            "The population is a release, whose labels are not the values that people are found "
            "by. Name the table of the population that it was made from.",
        )
    return read(source, Schema(schema.table, schema.by_role(Role.QUASI), layout=schema.layout))


def _read_unknown(source: Source, progress: Progress | None, *, ours: bool) -> Table:
    from sfumato.release.undeclared_table import (
        open_unknown,  # who declares a table waits for no guesses
    )

    found = open_unknown(source, progress, ours=ours)
    return Table(
        found.engine,
        found.schema,
        tuple(one.reason for one in found.guesses),
        files=source_files(source),
        warnings={one.column.name: one.warnings for one in found.guesses if one.warnings},
        seen=found.seen,
    )


def check_columns(engine: Engine, schema: Schema, *, strict: bool = True) -> None:
    """The schema's columns are there and hold what it says; others are left alone.

    Unless that is `strict`, nothing depends on any row.
    """
    held = engine.columns(engine.table)
    for column in schema.columns:
        if column.name not in held:
            raise SchemaError(
                "column_missing",
                f"The table has no column {quoted(column.name)}, which its schema declares; "
                + suggestion(column.name, held),
            )
        if held[column.name] is Kind.TEXT and column.spelling is not None:
            raise SchemaError(
                "spelling_not_here",
                f"Column {quoted(column.name)} is text in a database, and the way it is written, "
                f"{column.spelling.lines}, is read in files and DuckDB only. Cast it to "
                f"{column.kind} in a view there, and name the view.",
            )
        if held[column.name] is not column.kind:
            raise SchemaError(
                "column_kind",
                f"Column {quoted(column.name)} is declared {column.kind} but holds "
                f"{held[column.name]}. Change its kind in the schema.",
            )
    if strict:
        check_cells(engine, {one.name: one.kind for one in schema.columns})


def save_schema(table: Table, path: Path, *, overwrite: bool = False) -> None:
    """Write a table's schema to a TOML file, each column with the reason for its role.

    Of a guessed one, what its owner could declare stands there too, in lines to uncomment; that the
    column which tells people apart has no gaps is declared, since no unit could name it otherwise.
    """
    from sfumato.data.inspection.declarations import with_people

    check_apart(path, (*table.files, *vault_files_around(path)))
    names = (column.name for column in table.schema.columns)
    notes = {
        name: ". ".join([reason, *(f"Warning: {one}" for one in table.warnings.get(name, ()))])
        for name, reason in zip(names, table.reasons, strict=True)
    }
    schema = table.schema if table.seen is None else with_people(table.schema, table.seen)
    save(schema, path, overwrite=overwrite, notes=notes, seen=table.seen)


def read_workload(path: Path, declared: Sequence[Column]) -> NDArray[Any]:
    """Read ranges from a table that has `age_low` and `age_high` for a column `age`."""
    ends = [
        Column(f"{column.name}_{end}", column.kind)
        for column in declared
        for end in ("low", "high")
    ]
    with closing(read(path, Schema("workload", tuple(ends)))) as table:
        rows = table.engine.run(everything(table.engine.table))
    values = [rows.column(end.name).to_pylist() for end in ends]
    return np.array(values, dtype=object).T.reshape(-1, len(declared), 2)


def file_words(table: Table, name: str) -> list[str]:
    """What was found of a file about which nothing was declared, for its owner to check."""
    names = [column.name for column in table.schema.columns]
    hint = separator_hint(name, names)
    return [*table.layout.words(names), *([hint] if hint else [])]
