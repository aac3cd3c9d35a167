"""Tables that were released, whoever made them: what they reach, and what they answer."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.anonymize.buckets import COUNT, GROUP
from sfumato.anonymize.measure import measure as measure_counts
from sfumato.anonymize.worlds import answer, answer_buckets, parse
from sfumato.counting.frequencies import count
from sfumato.engines.sources import open_source
from sfumato.errors import SourceError
from sfumato.schema.column import Column, Kind, Role
from sfumato.schema.file import load
from sfumato.schema.names import quoted
from sfumato.schema.schema import Schema
from sfumato.steward.problem import person_of
from sfumato.steward.released import described, open_labels, require_worlds
from sfumato.steward.table import check_columns, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.anonymize.measure import TableMeasures
    from sfumato.anonymize.worlds import AnswerBounds
    from sfumato.anonymize.worlds import Trust as Labels
    from sfumato.counting.frequencies import Frequencies
    from sfumato.engines.sources import Source

_LOOKED_AT = (Role.QUASI, Role.SENSITIVE)


def measure(
    released: Source,
    schema: str | Path | Schema,
    *,
    original: Source | None = None,
    population: Source | None = None,
) -> TableMeasures:
    """Measure a released table, alone or against its original, and against a population.

    Where the schema's unit is a person, people are counted if the column that names them is there.
    """
    known = _known(schema)
    names = [column.name for column in known.columns if column.role in _LOOKED_AT]
    quasi = [column.name for column in known.by_role(Role.QUASI)]
    told = described(released)
    if isinstance(released, str | Path) and Path(released).is_dir():
        before = None if original is None else _counted(original, known, names)
        people = None if population is None else _counted(population, known, quasi)
        rows = _counted(_part(released, "quasi"), known, quasi, released=True)
        found = measure_counts(rows, known.by_role(Role.QUASI), original=before, population=people)
        return replace(found, sensitive=_grouped(released, known, names, before))
    person = person_of(known)
    counts_people = person is not None and _tells(person, known, released, original)
    if counts_people and person is not None:
        names = list(dict.fromkeys([*names, person]))
    found = measure_counts(
        _counted(released, known, names, released=True),
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
            with closing(open_source(source)) as engine:
                if person not in engine.columns(engine.table):
                    return False
    return True


def _grouped(
    folder: str | Path, schema: Schema, names: Sequence[str], original: Frequencies | None
) -> Mapping[str, Mapping[str, Any]]:
    """What the groups of an anatomy reach, which stand in for classes there."""
    groups = Column(GROUP, Kind.INTEGER, Role.QUASI)
    values = _counted(
        _part(folder, "sensitive"), _valued(schema), [GROUP, *names], released=True, weight=COUNT
    )
    columns = [groups, *schema.by_role(Role.SENSITIVE)]
    return measure_counts(values, columns, reference=original, starred=False).sensitive


def _valued(schema: Schema) -> Schema:
    """The schema of the table of values of an anatomy."""
    added = (Column(GROUP, Kind.INTEGER), Column(COUNT, Kind.INTEGER))
    kept = (column for column in schema.columns if column.role is not Role.QUASI)
    return Schema(schema.table, (*kept, *added))


def bound(
    released: str | Path, sql: str, schema: str | Path | Schema, *, labels: Labels = "public"
) -> AnswerBounds:
    """Answer a question on a released table, or on the two tables of an anatomy.

    Bounds are over all tables that the released rows may stand for; dropped rows are not in them.
    """
    known = _known(schema)
    asked = parse(sql, known)
    wanted = dict.fromkeys([*asked.where.columns, *([asked.measure] if asked.measure else [])])
    require_worlds(released, wanted)
    roles = {column.name: column.role for column in known.columns}
    names = [name for name, role in roles.items() if role in _LOOKED_AT or name in wanted]
    if not Path(released).is_dir():
        told, rows = described(released), _counted(released, known, names, released=True)
        starred = told is None or told.starred
        return answer(sql, rows, known, labels=labels, starred=starred)
    grouped = Schema(known.table, (*known.columns, Column(GROUP, Kind.INTEGER)))
    return answer_buckets(
        sql,
        _counted(_part(released, "quasi"), grouped, [*names, GROUP], released=True),
        _counted(
            _part(released, "sensitive"),
            _valued(known),
            [GROUP, *names],
            released=True,
            weight=COUNT,
        ),
        known,
        group=GROUP,
    )


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
    part = Schema(schema.table, tuple(c for c in schema.columns if c.name in kept))
    if not released:
        with closing(read(source, part)) as table:
            return count(table.engine, table.engine.table, names, weight=weight)
    engine, part = open_labels(source, part)
    with closing(engine):
        check_columns(engine, part)
        held = {column.name for column in part.columns}
        there = [name for name in names if name in held]
        return count(engine, engine.table, there, weight=weight)


def _part(folder: str | Path, name: str) -> Path:
    """One of the files of a release that is a directory."""
    found = sorted(Path(folder).glob(f"{name}.*"))
    if not found:
        raise SourceError(
            "release_incomplete",
            f"The directory {quoted(str(folder))} has no file {name}.csv or {name}.parquet, so it "
            "is no bucketized release. Name the directory that anatomy wrote.",
        )
    return found[0]


def _known(schema: str | Path | Schema) -> Schema:
    return schema if isinstance(schema, Schema) else load(Path(schema))
