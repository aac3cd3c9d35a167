"""A table whose combinations do not fit in memory, counted at the finest levels at which they do.

The engine replaces all values that share a label by one of them, so the counts read as a table of
these values. The hierarchy's rule unites the values of a column that alone has too many.

Decision `optimal-search`.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from math import log
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.anonymize.lattice import Floor, finest_fitting
from sfumato.anonymize.original import United
from sfumato.anonymize.taxonomy import declared, grow
from sfumato.data.counting.frequencies import count
from sfumato.data.counting.memory_limit import (
    CELLS_PER_VALUE,
    SETTING,
    TooManyCombinationsError,
    cells_of,
    class_sizes,
    combinations,
    most_combinations,
    most_values,
)
from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy import ROOT, Calendar, Mask, Side, Step, Widths
from sfumato.data.schema.names import quoted
from sfumato.errors import SchemaError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.lattice_grouping import Levels
    from sfumato.arrays import IntArray
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchy import Taxonomy
    from sfumato.release.open_table import Table

    Key = Callable[[exp.Expr], exp.Expr]

_VALUE, _HELD = "sf_value", "sf_held"
_ROWS, _VALUES, _NATS = "sf_rows", "sf_values", "sf_nats"


@dataclass(frozen=True)
class RolledUp:
    """Counts at the levels of a floor, and the hierarchies that they are counted by."""

    floor: Floor
    tables: list[Frequencies]
    taxonomies: dict[str, Taxonomy]


def roll_up(
    tables: Sequence[Table],
    quasi: Sequence[str],
    counted: Sequence[Sequence[str]],
    hierarchy: Callable[[Column, Sequence[Frequencies]], Taxonomy],
    *,
    to_roots: bool = False,
) -> RolledUp:
    """Count tables, the first to be anonymized, at the finest levels that fit in memory.

    `counted` has the columns to count of each table, and `hierarchy` grows that of a column over
    its values. `to_roots` counts each column alone, with all others at their roots.
    """
    columns = [_HeldColumn.of(tables, name, hierarchy, unites=not to_roots) for name in quasi]

    def fits(levels: Levels) -> bool:
        for table, names in zip(tables, counted, strict=True):
            with _select_rolled_up(table, names, columns, levels) as rows:
                if combinations(table.engine, rows, names) > most_combinations(len(names)):
                    return False
        return True

    low = (column.taxonomy.height if to_roots else column.least for column in columns)
    least = tuple(low)
    finest = finest_fitting(fits, [column.labels for column in columns], least)
    if finest is None:
        roots = tuple(column.taxonomy.height for column in columns)
        cells = []
        for table, names in zip(tables, counted, strict=True):
            with _select_rolled_up(table, names, columns, roots) as rows:
                cells.append(cells_of(table.engine, rows, names))
        raise TooManyCombinationsError.of(counted[0], max(cells))
    first, rolled = tables[0], []
    for table, names in zip(tables, counted, strict=True):
        with _select_rolled_up(table, names, columns, finest) as rows:
            rolled.append(count(table.engine, rows, names))
    return RolledUp(
        Floor(
            finest,
            {column.name: column.marginals[0] for column in columns},
            {column.name: column.united for column in columns if column.united is not None},
            class_sizes(first.engine, first.engine.table, quasi),
        ),
        rolled,
        {column.name: column.taxonomy for column in columns},
    )


@contextmanager
def _select_rolled_up(
    table: Table, names: Sequence[str], columns: Sequence[_HeldColumn], levels: Levels
) -> Iterator[exp.Subquery]:
    """Select some columns of a table, in which one value represents all with the same label."""
    engine = table.engine
    rows = exp.Select().from_(exp.alias_(engine.table.copy(), "sf_source", table=True), copy=False)
    held = {column.name: (column, level) for column, level in zip(columns, levels, strict=True)}
    with ExitStack() as lent:
        for position, name in enumerate(names):
            value: exp.Expr = exp.column(name, table="sf_source", quoted=True)
            if name in held:
                column, level = held[name]
                value = value if column.united is None else column.united.key(value)
                if level > column.least:
                    joined = f"sf_map_{position}"
                    lent_map = lent.enter_context(engine.lend(column.standing_for(level)))
                    root = level == column.taxonomy.height
                    rows.join(
                        exp.alias_(lent_map, joined, table=True),
                        on=None if root else value.eq(exp.column(_VALUE, table=joined)),
                        join_type="cross" if root else "left",
                        copy=False,
                    )
                    value = exp.column(_HELD, table=joined)
            rows.select(exp.alias_(value, name, quoted=True), copy=False)
        yield rows.subquery("sf_rolled")


@dataclass(frozen=True, eq=False)
class _HeldColumn:
    """A quasi-identifier by itself: its values that are held, and the hierarchy over them."""

    name: str
    taxonomy: Taxonomy
    marginals: tuple[Frequencies, ...]
    united: United | None

    @classmethod
    def of(
        cls,
        tables: Sequence[Table],
        name: str,
        hierarchy: Callable[[Column, Sequence[Frequencies]], Taxonomy],
        *,
        unites: bool,
    ) -> _HeldColumn:
        """Count a column; where it has too many values, as its hierarchy unites them."""
        column = tables[0].schema.column(name)
        # Declared values are held in any case, and others are few.
        most = None if declared(column) else most_values()
        try:
            marginals = [
                count(table.engine, table.engine.table, [name], most=most) for table in tables
            ]
        except TooManyCombinationsError:
            if not unites:
                raise
            if len(tables) > 1:
                value_count = max(
                    combinations(table.engine, table.engine.table, [name]) for table in tables
                )
                reason = "beside a population they cannot be united"
                raise _too_many_values(column, reason, "Give", value_count) from None
            marginal, taxonomy, united = _unite(tables[0], column)
            return cls(name, taxonomy, (marginal,), united)
        return cls(name, hierarchy(column, marginals), tuple(marginals), None)

    @property
    def least(self) -> int:
        """The finest level that is held."""
        return 0 if self.united is None else self.united.level

    @property
    def labels(self) -> list[int]:
        """How many labels of each level occur."""
        leaves = self._leaves
        return [len(np.unique(codes[leaves])) for codes in self.taxonomy.codes.T]

    @cached_property
    def _values(self) -> pa.Array:
        values = [marginal.axes[0].decode(marginal.codes[0]) for marginal in self.marginals]
        return pa.concat_arrays(values)

    @cached_property
    def _leaves(self) -> NDArray[np.int32]:
        return self.taxonomy.locate(self._values.to_pylist())

    def standing_for(self, level: int) -> pa.Table:
        """Return for each value the first value that has its label; at the root one for all."""
        values, leaves = self._values, self._leaves
        order = np.argsort(leaves, kind="stable")
        labels = self.taxonomy.codes[leaves[order], level]
        starts = np.flatnonzero(np.diff(labels, prepend=-1))
        first = np.repeat(order[starts], np.diff(starts, append=len(order)))
        held = values.take(pa.array(first))
        table = pa.table({_VALUE: values.take(pa.array(order)), _HELD: held})
        if level == self.taxonomy.height:
            return table.select([_HELD]).slice(0, 1)
        different = np.flatnonzero(np.diff(leaves[order], prepend=-1))
        table = table.take(pa.array(different))
        return table.filter(table[_VALUE].is_valid())


def _unite(table: Table, column: Column) -> tuple[Frequencies, Taxonomy, United]:
    """Count a column by the finest keys of its hierarchy's rule that are few enough."""
    rows: exp.Table | exp.Subquery = table.engine.table
    ruled = False
    # From the finest rule on: the first that leaves few enough values wins.
    for level, key in _keys(table, column):
        ruled = True
        united = exp.alias_(key(exp.column(column.name, quoted=True)), column.name, quoted=True)
        rows = exp.select(united).from_(table.engine.table.copy()).subquery("sf_united")
        try:
            marginal = count(table.engine, rows, [column.name], most=most_values())
        except TooManyCombinationsError:
            continue
        values = marginal.axes[0].decode(marginal.codes[0])
        behind, bits = _behind(table, column, key, values)
        taxonomy = grow(column, _lengthen_keys(column, values.to_pylist(), level))
        return marginal, taxonomy, United(level, key, behind, bits)
    value_count = combinations(table.engine, rows, [column.name])
    if ruled:
        reason = (
            f"the widest step that unites them by its hierarchy's rule still leaves {value_count:,}"
        )
        declare = "Declare a wider one; or give" if column.kind is Kind.INTEGER else "Give"
    else:
        reason = "its hierarchy has no rule that unites them"
        declare = "Declare widths of whole numbers, calendar steps or a mask; or give"
    raise _too_many_values(column, reason, declare, value_count)


