"""Friendships: a graph without names reveals people, and a synthetic one does not."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.attack.finding import Finding, percent
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.schema import Edges, Schema
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
    """Connect some people of the town, attack the graph, and make a synthetic one."""
    title = Heading("Friendships: graphs")
    if find_spec("scipy") is None:
        return [title, Note("Graphs need packages that are not installed. Install sfumato[graph].")]
    true = _friends(town)
    with read(true, schema=_SCHEMA) as friends:
        before = _run_attack(friends)
        synthetic = (
            protect(friends, epsilon=_EPSILON).synthesize(nodes=_PEOPLE, epsilon=_EPSILON).table
        )
        with read(synthetic, schema=_SCHEMA) as made_up:
            after = _run_attack(made_up, friends)
        points = [
            Point(name, rank, degree)
            for name, table in (("true", true), ("synthetic", synthetic))
            for rank, degree in enumerate(_degrees(table), start=1)
        ]
    return [
        title,
        Paragraph(
            f"The graph has the friendships of {_PEOPLE} people, with numbers instead of names. An "
            "attacker who knows how many friends a person has, and how many friends those have, "
            f"finds {percent(before.success.value)} of the people in it. In a synthetic graph at "
            f"epsilon {_EPSILON} the same attack finds {percent(after.success.value)}; a guess "
            f"finds {percent(after.baseline.value)}."
        ),
        draw_lines(
            points,
            label="Number of friends of each person, largest first",
            x="Person",
            y="Friends",
            series="Graph",
        ),
    ]


def _run_attack(table: Table, original: Table | None = None) -> Finding:
    finding = table.attack("neighbourhood", original=original)
    assert isinstance(finding, Finding)
    return finding


def _friends(town: Town) -> pa.Table:
    """A ring of neighbours, and some people whom many know; the same in every run."""
    counters = np.arange(4 * _PEOPLE, dtype=np.uint64) + np.uint64(town.people.num_rows)
    heavy = (1 - uniform("friends", counters)) ** (-2 / 3) - 1  # few have very many
    ring = [(at, (at + step) % _PEOPLE) for at in range(_PEOPLE) for step in _STEPS]
    popular = (heavy.reshape(-1, 2) * _PEOPLE / 8).astype(np.int64) % _PEOPLE
    # An edge is a pair without direction, once, and not of a person with themselves.
    pairs = {tuple(sorted(pair)) for pair in [*ring, *popular.tolist()] if pair[0] != pair[1]}
    return pa.table([pa.array(ends) for ends in zip(*sorted(pairs), strict=True)], ["one", "other"])


def _degrees(table: pa.Table) -> list[int]:
    ends = np.concatenate([column.to_numpy() for column in table.columns])
    return [int(degree) for degree in np.sort(np.bincount(ends))[::-1][:_PEOPLE]]
