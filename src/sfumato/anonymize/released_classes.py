"""The classes of a release, counted from counts in memory or in the engine.

A salted hash shows whether everyone in a class shares a sensitive value. Engines compare hashes
faster than texts: Spark sorts all rows to find the least text of each group.

Decisions `what-travels` and `writing-releases`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.counting.frequencies import DIFFERENT
from sfumato.data.counting.grouping import keys, runs
from sfumato.data.engines.base import column
from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy import ROOT
from sfumato.data.schema.names import count
from sfumato.errors import CriterionError, option
from sfumato.release.recoding import ByColumn, ByRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts
    from sfumato.arrays import BoolArray
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.release.recoding import Recoding

_ROWS, _BLANK = "sf_class_rows", "sf_class_blank"
_OF_VALUES = ("low", "high")
# Hashes are not negative, so missing values equal each other and nothing else.
_MISSING = -1


@dataclass(frozen=True, eq=False)
class ReleasedClasses:
    """The classes of a release: rows with equal quasi-identifiers.

    `table` has a row for each class: its labels, its number of rows, for each `sensitive` column
    whether all share its value, and how many of them are blank.
    """

    table: pa.Table
    labelled: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()

    def sizes(self) -> Counts:
        """Return how many rows each class has."""
        sizes: Counts = self.table[_ROWS].to_numpy()
        return sizes

    def labels(self, name: str) -> dict[str | None, int]:
        """Return the labels of a column, with the rows of each."""
        key = _label(self.labelled.index(name))
        worn = self.table.group_by(key, use_threads=False).aggregate([(_ROWS, "sum")])
        return dict(zip(worn[key].to_pylist(), worn[f"{_ROWS}_sum"].to_pylist(), strict=True))

    def findings(self) -> list[str]:
        """Warnings for the holder, in sentences."""
        warnings = []
        for index, name in enumerate(self.sensitive):
            exposed = self.table.filter(pc.equal(self.table[_shared_name(index)], 1))
            if exposed.num_rows:
                rows = pc.sum(exposed[_ROWS]).as_py()
                warnings.append(shared_by_all(name, exposed.num_rows, self.table.num_rows, rows))
        return warnings

    def refuse_blank(self) -> None:
        """Refuse released rows that read like suppressed ones, where both stand in one file."""
        blank = pc.sum(self.table[_BLANK]).as_py() or 0
        if blank:
            raise CriterionError(
                "criterion_not_reachable",
                f"{count(blank, 'released row')} cannot be told from suppressed ones: every "
                "quasi-identifier and sensitive value of them is missing or '*'. Leave suppressed "
                f"rows out with {option('suppressed', 'drop')}.",
            )


NO_CLASSES = ReleasedClasses(
    pa.table({_ROWS: np.zeros(0, np.int64), _BLANK: np.zeros(0, np.int64)})
)
"""The classes of a release whose classes nobody reads."""


def numbers_of_values(engine: Engine, kinds: Mapping[str, Kind]) -> list[exp.Expr]:
    """Return a keyed hash of the values of some columns, equal for equal values.

    Zeros of either sign are equal, and so are missing values.
    """
    # A fresh salt: nobody can prepare values whose hashes collide and so look shared.
    salt = token_hex(16)
    numbers: list[exp.Expr] = []
    for name, kind in kinds.items():
        value = column(name) + exp.convert(0) if kind is Kind.REAL else column(name)
        missing = exp.case().when(column(name).is_(exp.Null()), exp.convert(_MISSING))
        numbers.append(missing.else_(engine.traits.hashed(salt, [value])))
    return numbers


def regroup(
    counted: Frequencies,
    recoding: ByColumn | ByRow,
    *,
    labelled: Sequence[str],
    sensitive: Sequence[str],
) -> ReleasedClasses:
    """Group counted combinations into the classes of a recoding's release.

    Rows with equal mapped columns must be released alike. The last counted columns have, for
    sensitive columns, the number of the value that all rows of a combination share
    (`numbers_of_values`). Blank rows are not looked for.
    """
    released, worn = recoded(counted, recoding)
    labels = [worn[name] for name in labelled]
    codes = [coded.indices.to_numpy() for coded in labels]
    classes = runs(codes, [len(coded.dictionary) for coded in labels], counted.counts[released])
    first = classes.order[classes.starts]
    table = {_label(index): coded.take(pa.array(first)) for index, coded in enumerate(labels)}
    table |= {_ROWS: classes.counts, _BLANK: np.zeros(len(first), np.int64)}
    first_shared = len(counted.axes) - len(sensitive)
    for index in range(len(sensitive)):
        axis, shares = counted.axes[first_shared + index], counted.codes[first_shared + index]
        numbers = axis.decode(shares[released][classes.order]).to_numpy()
        low, high = (
            extreme.reduceat(numbers, classes.starts) for extreme in (np.minimum, np.maximum)
        )
        # All hashes are equal if the least equals the greatest. DIFFERENT marks combinations that
        # differ inside.
        table[_shared_name(index)] = ((low == high) & (low != DIFFERENT)).astype(np.int64)
    return ReleasedClasses(pa.table(table), tuple(labelled), tuple(sensitive))


def recoded(
    counted: Frequencies, recoding: ByColumn | ByRow
) -> tuple[BoolArray, dict[str, pa.DictionaryArray]]:
    """Return which combinations are released, and their labels."""
    maps = recoding.maps
    positions = [_positions(counted, column_map.column, column_map.values) for column_map in maps]
    codes = [
        column_map.codes.to_numpy()[position]
        for column_map, position in zip(maps, positions, strict=True)
    ]
    listed = recoding.suppressed if isinstance(recoding, ByColumn) else recoding.shares
    named = [listed.column(index).to_numpy() for index in range(len(maps))]
    both = [np.concatenate(pair).astype(np.int64) for pair in zip(codes, named, strict=True)]
    key, _ = keys(both, [int(numbers.max(initial=0)) + 1 for numbers in both])
    mine, theirs = np.split(key, [len(counted)])
    if isinstance(recoding, ByColumn):
        is_released = np.isin(mine, theirs, invert=True)
        pairs = zip(maps, positions, strict=True)
        return is_released, {
            column_map.column: _worn(column_map.labels, position[is_released])
            for column_map, position in pairs
        }
    is_released, order = np.isin(mine, theirs), np.argsort(theirs)
    share = order[np.searchsorted(theirs, mine[is_released], sorter=order)]
    released = listed.select(listed.column_names[len(maps) + 1 :])
    columns = zip(released.column_names, released.columns, strict=True)
    return is_released, {name: _worn(labels.combine_chunks(), share) for name, labels in columns}


def _positions(counted: Frequencies, name: str, values: pa.Array) -> NDArray[np.integer]:
    """Return the index of counted values in the map of their column, which has them all."""
    axis = counted.axis(name)
    met = axis.decode(np.arange(axis.size)).cast(values.type)
    positions: NDArray[np.int32] = pc.index_in(met, value_set=values).to_numpy()
    return positions.take(counted.codes[counted.columns.index(name)])


def _worn(labels: pa.Array, positions: NDArray[np.integer]) -> pa.DictionaryArray:
    """Return the labels at some indices; a missing label is a label too."""
    return labels.dictionary_encode(null_encoding="encode").take(pa.array(positions))


def remeasure(
    engine: Engine,
    recoding: Recoding,
    kinds: Mapping[str, Kind],
    *,
    quasi: Sequence[str],
    labelled: Sequence[str],
    sensitive: Sequence[str],
) -> ReleasedClasses:
    """Count the classes that a recoding releases, with the labels of the `labelled` columns.

    If rows with equal mapped columns are released alike, they are counted before they are recoded:
    fewer rows are joined.
    """
    unused = _free_prefix((*kinds, *engine.columns(engine.table)))
    numbers = numbers_of_values(engine, {name: kinds[name] for name in sensitive})
    facts = _Facts(unused, sensitive, kinds, numbers)
    with ExitStack() as lent:
        if recoding.by_value:
            mapped = [column_map.column for column_map in recoding.maps]
            unchanged = [name for name in quasi if name in recoding.unchanged]
            counted = facts.counted(engine.table, [*mapped, *unchanged])
            table = lent.enter_context(engine.view(counted))
            recoding = replace(recoding, unchanged=(*unchanged, *facts.names))
            rows = lent.enter_context(recoding.released(engine, table))
            rows.set("order", None)
        else:
            released = lent.enter_context(recoding.released(engine, engine.table))
            released.set("order", None)
            rows = facts.counted(released.subquery("sf_released_rows"), quasi)
        classes = engine.run(facts.united(rows, quasi, labelled))
    return ReleasedClasses(classes, tuple(labelled), tuple(sensitive))


@dataclass(frozen=True)
class _Facts:
    """The figures that are counted of equal rows, under names that no column has."""

    prefix: str
    sensitive: Sequence[str]
    kinds: Mapping[str, Kind]
    numbers: Sequence[exp.Expr]

    @property
    def names(self) -> list[str]:
        """Rows, those without any sensitive value, and least and greatest numbers of values."""
        values = [f"{self.prefix}{extreme}_{n}" for n in self._indices for extreme in _OF_VALUES]
        return [f"{self.prefix}rows", f"{self.prefix}bare", *values]

    @property
    def _indices(self) -> range:
        return range(len(self.sensitive))

    def counted(self, rows: exp.Expr, by: Sequence[str]) -> exp.Select:
        """Count rows, by some columns."""
        empty = [_empty(name, self.kinds[name]) for name in self.sensitive]
        bare = exp.case().when(exp.and_(exp.true(), *empty), exp.convert(1)).else_(exp.convert(0))
        facts: list[exp.Expr] = [_integer(exp.Count(this=exp.Star())), _integer(exp.Sum(this=bare))]
        for number in self.numbers:
            facts += [exp.Min(this=number.copy()), exp.Max(this=number.copy())]
        named = (exp.alias_(fact, name) for name, fact in zip(self.names, facts, strict=True))
        keys = [column(name) for name in by]
        return exp.select(*keys, *named).from_(rows).group_by(*(key.copy() for key in keys))

    def united(
        self, counted: exp.Query, quasi: Sequence[str], labelled: Sequence[str]
    ) -> exp.Select:
        """Group counted combinations into classes."""
        rows, bare, *values = map(exp.column, self.names)
        size = _integer(exp.Sum(this=rows))
        blank = exp.and_(*(_empty(name, self.kinds[name]) for name in quasi))
        blanks = _integer(exp.Sum(this=exp.case().when(blank, bare).else_(exp.convert(0))))
        columns: dict[str, exp.Expr] = {
            _label(index): column(name) for index, name in enumerate(labelled)
        }
        columns |= {_ROWS: size, _BLANK: blanks}
        for index in self._indices:
            low, high = values[2 * index : 2 * index + 2]
            alike = exp.EQ(this=exp.Min(this=low), expression=exp.Max(this=high))
            columns[_shared_name(index)] = (
                exp.case().when(alike, exp.convert(1)).else_(exp.convert(0))
            )
        return (
            exp.select(*(exp.alias_(value, name) for name, value in columns.items()))
            .from_(counted.subquery("sf_counted"))
            .group_by(*map(column, quasi))
        )


def _integer(number: exp.Expr) -> exp.Expr:
    return exp.cast(number, "BIGINT")


def _free_prefix(names: Iterable[str]) -> str:
    """Return a prefix for internal names with which no column name begins."""
    prefix = "sf_"
    while any(name.casefold().startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _empty(name: str, kind: Kind) -> exp.Expr:
    """Return whether a cell is missing or holds the root."""
    missing: exp.Expr = column(name).is_(exp.Null())
    return exp.paren(exp.or_(missing, column(name).eq(ROOT)) if kind is Kind.TEXT else missing)


def shared_by_all(name: str, exposed: int, classes: int, rows: int) -> str:
    """Return the warning about classes in which everyone shares a value."""
    return (
        f"In {exposed:,} of {count(classes, 'class', 'classes')} everyone has the same {name} "
        f"({count(rows, 'row')}): anyone who knows that a person is in such a class knows it. "
        f"Require diversity of {name}, for example l = 2."
    )


def _label(index: int) -> str:
    return f"sf_label_{index}"


def _shared_name(index: int) -> str:
    return f"sf_shared_{index}"
