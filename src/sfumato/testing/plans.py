"""Plans made by hand, for tests of what stands behind the planner."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from sfumato.axes import Listed
from sfumato.contribution import PERSON
from sfumato.engines.kinds import STORED
from sfumato.engines.sources import open_duckdb
from sfumato.method import Dataset
from sfumato.privacy.units import Entity, Rows
from sfumato.query.plan import NOISY, Argument, Key, Measure, Plan
from sfumato.schema.column import Column, Kind
from sfumato.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.units import Unit
    from sfumato.query.answer import Question
    from sfumato.release import Release

DATASET = "visits"


def declared(column: str, values: Sequence[object], *, kind: Kind = Kind.TEXT) -> Key:
    """A key whose values are public."""
    return Key(column, column, kind, Listed(column, pa.array(values, STORED[kind]), declared=True))


def observed(column: str, *, kind: Kind = Kind.TEXT) -> Key:
    """A key whose values are private."""
    return Key(column, column, kind, None)


def argument(
    column: str,
    low: int,
    high: int,
    *,
    step: Fraction = Fraction(1),
    kind: Kind = Kind.INTEGER,
    nullable: bool = True,
) -> Argument:
    """A column of whole numbers, clamped into bounds by the source below."""
    return Argument(column, low, high, step, kind, nullable)


def released(question: Question, table: pa.Table, entropy: Entropy) -> Release:
    """Answer a question about a table in memory, as the gatekeeper does once it is paid for."""
    engine = open_duckdb(table)
    schema = Schema(DATASET, (Column("x", Kind.INTEGER),))
    try:
        dataset = Dataset(DATASET, engine, engine.table, schema, question.plan.unit)
        return question.run({DATASET: dataset}, entropy)
    finally:
        engine.close()


def plan(
    keys: Sequence[Key],
    measures: Sequence[Measure],
    *,
    unit: Unit = Rows(),  # noqa: B008  # frozen
    levels: Iterable[tuple[int, ...]] | None = None,
    multiplicity: int = 1,
    finish: exp.Select | None = None,
) -> Plan:
    """A plan over one table whose columns are named like the keys and the arguments."""
    arguments = {one.argument.column: one.argument for one in measures if one.argument}
    source = exp.select(*(exp.column(key.column, quoted=True) for key in keys))
    for one in arguments.values():
        source = source.select(_clamped(one).as_(one.column, quoted=True))
    if isinstance(unit, Entity):
        source = source.select(exp.column(unit.column, quoted=True).as_(PERSON))
    if not source.expressions:
        source = source.select(exp.convert(1).as_("one"))
    names = (*(key.name for key in keys), *(one.name for one in measures))
    shown = exp.select(*(exp.column(name, quoted=True) for name in names)).from_(NOISY)
    return Plan(
        datasets=(DATASET,),
        source=source.from_(exp.to_table(DATASET)),
        unit=unit,
        multiplicity=multiplicity,
        keys=tuple(keys),
        levels=(tuple(range(len(keys))),) if levels is None else tuple(levels),
        measures=tuple(measures),
        finish=shown if finish is None else finish,
        columns=names,
    )


def _clamped(one: Argument) -> exp.Expr:
    value = exp.column(one.column, quoted=True)
    low, high = (exp.cast(exp.convert(end), "BIGINT") for end in (one.low, one.high))
    return exp.case().when(value < low, low).when(value > high, high).else_(value.copy())
