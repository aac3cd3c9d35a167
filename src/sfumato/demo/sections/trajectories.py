"""Trajectories: a few points reveal a person; synthetic trajectories belong to nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.attack.finding import Finding, percent
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Points, Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.trajectory.generate import generated_paths
from sfumato.release.open_table import read
from sfumato.report.blocks import Heading, Paragraph
from sfumato.report.points import Point, draw_lines
from sfumato.vault.protection import protect

if TYPE_CHECKING:
    from sfumato.demo.town import Town
    from sfumato.release.open_table import Table
    from sfumato.report.blocks import Block

_PATHS, _POINTS, _METRES = 300, 48, 16_000
_EPSILON, _CELL, _MINUTES = 2, 500, 15
_POSITION = Bounds(0, _METRES)
_SCHEMA = Schema(
    "walks",
    (
        Column("person", Kind.INTEGER, Role.IDENTIFIER, nullable=False),
        Column("time", Kind.INTEGER, domain=Bounds(0, 86_400)),
        Column("lon", Kind.INTEGER, domain=_POSITION),
        Column("lat", Kind.INTEGER, domain=_POSITION),
    ),
    Entity("person", max_rows=_POINTS),
    form=Points("person", "time", "lon", "lat"),
)


def section(town: Town) -> list[Block]:
    """Make walks through a town, attack them, and make synthetic ones."""
    del town  # its people have homes but no streets to walk
    # The controls walk in the same town but are not in the table: a fit to them is chance.
    true, controls = _walks(0), _walks(_PATHS)
    with read(true, schema=_SCHEMA) as walks:
        before = _run_attack(walks, None, None)
        synthetic = protect(walks, epsilon=_EPSILON).synthesize(epsilon=_EPSILON, rows=_PATHS).table
    with read(synthetic, schema=_SCHEMA) as drawn:
        after = _run_attack(drawn, true, controls)
    points = [
        Point(name, length, share)
        for name, table in (("true", true), ("synthetic", synthetic))
        for length, share in enumerate(_lengths(table))
    ]
    return [
        Heading("Trajectories"),
        Paragraph(
            f"A table has the trajectories of {_PATHS} people on one day, without names. Four "
            f"points, known to {_CELL} metres and {_MINUTES} minutes, identify "
            f"{percent(before.success.value)} of the people. In a synthetic table at epsilon "
            f"{_EPSILON}, four points fit exactly one trajectory for "
            f"{percent(after.success.value)} of the people, and for "
            f"{percent(after.baseline.value)} of people who are not in the data at all."
        ),
        draw_lines(
            points,
            label="Length of trajectories",
            x="Points",
            y="Share of trajectories",
            series="Table",
        ),
    ]


def _walks(first: int) -> pa.Table:
    """Some of the walks in a town that does not exist; the same in every run."""
    paths = generated_paths(2 * _PATHS)
    mine = (paths.path_of >= first) & (paths.path_of < first + _PATHS)
    columns = {"time": paths.times, "lon": paths.x, "lat": paths.y}
    rounded = {name: np.rint(values[mine]).astype(np.int64) for name, values in columns.items()}
    return pa.table({"person": paths.path_of[mine], **rounded})


def _run_attack(table: Table, original: pa.Table | None, control: pa.Table | None) -> Finding:
    finding = table.attack("path", original=original, control=control, cell=_CELL, minutes=_MINUTES)
    assert isinstance(finding, Finding)
    return finding


def _lengths(table: pa.Table) -> list[float]:
    point_counts = np.unique(table.column("person").to_numpy(), return_counts=True)[1]
    longest = np.bincount(np.minimum(point_counts, _POINTS), minlength=_POINTS + 1)
    return [float(share) for share in longest / len(point_counts)]
