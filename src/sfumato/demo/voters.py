"""The public voter list of the made-up county: names and addresses of a part of its people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.demo import vocabulary as words
from sfumato.demo.draws import Choice, below, uniform
from sfumato.demo.town import ADULT, BATCH_ROWS, groups, join, spell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.demo.town import People

_KINDS: dict[str, pa.DataType] = {
    "name": pa.string(),
    "address": pa.string(),
    "zip": pa.string(),
    "birth_date": pa.date32(),
    "sex": pa.string(),
    "party": pa.string(),
}
SCHEMA = pa.schema(_KINDS)

_PARTY = Choice(np.array([[0.30, 0.42, 0.28], [0.42, 0.36, 0.22]]))
_STREET = Choice(np.ones(len(words.STREETS)))


def batches(people: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """List the voters among the first `people` people, batch by batch."""
    return (_voters(group) for group in groups(people, batch_rows=batch_rows))


def table(people: int) -> pa.Table:
    """List all voters among the first `people` people in memory."""
    return pa.Table.from_batches(batches(people), schema=SCHEMA)


def _voters(people: People) -> pa.RecordBatch:
    """Adults register the more often the older they are; the old lean to the first party."""
    rows = people.counters
    turnout = 0.55 + 0.35 * np.clip((people.age - ADULT) / 50, 0, 1)
    registered = (people.age >= ADULT) & (uniform("registered", rows) < turnout)
    houses = pa.array(below("house", rows, 180) + 1).cast(pa.string())
    streets = spell(_STREET("street", rows), words.STREETS)
    parties = _PARTY("party", rows, (people.age >= 50).astype(np.int64))
    columns: list[pa.Array[Any]] = [
        people.names(),
        join(houses, streets),
        people.zips(),
        people.births(),
        people.sexes(),
        spell(parties, words.PARTIES),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return batch.filter(pa.array(registered))
