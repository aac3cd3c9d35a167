"""Attacks on a release before it leaves, while the original is at hand.

Rows alike in their quasi-identifiers are released alike by most algorithms: the table is counted
once where it lies, and both it and its release are read off the counts. Else the release is counted
in the engine, too. Of a large table a sample of people is looked up. Who else fits a class is then
not known, and success can only be told too high. What is asked for besides is tried on all people.

Decision 0292.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sfumato.anonymize.buckets import COUNT, GROUP
from sfumato.anonymize.problem import counted_whole
from sfumato.anonymize.released_classes import recoded
from sfumato.attack.attack_results import TriedAttacks
from sfumato.attack.case import AttackOptions, Case, HeldRelease, HeldTable
from sfumato.attack.catalogue import ON_CLASSES, run_all
from sfumato.attack.draws import below
from sfumato.attack.finding import Findings
from sfumato.attack.requirements import check
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.memory_limit import TooManyCombinationsError
from sfumato.data.engines.base import column
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.errors import option
from sfumato.release.recoding import ByCuts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.anonymize.result import Anonymized
    from sfumato.attack.requirements import Requirement
    from sfumato.data.schema.schema import Schema
    from sfumato.release.recoding import ByColumn, ByRow

SAMPLE = 10_000
"""Of a table with more rows, so many are tried."""
_MEND = (
    f"Ask for a larger {option('k')}, or for {option('l')} or {option('t')}; leave out columns; or "
    "require less. sfumato attack tells of a release that was written who is hit."
)


def attacked(
    decided: Anonymized, requirements: Sequence[Requirement] = (), *, publish: bool = False
) -> Anonymized:
    """The same with what attacks found; refused where that is not what was required."""
    tried = dict.fromkeys([*ON_CLASSES, *(one.attack for one in requirements)])
    findings = _found(decided, list(tried))
    check(requirements, findings, mend=_MEND)
    return replace(
        decided,
        attacks=TriedAttacks(findings, tuple(one.text for one in requirements), publish),
    )


def _found(decided: Anonymized, names: Sequence[str]) -> Findings:
    """What attacks find: the usual ones with some people, others that are asked for with all."""
    engine, schema, rows = decided.table.engine, decided.table.schema, decided.figures["rows"]
    told = {**decided.parameters, **decided.guarantee.parameters}
    usual = [one for one in names if one in ON_CLASSES]
    with ExitStack() as lent:
        whole = _counted(decided)
        table = _released(lent, decided, whole)
        buckets = None if decided.values is None else _buckets(lent, decided)
        all_people = HeldTable(engine, engine.table, tuple(_looked_at(schema)), whole=whole)
        case = Case(
            schema,
            HeldRelease(table, buckets, told),
            original=all_people,
            options=AttackOptions(dealt=SAMPLE),
        )
        others = run_all(case, names=[one for one in names if one not in usual])
        if rows > SAMPLE:
            case = replace(case, original=None, known=_people(lent, decided, whole))
        found = sampled(run_all(case, names=usual), rows)
    return Findings((*found.findings, *others.findings), {**found.not_run, **others.not_run})


def sampled(findings: Findings, rows: int) -> Findings:
    """The same, those of which were tried on some people only saying so."""
    told = f"Tried on people drawn at random, about {SAMPLE:,} of {rows:,}."
    return Findings(
        tuple(
            replace(one, remarks=[*one.remarks, told])
            if one.success.tried < min(rows, 2 * SAMPLE) and rows > SAMPLE
            else one
            for one in findings.findings
        ),
        findings.not_run,
    )


def _looked_at(schema: Schema) -> list[Column]:
    """The columns that attacks look at."""
    return [*schema.by_role(Role.QUASI), *schema.by_role(Role.SENSITIVE)]


def _counted(decided: Anonymized) -> Frequencies | None:
    """The original by all that attacks look at; None where that does not fit in memory."""
    names = [one.name for one in _looked_at(decided.table.schema)]
    try:
        return counted_whole(decided.table, names)
    except TooManyCombinationsError:
        return None


def _people(lent: ExitStack, decided: Anonymized, whole: Frequencies | None) -> HeldTable:
    """Some people to be looked up, by what they can be found by alone."""
    engine, quasi = decided.table.engine, decided.table.schema.by_role(Role.QUASI)
    names = [one.name for one in quasi]
    if whole is not None:
        some = drawn(whole, SAMPLE).marginal(names)
        return HeldTable(engine, engine.table, quasi, whole=some)
    number = engine.traits.hashed("people who are tried", [column(one) for one in names])
    every = ceil(decided.figures["rows"] / SAMPLE)
    chosen = exp.Mod(this=exp.paren(number), expression=exp.convert(every)).eq(0)
    query = exp.select(*map(column, names)).from_(engine.table.copy()).where(chosen)
    return HeldTable(engine, lent.enter_context(engine.view(query)), quasi)


def drawn(counted: Frequencies, most: int) -> Frequencies:
    """Rows of a table at random, one after the other; all where they are no more than that."""
    if counted.total <= most:
        return counted
    places = below(counted.total, most, 0)
    met, counts = np.unique(
        np.searchsorted(np.cumsum(counted.counts), places, side="right"), return_counts=True
    )
    return Frequencies(counted.axes, tuple(one[met] for one in counted.codes), counts)


def _released(lent: ExitStack, decided: Anonymized, whole: Frequencies | None) -> HeldTable:
    """The released rows, without suppressed ones: from what was counted, else in the engine."""
    engine, recoding, held = decided.table.engine, decided.spelled_recoding(), decided.columns
    group = [Column(GROUP, Kind.INTEGER)] if decided.values is not None else []
    columns = [one for one in (*_looked_at(decided.table.schema), *group) if one.name in held]
    if whole is not None and not isinstance(recoding, ByCuts) and recoding.by_value:
        counts = _recounted(whole, recoding).marginal([one.name for one in columns])
        return HeldTable(engine, engine.table, tuple(columns), whole=counts)
    rows = lent.enter_context(recoding.released(engine, engine.table))
    rows.set("order", None)
    return HeldTable(engine, lent.enter_context(engine.view(rows)), tuple(columns))


def _recounted(whole: Frequencies, recoding: ByColumn | ByRow) -> Frequencies:
    """What was counted, as it is released: labels in the place of values."""
    kept, worn = recoded(whole, recoding)
    labels = {name: Listed(name, one.dictionary, declared=False) for name, one in worn.items()}
    rest = [place for place, name in enumerate(whole.columns) if name not in labels]
    return Frequencies(
        (*labels.values(), *(whole.axes[place] for place in rest)),
        (
            *(one.indices.to_numpy() for one in worn.values()),
            *(whole.codes[place][kept] for place in rest),
        ),
        whole.counts[kept],
    )


def _buckets(lent: ExitStack, decided: Anonymized) -> HeldTable:
    """The sensitive values by group, where they are a table of their own."""
    assert decided.values is not None
    engine = open_source(decided.values)
    lent.callback(engine.close)
    sensitive = decided.table.schema.by_role(Role.SENSITIVE)
    names = engine.columns(engine.table)
    columns: Iterable[Column] = (
        *sensitive, Column(GROUP, Kind.INTEGER), Column(COUNT, Kind.INTEGER)
    )  # fmt: skip
    there = tuple(one for one in columns if one.name in names)
    return HeldTable(engine, engine.table, there)
