"""Who knows whom: a graph without names gives people away, and a made-up one does not."""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.attack.finding import Finding, percent
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.row_forms import Edges
from sfumato.data.schema.schema import Schema
from sfumato.demo.draws import uniform
from sfumato.release.open_table import read
from sfumato.report.blocks import Heading, Note, Paragraph
from sfumato.report.points import Point, draw_lines
from sfumato.vault.protection import protect

if TYPE_CHECKING:
    from sfumato.demo.town import Town
    from sfumato.release.open_table import Table
    from sfumato.report.blocks import Block

_PEOPLE = 300
_EPSILON = 2
_STEPS = (1, 2, 3)
_ENDS = tuple(
    Column(name, Kind.INTEGER, Role.IDENTIFIER, nullable=False) for name in ("one", "other")
)
_SCHEMA = Schema("friends", _ENDS, form=Edges("one", "other"))


def section(town: Town) -> list[Block]:
    """Tie some of the town's people, attack the ties, and make up others."""
    title = Heading("Who knows whom")
    if find_spec("scipy") is None:
        return [title, Note("Graphs need packages that are not installed: sfumato[graph].")]
    true = _friends(town)
    with closing(read(true, schema=_SCHEMA)) as friends:
        before = _attacked(friends)
        twin = protect(friends, epsilon=_EPSILON).synthesize(nodes=_PEOPLE, epsilon=_EPSILON).table
        with closing(read(twin, schema=_SCHEMA)) as made_up:
            after = _attacked(made_up, friends)
        points = [
            Point(name, rank, degree)
            for name, table in (("true", true), ("made up", twin))
            for rank, degree in enumerate(_degrees(table), start=1)
        ]
    return [
        title,
        Paragraph(
            f"Friendships of {_PEOPLE} people, their names replaced by numbers. Somebody who knows "
            "how many friends a person has, and how many these have, finds "
            f"{percent(before.success.value)} of them in the graph. In one made up at epsilon "
            f"{_EPSILON} it is {percent(after.success.value)}, a guess "
            f"{percent(after.baseline.value)}."
        ),
        draw_lines(
            points,
            label="How many friends people have, from the most on",
            x="Person",
            y="Friends",
            series="Graph",
        ),
    ]


def _attacked(table: Table, original: Table | None = None) -> Finding:
    found = table.attack("neighbourhood", original=original)
    assert isinstance(found, Finding)
    return found


def _friends(town: Town) -> pa.Table:
    """Neighbours of a ring, and some whom many know: the same each time."""
    counters = np.arange(4 * _PEOPLE, dtype=np.uint64) + np.uint64(town.people.num_rows)
    heavy = (1 - uniform("friends", counters)) ** (-2 / 3) - 1  # few have very many
    ring = [(at, (at + step) % _PEOPLE) for at in range(_PEOPLE) for step in _STEPS]
    popular = (heavy.reshape(-1, 2) * _PEOPLE / 8).astype(np.int64) % _PEOPLE
    pairs = {tuple(sorted(pair)) for pair in [*ring, *popular.tolist()] if pair[0] != pair[1]}
    return pa.table([pa.array(ends) for ends in zip(*sorted(pairs), strict=True)], ["one", "other"])


def _degrees(table: pa.Table) -> list[int]:
    ends = np.concatenate([column.to_numpy() for column in table.columns])
    return [int(one) for one in np.sort(np.bincount(ends))[::-1][:_PEOPLE]]
