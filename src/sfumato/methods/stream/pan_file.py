"""`sfumato pan`: make, update and read the file of a pan-private counter.

There is no table behind the file, no vault and no ledger: what may be spent is written down when it
is made, and an answer that was given is given again until something new has come. How it lies on
the disk: `pan_mapping`. Decision `pan-private`.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.data.engines.base import column as column_of
from sfumato.data.engines.sources import open_source
from sfumato.errors import BudgetError, OutputError, ParameterError, SourceError, option
from sfumato.exact_numbers import positive
from sfumato.filesystem import check_target
from sfumato.methods.stream.pan_mapping import (
    MOST_PLACES,
    MOST_READS,
    PanRecord,
    open_mapped,
    write_new,
)
from sfumato.methods.stream.pan_private import PanPrivateHeavy
from sfumato.platform_support import needs_locks
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sfumato.data.engines.sources import Source
    from sfumato.privacy.noise.entropy import Entropy

__all__ = ["PanRecord", "load", "new", "read", "update", "update_all"]

USUAL_SAMPLE = 100_000

_NAME, _VISITS = "person", "visits"


def new(
    path: Path,
    roll: Source,
    column: str,
    *,
    epsilon: object,
    output_epsilon: object = None,
    reads: int = 1,
    at_least: int = 1,
    sample: int | None = None,
) -> PanRecord:
    """Make the file of a roll of people, of whom nobody came yet; one that exists is refused."""
    needs_locks("A file that several processes may update")
    _check_new(path)
    state_epsilon = positive(epsilon, "epsilon")
    told_epsilon = state_epsilon if output_epsilon is None else positive(output_epsilon, "epsilon")
    people = _people(roll, column)
    names = people.names
    size = min(len(names), USUAL_SAMPLE) if sample is None else sample
    if size > MOST_PLACES:
        raise ParameterError(
            "parameter_out_of_range",
            f"A sample has at most {MOST_PLACES:,} people, not {size:,}. Ask for fewer.",
        )
    method = PanPrivateHeavy(
        people=max(len(names), 1), size=size, epsilon=state_epsilon,
        output_epsilon=told_epsilon, reads=reads, at_least=at_least,
    )  # fmt: skip
    if method.reads > MOST_READS:
        raise ParameterError(
            "parameter_out_of_range",
            f"reads must be from 1 to {MOST_READS:,}, not {method.reads:,}.",
        )
    write_new(path, method, column, people.kind, method.begin(names, SystemEntropy()))
    return load(path)


def update(
    path: Path, events: Source, column: str | None = None, *, resume: bool = False
) -> PanRecord:
    """Take in who came: a row for each visit."""
    return update_all(path, [events], column, resume=resume)


def update_all(
    path: Path, tables: Sequence[Source], column: str | None = None, *, resume: bool = False
) -> PanRecord:
    """Take in several tables of visits as one update; all are read before any counts.

    An update that was stopped goes on with `resume` and the same tables; without tables its
    remaining visits are left out.
    """
    with open_mapped(path) as file:
        came = [_people(table, column or file.column, file.kind) for table in tables]
        try:
            file.method.update(
                file.state,
                [name for table_visits in came for name in table_visits.names],
                SystemEntropy(),
                np.concatenate(
                    [np.zeros(0, np.int64), *(table_visits.visits for table_visits in came)]
                ),
                resume=resume,
            )
        finally:
            file.flush()
        return file.record()


def read(path: Path, entropy: Entropy | None = None) -> tuple[PanRecord, dict[str, Any]]:
    """The share of people who came as often as asked; the same again until more has come in."""
    with open_mapped(path) as file:
        if file.state.position:
            raise ParameterError(
                "pan_unfinished",
                f"The last update of '{path.name}' stopped half-way. Give its tables again to "
                f"'sfumato pan update' with {option('resume', True)}, then read.",
            )
        record = file.record()
        last = record.answers[-1] if record.answers else None
        if last is not None and "share" in last and last["updates"] == record.updates:
            return record, last
        if len(record.answers) == record.method.reads:
            raise BudgetError(
                "allowance_exhausted",
                f"All {record.method.reads:,} answers that '{path.name}' pays for were given. Make "
                "a new file with more reads, which begins at nobody.",
            )
        # Paid for on the disk before noise is drawn: were it the other way round, an answer in the
        # file that was never counted, and the next one, would be two for the price of one.
        file.pay_answer(len(record.answers))
        share = file.method.estimate(file.state, entropy or SystemEntropy()).share
        file.give_answer(len(record.answers), share)  # on the disk before anybody sees it
        record = file.record()
    return record, record.answers[-1]


def load(path: Path) -> PanRecord:
    """Read what the file says of itself; one that is not as it was written is refused."""
    with open_mapped(path) as file:
        return file.record()


@dataclass(frozen=True)
class _Visits:
    """The different people of a table, the rows of each, and what their column holds."""

    names: list[str]
    visits: np.ndarray[Any, Any]
    kind: str


def _people(source: Source, column: str, kind: str | None = None) -> _Visits:
    """Who a table is about; rows without a person are left out, another kind is refused."""
    with closing(open_source(source)) as engine:
        held = engine.columns(engine.table)
        if column not in held:
            raise SourceError(
                "column_unknown",
                f"The table has no column {column!r}. It has {', '.join(list(held)[:10])}.",
            )
        if kind not in (None, str(held[column])):  # by types alone: it tells nothing of the rows
            raise SourceError(
                "schema_differs",
                f"The people in column {column!r} are of kind {held[column]}, those of the roll "
                f"of kind {kind}, so that one person would be written in two ways and not be "
                "counted. Nothing was taken in. Convert the column to the kind of the roll; in a "
                "CSV all is text.",
            )
        named = exp.cast(column_of(column), "TEXT")
        counted = exp.cast(exp.Count(this=exp.Star()), "BIGINT")
        query = (
            exp.select(named.as_(_NAME, quoted=True), counted.as_(_VISITS, quoted=True))
            .from_(engine.table)
            .where(exp.not_(exp.Is(this=column_of(column), expression=exp.Null())))
            .group_by(named.copy())
        )
        counted_rows = engine.run(query)
    visits = np.asarray(counted_rows.column(_VISITS), dtype=np.int64)
    return _Visits(counted_rows.column(_NAME).to_pylist(), visits, str(held[column]))


def _check_new(path: Path) -> None:
    """Refuse a file that exists: what it counted would be gone, and its answers told anew."""
    try:
        check_target(path)
    except OutputError as error:
        if error.code != "output_exists":
            raise
        raise OutputError(
            "output_exists",
            f"Cannot write '{path}': it exists, and a counter is never replaced. Choose another "
            "name.",
        ) from None
