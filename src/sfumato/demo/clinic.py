"""Visits to the clinic of the made-up county: several rows for some people, none for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.demo import vocabulary as words
from sfumato.demo.draws import Choice, bell, below
from sfumato.demo.town import BATCH_ROWS, LAST_DAY, MAX_VISITS, groups, spell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.demo.town import People

_KINDS: dict[str, pa.DataType] = {
    "patient": pa.int64(),
    "visit": pa.int64(),
    "day": pa.date32(),
    "department": pa.string(),
    "diagnosis": pa.string(),
    "cost": pa.int64(),
}
SCHEMA = pa.schema(_KINDS)

_YEAR = 366  # 2024, the year before the day of the count, was a leap year.
# Out of five visits three are for the person's own disease, one for flu, one a mere check.
_REASON = Choice(np.array([3.0, 1.0, 1.0]))
_OWN, _FLU, _CHECK = range(3)


def batches(people: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Make the visits of the first `people` people, batch by batch."""
    return (_visits(group) for group in groups(people, batch_rows=batch_rows))


def table(people: int) -> pa.Table:
    """Make all visits of the first `people` people in memory."""
    return pa.Table.from_batches(batches(people), schema=SCHEMA)


def _visits(people: People) -> pa.RecordBatch:
    """One row for each visit; a visit's draws depend on its person and its number."""
    total = int(people.visits.sum())
    before = np.repeat(people.visits.cumsum() - people.visits, people.visits)
    number = np.arange(total, dtype=np.int64) - before
    patient = np.repeat(people.person, people.visits)
    counters = (patient * MAX_VISITS + number).astype(np.uint64)
    alive = np.minimum(LAST_DAY - np.repeat(people.birth_day, people.visits) + 1, _YEAR)
    day = LAST_DAY - below("visit day", counters, alive)
    reason = _REASON("visit reason", counters)
    own = np.repeat(people.disease, people.visits)
    flu, none = words.DISEASES.index("flu"), words.DISEASES.index("none")
    diagnosis = np.select([reason == _OWN, reason == _FLU], [own, flu], none)
    cost = words.DISEASE_COST[diagnosis] * np.exp(0.4 * bell("visit cost", counters))
    columns: list[pa.Array[Any]] = [
        pa.array(patient),
        pa.array(number + 1),
        pa.array(day.astype(np.int32)).cast(pa.date32()),
        spell(diagnosis, words.DEPARTMENTS),
        spell(diagnosis, words.DISEASES),
        pa.array(np.clip(np.rint(cost), 10, 20_000).astype(np.int64)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
