"""What becomes of every column of a table that is synthesized: a plan from its schema alone.

A column is an axis to be measured, a text whose values are discovered first, an identifier that is
made up, or left out by name. Codes that were drawn become rows of the input's columns, in its
order, with its types and missing values.

Decision `synthetic-rows`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sfumato import arguments
from sfumato.data.counting.axes import Grid, declared
from sfumato.data.engines.kinds import STORED
from sfumato.data.files.column_spelling import marked
from sfumato.data.schema.column import Kind, Role
from sfumato.data.schema.constraints import DeclaredRows
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.names import quoted, suggestion, untaken
from sfumato.errors import ParameterError, SourceError, option
from sfumato.methods.publish.sparse import MAX_CELLS
from sfumato.methods.synth.encode.atoms import INTERVALS_SHARE, POINTS_SHARE, AtomSearch
from sfumato.methods.synth.encode.axes import Bins, Weekdays, on_grid, starts
from sfumato.methods.synth.encode.discovery import (
    Discovered,
    KeyDiscovery,
    QuantileBins,
    even_starts,
)
from sfumato.methods.synth.encode.identifiers import can_be_numbered, running_identifiers
from sfumato.privacy.accounting.price import Price
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from sqlglot import exp

    from sfumato.data.counting.axes import Axis
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Spending
    from sfumato.privacy.noise.entropy import Entropy

MOST_BINS = 64
"""Up to so many points of a grid are counted one by one, and into so many bins more are put."""
_MOST_CUTS = 1 << 16

_DISCOVERY_SHARE, _QUANTILES_SHARE, _MAX_SHARE = Fraction(1, 20), Fraction(1, 10), Fraction(1, 4)
"""The share of the charge that discovery takes for a column, that quantiles do, and all at most."""


class PaidBefore(NamedTuple):
    """What is found before anything is measured, each for its part of the price."""

    discovery: KeyDiscovery | None
    bins: QuantileBins | None
    atoms: AtomSearch | None
    remaining: Price
    """What is left for all else."""

    @property
    def searched(self) -> tuple[str, ...]:
        """The columns whose atoms are looked for."""
        return () if self.atoms is None else tuple(grid.column for grid in self.atoms.grids)

    @property
    def events(self) -> tuple[Event, ...]:
        """What it costs."""
        steps = (self.discovery, self.bins, self.atoms)
        return tuple(step.event for step in steps if step is not None)

    def run(
        self, engine: Engine, table: exp.Table, salt: str, entropy: Entropy
    ) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[int, ...]]]:
        """The values and the ends of bins that are found."""
        where = engine, table, salt, entropy
        values = {} if self.discovery is None else self.discovery.run(*where)
        cuts = [step.run(*where) for step in (self.bins, self.atoms) if step is not None]
        return values, {name: starts for found in cuts for name, starts in found.items()}


@dataclass(frozen=True)
class Encoding:
    """Which columns are measured, discovered, made up and left out."""

    schema: Schema
    without: tuple[str, ...] = ()
    """Columns that are left out, by name."""
    most_bins: int = MOST_BINS
    discovered_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values that were discovered, once they were."""
    by_quantiles: tuple[str, ...] = ()
    """Columns whose bins are to hold about equally many rows."""
    cuts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Where bins begin, once that was found: at these quantiles, at atoms, where rows crowd."""
    weekdays: tuple[str, ...] = ()
    """Columns of dates of which the day of the week is measured too."""

    def __post_init__(self) -> None:
        for name in self.without:
            self.schema.column(name)
        if type(self.most_bins) is not int or not 2 <= self.most_bins <= _MOST_CUTS:
            raise ParameterError(
                "parameter_type_wrong",
                f"most_bins must be a whole number from 2 to {_MOST_CUTS:,}, not "
                f"{arguments.shown(self.most_bins)}.",
                parameter="most_bins",
                given=arguments.shown(self.most_bins),
            )
        if not (self.measured or self.open):
            raise ParameterError(
                "columns_invalid",
                f"Table {quoted(self.schema.table)} has no column left to synthesize. Leave out "
                "fewer columns.",
            )
        for name in dict.fromkeys((*self.by_quantiles, *self.cuts)):
            self._check_cut(name)
        _ = self._weekdays  # what cannot be measured is refused at once

    @cached_property
    def output_columns(self) -> tuple[Column, ...]:
        """The columns of the rows that will be drawn, in the table's order."""
        return tuple(column for column in self.schema.columns if column.name not in self.without)

    @cached_property
    def invented(self) -> tuple[Column, ...]:
        """The columns of identifiers, the person's among them, which are made up."""
        person = self.schema.unit.column
        return tuple(
            column
            for column in self.output_columns
            if (column.role is Role.IDENTIFIER or column.name == person) and can_be_numbered(column)
        )

    @cached_property
    def open(self) -> tuple[Column, ...]:
        """The columns of texts whose values have to be discovered."""
        return tuple(
            column
            for column in self.output_columns
            if column.kind is Kind.TEXT
            and column.public_domain is None
            and column not in self.invented
        )

    @cached_property
    def measured(self) -> tuple[Column, ...]:
        """The columns whose values are declared."""
        return tuple(
            column for column in self.output_columns if column not in (*self.invented, *self.open)
        )

    @cached_property
    def _fixed(self) -> dict[str, Axis]:
        return {column.name: self._axis(column) for column in self.measured}

    @cached_property
    def _weekdays(self) -> dict[str, Weekdays]:
        """The axes of days of the week, by the names of their columns."""
        used_names, weekdays = [column.name for column in self.schema.columns], {}
        daily = {name: axis.fine for name, axis in self._fixed.items() if isinstance(axis, Bins)
                 and axis.kind is Kind.DATE and axis.bounds.grid_step == 1}  # fmt: skip
        for name in self.weekdays:
            if self.schema.column(name).name not in daily:
                raise ParameterError(
                    "option_not_applicable",
                    f"Days of the week cannot be kept of column {quoted(name)}: they are for dates "
                    f"within bounds of more than {self.most_bins} days, each of which may occur; "
                    f"{suggestion(name, daily)}",
                )
            weekdays[name] = Weekdays.of(daily[name], untaken(f"{name}.weekday", used_names))
        return weekdays

    @property
    def names(self) -> list[str]:
        """The names of all that is measured, once it is discovered, in the table's order."""
        names = (column.name for column in self.output_columns if column not in self.invented)
        weekdays = {name: [axis.column] for name, axis in self._weekdays.items()}
        return [axis for name in names for axis in (name, *weekdays.get(name, ()))]

    @property
    def declared_axes(self) -> tuple[Axis, ...]:
        """The axes of the columns whose values are declared."""
        return tuple(axis for name in self._fixed for axis in self._axes_of(name))

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The axes to be measured, in the table's order; open columns need `discovered` before."""
        axes: list[Axis] = []
        for column in self.output_columns:
            if column in self.open:
                axes.append(Discovered.of(column, self.discovered_values[column.name]))
            elif column.name in self._fixed:
                axes += self._axes_of(column.name)
        return tuple(axes)

    def _axes_of(self, name: str) -> list[Axis]:
        return [axes[name] for axes in (self._fixed, self._weekdays) if name in axes]

    @property
    def rows(self) -> int | None:
        """How many rows the schema declares, if it does."""
        declared_rows = (
            constraint
            for constraint in self.schema.constraints
            if isinstance(constraint, DeclaredRows)
        )
        return next((constraint.rows for constraint in declared_rows), None)

    def paid(self, price: Price, among: Collection[str] | None = None) -> PaidBefore:
        """What is found for parts of the price before anything is measured, and what is left.

        Of columns that are not `among` some names, where these are given, it is known already.
        """
        columns = tuple(column for column in self.open if among is None or column.name in among)
        grids = tuple(grid for grid in self._grids if among is None or grid.column in among)
        searched = tuple(grid for grid in self.searched if among is None or grid.column in among)
        texts, ends = len(columns) * _DISCOVERY_SHARE, len(grids) * _QUANTILES_SHARE
        capped = min(_MAX_SHARE / (texts + ends), Fraction(1)) if texts + ends else Fraction(0)
        keys = _keys_delta(columns, price) if columns else None
        spending = spendings(price, conversion=keys)[-1]
        atoms = self._atom_search(searched, spending)
        before = capped * (texts + ends) + (POINTS_SHARE + INTERVALS_SHARE if atoms else 0)
        if not before:
            return PaidBefore(None, None, None, price)
        remaining = spending.scaled(1 - before)
        return PaidBefore(
            KeyDiscovery(columns, self.schema.unit, spending.scaled(capped * texts), keys)
            if keys
            else None,
            QuantileBins(grids, self.schema.unit, spending.scaled(capped * ends)) if ends else None,
            atoms,
            Price(epsilon=remaining.epsilon, rho=remaining.rho),
        )

    def _atom_search(self, grids: tuple[Grid, ...], spending: Spending) -> AtomSearch | None:
        """How atoms of some columns are looked for; None where no column or noise allows it."""
        if not grids:
            return None
        columns = (self.schema.column(grid.column) for grid in grids)
        bins = tuple(
            starts(grid, column.hierarchy, self.most_bins) or (0,)
            for grid, column in zip(grids, columns, strict=True)
        )
        search = AtomSearch(grids, bins, self.schema.unit, spending, self.rows)
        return search if search.worthwhile else None

    def discovered(
        self,
        values: Mapping[str, Sequence[str]],
        cuts: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    ) -> Encoding:
        """The same plan with the values, and the ends of bins, that were found."""
        known = {column.name: tuple(values[column.name]) for column in self.open}
        return replace(self, discovered_values=known, cuts=dict(cuts))

    def columns(
        self, codes: Sequence[NDArray[np.integer]], entropy: Entropy
    ) -> dict[str, pa.Array]:
        """The values of the measured columns, drawn even_starts within each bin."""
        drawn = {axis.column: axis_codes for axis, axis_codes in zip(self.axes, codes, strict=True)}
        values = {}
        for axis in self.axes:
            week = self._weekdays.get(axis.column)
            if week is not None and isinstance(axis, Bins):
                both = drawn[axis.column], drawn[week.column]
                values[axis.column] = week.spread(axis, *both, entropy)
            elif not isinstance(axis, Weekdays):
                values[axis.column] = self.values(axis, drawn[axis.column], entropy)
        return values

    @staticmethod
    def values(axis: Axis, codes: NDArray[np.integer], entropy: Entropy) -> pa.Array:
        """The values of one axis's codes, drawn even_starts within each bin; NaN is missing."""
        return nan_as_missing(
            axis.spread(codes, entropy) if isinstance(axis, Bins) else axis.decode(codes)
        )

    def table(
        self,
        measured: Mapping[str, pa.ChunkedArray],
        first: int,
        rows: int,
        linked: Mapping[str, pa.Array] | None = None,
    ) -> pa.Table:
        """All columns in the input's order, types and spelling; identifiers from number `first`.

        Those that are `linked` to rows of another table are as they are there.
        """
        known = dict(linked or {})
        made_up = {column.name: running_identifiers(column, first, rows) for column in self.invented
                   if column.name not in known}  # fmt: skip
        arrays = {**measured, **made_up, **known}
        types = pa.schema([(column.name, STORED[column.kind]) for column in self.output_columns])
        spelled = {
            column.name: column.spelling
            for column in self.output_columns
            if column.spelling is not None
        }
        table = pa.Table.from_arrays(
            [arrays[column.name] for column in self.output_columns], schema=types
        )
        return table.cast(marked(types, spelled))

    def _check_cut(self, name: str) -> None:
        """Refuse quantiles of what has none, or needs none, and ends that are none."""
        column, grid = self.schema.column(name), None
        if column in self.measured and not isinstance(column.public_domain, Values):
            grid = None if column.kind is Kind.BOOLEAN else self._grid(column)
        if grid is None or grid.points <= self.most_bins:
            finer = [
                measured_column.name
                for measured_column in self.measured
                if self._is_fine(measured_column)
            ]
            raise ParameterError(
                "option_not_applicable",
                f"Column {quoted(name)} cannot be cut at quantiles: they are for numbers and dates "
                f"within bounds of more than {self.most_bins} points; {suggestion(name, finer)}",
            )
        starts = self.cuts.get(name)
        if starts is not None and not (
            starts[0] == 0 and starts[-1] < grid.points and [*starts] == sorted({*starts})
        ):
            raise ParameterError(
                "parameter_type_wrong",
                f"Bins of {quoted(name)} must begin in order.",
                parameter="bins",
            )

    def _is_fine(self, column: Column) -> bool:
        bounded = isinstance(column.public_domain, Bounds)
        return bounded and self._grid(column).points > self.most_bins

    @property
    def searched(self) -> tuple[Grid, ...]:
        """The grids of columns whose bins are to follow atoms and rows.

        A day of the week is drawn beside a bin, which must have such a day.
        """
        names = [column.name for column in self.measured if self._is_fine(column)]
        others = {*self.by_quantiles, *self.weekdays}
        grids = (self._grid(self.schema.column(name)) for name in names if name not in others)
        return tuple(grid for grid in grids if grid.points <= MAX_CELLS)

    @property
    def _grids(self) -> tuple[Grid, ...]:
        return tuple(self._grid(self.schema.column(name)) for name in self.by_quantiles)

    def _axis(self, column: Column) -> Axis:
        if not isinstance(column.public_domain, Bounds):
            return declared(column)
        return self._binned(self._grid(column), column)

    def _grid(self, column: Column) -> Grid:
        axis = declared(on_grid(column))
        assert isinstance(axis, Grid)
        return axis

    def _binned(self, grid: Grid, column: Column) -> Axis:
        cuts = starts(grid, column.hierarchy, self.most_bins)
        if cuts is None:
            return grid
        if column.name in self.by_quantiles:
            cuts = even_starts(grid.points)
        cuts = self.cuts.get(column.name) or cuts
        return Bins(grid.column, grid.kind, grid.bounds, grid.nullable, cuts)

    def to_record(self) -> dict[str, Any]:
        """The plan as JSON-able data, of what is public or paid for alone."""
        cuts = {name: [*at] for name, at in self.cuts.items() if name not in self.by_quantiles}
        return {
            "without": list(self.without),
            "most_bins": self.most_bins,
            "found": {name: list(values) for name, values in self.discovered_values.items()},
            "columns": {one.name: self._described(one) for one in self.output_columns},
            "quantiles": {name: list(self.cuts.get(name, ())) for name in self.by_quantiles},
            **({"cuts": cuts} if cuts else {}),
            **({"weekdays": list(self.weekdays)} if self.weekdays else {}),
        }

    @classmethod
    def from_record(cls, schema: Schema, record: Mapping[str, Any]) -> Encoding:
        """Read what `to_record` wrote, for a schema that declares the same."""
        values = {name: tuple(texts) for name, texts in record["found"].items()}
        quantiles = tuple(record["quantiles"])
        cuts = {name: tuple(starts) for kind in ("quantiles", "cuts")
                for name, starts in record.get(kind, {}).items() if starts}  # fmt: skip
        week = tuple(record.get("weekdays", ()))
        without, most = tuple(record["without"]), record["most_bins"]
        read = cls(schema, without, most, values, quantiles, cuts, week)
        if read.to_record() != record:
            raise SourceError(
                "schema_differs",
                f"Table {quoted(schema.table)} was synthesized with other columns, values or "
                "bounds than its schema declares now. Give the schema of that time.",
            )
        return read

    def _described(self, column: Column) -> dict[str, Any]:
        if column in self.invented:
            return {"as": "identifiers"}
        if column in self.open:
            return {"as": "discovered values"}
        axis = self._fixed[column.name]
        described = {"as": "values", "size": axis.size, "nullable": column.nullable}
        if isinstance(axis, Grid):
            bounds = axis.bounds
            facts = {"low": bounds.low, "high": bounds.high, "step": bounds.grid_step}
            ends = {name: _exactly(fact) for name, fact in facts.items()}
            cuts = {"as": "bins", "starts": list(axis.starts)} if isinstance(axis, Bins) else {}
            return {**described, "as": "points", **ends, **cuts}
        values = [None if value is None else str(value) for value in axis.values.to_pylist()]
        return {**described, "values": values}


def nan_as_missing(values: pa.Array) -> pa.Array:
    """The values as rows have them, where NaN would take every mean with it."""
    if not pa.types.is_floating(values.type):
        return values
    # Noise would put NaN into tables that never had any.
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def _keys_delta(columns: Sequence[Column], price: Price) -> Fraction:
    """The part of delta that pays for the keys of columns, which they need."""
    names = ", ".join(quoted(column.name) for column in columns)
    if not price.delta:
        raise ParameterError(
            "parameter_missing",
            f"The values of {names} are not declared, so they have to be discovered, which needs a "
            f"delta. Give {option('delta', 1e-7)}, say, which is a part of the budget's delta, or "
            "add under the column in its schema: values = [...]",
            parameter="delta",
        )
    # A rho needs no delta of its own; an epsilon needs one half to become a rho.
    return price.delta if price.rho is not None else price.delta / 2


def _exactly(fact: object) -> str:
    """A bound or step, the same text however its decimals were written."""
    return str(Fraction(fact) if isinstance(fact, Decimal) else fact)
