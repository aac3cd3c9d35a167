"""Attack a release before it leaves, while the original is at hand.

*Anonymized tables*: most algorithms release rows with equal quasi-identifiers alike. The table is
counted once, and both the table and its release are computed from these counts; otherwise the
release is counted in the engine too. In a large table a sample of people is looked up. Who else
fits a class is then unknown, so the success can only be overestimated. Required attacks that are
not among the usual ones run on all people. Decision `findings`.

*Synthetic rows and published counts*: synthetic rows are attacked as rows. A table of counts is
read as the rows that it counts, each figure rounded to a whole number. Either way the rows do not
belong to people. Decision `findings`.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.anonymize.buckets import COUNT, GROUP
from sfumato.anonymize.problem import counted_whole
from sfumato.anonymize.released_classes import recoded
from sfumato.attack.case import Case, HeldRelease, HeldTable
from sfumato.attack.finding import Findings
from sfumato.attack.options import AttackOptions
from sfumato.attack.published_counts import figure_of
from sfumato.attack.registry import CLASS_ATTACKS, ROW_ATTACKS, run_all
from sfumato.attack.requirements import TriedAttacks, check
from sfumato.attack.sampling import below
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import Frequencies, count_held
from sfumato.data.counting.memory_limit import TooManyCombinationsError
from sfumato.data.engines.base import column
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.errors import option
from sfumato.release.recoding import ByCuts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.anonymize.result import Anonymized
    from sfumato.attack.requirements import Requirement
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.schema import Schema
    from sfumato.release.recoding import ByColumn, ByRow


SAMPLE = 10_000
"""People tried of a larger table: intervals are then within 1 %, in bounded time."""


_MEND = (
    f"Ask for a larger {option('k')}, or for {option('l')} or {option('t')}; leave out columns; or "
    "require less. sfumato attack shows for a written release who is hit."
)


def attacked(
    decided: Anonymized, requirements: Sequence[Requirement] = (), *, publish: bool = False
) -> Anonymized:
    """Attack an anonymized table and add the findings; raise if these fail the requirements."""
    tried = dict.fromkeys([*CLASS_ATTACKS, *(requirement.attack for requirement in requirements)])
    findings = _run_attacks(decided, list(tried))
    check(requirements, findings, mend=_MEND)
    return replace(
        decided,
        attacks=TriedAttacks(
            findings, tuple(requirement.text for requirement in requirements), publish
        ),
    )


def _run_attacks(decided: Anonymized, names: Sequence[str]) -> Findings:
    """Run the usual attacks with a sample of people, and the other required ones with all."""
    engine, schema, rows = decided.table.engine, decided.table.schema, decided.figures["rows"]
    provenance = {**decided.parameters, **decided.guarantee.parameters}
    usual = [name for name in names if name in CLASS_ATTACKS]
    with ExitStack() as lent:
        counted = _count_original(decided)
        table = _released_rows(lent, decided, counted)
        buckets = None if decided.values is None else _buckets(lent, decided)
        all_people = HeldTable(engine, engine.table, tuple(_looked_at(schema)), joint=counted)
        case = Case(
            schema,
            HeldRelease(table, buckets, provenance),
            original=all_people,
            # The baseline is estimated from samples too, which bounds the time on large tables.
            options=AttackOptions(dealt=SAMPLE),
        )
        other_findings = run_all(case, names=[name for name in names if name not in usual])
        if rows > SAMPLE:
            case = replace(case, original=None, known=_people(lent, decided, counted))
        usual_findings = sampled(run_all(case, names=usual), rows)
    return Findings(
        (*usual_findings.findings, *other_findings.findings),
        {**usual_findings.refusals, **other_findings.refusals},
    )


def sampled(findings: Findings, rows: int) -> Findings:
    """Add a remark to the findings that were tried on a sample of people."""
    remark = f"Tried on people drawn at random, about {SAMPLE:,} of {rows:,}."
    return Findings(
        tuple(
            replace(finding, remarks=[*finding.remarks, remark])
            if finding.success.tried < min(rows, 2 * SAMPLE) and rows > SAMPLE
            else finding
            for finding in findings.findings
        ),
        findings.refusals,
    )


def _looked_at(schema: Schema) -> list[Column]:
    """Return the columns that attacks read."""
    return [*schema.by_role(Role.QUASI), *schema.by_role(Role.SENSITIVE)]


def _count_original(decided: Anonymized) -> Frequencies | None:
    """Count the original by all columns that attacks read; None if it does not fit in memory."""
    names = [column.name for column in _looked_at(decided.table.schema)]
    try:
        return counted_whole(decided.table, names)
    except TooManyCombinationsError:
        return None


def _people(lent: ExitStack, decided: Anonymized, counted: Frequencies | None) -> HeldTable:
    """Return a sample of people to look up, with their quasi-identifiers alone."""
    engine, quasi = decided.table.engine, decided.table.schema.by_role(Role.QUASI)
    names = [column.name for column in quasi]
    if counted is not None:
        sample = drawn(counted, SAMPLE).marginal(names)
        return HeldTable(engine, engine.table, quasi, joint=sample)
    number = engine.traits.hashed("people who are tried", [column(name) for name in names])
    # A hash of the quasi-identifiers selects people, so equal people are in the sample together.
    every = ceil(decided.figures["rows"] / SAMPLE)
    chosen = exp.Mod(this=exp.paren(number), expression=exp.convert(every)).eq(0)
    query = exp.select(*map(column, names)).from_(engine.table.copy()).where(chosen)
    return HeldTable(engine, lent.enter_context(engine.view(query)), quasi)


def drawn(counted: Frequencies, most: int) -> Frequencies:
    """Return `most` rows of a table, drawn pseudorandomly; all rows if it has no more."""
    if counted.total <= most:
        return counted
    row_positions = below(counted.total, most, 0)
    met, counts = np.unique(
        np.searchsorted(np.cumsum(counted.counts), row_positions, side="right"), return_counts=True
    )
    return Frequencies(counted.axes, tuple(codes[met] for codes in counted.codes), counts)


def _released_rows(lent: ExitStack, decided: Anonymized, counted: Frequencies | None) -> HeldTable:
    """Return the released rows without suppressed ones, from the counts or from the engine."""
    engine, recoding, held = decided.table.engine, decided.spelled_recoding(), decided.columns
    group = [Column(GROUP, Kind.INTEGER)] if decided.values is not None else []
    columns = [
        held_column
        for held_column in (*_looked_at(decided.table.schema), *group)
        if held_column.name in held
    ]
    if counted is not None and not isinstance(recoding, ByCuts) and recoding.by_value:
        counts = _recount_released(counted, recoding).marginal([column.name for column in columns])
        return HeldTable(engine, engine.table, tuple(columns), joint=counts)
    rows = lent.enter_context(recoding.released(engine, engine.table))
    rows.set("order", None)
    return HeldTable(engine, lent.enter_context(engine.view(rows)), tuple(columns))


def _recount_released(counted: Frequencies, recoding: ByColumn | ByRow) -> Frequencies:
    """Return the counts as they are released, with labels in place of values."""
    released_rows, worn = recoded(counted, recoding)
    labels = {name: Listed(name, label.dictionary, declared=False) for name, label in worn.items()}
    other_axes = [number for number, name in enumerate(counted.columns) if name not in labels]
    return Frequencies(
        (*labels.values(), *(counted.axes[axis] for axis in other_axes)),
        (
            *(label.indices.to_numpy() for label in worn.values()),
            *(counted.codes[axis][released_rows] for axis in other_axes),
        ),
        counted.counts[released_rows],
    )


def _buckets(lent: ExitStack, decided: Anonymized) -> HeldTable:
    """Open the table of sensitive values by group, which an anatomy has."""
    assert decided.values is not None
    engine = open_source(decided.values)
    lent.callback(engine.close)
    sensitive = decided.table.schema.by_role(Role.SENSITIVE)
    names = engine.columns(engine.table)
    columns: Iterable[Column] = (
        *sensitive, Column(GROUP, Kind.INTEGER), Column(COUNT, Kind.INTEGER)
    )  # fmt: skip
    present = tuple(column for column in columns if column.name in names)
    return HeldTable(engine, engine.table, present)


_ROWS = "sf_rows"


_NO_COUNTS = (
    "no table of the release counts single combinations of its columns, which could be read as "
    "rows of people."
)


def attacked_rows(
    rows: pa.Table,
    schema: Schema,
    original: tuple[Engine, exp.Table],
    requirements: Sequence[Requirement] = (),
) -> Findings:
    """Attack synthetic rows."""
    return _attack_rows(rows, None, schema, original, _attack_names(ROW_ATTACKS, requirements))


def attacked_counts(
    tables: Mapping[str, pa.Table],
    columns: Sequence[str],
    schema: Schema,
    original: tuple[Engine, exp.Table],
    requirements: Sequence[Requirement] = (),
) -> Findings:
    """Attack tables of counts, by the one with the most columns."""
    names = _attack_names(ROW_ATTACKS, requirements)
    read = read_as_rows(tables, columns)
    if read is None:
        return Findings((), dict.fromkeys(names, _NO_COUNTS))
    # Noise makes counts fractional or negative: rows need whole numbers above 0.
    table, figure = read
    row_counts = pc.round(table.column(figure)).cast(pa.int64())
    cells = table.select(
        [column_name for column_name in table.column_names if column_name in columns]
    )
    rows = cells.append_column(_ROWS, row_counts).filter(pc.greater(row_counts, 0))
    return _attack_rows(rows, _ROWS, schema, original, names)


def read_as_rows(
    tables: Mapping[str, pa.Table], columns: Sequence[str]
) -> tuple[pa.Table, str] | None:
    """Return the table of counts that is read as rows, and its count column; None if there is none.

    The tables of a publication are known before it is charged, without their rows.
    """
    counted = [(pair, figure_of(pair, columns)) for pair in tables.values()]
    read = [(pair, figure) for pair, figure in counted if figure is not None]
    return max(read, key=lambda pair: pair[0].num_columns, default=None)


def _attack_names(usual: Sequence[str], requirements: Sequence[Requirement]) -> list[str]:
    return list(dict.fromkeys([*usual, *(requirement.attack for requirement in requirements)]))


def _attack_rows(
    rows: pa.Table,
    weight: str | None,
    schema: Schema,
    original: tuple[Engine, exp.Table],
    names: Sequence[str],
) -> Findings:
    engine, table = original
    # Identifiers are left out: synthetic ones are invented, and people are compared by the rest.
    columns = tuple(
        column
        for column in schema.columns
        if column.role is not Role.IDENTIFIER and column.name in rows.column_names
    )
    with closing(open_source(rows)) as released:
        counted = None
        if weight is not None:
            listed = [column.name for column in columns]
            counted = count_held(released, released.table, listed, weight=weight)
        held = HeldTable(released, released.table, columns, joint=counted)
        return run_all(
            Case(
                schema,
                HeldRelease(held, rows_are="synthetic"),
                original=HeldTable(engine, table, columns),
            ),
            names=names,
        )
