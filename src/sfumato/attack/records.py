"""Tables as rows of integer codes, and the nearest rows by Gower's distance.

Engines count the combinations. A value has the same code in every table, and codes of numbers and
dates keep their order. The distance of two rows adds up over columns: 1 where values differ, and
for numbers their difference as a share of the range. Two missing values do not differ; a missing
value differs from every other.

*Reference*: Gower 1971; Giomi, Boenisch, Wehmeyer and Tasnadi 2023 for its use in attacks.
Decision `matching`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.case import cannot_run
from sfumato.attack.classes import boxes_of
from sfumato.attack.sampling import subset
from sfumato.data.counting.grouping import keys, ragged
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.names import quoted
from sfumato.errors import CallerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.case import HeldTable
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.errors import ParameterError


_ORDERED = (Kind.INTEGER, Kind.REAL, Kind.DATE)


_BLOCK = 1 << 21
"""Pairs of rows compared at once: their distances take 16 megabytes."""


_ALIKE = 1e-9
"""Distances that differ by less are equal: the rest is rounding."""


@dataclass(frozen=True, eq=False)
class Trait:
    """A column that several tables have, and the values of its codes."""

    name: str
    values: pa.Array
    """The value of each code, sorted; a missing value comes last."""
    numbers: FloatArray | None
    """The values as numbers, with dates as days; None for other kinds."""

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.values)

    @property
    def missing(self) -> int:
        """The code of a missing value; without missing values, a code that no row has."""
        return self.size - 1 if self.values.null_count else self.size

    @cached_property
    def scaled(self) -> FloatArray | None:
        """Numbers as shares of their range; a missing one differs from all others by 1 or more."""
        if self.numbers is None:
            return None
        known = self.numbers[: self.missing]
        spread = float(known[-1] - known[0]) if len(known) else 0.0
        scaled = (self.numbers - (known[0] if len(known) else 0.0)) / (spread or 1.0)
        # Two ranges away from the smallest number. Distances are cut at 1, and two missing values
        # differ by 0.
        scaled[self.missing :] = -2.0
        return scaled


@dataclass(frozen=True, eq=False)
class CodedRows:
    """The distinct rows of a table by their codes, and how often each of them occurs."""

    codes: IntArray
    """An array of traits x rows."""
    counts: IntArray

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def rows(self) -> int:
        """The number of rows of the table."""
        return int(self.counts.sum())

    def drawn(self, most: int, number: int) -> IntArray:
        """Return the indices of `most` rows, drawn pseudorandomly without replacement."""
        owners = np.repeat(np.arange(len(self)), self.counts)
        return owners[subset(len(owners), most, number)]


def records(
    attack: str, columns: Sequence[Column], tables: Sequence[HeldTable]
) -> tuple[list[Trait], list[CodedRows]]:
    """Code some columns of tables, of which the first is the release; refuse labels in it."""
    names = [column.name for column in columns]
    counted = [table.counted(names) for table in tables]
    for column in columns:
        if column.role is Role.QUASI and column.kind is Kind.TEXT and _has_labels(column, counted):
            raise _labels(attack, column)
    return people_records(attack, columns, tables)


def people_records(
    attack: str, columns: Sequence[Column], tables: Sequence[HeldTable]
) -> tuple[list[Trait], list[CodedRows]]:
    """Code some columns of tables of people, none of which is a release."""
    counted = [table.counted([column.name for column in columns]) for table in tables]
    traits, coded = [], []
    for axis, column in enumerate(columns):
        values = [table.axes[axis].decode(np.arange(table.axes[axis].size)) for table in counted]
        trait, codes = _number_values(attack, column, values)
        traits.append(trait)
        coded.append([own[table.codes[axis]] for own, table in zip(codes, counted, strict=True)])
    return traits, [
        CodedRows(np.stack([codes[number] for codes in coded]), table.counts)
        for number, table in enumerate(counted)
    ]


def _has_labels(column: Column, counted: Sequence[Frequencies]) -> bool:
    """Return whether a text of the release covers several values, so that it equals nobody's."""
    released, *people = (table.marginal([column.name]) for table in counted)
    try:
        (labels,) = boxes_of(released, [column], people).columns
    except CallerError:  # texts that the schema does not know are no labels
        return False
    return bool((labels.covers.leaves > 1).any())


