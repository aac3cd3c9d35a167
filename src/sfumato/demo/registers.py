"""Registers of the people of the town: visits to the clinic, voters and homes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Schema
from sfumato.demo import vocabulary
from sfumato.demo.draws import WeightedChoice, bell, below, uniform
from sfumato.demo.town import ADULT, BATCH_ROWS, LAST_DAY, MAX_VISITS, groups, join, spell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.demo.town import Townspeople

_VISIT_KINDS: dict[str, pa.DataType] = {
    "patient": pa.int64(),
    "visit": pa.int64(),
    "day": pa.date32(),
    "department": pa.string(),
    "diagnosis": pa.string(),
    "cost": pa.int64(),
}
VISITS = pa.schema(_VISIT_KINDS)

_YEAR = 366  # 2024, the year before the day of the count, was a leap year.
# Out of five visits three are for the person's own disease, one for flu, one a mere check.
_REASON = WeightedChoice(np.array([3.0, 1.0, 1.0]))
_OWN, _FLU = range(2)


def visits_batches(people: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Make the visits of the first `people` people, batch by batch."""
    return (_visits(group) for group in groups(people, batch_rows=batch_rows))


def visits_table(people: int) -> pa.Table:
    """Make all visits of the first `people` people in memory."""
    return pa.Table.from_batches(visits_batches(people), schema=VISITS)


def _visits(people: Townspeople) -> pa.RecordBatch:
    """One row for each visit; a visit's draws depend on its person and its number."""
    total = int(people.visits.sum())
    before = np.repeat(people.visits.cumsum() - people.visits, people.visits)
    number = np.arange(total, dtype=np.int64) - before
    patient = np.repeat(people.person, people.visits)
    # A number of its own for each visit, whatever the batch that it is made in.
    counters = (patient * MAX_VISITS + number).astype(np.uint64)
    # Nobody visits the clinic before their birth.
    alive = np.minimum(LAST_DAY - np.repeat(people.birth_day, people.visits) + 1, _YEAR)
    day = LAST_DAY - below("visit day", counters, alive)
    reason = _REASON("visit reason", counters)
    own = np.repeat(people.disease, people.visits)
    flu, healthy = vocabulary.DISEASES.index("flu"), vocabulary.DISEASES.index("none")
    diagnosis = np.select([reason == _OWN, reason == _FLU], [own, flu], healthy)
    cost = vocabulary.DISEASE_COST[diagnosis] * np.exp(0.4 * bell("visit cost", counters))
    columns: list[pa.Array[Any]] = [
        pa.array(patient),
        pa.array(number + 1),
        pa.array(day.astype(np.int32)).cast(pa.date32()),
        spell(diagnosis, vocabulary.DEPARTMENTS),
        spell(diagnosis, vocabulary.DISEASES),
        pa.array(np.clip(np.rint(cost), 10, 20_000).astype(np.int64)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=VISITS)


_VOTER_KINDS: dict[str, pa.DataType] = {
    "name": pa.string(),
    "address": pa.string(),
    "zip": pa.string(),
    "birth_date": pa.date32(),
    "sex": pa.string(),
    "party": pa.string(),
}
VOTERS = pa.schema(_VOTER_KINDS)

_PARTY = WeightedChoice(np.array([[0.30, 0.42, 0.28], [0.42, 0.36, 0.22]]))
_STREET = WeightedChoice(np.ones(len(vocabulary.STREETS)))


def voters_batches(people: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """List the voters among the first `people` people, batch by batch."""
    return (_voters(group) for group in groups(people, batch_rows=batch_rows))


def voters_table(people: int) -> pa.Table:
    """List all voters among the first `people` people in memory."""
    return pa.Table.from_batches(voters_batches(people), schema=VOTERS)


def _voters(people: Townspeople) -> pa.RecordBatch:
    """The voters among some people: older adults register more often and prefer the first party."""
    rows = people.counters
    turnout = 0.55 + 0.35 * np.clip((people.age - ADULT) / 50, 0, 1)
    registered = (people.age >= ADULT) & (uniform("registered", rows) < turnout)
    houses = pa.array(below("house", rows, 180) + 1).cast(pa.string())
    streets = spell(_STREET("street", rows), vocabulary.STREETS)
    parties = _PARTY("party", rows, (people.age >= 50).astype(np.int64))
    columns: list[pa.Array[Any]] = [
        people.names(),
        join(houses, streets),
        people.zips(),
        people.births(),
        people.sexes(),
        spell(parties, vocabulary.PARTIES),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=VOTERS)
    return batch.filter(pa.array(registered))


MAP_SIDE = 64
"""The number of cells along each side of the map."""

# Middle, spread and weight of each neighbourhood; positions in cells from the lower left corner.
_NEIGHBOURHOODS = np.array(
    [
        (20.0, 36.0, 2.0, 5.0),
        (24.0, 30.0, 5.0, 4.0),
        (46.0, 46.0, 2.5, 2.0),
        (50.0, 14.0, 1.5, 1.5),
        (9.0, 10.0, 1.2, 0.5),
    ]
)
_ROAD = 1.5  # its weight; it runs between the first neighbourhood and the fourth
HOMES = Schema(
    "homes",
    tuple(
        Column(name, Kind.INTEGER, Role.QUASI, Bounds(0, MAP_SIDE - 1), nullable=False)
        for name in ("east", "north")
    ),
)


def homes_table(people: int) -> pa.Table:
    """Make the homes of the first `people` people, one row each."""
    counters = np.arange(people, dtype=np.uint64)
    kind = WeightedChoice(np.append(_NEIGHBOURHOODS[:, 3], _ROAD))("home place", counters)
    on_road = kind == len(_NEIGHBOURHOODS)
    neighbourhood = _NEIGHBOURHOODS[np.where(on_road, 0, kind)]
    along = uniform("home on road", counters)
    middle = np.where(
        on_road[:, None],
        _NEIGHBOURHOODS[0, :2] + along[:, None] * (_NEIGHBOURHOODS[3, :2] - _NEIGHBOURHOODS[0, :2]),
        neighbourhood[:, :2],
    )
    spread = np.where(on_road, 0.5, neighbourhood[:, 2])
    cells = [
        np.clip(
            np.floor(middle[:, axis] + spread * bell(f"home {axis}", counters)), 0, MAP_SIDE - 1
        )
        for axis in range(2)
    ]
    return pa.table(
        {name: cell.astype(np.int64) for name, cell in zip(("east", "north"), cells, strict=True)}
    )
