"""A twin of paths beside the paths themselves, both out of any engine: for their owner alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sfumato.methods.trajectory.cells import Squares
from sfumato.methods.trajectory.paths import Paths
from sfumato.methods.trajectory.point_reader import moments, numbered, reals
from sfumato.methods.trajectory.synthesize import declared_box, of_a_day
from sfumato.methods.trajectory.utility import PathUtility, utility

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.schema import Points, Schema

# Across and up, of a map of points.
MAP_CELLS = 16


def compared_paths(
    original: Engine, synthetic: Engine, schema: Schema, form: Points
) -> tuple[PathUtility, tuple[int, int], list[FloatArray]] | None:
    """Figures, how many paths there are, and a map of points each; None where none can be read.

    The original is thinned to the step of time from point to point that the twin has most.
    """
    real, twin = (all_paths(engine, form) for engine in (original, synthetic))
    if not len(real) or not len(twin):
        return None
    gaps = (twin.times[1:] - twin.times[:-1])[twin.steps]
    every = float(np.median(gaps)) if len(gaps) else 0.0
    if every > 0:
        real = real.thinned(every)
    box = declared_box(schema, form)
    grid = Squares.of(box, MAP_CELLS, MAP_CELLS)
    maps = [
        np.bincount(grid.locate(engine.x, engine.y), minlength=grid.size).reshape(
            MAP_CELLS, MAP_CELLS
        )
        / len(engine.x)
        for engine in (real, twin)
    ]
    return utility(real, twin, box), (len(real), len(twin)), maps


def all_paths(engine: Engine, form: Points) -> Paths:
    """Every path of a table, whoever's it is, without any bound: nothing private may use it."""
    names = (form.path, form.time, form.x, form.y)
    present = [exp.column(name, quoted=True).is_(exp.Null()).not_() for name in names]
    query = exp.select(*(exp.column(name, quoted=True) for name in names)).from_(
        engine.table.copy()
    )
    table = engine.run(query.where(*present))
    path = numbered(table.column(form.path))
    time = moments(table.column(form.time))
    x, y = (reals(table.column(name)) for name in (form.x, form.y))
    held = np.isfinite(time) & np.isfinite(x) & np.isfinite(y)
    path_numbers = path[held]
    return of_a_day(Paths.of(path_numbers, path_numbers, time[held], x[held], y[held]))