def _labels(attack: str, column: Column) -> ParameterError:
    return cannot_run(
        attack,
        f"column {quoted(column.name)} of the release has labels such as ranges, not values. It is "
        "an attack on synthetic tables; see link and predict.",
    )


def _number_values(
    attack: str, column: Column, tables: Sequence[pa.Array]
) -> tuple[Trait, list[IntArray]]:
    """Number the values of several tables together."""
    plain = [plain_values(attack, column, values) for values in tables]
    every = pa.concat_arrays(plain)
    known = pc.drop_null(every).unique()
    known = known.take(pc.sort_indices(known))
    if every.null_count:
        known = pa.concat_arrays([known, pa.nulls(1, known.type)])
    codes = pc.index_in(every, value_set=known).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum([len(array) for array in plain])[:-1]
    numbers = None
    if column.kind in _ORDERED:
        numbers = known.to_numpy(zero_copy_only=False).astype(np.float64)
    if column.kind is Kind.INTEGER:
        known = known.cast(pa.int64(), safe=False)
    elif column.kind is Kind.DATE:
        known = known.cast(pa.int32()).cast(pa.date32())
    return Trait(column.name, known, numbers), np.split(codes, ends)


def plain_values(attack: str, column: Column, values: pa.Array) -> pa.Array:
    """Cast values to one type for each kind: numbers and days as floats, all else as text."""
    if column.kind is Kind.BOOLEAN and pa.types.is_string(values.type):
        values = pc.utf8_lower(values)
    if column.kind not in _ORDERED:
        return values.cast(pa.string())
    try:
        if column.kind is Kind.DATE:
            return values.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
        numbers = values.cast(pa.float64())
    except pa.ArrowException:
        raise _labels(attack, column) from None
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Pairs of a person and a nearest row of a crowd, and the distance of each person."""

    people: IntArray
    crowd: IntArray
    least: FloatArray


@dataclass(frozen=True, eq=False)
class Crowd:
    """The distinct rows of a table by some traits."""

    traits: tuple[Trait, ...]
    codes: IntArray
    owners: IntArray
    """For each row of the table its index among the distinct rows."""

    @classmethod
    def of(cls, traits: Sequence[Trait], axes: Sequence[int], rows: CodedRows) -> Crowd:
        """Reduce the rows of a table to some traits, given by their indices."""
        chosen = [traits[axis] for axis in axes]
        codes = rows.codes[list(axes)]
        key, _ = keys(list(codes), [trait.size for trait in chosen])
        _, first, owners = np.unique(key, return_index=True, return_inverse=True)
        return cls(tuple(chosen), codes[:, first], owners)

    def __len__(self) -> int:
        return len(self.codes[0])

    def nearest(self, people: IntArray) -> Nearest:
        """Return the nearest rows of the crowd for each person, given by their codes.

        A row that differs in n columns without order is at least n away. So rows that agree in all
        of these columns are compared first, then rows that agree in all but one, both found by a
        join. All pairs are compared only for the people who are left.
        """
        unsettled, least = np.arange(people.shape[1]), np.full(people.shape[1], np.inf)
        pair_blocks: list[tuple[IntArray, IntArray]] = []
        plain = [number for number, trait in enumerate(self.traits) if trait.numbers is None]
        alike = [
            [plain],
            [[kept_axis for kept_axis in plain if kept_axis != axis] for axis in plain],
        ]
        for level, joins in enumerate(alike, start=1):
            pairs_found = self._agreeing(people[:, unsettled], joins)
            if pairs_found is None:
                break
            mine, theirs = pairs_found
            apart = self._apart(people[:, unsettled[mine]], theirs)
            low = np.full(len(unsettled), np.inf)
            np.minimum.at(low, mine, apart)
            # A pair that differs in `level` or more columns without order is at least that far
            # apart.
            settled = low < level - _ALIKE
            is_nearest = settled[mine] & (apart <= low[mine] + _ALIKE)
            pair_blocks.append((unsettled[mine[is_nearest]], theirs[is_nearest]))
            least[unsettled[settled]] = low[settled]
            unsettled = unsettled[~settled]
        size = max(_BLOCK // max(len(self), 1), 1)
        for start in range(0, len(unsettled), size):
            block = unsettled[start : start + size]
            far = self.distances(people[:, block])
            least[block] = far.min(axis=1)
            mine, theirs = np.nonzero(far <= least[block][:, None] + _ALIKE)
            pair_blocks.append((block[mine], theirs))
        mine, theirs = (
            np.concatenate([pair_block[side] for pair_block in pair_blocks]) for side in (0, 1)
        )
        # Joins of different columns find the same pair more than once.
        pairs = np.unique(mine * len(self) + theirs)
        return Nearest(*np.divmod(pairs, max(len(self), 1)), least)

    def rows(self, near: Nearest) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield pairs of a person and a nearest row of the table, in portions."""
        row_counts = np.bincount(self.owners, minlength=len(self))
        order, starts = np.argsort(self.owners, kind="stable"), np.cumsum(row_counts) - row_counts
        rows_per_pair = row_counts[near.crowd]
        ends = np.cumsum(rows_per_pair)
        start = 0
        while start < len(rows_per_pair):
            finished = ends[start - 1] if start else 0
            end = max(int(np.searchsorted(ends, finished + _BLOCK, side="right")), start + 1)
            block = slice(start, end)
            positions = ragged(starts[near.crowd[block]], rows_per_pair[block])
            yield np.repeat(near.people[block], rows_per_pair[block]), order[positions]
            start = end

    def distances(self, people: IntArray) -> FloatArray:
        """Return the distance of each person from each row of the crowd."""
        apart = np.zeros((people.shape[1], len(self)))
        for trait, mine, theirs in zip(self.traits, people, self.codes, strict=True):
            apart += _column_apart(trait, mine[:, None], theirs)
        return apart

    def _apart(self, people: IntArray, crowd: IntArray) -> FloatArray:
        """Return the distance of each person from one given row of the crowd."""
        apart = np.zeros(len(crowd))
        for trait, mine, theirs in zip(self.traits, people, self.codes, strict=True):
            apart += _column_apart(trait, mine, theirs[crowd])
        return apart

    def _agreeing(
        self, people: IntArray, joins: Sequence[Sequence[int]]
    ) -> tuple[IntArray, IntArray] | None:
        """Return pairs that agree in any of the sets of columns; None if there are too many.

        A quarter of all pairs is too many: comparing all of them is then as fast.
        """
        pair_blocks, most = [], people.shape[1] * len(self) // 4
        for join in joins:
            if not join:
                return None
            both = np.concatenate([people, self.codes], axis=1)[list(join)]
            key, _ = keys(list(both), [self.traits[axis].size for axis in join])
            mine, theirs = np.split(key, [people.shape[1]])
            order = np.argsort(theirs, kind="stable")
            ranked = theirs[order]
            first = np.searchsorted(ranked, mine, side="left")
            match_counts = np.searchsorted(ranked, mine, side="right") - first
            most -= int(match_counts.sum())
            if most < 0:
                return None
            pair_blocks.append(
                (np.repeat(np.arange(len(mine)), match_counts), order[ragged(first, match_counts)])
            )
        if not pair_blocks:
            return None
        return np.concatenate([mine_block for mine_block, _ in pair_blocks]), np.concatenate(
            [second for _, second in pair_blocks]
        )


