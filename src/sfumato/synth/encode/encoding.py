"""What becomes of every column of a table that is synthesized: a plan from its schema alone.

A column is an axis to be measured, a text whose values are discovered first, an identifier that is
made up, or left out by name. Codes that were drawn become rows of the input's columns, in its
order, with its types and missing values.

Decision 0268.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato import given
from sfumato.counting.axes import Grid, declared
from sfumato.engines.files.spelled import marked
from sfumato.engines.kinds import STORED
from sfumato.errors import ParameterError, SourceError
from sfumato.mechanisms.spending import spendings
from sfumato.privacy.price import Price
from sfumato.schema.column import Kind, Role
from sfumato.schema.constraints import DeclaredRows
from sfumato.schema.domain import Bounds
from sfumato.schema.names import quoted
from sfumato.synth.encode.bins import Bins
from sfumato.synth.encode.cuts import starts
from sfumato.synth.encode.fakes import can_be_faked, fakes
from sfumato.synth.encode.opened import Discovered, KeyDiscovery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sfumato.counting.axes import Axis
    from sfumato.noise.entropy import Entropy
    from sfumato.schema.column import Column
    from sfumato.schema.schema import Schema

MOST_BINS = 64
"""Up to so many points of a grid are counted one by one, and into so many bins more are put."""

_PART, _MOST_PARTS = Fraction(1, 20), Fraction(1, 4)
"""The share of the charge that the discovery of one column takes, and that of all at most."""


@dataclass(frozen=True)
class Encoding:
    """Which columns are measured, discovered, made up and left out."""

    schema: Schema
    without: tuple[str, ...] = ()
    """Columns that are left out, by name."""
    most_bins: int = MOST_BINS
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values that were discovered, once they were."""

    def __post_init__(self) -> None:
        for name in self.without:
            self.schema.column(name)
        if type(self.most_bins) is not int or self.most_bins < 2:
            raise ParameterError(
                "type_wrong",
                f"most_bins must be a whole number from 2, not {given.shown(self.most_bins)}.",
            )
        if not (self.measured or self.open):
            raise ParameterError(
                "columns_none_left",
                f"Table {quoted(self.schema.table)} has no column left to synthesize. Leave out "
                "fewer columns.",
            )
        _ = self._fixed  # what cannot be measured is refused at once

    @cached_property
    def kept(self) -> tuple[Column, ...]:
        """The columns of the rows that will be drawn, in the table's order."""
        return tuple(one for one in self.schema.columns if one.name not in self.without)

    @cached_property
    def invented(self) -> tuple[Column, ...]:
        """The columns of identifiers, the person's among them, which are made up."""
        person = self.schema.unit.column
        return tuple(
            one
            for one in self.kept
            if (one.role is Role.IDENTIFIER or one.name == person) and can_be_faked(one)
        )

    @cached_property
    def open(self) -> tuple[Column, ...]:
        """The columns of texts whose values have to be discovered."""
        return tuple(
            one
            for one in self.kept
            if one.kind is Kind.TEXT and one.public_domain is None and one not in self.invented
        )

    @cached_property
    def measured(self) -> tuple[Column, ...]:
        """The columns whose values are declared."""
        return tuple(one for one in self.kept if one not in (*self.invented, *self.open))

    @cached_property
    def _fixed(self) -> dict[str, Axis]:
        return {one.name: self._axis(one) for one in self.measured}

    @property
    def declared_axes(self) -> tuple[Axis, ...]:
        """The axes of the columns whose values are declared."""
        return tuple(self._fixed.values())

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The axes to be measured, in the table's order; open columns need `discovered` before."""
        axes: list[Axis] = []
        for column in self.kept:
            if column in self.open:
                axes.append(Discovered.of(column, self.found[column.name]))
            elif column.name in self._fixed:
                axes.append(self._fixed[column.name])
        return tuple(axes)

    @property
    def rows(self) -> int | None:
        """How many rows the schema declares, if it does."""
        declared_rows = (one for one in self.schema.constraints if isinstance(one, DeclaredRows))
        return next((one.rows for one in declared_rows), None)

    @property
    def share(self) -> Fraction:
        """The share of the charge that discovery takes: nothing where all values are declared."""
        return min(len(self.open) * _PART, _MOST_PARTS)

    def paid(self, price: Price) -> tuple[KeyDiscovery | None, Price]:
        """What is discovered for a part of the price, and the price left for all else."""
        if not self.open:
            return None, price
        names = ", ".join(quoted(column.name) for column in self.open)
        if not price.delta:
            raise ParameterError(
                "delta_missing",
                f"The values of {names} are not declared, so they have to be discovered, which "
                "needs a delta. Give --delta 1e-7, say, which is a part of the budget's delta, or "
                "add under the column in its schema: values = [...]",
            )
        # A rho needs no delta of its own; an epsilon needs one half to become a rho.
        keys = price.delta if price.rho is not None else price.delta / 2
        whole = spendings(price, conversion=keys)[-1]
        part, rest = whole.scaled(self.share), whole.scaled(1 - self.share)
        discovery = KeyDiscovery(self.open, self.schema.unit, part, keys)
        return discovery, Price(epsilon=rest.epsilon, rho=rest.rho)

    def discovered(self, found: Mapping[str, Sequence[str]]) -> Encoding:
        """The same plan with the values that were discovered."""
        known = {column.name: tuple(found[column.name]) for column in self.open}
        return Encoding(self.schema, self.without, self.most_bins, known)

    def columns(
        self, codes: Sequence[NDArray[np.integer]], entropy: Entropy
    ) -> dict[str, pa.Array]:
        """The values of the measured columns, drawn evenly within each bin."""
        drawn = zip(self.axes, codes, strict=True)
        return {axis.column: self.values(axis, column, entropy) for axis, column in drawn}

    @staticmethod
    def values(axis: Axis, codes: NDArray[np.integer], entropy: Entropy) -> pa.Array:
        """The values of one axis's codes, drawn evenly within each bin."""
        return axis.spread(codes, entropy) if isinstance(axis, Bins) else axis.decode(codes)

    def table(self, measured: Mapping[str, pa.ChunkedArray], first: int, rows: int) -> pa.Table:
        """All columns in the input's order, types and spelling; identifiers from number `first`."""
        made_up = {one.name: fakes(one, first, rows) for one in self.invented}
        arrays = {**measured, **made_up}
        types = pa.schema([(one.name, STORED[one.kind]) for one in self.kept])
        spelled = {one.name: one.spelling for one in self.kept if one.spelling is not None}
        table = pa.Table.from_arrays([arrays[one.name] for one in self.kept], schema=types)
        return table.cast(marked(types, spelled))

    def _axis(self, column: Column) -> Axis:
        domain = column.public_domain
        if column.kind is Kind.REAL and isinstance(domain, Bounds) and domain.stepped() is None:
            return self._unstepped(column, domain)
        axis = declared(column)
        return self._binned(axis, column) if isinstance(axis, Grid) else axis

    def _unstepped(self, column: Column, domain: Bounds) -> Axis:
        """Reals that no round step divides, and a single one: a grid of their last digit."""
        low, high = Decimal(domain.low), Decimal(domain.high)  # type: ignore[arg-type]
        digits = min(int(end.normalize().as_tuple().exponent) for end in (low, high))
        stepped = Bounds(low, high, Decimal(1).scaleb(min(digits, 0)))
        axis = declared(replace(column, domain=stepped, spelling=None))
        assert isinstance(axis, Grid)
        return self._binned(axis, column)

    def _binned(self, grid: Grid, column: Column) -> Axis:
        cuts = starts(grid, column.hierarchy, self.most_bins)
        if cuts is None:
            return grid
        return Bins(grid.column, grid.kind, grid.bounds, grid.nullable, cuts)

    def to_record(self) -> dict[str, Any]:
        """The plan as JSON-able data, of what is public or paid for alone."""
        return {
            "without": list(self.without),
            "most_bins": self.most_bins,
            "found": {name: list(values) for name, values in self.found.items()},
            "columns": {one.name: self._described(one) for one in self.kept},
        }

    @classmethod
    def from_record(cls, schema: Schema, record: Mapping[str, Any]) -> Encoding:
        """Read what `to_record` wrote, for a schema that declares the same."""
        found = {name: tuple(values) for name, values in record["found"].items()}
        read = cls(schema, tuple(record["without"]), record["most_bins"], found)
        if read.to_record() != record:
            raise SourceError(
                "encoding_changed",
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
            ends = {
                name: _plain(end, column.kind)
                for name, end in (
                    ("low", bounds.low),
                    ("high", bounds.high),
                    ("step", bounds.grid_step),
                )
            }
            cuts = {"as": "bins", "starts": list(axis.starts)} if isinstance(axis, Bins) else {}
            return {**described, "as": "points", **ends, **cuts}
        values = [None if one is None else str(one) for one in axis.values.to_pylist()]
        return {**described, "values": values}


def _plain(end: object, kind: Kind) -> str:
    """An end of bounds in one form, however it was written: 0 and 0.0 are the same."""
    return f"{Decimal(str(end)).normalize():f}" if kind is Kind.REAL else str(end)
