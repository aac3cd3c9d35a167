"""The plan of a synthesis of trajectories, from public facts: `synthesize NAME --as paths`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Points
from sfumato.errors import ParameterError
from sfumato.methods.trajectory import adatrace, one_level
from sfumato.methods.trajectory.adatrace import AdaTrace
from sfumato.methods.trajectory.cells import Box, ReferenceSystems, Squares
from sfumato.methods.trajectory.dpt import DPT, SHARES
from sfumato.methods.trajectory.measurement import PathCost
from sfumato.methods.trajectory.one_level import OneLevel
from sfumato.methods.trajectory.paths import Paths, read_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.noise.entropy import Entropy


METHODS = ("dpt", "adatrace", "one-level")
MOST_PATHS = 1_000_000
_MOST_CELLS = 256
_ONE_LEVEL = 16
_TABLES_OF_PATHS = ("trips", "lengths", "starts", "hours")
_DAY = 86_400.0


@dataclass(frozen=True, repr=False, kw_only=True)
class PathSynthesis:
    """A synthesis of trajectories with all its parameters, made before any data is read."""

    schema: Schema
    form: Points
    unit: Unit
    price: Price
    method: str = "dpt"
    rows: int | None = None
    """How many paths to draw; None for the noisy number of paths."""
    every: float = 60.0
    cells: int = 64
    hexagons: int | None = None
    trips: int = 1
    steps: int = 1

    reads = ()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are drawn."""
        form = self.form
        names = dict.fromkeys((*self.unit.columns, form.path, form.time, form.x, form.y))
        return tuple(self.schema.column(name) for name in names)

    @cached_property
    def box(self) -> Box:
        """The declared bounds of the coordinates."""
        return declared_box(self.schema, self.form)

    @cached_property
    def times(self) -> tuple[float, float]:
        """The declared bounds of times in seconds; one day if times are texts."""
        column = self.schema.column(self.form.time)
        if column.kind is Kind.TEXT:
            return 0.0, _DAY
        return _bounds(column)

    @cached_property
    def cost(self) -> PathCost:
        """The charge and the privacy unit."""
        return PathCost(self.price, self.unit)

    @cached_property
    def learner(self) -> DPT | AdaTrace | OneLevel:
        """The method with all its parameters."""
        first, last = self.times
        common: dict[str, Any] = {
            "cost": self.cost,
            "most": self.unit.max_rows,
            "every": self.every,
            "first_time": first,
            "last_time": last,
        }
        if self.method == "one-level":
            return OneLevel(grid=Squares.of(self.box, _ONE_LEVEL, _ONE_LEVEL), **common)
        if self.method == "adatrace":
            return AdaTrace(box=self.box, trips=self.trips, **common)
        return DPT(systems=self._systems, steps=self.steps, trips=self.trips, **common)

    @property
    def _systems(self) -> ReferenceSystems:
        if self.hexagons is None:
            return ReferenceSystems.squares(self.box, self.cells)
        box = self.box
        if box.west < -180 or box.east > 180 or box.south < -85 or box.north > 85:
            raise ParameterError(
                "parameter_out_of_range",
                "Hexagons lie on the earth: places must be declared as degrees, from -180 to 180 "
                "east and from -85 to 85 north. Leave out hexagons, which takes squares.",
                parameter="hexagons",
            )
        # A hexagon of resolution 0 covers about 350 square degrees at the equator. Each has seven
        # hexagons of the next resolution.
        hexagon_count = (box.east - box.west) * (box.north - box.south) / 350 * 7**self.hexagons
        if hexagon_count > _MOST_CELLS**2:
            raise ParameterError(
                "parameter_out_of_range",
                f"Resolution {self.hexagons} needs about {hexagon_count:,.0f} hexagons; at most "
                f"{_MOST_CELLS**2:,} are possible. Give a lower resolution.",
                parameter="hexagons",
            )
        return ReferenceSystems.hexagons(box, self.hexagons)

    @property
    def event(self) -> Event:
        """The event that the ledger charges, from public facts alone."""
        return self.cost.event

    @property
    def error(self) -> Mapping[str, Any]:
        """The standard deviation of counts of paths per table. That of drawn paths is unknown."""
        shares = {"dpt": SHARES, "adatrace": adatrace.SHARES, "one-level": one_level.SHARES}
        return {
            name: {"sd": self.cost.stddev(share, 1 if self.method == "one-level" else self.trips)}
            for name, share in shares[self.method].items()
            if name in _TABLES_OF_PATHS
        }

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The options and the declared facts that they depend on."""
        return {
            "method": self.method, "rows": self.rows, "every": self.every, "cells": self.cells,
            "hexagons": self.hexagons, "trips": self.trips, "steps": self.steps,
            "box": list(self.box), "times": list(self.times),
        }  # fmt: skip

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows."""
        no_integers, no_floats = np.zeros(0, dtype=np.int64), np.zeros(0)
        return {
            self.schema.table: self._rows(
                Paths(no_integers, no_integers, no_floats, no_floats, no_floats)
            )
        }

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Read paths with a bound per person, measure them with noise and draw new paths."""
        real = read_paths(rows, self.form).thinned(self.every)
        if self.schema.column(self.form.time).kind is Kind.TEXT:
            real = shift_to_one_day(real)
        model = self.learner.learn(real, entropy)
        count = max(round(model.people), 1) if self.rows is None else self.rows
        synthetic = model.draw(min(count, MOST_PATHS), entropy)
        if self.schema.column(self.form.time).kind is not Kind.TEXT:
            synthetic = _end_by(synthetic, self.times[1])
        return {self.schema.table: self._rows(synthetic)}

    def maps(
        self, tables: Mapping[str, pa.Table]
    ) -> tuple[tuple[str, ...], Mapping[str, pa.Table]]:
        """Count the drawn points in each box of a map: post-processing, so free of charge."""
        synthetic, names = tables[self.schema.table], (self.form.x, self.form.y)
        x, y = (np.asarray(synthetic.column(name), dtype=np.float64) for name in names)
        return names, {"visits": count_points_by_box(x, y, self.box, names)}

    def _rows(self, synthetic: Paths) -> pa.Table:
        """Drawn paths with the columns of the data set."""
        form, number = self.form, synthetic.path_of + 1
        drawn: dict[str, Any] = {form.path: number, form.time: synthetic.times}
        drawn |= {
            form.x: synthetic.x,
            form.y: synthetic.y,
            **dict.fromkeys(self.unit.columns, number),
        }
        return pa.table(
            {column.name: _to_column_type(column, drawn[column.name]) for column in self.columns}
        )


def prepare(
    request: FormRequest,
    *,
    method: str = "dpt",
    rows: object = None,
    every: object = 60,
    cells: object = 64,
    hexagons: object = None,
    trips: object = 1,
    steps: object = 1,
) -> PathSynthesis:
    """Check the options and make the plan of a synthesis of trajectories."""
    form, unit = points_of(request), request.unit
    arguments.one_of(method, "method", METHODS)
    synthesis = PathSynthesis(
        schema=request.schema,
        form=form,
        unit=unit,
        price=request.price,
        method=method,
        rows=None if rows is None else int(_within("rows", rows, 1, MOST_PATHS)),
        every=_within("every", every, 1, 10**9),
        cells=int(_within("cells", cells, 2, _MOST_CELLS)),
        hexagons=None if hexagons is None else int(_within("hexagons", hexagons, 0, 12)),
        trips=int(_within("trips", trips, 1, unit.max_rows)),
        steps=int(_within("steps", steps, 1, unit.max_rows)),
    )
    _ = synthesis.learner  # what is not declared is refused before anything is charged
    return synthesis


def points_of(request: FormRequest) -> Points:
    """Return the columns of points. A unit of rows is refused: it would hide no path."""
    form = request.form
    assert isinstance(form, Points)
    if not request.unit.by_person:
        raise ParameterError(
            "unit_unsupported",
            "A point is not a person, so that hiding a row hides nobody's path. Declare unit = "
            f'{{ column = "{form.path}", max_rows = 100 }}, or name the column of the person.',
        )
    return form


def declared_box(schema: Schema, form: Points) -> Box:
    """Return the declared bounds of the coordinates."""
    (west, east), (south, north) = (_bounds(schema.column(name)) for name in (form.x, form.y))
    return Box(west, south, east, north)


def _within(name: str, value: Any, low: int, high: int) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not low <= number <= high:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be a number from {low:,} to {high:,}, not {arguments.shown(value)}.",
            parameter=name,
            given=arguments.shown(value),
        )
    return number


def _bounds(column: Column) -> tuple[float, float]:
    domain = column.public_domain
    if not isinstance(domain, Bounds) or _number(domain.low) >= _number(domain.high):
        raise ParameterError(
            "bounds_missing",
            f"Column {quoted(column.name)} has no declared bounds, and those of the data are "
            "private. Write bounds = [low, high] for it in the schema.",
        )
    return _number(domain.low), _number(domain.high)


def _number(value: object) -> float:
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    return float(value)  # type: ignore[arg-type]


def shift_to_one_day(paths: Paths) -> Paths:
    """Shift each path to day 0, at the time of day at which it begins."""
    start_times = paths.times[paths.first]
    shift = (start_times - start_times % _DAY)[paths.path_of]
    return type(paths)(paths.owners, paths.lengths, paths.times - shift, paths.x, paths.y)


def _end_by(paths: Paths, last: float) -> Paths:
    """Shift paths that end after `last` to an earlier time."""
    late = np.maximum(paths.times[paths.first + paths.lengths - 1] - last, 0)[paths.path_of]
    return type(paths)(paths.owners, paths.lengths, paths.times - late, paths.x, paths.y)


def _snap_to_domain(column: Column, values: FloatArray) -> FloatArray:
    """Clip values to the declared bounds and round them to the declared step."""
    domain = column.public_domain
    if not isinstance(domain, Bounds):
        return values
    low, high = _number(domain.low), _number(domain.high)
    step = float(domain.grid_step or 0) * (_DAY if column.kind is Kind.DATE else 1)
    if not step:
        return np.clip(values, low, high)
    near = np.round if column.kind is Kind.REAL else np.floor
    return np.round(low + near(np.clip(values - low, 0, high - low) / step) * step, 9)


def _to_column_type(column: Column, values: Any) -> pa.Array:
    """Values in the column's type; times that are texts as times of 2000-01-01."""
    if np.asarray(values).dtype.kind == "i":  # numbers of people and paths
        numbers = {Kind.INTEGER: pa.int64(), Kind.REAL: pa.float64()}
        return pa.array(values).cast(numbers.get(column.kind, pa.string()))
    numbers_on_grid = _snap_to_domain(column, np.asarray(values, dtype=np.float64))
    if column.kind is Kind.REAL:
        return pa.array(numbers_on_grid)
    integers = np.floor(numbers_on_grid).astype(np.int64)
    if column.kind is Kind.INTEGER:
        return pa.array(integers)
    if column.kind is Kind.DATE:
        return pa.array(integers // int(_DAY), type=pa.int32()).cast(pa.date32())
    moments = np.datetime64("2000-01-01T00:00:00", "s") + integers.astype("timedelta64[s]")
    return pa.array(np.datetime_as_string(moments, unit="s").astype(object), type=pa.string())


def count_points_by_box(x: FloatArray, y: FloatArray, box: Box, names: tuple[str, str]) -> pa.Table:
    """Count points in each cell of a map."""
    grid = Squares.of(box, 32, 32)
    counts = np.bincount(grid.locate(x, y), minlength=grid.size)
    shape = np.array([grid.width, grid.height]) / 2
    low, high = grid.centres - shape, grid.centres + shape
    ends = {f"{name}_{end}": corner[:, axis] for axis, name in enumerate(names)
            for end, corner in (("low", low), ("high", high))}  # fmt: skip
    return pa.table({**ends, "count": counts})
