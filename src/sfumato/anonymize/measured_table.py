"""Tables that were released, whoever made them: what they reach, and what they answer."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from sfumato.anonymize.buckets import COUNT, GROUP
from sfumato.anonymize.measure import measure as measure_counts
from sfumato.anonymize.measure import quasi_of
from sfumato.anonymize.problem_setup import person_of
from sfumato.anonymize.worlds import answer, answer_buckets, parse
from sfumato.anonymize.worlds.workload import workload as compare_answers
from sfumato.data.counting.frequencies import count_held
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import MOST_MEBIBYTES, load
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import ParameterError, SourceError
from sfumato.release.open_table import check_columns, read
from sfumato.release.released_table import described, open_labels, open_released, require_worlds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.anonymize.measure import TableMeasures
    from sfumato.anonymize.worlds import AnswerBounds
    from sfumato.anonymize.worlds import Trust as Labels
    from sfumato.anonymize.worlds.workload import Workload
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.sources import Source

_LOOKED_AT = (Role.QUASI, Role.SENSITIVE)


def measure(
    released: Source,
    schema: str | Path | Schema,
    *,
    original: Source | None = None,
    population: Source | None = None,
    workload: Sequence[str] | None = None,
) -> TableMeasures:
    """Measure a released table, alone or against its original, and against a population.

    Where the schema's unit is a person, people are counted if the column that names them is there.
    A `workload` of questions in SQL, as `bound` takes them, tells how useful it still is.
    """
    known = _known(schema)
    found = _measured(released, known, original, population)
    if workload is None:
        return found
    return replace(found, workload=_worked(released, original, known, workload))


def _measured(
    released: Source, known: Schema, original: Source | None, population: Source | None
) -> TableMeasures:
    names = [column.name for column in known.columns if column.role in _LOOKED_AT]
    quasi = [column.name for column in quasi_of(known.columns)]
    told = described(released)
    if is_anatomy(released):
        before = None if original is None else _counted(original, known, names)
        people = None if population is None else _counted(population, known, quasi)
        rows = _counted(part_of(released, "quasi"), known, quasi, released=True)
        found = measure_counts(rows, known.by_role(Role.QUASI), original=before, population=people)
        return replace(found, sensitive=_grouped(released, known, names, before))
    person = person_of(known)
    counts_people = person is not None and _tells(person, known, table_of(released), original)
    if counts_people and person is not None:
        names = list(dict.fromkeys([*names, person]))
    found = measure_counts(
        _counted(table_of(released), known, names, released=True),
        known.columns,
        original=None if original is None else _counted(original, known, names),
        population=None if population is None else _counted(population, known, quasi),
        starred=None if told is None else told.starred,
        person=person if counts_people else None,
    )
    return replace(found, person=person)


def _tells(person: str, schema: Schema, *sources: Source | None) -> bool:
    """Whether all these tables say whose row it is; the labels of a quasi-identifier do not."""
    if schema.column(person).role is Role.QUASI:
        return False
    for source in sources:
        if source is not None:
            with closing(open_released(source, schema)) as engine:
                if person not in engine.columns(engine.table):
                    return False
    return True


def _grouped(
    folder: str | Path, schema: Schema, names: Sequence[str], original: Frequencies | None
) -> Mapping[str, Mapping[str, Any]]:
    """What the groups of an anatomy reach, which stand in for classes there."""
    groups = Column(GROUP, Kind.INTEGER, Role.QUASI)
    values = _counted(
        part_of(folder, "sensitive"), _valued(schema), [GROUP, *names], released=True, weight=COUNT
    )
    columns = [groups, *schema.by_role(Role.SENSITIVE)]
    return measure_counts(values, columns, reference=original, starred=False).sensitive


def _valued(schema: Schema) -> Schema:
    """The schema of the table of values of an anatomy."""
    added = (Column(GROUP, Kind.INTEGER), Column(COUNT, Kind.INTEGER))
    kept = (column for column in schema.columns if column.role is not Role.QUASI)
    return Schema(schema.table, (*kept, *added), layout=schema.layout)


def bound(
    released: Source, sql: str, schema: str | Path | Schema, *, labels: Labels = "public"
) -> AnswerBounds:
    """Answer a question on a released table, or on the two tables of an anatomy.

    Bounds are over all tables that the released rows may stand for; dropped rows are not in them.
    """
    known = _known(schema)
    return _answering(released, known, [sql], labels)(sql)


def _answering(
    released: Source, known: Schema, questions: Sequence[str], labels: Labels = "public"
) -> Callable[[str], AnswerBounds]:
    """Whoever answers these questions on a release, whose rows are counted once for all."""
    names = _named(known, questions)
    for sql in questions:
        require_worlds(released, _named(known, [sql], looked_at=()))
    if not is_anatomy(released):
        told, rows = described(released), _counted(table_of(released), known, names, released=True)
        starred = told is None or told.starred
        return lambda sql: answer(sql, rows, known, labels=labels, starred=starred)
    columns = (*known.columns, Column(GROUP, Kind.INTEGER))
    grouped = Schema(known.table, columns, layout=known.layout)
    rows = _counted(part_of(released, "quasi"), grouped, [*names, GROUP], released=True)
    values = _counted(
        part_of(released, "sensitive"), _valued(known), [GROUP, *names], released=True, weight=COUNT
    )
    return lambda sql: answer_buckets(sql, rows, values, known, group=GROUP)


def _named(
    schema: Schema, questions: Sequence[str], *, looked_at: Sequence[Role] = _LOOKED_AT
) -> list[str]:
    """The columns that any of the questions names, and those of these roles."""
    asked = [parse(sql, schema) for sql in questions]
    wanted = {name for one in asked for name in (*one.where.columns, one.measure)}
    return [c.name for c in schema.columns if c.role in looked_at or c.name in wanted]


def _worked(
    released: Source, original: Source | None, known: Schema, questions: Sequence[str]
) -> Workload:
    """How far answers on the release are from those on the original."""
    if original is None:
        raise ParameterError(
            "workload_without_original",
            "A workload compares answers on the release with those on its original. Name the "
            "table that it was made from (--original).",
        )
    rows = _counted(original, known, _named(known, questions, looked_at=()) or _any(known))
    answered = _answering(released, known, questions)
    return compare_answers(questions, lambda sql: answer(sql, rows, known, starred=False), answered)


def _any(schema: Schema) -> list[str]:
    """A column to count rows by, where questions name none."""
    return [schema.columns[0].name]


def read_questions(path: Path) -> list[str]:
    """The questions of a file, one on each line; blank lines and SQL comments are none."""
    lines = read_text(path, what="Workload", most_mebibytes=MOST_MEBIBYTES).splitlines()
    return [line for line in map(str.strip, lines) if line and not line.startswith("--")]


def _counted(
    source: Source,
    schema: Schema,
    names: Sequence[str],
    *,
    released: bool = False,
    weight: str | None = None,
) -> Frequencies:
    """Count combinations of these columns; of a release, of those that were not left out."""
    kept = {*names, weight}
    columns = tuple(column for column in schema.columns if column.name in kept)
    part = Schema(schema.table, columns, layout=schema.layout)
    if not released:
        with closing(read(source, part)) as table:
            return count_held(table.engine, table.engine.table, names, weight=weight)
    engine, part = open_labels(source, part)
    with closing(engine):
        check_columns(engine, part)
        held = {column.name for column in part.columns}
        there = [name for name in names if name in held]
        return count_held(engine, engine.table, there, weight=weight)


def part_of(folder: str | Path, name: str) -> Path:
    """One of the files of a release that is a directory."""
    found = sorted(Path(folder).glob(f"{name}.*"))
    if not found:
        raise SourceError(
            "release_incomplete",
            f"The directory {quoted(str(folder))} has no file {name}.csv or {name}.parquet, so it "
            "is no bucketized release. Name the directory that anatomy wrote.",
        )
    return found[0]


def is_anatomy(source: Source) -> TypeGuard[str | Path]:
    """Whether a release is the two tables of an anatomy; one table may lie in a folder too."""
    if not isinstance(source, str | Path) or not Path(source).is_dir():
        return False
    told = described(source)
    return told is None or told.tables > 1


def table_of(source: Source) -> Source:
    """The file of a release of one table, which may lie in a folder."""
    told = described(source)
    return source if told is None else told.table


def _known(schema: str | Path | Schema) -> Schema:
    return schema if isinstance(schema, Schema) else load(Path(schema))
