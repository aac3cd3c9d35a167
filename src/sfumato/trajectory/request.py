"""A synthesis of paths as the gatekeeper charges and runs it, prepared from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import given
from sfumato.cards import Card, Shown
from sfumato.errors import ParameterError
from sfumato.noise.entropy import secret
from sfumato.privacy.units import Entity
from sfumato.release.release import Guarantee, Provenance, Release, today
from sfumato.schema.column import Kind
from sfumato.schema.domain import Bounds
from sfumato.schema.forms import Points
from sfumato.schema.names import quoted
from sfumato.trajectory import adatrace, one_level
from sfumato.trajectory.adatrace import AdaTrace
from sfumato.trajectory.cells import Box, Squares
from sfumato.trajectory.dpt import DPT, SHARES
from sfumato.trajectory.measuring import Cost
from sfumato.trajectory.one_level import OneLevel
from sfumato.trajectory.reading import read_paths
from sfumato.trajectory.reference_systems import ReferenceSystems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.method import Dataset
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.privacy.price import Price
    from sfumato.schema.column import Column
    from sfumato.schema.layout import FileLayout
    from sfumato.schema.schema import Schema
    from sfumato.trajectory.paths import Paths

METHODS = ("dpt", "adatrace", "one-level")
MOST_PATHS = 1_000_000
_MOST_CELLS = 256
_ONE_LEVEL = 16
_DAY = 86_400.0
VISITS = "visits"


@dataclass(frozen=True, repr=False, kw_only=True)
class PathRequest(Shown):
    """What the gatekeeper charges and runs. Nothing in it saw data."""

    schema: Schema
    form: Points
    unit: Entity
    price: Price
    method: str = "dpt"
    paths: int | None = None
    """How many to draw; as many as there are people, about, if nobody says."""
    every: float = 60.0
    cells: int = 64
    hexagons: int | None = None
    trips: int = 1
    steps: int = field(default=1)

    public = ()
    name = "synthesize"

    @property
    def dataset(self) -> str:
        """The data set it reads."""
        return self.schema.table

    @property
    def datasets(self) -> tuple[str, ...]:
        """The same, as every method tells it."""
        return (self.dataset,)

    @cached_property
    def columns(self) -> dict[str, tuple[Column, ...]]:
        """The columns that are drawn, by table."""
        form = self.form
        names = dict.fromkeys((self.unit.column, form.path, form.time, form.x, form.y))
        return {self.dataset: tuple(self.schema.column(one) for one in names)}

    @property
    def layouts(self) -> dict[str, FileLayout]:
        """How a file of its table is written, so that its schema reads it."""
        return {self.dataset: self.schema.layout}

    @cached_property
    def box(self) -> Box:
        """What is declared of places."""
        (west, east), (south, north) = (_bounds(self.schema.column(one)) for one in self._places)
        return Box(west, south, east, north)

    @property
    def _places(self) -> tuple[str, str]:
        return self.form.x, self.form.y

    @cached_property
    def times(self) -> tuple[float, float]:
        """What is declared of times; of moments that are texts, one day."""
        column = self.schema.column(self.form.time)
        if column.kind is Kind.TEXT:
            return 0.0, _DAY
        return _bounds(column)

    @cached_property
    def cost(self) -> Cost:
        """What it costs, and who one person is."""
        return Cost(self.price, self.unit)

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
            )
        # An area of hexagons at resolution 0, in square degrees at the equator; each is seven.
        many = (box.east - box.west) * (box.north - box.south) / 350 * 7**self.hexagons
        if many > _MOST_CELLS**2:
            raise ParameterError(
                "parameter_out_of_range",
                f"hexagons of resolution {self.hexagons} would be about {many:,.0f}; at most "
                f"{_MOST_CELLS**2:,} are possible. Give a lower resolution.",
            )
        return ReferenceSystems.hexagons(box, self.hexagons)

    @property
    def event(self) -> Event:
        """What it costs, from public facts alone."""
        return self.cost.event

    @property
    def error(self) -> Mapping[str, Any]:
        """How far a table's counts are off, known before anything is spent; of paths it is not."""
        shares = {"dpt": SHARES, "adatrace": adatrace.SHARES, "one-level": one_level.SHARES}
        return {
            name: {"sd": self.cost.stddev(share)} for name, share in shares[self.method].items()
        }

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form."""
        return {
            "columns": list(self._places),
            "path": self.form.path,
            "domain": [repr(self.box), repr(self.times), repr(self.form)],
            "cost": self.price.to_record(),
            "rows": self.paths,
            "unit": self.unit.sentence(),
            "method": {
                "method": self.method, "every": self.every, "cells": self.cells,
                "hexagons": self.hexagons, "trips": self.trips, "steps": self.steps,
            },
        }  # fmt: skip

    def _card(self) -> Card:
        line = f"paths of {self.dataset}, would cost {self.price.sentence()}"
        facts = {"Method": self.method, "Points": f"every {self.every:g} s"}
        return Card(line, facts, notes=["Nothing was spent."])

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Read paths, bounded by person; measure them with noise; draw a twin."""
        data = datasets[self.dataset]
        real = read_paths(data, self.form, self.unit, secret(entropy)).thinned(self.every)
        if self.schema.column(self.form.time).kind is Kind.TEXT:
            real = _of_a_day(real)
        model = self.learner.learn(real, entropy)
        count = max(round(model.people), 1) if self.paths is None else self.paths
        twin = model.drawn(min(count, MOST_PATHS), entropy)
        return Release(
            {self.dataset: self._rows(twin), VISITS: visited(twin, self.box, self._places)},
            self.guarantee,
            Provenance(self.name, self.parameters, fingerprint="", made=today()),
            self.error,
        )

    def _rows(self, twin: Paths) -> pa.Table:
        """The twin in the form of the data set."""
        form, number = self.form, twin.path_of + 1
        drawn: dict[str, Any] = {form.path: number, form.time: twin.times}
        drawn |= {form.x: twin.x, form.y: twin.y, self.unit.column: number}
        return pa.table(
            {one.name: _typed(one, drawn[one.name]) for one in self.columns[self.dataset]}
        )

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises."""
        price = self.price.charged(self.event)
        return Guarantee(*price.promise(self.unit, table=self.dataset))


def request_of(schema: Schema, price: Price, *, method: str = "auto", **asked: Any) -> PathRequest:
    """Make a request of what was asked, or say what cannot be."""
    form, unit = schema.form, schema.unit
    if not isinstance(form, Points):
        raise ParameterError(
            "form_not_points",
            f"Data set {quoted(schema.table)} is not declared to hold points of paths. Write "
            'form = { points = { path = "trip", time = "at", at = ["x", "y"] } } in its schema.',
        )
    if not isinstance(unit, Entity):
        raise ParameterError(
            "unit_not_person",
            "A point is not a person, so that hiding a row hides nobody's path. Declare unit = "
            f'{{ column = "{form.path}", max_rows = 100 }}, or name the column of the person.',
        )
    given.one_of(method, "method", ("auto", *METHODS))
    found: dict[str, Any] = {}
    for name, low, high in (
        ("paths", 1, MOST_PATHS), ("cells", 2, _MOST_CELLS), ("hexagons", 0, 12),
        ("trips", 1, unit.max_rows), ("steps", 1, unit.max_rows), ("every", 1, 10**9),
    ):  # fmt: skip
        value = asked.pop(name, None)
        if value is None:
            continue
        try:
            number = float(value) if name == "every" else int(value)
        except (TypeError, ValueError):
            number = low - 1
        if not low <= number <= high:
            raise ParameterError(
                "parameter_out_of_range",
                f"{name} must be a number from {low:,} to {high:,}, not {given.shown(value)}.",
            )
        found[name] = number
    if asked:
        raise ParameterError(
            "option_unknown",
            f"A synthesis of paths has no option {quoted(next(iter(asked)))}; it has paths, "
            "every, cells, hexagons, trips and steps.",
        )
    made = PathRequest(
        schema=schema, form=form, unit=unit, price=price,
        method="dpt" if method == "auto" else method, **found,
    )  # fmt: skip
    _ = made.learner  # what is not declared is refused before anything is charged
    return made


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


def _of_a_day(paths: Paths) -> Paths:
    """Paths by the time of day at which each begins."""
    begun = paths.times[paths.first]
    shift = (begun - begun % _DAY)[paths.path_of]
    return type(paths)(paths.owners, paths.lengths, paths.times - shift, paths.x, paths.y)


def _typed(column: Column, values: Any) -> pa.Array:
    """Numbers as the column writes them; times that are texts as moments of a day in 2000."""
    if column.kind is Kind.INTEGER:
        return pa.array(np.floor(values).astype(np.int64))
    if column.kind is Kind.REAL:
        domain = column.public_domain
        step = float(domain.grid_step or 0) if isinstance(domain, Bounds) else 0.0
        found = np.asarray(values, dtype=np.float64)
        return pa.array(np.round(np.round(found / step) * step, 9) if step else found)
    if np.asarray(values).dtype.kind == "i":
        return pa.array(values).cast(pa.string())
    whole = np.floor(values).astype(np.int64)
    if column.kind is Kind.DATE:
        return pa.array(whole // int(_DAY), type=pa.int32()).cast(pa.date32())
    moments = np.datetime64("2000-01-01T00:00:00", "s") + whole.astype("timedelta64[s]")
    return pa.array(np.datetime_as_string(moments, unit="s").astype(object), type=pa.string())


def visited(twin: Paths, box: Box, names: tuple[str, str]) -> pa.Table:
    """How many points of a twin lie in each box of a map: done to the twin, it costs nothing."""
    grid = Squares.of(box, 32, 32)
    counts = np.bincount(grid.locate(twin.x, twin.y), minlength=grid.size)
    shape = np.array([grid.width, grid.height]) / 2
    low, high = grid.centres - shape, grid.centres + shape
    ends = {f"{name}_{end}": one[:, place] for place, name in enumerate(names)
            for end, one in (("low", low), ("high", high))}  # fmt: skip
    return pa.table({**ends, "count": counts})
