"""Codes that were drawn as rows of the table's own columns, which keep its constraints."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.counting.axes import Grid
from sfumato.data.schema.constraints import (
    FunctionalDependency,
    ImpossibleCombination,
    OrderedColumns,
    UniqueKey,
    describe,
)
from sfumato.methods.synth.encode.constraints import (
    Determined,
    InOrder,
    NeverTogether,
    repeats,
    take_values,
)
from sfumato.methods.synth.encode.identifiers import free_keys, room
from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.data.schema.constraints import Constraint
    from sfumato.methods.synth.encode.constraints import Broken, Codes, Repair
    from sfumato.methods.synth.encode.encoding import Encoding
    from sfumato.privacy.noise.entropy import Entropy

_ROUNDS = 4
"""How often all repairs are made: one may undo another."""

_TRIES = 16
"""How often a key that is there already is drawn anew."""


class RowDecoder:
    """Makes tables of codes, one chunk after another; what it settled holds for all of them.

    `changed` says for how many rows each constraint made a value another one, `replaced` how many
    rows were made copies of rows that keep all constraints, and `left_out` how many were given up.
    Columns that are `given` have one value, whose code is theirs, unless a repair takes another.
    """

    def __init__(
        self,
        encoding: Encoding,
        entropy: Entropy,
        given: Mapping[str, object] = MappingProxyType({}),
        linked: Sequence[str] = (),
    ) -> None:
        self._encoding, self._entropy, self._given = encoding, entropy, given
        self._made = 0
        self._repeating = set(linked)
        """Identifiers that are those of rows of another table, which several rows may share."""
        self._linked: Mapping[str, pa.Array] | None = None
        self.kept_rows = np.zeros(0, dtype=bool)
        measured = {axis.column for axis in encoding.axes}
        self._repairs: list[tuple[str, Repair]] = []
        self._keys: list[tuple[str, tuple[str, ...]]] = []
        self._seen: dict[tuple[str, ...], pa.Table] = {}
        for constraint in encoding.schema.constraints:
            self._enlist(constraint, measured)
        self.changed = {name: 0 for name, _ in (*self._repairs, *self._keys)}
        self.replaced = 0
        self.left_out = 0

    def _enlist(self, declared: Constraint, measured: set[str]) -> None:
        # A key may have columns that are made up.
        key = isinstance(declared, UniqueKey) and not self._lacks(declared.columns)
        match declared if key else declared.among(measured):
            case ImpossibleCombination() as constraint:
                self._repairs.append((describe(constraint), NeverTogether(constraint)))
            case OrderedColumns() as constraint:
                self._repairs.append((describe(constraint), InOrder(constraint)))
            case FunctionalDependency() as constraint:
                self._repairs.insert(0, (describe(constraint), Determined(constraint)))
            case UniqueKey(columns=columns) as constraint if not self._always_new(columns):
                self._keys.append((describe(constraint), columns))
            case _:
                pass

    def _lacks(self, columns: Sequence[str]) -> bool:
        return any(name in self._encoding.without for name in columns)

    def _always_new(self, columns: Sequence[str]) -> bool:
        """Whether a column of a key never has the same identifier twice."""
        new = {column.name for column in self._encoding.invented if room(column) is None}
        return not (new - self._repeating).isdisjoint(columns)

    def rows(
        self,
        codes: Sequence[NDArray[np.integer]],
        linked: Mapping[str, pa.Array] | None = None,
    ) -> pa.Table:
        """The rows of these codes: one array for each axis, one code for each row.

        Identifiers that are `linked` to rows of another table are given. `kept` tells which rows
        were not left out.
        """
        self._linked = linked
        drawn = self._encoding.columns(codes, self._entropy)
        for name, value in self._given.items():  # each point of its bin is as likely
            drawn[name] = pa.repeat(pa.scalar(value, drawn[name].type), len(drawn[name]))
        table = self._repaired(pa.table(drawn), codes)
        for name, columns in self._keys:
            table = self._different(table, name, columns)
        if self._keys:
            table = self._mended(table, {})  # another key may have broken what was whole
        complete = self._complete(table)
        broken = self._broken(table)
        for _, columns in self._keys:
            broken |= self._repeated(complete, columns)
        self.left_out += int(broken.sum())
        self.kept_rows = ~broken
        complete = complete.filter(pa.array(self.kept_rows))
        for _, columns in self._keys:
            self._seen[columns] = self._with_earlier(complete, columns)
        self._made += table.num_rows
        return complete

    def _complete(self, table: pa.Table) -> pa.Table:
        measured = dict(zip(table.column_names, table.columns, strict=True))
        return self._encoding.table(measured, self._made, table.num_rows, self._linked)

    def _broken(self, table: pa.Table) -> Broken:
        broken = np.zeros(table.num_rows, dtype=bool)
        for _, repair in self._repairs:
            broken |= repair.broken(table)
        return broken

    def _repaired(self, table: pa.Table, codes: Sequence[NDArray[np.integer]]) -> pa.Table:
        """The table with repairs, and copies of rows without fault where these did not help."""
        names = (axis.column for axis in self._encoding.axes)
        table = self._mended(table, dict(zip(names, codes, strict=True)))
        broken = self._broken(table)
        rows, donors = np.flatnonzero(broken), np.flatnonzero(~broken)
        if len(donors):
            source = np.arange(table.num_rows)
            source[rows] = donors[uniform_integers(len(donors), len(rows), self._entropy)]
            self.replaced += len(rows)
            table = take_values(table, table.column_names, source)
        return table

    def _mended(self, table: pa.Table, bins: Codes) -> pa.Table:
        """The table with repairs, as far as they go."""
        for _ in range(_ROUNDS):
            for name, repair in self._repairs:
                before = table
                table = repair.repaired(table, bins, self._entropy)
                self.changed[name] += _differing(before, table)
            if not self._broken(table).any():
                break
            bins = {}  # what was repaired may be in another bin now
        return table

    def _different(self, table: pa.Table, name: str, columns: tuple[str, ...]) -> pa.Table:
        """The table with the last measured column of a key drawn anew where the key repeats."""
        axis = next(
            (
                candidate
                for candidate in reversed(self._encoding.axes)
                if candidate.column in columns
            ),
            None,
        )
        for _ in range(_TRIES if axis is not None else 0):
            assert axis is not None
            rows = np.flatnonzero(self._repeated(self._complete(table), columns))
            if not len(rows):
                break
            present = axis.points if isinstance(axis, Grid) else axis.size - axis.values.null_count
            codes = uniform_integers(present, len(rows), self._entropy)
            fresh = self._encoding.values(axis, codes, self._entropy)
            source = np.arange(table.num_rows)
            source[rows] = table.num_rows + np.arange(len(rows))
            held = pa.chunked_array([*table.column(axis.column).chunks, fresh])
            position = table.column_names.index(axis.column)
            table = table.set_column(position, axis.column, held.take(pa.array(source)))
            self.changed[name] += len(rows)
        return self._with_free_keys(table, columns)

    def _with_free_keys(self, table: pa.Table, columns: tuple[str, ...]) -> pa.Table:
        """The table with any key that is free where the key repeats still."""
        complete = self._complete(table)
        rows = np.flatnonzero(self._repeated(complete, columns))
        taken_keys = self._with_earlier(complete, columns)
        if not len(rows):
            return table
        free = free_keys(self._encoding, columns, taken_keys, len(rows), self._entropy)
        if free is None:
            return table
        source = np.arange(table.num_rows)
        source[rows[: free.num_rows]] = table.num_rows + np.arange(free.num_rows)
        for name in columns:
            held = pa.chunked_array([*table.column(name).chunks, *free.column(name).chunks])
            position = table.column_names.index(name)
            table = table.set_column(position, name, held.take(pa.array(source)))
        return table

    def _repeated(self, complete: pa.Table, columns: tuple[str, ...]) -> Broken:
        earlier = self._with_earlier(complete, columns)
        return repeats(earlier, columns)[earlier.num_rows - complete.num_rows :]

    def _with_earlier(self, complete: pa.Table, columns: tuple[str, ...]) -> pa.Table:
        keys = complete.select(columns)
        return pa.concat_tables([self._seen[columns], keys]) if columns in self._seen else keys


def lost_constraints(encoding: Encoding) -> list[str]:
    """What cannot be kept of constraints, in a sentence or none: columns of them are not drawn."""
    table, drawn = {column.name for column in encoding.output_columns}, {*encoding.names}
    lost = []
    for constraint in encoding.schema.constraints:
        present = table.intersection(constraint.columns)
        is_kept = (
            table.issuperset(constraint.columns)
            if isinstance(constraint, UniqueKey)
            else present <= drawn
        )
        if present and (not is_kept or constraint.among(present) is None):
            lost.append(describe(constraint))
    sentence = f"Not kept, as columns of it are left out or made up: {'; '.join(lost)}."
    return [sentence] if lost else []


def _differing(before: pa.Table, after: pa.Table) -> int:
    """How many rows have another value anywhere."""
    differ = np.zeros(before.num_rows, dtype=bool)
    for old, new in zip(before.columns, after.columns, strict=True):
        if old is not new:
            equal = pc.equal(old, new).fill_null(False)
            both_missing = pc.and_(
                pc.is_null(old, nan_is_null=True), pc.is_null(new, nan_is_null=True)
            )
            differ |= ~np.asarray(pc.or_(equal, both_missing), dtype=bool)
    return int(differ.sum())