def _too_many_values(column: Column, reason: str, declare: str, value_count: int) -> SourceError:
    """Return the error for a column with too many values to keep in memory."""
    return SourceError(
        "problem_too_large",
        f"Column {quoted(column.name)} is a quasi-identifier with more than {most_values():,} "
        f"values, which is what memory is kept for, and {reason}. {declare} it another role; or "
        f"set {SETTING}={value_count * CELLS_PER_VALUE} or more in the environment.",
    )


def _keys(table: Table, column: Column) -> Iterator[tuple[int, Key]]:
    """Yield the levels of a hierarchy by rule, each with the key that unites values of a label.

    A key is a value of the column's kind that itself has the label.
    """
    match column.hierarchy:
        case Widths(widths=widths) if isinstance(widths[0], int):
            for level, width in enumerate(widths, start=1):
                yield level, partial(_low_end, width=int(width))
        case Calendar(steps=steps):
            for level, step in enumerate(steps, start=1):
                yield level, partial(_first_day, step=step)
        case Mask(side=side):
            longest = _longest(table, column)
            for level in range(1, longest):
                yield level, partial(_shown, side=side, visible=longest - level)


def _low_end(value: exp.Expr, width: int) -> exp.Expr:
    """Return the lower end of the interval that a whole number is in."""
    step = exp.convert(width)
    number = exp.cast(value, "BIGINT")
    # Engines disagree on the sign of a remainder: adding the width once makes it positive.
    offset = exp.Mod(
        this=exp.Paren(this=exp.Mod(this=number, expression=step) + step), expression=step
    )
    return exp.Paren(this=number.copy() - offset)