def _column_apart(trait: Trait, mine: IntArray, theirs: IntArray) -> Any:
    scaled = trait.scaled
    if scaled is None:
        return mine != theirs
    return np.minimum(np.abs(scaled[mine] - scaled[theirs]), 1.0)


def texts(names: Sequence[str]) -> list[Column]:
    """Return columns whose values are compared as text."""
    return [Column(name, Kind.TEXT) for name in names]


def minutes(attack: str, name: str, values: pa.Array) -> FloatArray:
    """Return times in minutes since 1970, from dates, ISO 8601 moments, or seconds."""
    try:
        if (
            pa.types.is_integer(values.type)
            or pa.types.is_floating(values.type)
            or (pa.types.is_string(values.type) and _numeric(values))
        ):
            seconds = values.cast(pa.float64())
        else:
            seconds = values.cast(pa.timestamp("s")).cast(pa.int64()).cast(pa.float64())
    except pa.ArrowInvalid:
        raise cannot_run(
            attack,
            f"column {quoted(name)} holds no times. Write moments like 2013-07-01T09:30:00, dates, "
            "or seconds.",
        ) from None
    times: FloatArray = seconds.to_numpy(zero_copy_only=False) / 60
    return times


def _numeric(values: pa.Array) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, r"^-?\d+(\.\d+)?$")).as_py())
