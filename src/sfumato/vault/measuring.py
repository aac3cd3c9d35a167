"""Tables that were released, whoever made them: what they reach, and what they answer."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.anonymize.anatomy import COUNT, GROUP
from sfumato.anonymize.measure import measure as measure_counts
from sfumato.anonymize.worlds import answer, answer_buckets, parse
from sfumato.engines.sources import open_source
from sfumato.errors import SourceError
from sfumato.frequencies import count
from sfumato.schema.column import Column, Kind, Role
from sfumato.schema.file import load
from sfumato.schema.names import quoted
from sfumato.schema.schema import Schema
from sfumato.vault.posing import person_of
from sfumato.vault.table import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.measure import Measures
    from sfumato.anonymize.worlds import Answer
    from sfumato.anonymize.worlds import Trust as Labels
    from sfumato.engines.sources import Source
    from sfumato.frequencies import Frequencies

_LOOKED_AT = (Role.QUASI, Role.SENSITIVE)


def measure(
    released: Source,
    schema: str | Path | Schema,
    *,
    original: Source | None = None,
    population: Source | None = None,
) -> Measures:
    """Measure a released table, alone or against its original, and against a population.

    Where the schema's unit is a person, people are counted if the column that names them is there.
    """
    known = _known(schema)
    names = [column.name for column in known.columns if column.role in _LOOKED_AT]
    quasi = [column.name for column in known.by_role(Role.QUASI)]
    person = person_of(known)
    counts_people = person is not None and _tells(person, known, released, original)
    if counts_people and person is not None:
        names = list(dict.fromkeys([*names, person]))
    found = measure_counts(
        _counted(released, _labelled(known), names),
        known.columns,
        original=None if original is None else _counted(original, known, names),
        population=None if population is None else _counted(population, known, quasi),
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


def ask(
    released: str | Path, sql: str, schema: str | Path | Schema, *, labels: Labels = "public"
) -> Answer:
    """Answer a question on a released table, or on the two tables of an anatomy."""
    known = _known(schema)
    asked = parse(sql, known)
    wanted = dict.fromkeys([*asked.where.columns, *([asked.measure] if asked.measure else [])])
    roles = {column.name: column.role for column in known.columns}
    names = [name for name, role in roles.items() if role in _LOOKED_AT or name in wanted]
    texts = _labelled(known)
    if not Path(released).is_dir():
        return answer(sql, _counted(released, texts, names, lacking=True), known, labels=labels)
    group = Column(GROUP, Kind.INTEGER)
    number = Column(COUNT, Kind.INTEGER)
    grouped = Schema(known.table, (*texts.columns, group))
    valued = Schema(known.table, (*texts.columns, group, number))
    return answer_buckets(
        sql,
        _counted(_part(released, "quasi"), grouped, [*names, GROUP], lacking=True),
        _counted(_part(released, "sensitive"), valued, [GROUP, *names], lacking=True, weight=COUNT),
        known,
        group=GROUP,
    )


def _labelled(schema: Schema) -> Schema:
    """The schema of a release: quasi-identifiers are labels, and nothing is declared of them."""
    columns = (
        replace(
            column,
            kind=Kind.TEXT if column.role is Role.QUASI else column.kind,
            domain=None,
            hierarchy=None,
        )
        for column in schema.columns
        if column.role is not Role.IDENTIFIER or column.name == person_of(schema)
    )
    return Schema(schema.table, tuple(columns))


def _counted(
    source: Source,
    schema: Schema,
    names: Sequence[str],
    *,
    lacking: bool = False,
    weight: str | None = None,
) -> Frequencies:
    """Count combinations of these columns; with `lacking`, of those that are there."""
    if lacking:
        with closing(open_source(source)) as engine:
            held = engine.columns(engine.table)
        names = [name for name in names if name in held]
    kept = [*names, weight] if weight else names
    part = Schema(schema.table, tuple(schema.column(name) for name in kept))
    with closing(read(source, part)) as table:
        return count(table.engine, table.engine.table, names, weight=weight)


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