def _first_day(value: exp.Expr, step: Step) -> exp.Expr:
    """Return the first day of the month or quarter; for wider steps that of the year."""
    unit = step.upper() if step in (Step.MONTH, Step.QUARTER) else "YEAR"
    day = exp.DateTrunc(this=value, unit=exp.Literal.string(unit))  # type: ignore[no-untyped-call]
    return exp.cast(day, "DATE")


def _shown(value: exp.Expr, side: Side, visible: int) -> exp.Expr:
    """Return the characters of a text that are not masked."""
    kind = exp.Left if side is Side.RIGHT else exp.Right
    return kind(this=value, expression=exp.convert(visible))


def _longest(table: Table, column: Column) -> int:
    """Return how many characters the longest text has; texts that hold a star cannot be masked."""
    value = exp.column(column.name, quoted=True)
    longest = exp.Max(this=exp.Length(this=value))
    starred = exp.Sum(
        this=exp.case()
        .when(
            exp.GT(
                this=exp.StrPosition(this=value.copy(), substr=exp.convert(ROOT)),
                expression=exp.convert(0),
            ),
            exp.convert(1),
        )
        .else_(exp.convert(0))
    )
    query = exp.select(
        exp.alias_(exp.cast(longest, "BIGINT"), _VALUES),
        exp.alias_(exp.cast(starred, "BIGINT"), _ROWS),
    )
    lengths = table.engine.run(query.from_(table.engine.table.copy())).to_pylist()[0]
    if lengths[_ROWS]:
        raise SchemaError(
            "cell_malformed",
            f"Column {quoted(column.name)}: {lengths[_ROWS]:,} rows cannot be masked: a mask "
            f"writes {ROOT!r} for what it hides, and they hold {ROOT!r} themselves. Replace it "
            "in the data, or declare a hierarchy file.",
        )
    return int(lengths[_VALUES] or 0)


def _lengthen_keys(column: Column, keys: list[str | None], level: int) -> list[str | None]:
    """Extend the keys of a mask to the length of the longest text, so that levels stay the same."""
    if not isinstance(column.hierarchy, Mask):
        return keys
    present = [key for key in keys if key is not None]
    # The height of a mask's hierarchy is the length of its longest text, which keys have cut off.
    filled, hidden = max(present, key=len), "0" * level
    longer = filled + hidden if column.hierarchy.side is Side.RIGHT else hidden + filled
    return [*keys, longer]


def _behind(table: Table, column: Column, key: Key, keys: pa.Array) -> tuple[IntArray, float]:
    """Count the values behind each key, with the sum of n log2 n over them."""
    value = exp.column(column.name, quoted=True)
    rows = exp.alias_(exp.cast(exp.Count(this=exp.Star()), "BIGINT"), _ROWS)
    values = exp.select(exp.alias_(value, _VALUE), rows).from_(table.engine.table.copy())
    values = values.group_by(value.copy())
    row_count = exp.cast(exp.column(_ROWS), "DOUBLE")
    nats = exp.Sum(this=row_count * exp.Ln(this=row_count.copy()))
    query = exp.select(
        exp.alias_(key(exp.column(_VALUE)), _HELD),
        exp.alias_(exp.cast(exp.Count(this=exp.Star()), "BIGINT"), _VALUES),
        exp.alias_(nats, _NATS),
    )
    query = query.from_(values.subquery("sf_values")).group_by(key(exp.column(_VALUE)))
    keyed = table.engine.run(query)
    behind = dict(zip(keyed[_HELD].to_pylist(), keyed[_VALUES].to_pylist(), strict=True))
    counts = np.array([behind[key] for key in keys.to_pylist()], dtype=np.int64)
    # Engines have LN; the cost of entropy is stated in bits.
    return counts, sum(keyed[_NATS].to_pylist()) / log(2)
