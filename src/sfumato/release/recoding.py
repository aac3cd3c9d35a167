"""Recodings: the decision of an anonymizer, applied by the engine that has the data.

A recoding has one of three forms. *ByColumn*: a map of values to labels for each column, and the
list of suppressed combinations of labels. *ByRow*: shares of each raw combination are assigned to
released combinations; rows are dealt inside a combination in an order that a secret key makes
random, and that is the same every time. *ByCuts*: a tree of cuts with labels at its leaves, for
tables with too many combinations to list. Each becomes one query that joins the table with small
lent tables. It orders the result by every released column, so the order of rows reveals nothing and
engines agree. Inside the query every column has a name beginning with sf_; the names of the table
come back outermost, so none can collide.

Decisions `what-travels` and `partitions`.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.data.counting.hashing import sealed
from sfumato.data.engines.kinds import STORED
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sfumato.data.engines.base import Engine

    _Relabel = Callable[[str], str]


def total_order(names: Sequence[str], reals: Collection[str] = ()) -> list[exp.Ordered]:
    """Order by every released column, NULL last on every engine.

    0.0 and -0.0 are equal but are written differently. Without their sign in the order, such rows
    would keep the order of the original and reveal it.
    """
    # Engines differ in where NULL sorts, so it is said explicitly.
    keys: list[exp.Expr] = [exp.column(name, quoted=True) for name in names]
    keys += [_sign_of_zero(exp.column(name, quoted=True)) for name in names if name in reals]
    return [exp.Ordered(this=key, nulls_first=False) for key in keys]


def _sign_of_zero(value: exp.Expr) -> exp.Expr:
    """1 for a zero that is written with a minus, else 2."""
    minus = exp.Like(this=exp.cast(value, "TEXT"), expression=exp.Literal.string("-%"))
    zero = value.copy().eq(exp.convert(0))
    return exp.case().when(exp.and_(zero, minus), exp.convert(1)).else_(exp.convert(2))


_ROW, _SEAL, _TWIN, _RANK = "sf_row", "sf_seal", "sf_twin", "sf_place"
_VALUE, _CODE, _LABEL = "sf_value", "sf_code", "sf_label"
_FIRST, _LAST, _NODE = "sf_first", "sf_last", "sf_node"
_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
"""Signed types for lent codes, because Spark has no unsigned ones."""


@dataclass(frozen=True)
class ColumnMap:
    """A label for every value of one column; `None` among the values stands for NULL.

    `codes` number the labels, so combinations are compared by numbers. If a column has too many
    values to list, `values` are the results of `key`.
    """

    column: str
    values: pa.Array
    labels: pa.Array
    codes: pa.Array
    key: Callable[[exp.Expr], exp.Expr] | None = None

    @property
    def missing(self) -> tuple[int, str | None]:
        """The code and label of NULL; -1 and no label if NULL is not mapped."""
        if self.values.null_count == 0:
            return -1, None
        index = int(np.flatnonzero(self.values.is_null().to_numpy(zero_copy_only=False))[0])
        return self.codes[index].as_py(), self.labels[index].as_py()

    def table(self) -> pa.Table:
        """Return the map of values that are not NULL, to be joined on equality."""
        columns = {_VALUE: self.values, _CODE: self.codes, _LABEL: self.labels}
        return _cast_signed(pa.table(columns).filter(self.values.is_valid()))


@dataclass(frozen=True)
class ByColumn:
    """A recoding by column: every value is released as its label, except suppressed combinations.

    `suppressed` has one column of label codes for each map, in the order of the maps; its rows are
    the combinations that are not released.
    """

    maps: tuple[ColumnMap, ...]
    suppressed: pa.Table
    unchanged: tuple[str, ...] = ()
    by_value: ClassVar[bool] = True

    @contextmanager
    def released(self, engine: Engine, table: exp.Table) -> Iterator[exp.Query]:
        """Yield the query whose result is released, valid inside the context."""
        with ExitStack() as lent:
            coded = _select_codes(engine, table, self.maps, self.unchanged, lent)
            names = [column_map.column for column_map in self.maps]
            query = exp.select(
                *(
                    _rename_column(_ROW, _label(position), name)
                    for position, name in enumerate(names)
                ),
                *_unchanged_columns(self.unchanged),
            ).from_(coded.subquery(_ROW))
            if self.suppressed.num_rows:
                lent_suppressed = lent.enter_context(engine.lend(_number_columns(self.suppressed)))
                query = _without(query, lent_suppressed, len(names))
            yield _order_by_columns(query, [*names, *self.unchanged])


@dataclass(frozen=True)
class ByRow:
    """A recoding by row: shares of each raw combination become released combinations at random.

    `shares` has one integer column for each map (the codes of a raw combination, in the order of
    the maps), `rows` (the number of rows of the share), and the released columns by name. Values
    outside the maps, and rows beyond the shares, are not released. The `key` determines how rows
    are dealt, so it stays secret. `undivided` shares have all rows of their combination, so nothing
    is dealt.
    """

    maps: tuple[ColumnMap, ...]
    shares: pa.Table
    unchanged: tuple[str, ...] = ()
    undivided: bool = False
    # 32 random bytes. The same key gives the same rows when an engine runs the query twice.
    key: str = field(default_factory=lambda: token_hex(32), repr=False, compare=False)

    @property
    def by_value(self) -> bool:
        """Whether rows alike in the mapped columns are released alike."""
        return self.undivided

    @contextmanager
    def released(self, engine: Engine, table: exp.Table) -> Iterator[exp.Query]:
        """Yield the query whose result is released, valid inside the context."""
        width = len(self.maps)
        released = self.shares.column_names[width + 1 :]
        with ExitStack() as lent:
            coded = _select_codes(engine, table, self.maps, self.unchanged, lent)
            shares = lent.enter_context(engine.lend(self._intervals()))
            conditions: list[exp.Expr] = [
                exp.column(_code(position), table=_ROW).eq(
                    exp.column(_code(position), table="sf_share")
                )
                for position in range(width)
            ]
            # Dealing needs a total order of the rows of a combination; whole combinations need
            # none.
            if not self.undivided:
                coded = self._number_rows(coded, engine)
                first, last = (exp.column(end, table="sf_share") for end in (_FIRST, _LAST))
                rank = exp.column(_RANK, table=_ROW)
                conditions.append(exp.Between(this=rank, low=first, high=last))
            query = (
                exp.select(
                    *(
                        _rename_column("sf_share", _released_name(position), name)
                        for position, name in enumerate(released)
                    ),
                    *_unchanged_columns(self.unchanged),
                )
                .from_(coded.subquery(_ROW))
                .join(exp.alias_(shares, "sf_share"), on=exp.and_(*conditions))
            )
            yield _order_by_columns(query, [*released, *self.unchanged])

    def _number_rows(self, coded: exp.Select, engine: Engine) -> exp.Select:
        """Number the rows of each raw combination in an order that the key determines.

        A keyed hash of all its columns seals a row. Equal rows have equal seals, so a second hash
        adds the number of the row among its equals; which of them comes first does not matter.
        """
        codes = [*map(_code, range(len(self.maps)))]
        unchanged = [*map(_carried_name, range(len(self.unchanged)))]
        if not unchanged:  # the rows of a combination are all equal
            return _with(coded, _RANK, _window(exp.RowNumber(), codes, exp.column(codes[0])))
        seal = sealed(self.key, [exp.column(name) for name in (*codes, *unchanged)])
        rows = _with(coded, _SEAL, seal)
        numbers = (
            _window(function, codes, exp.column(_SEAL))
            for function in (exp.RowNumber(), exp.Rank())
        )
        rows = _with(rows, _TWIN, exp.Sub(this=next(numbers), expression=next(numbers)))
        # The seal is unpredictable without the key, so any uniform hash of it gives a random order.
        again = engine.traits.hashed(self.key, [exp.column(_SEAL), exp.column(_TWIN)])
        return _with(rows, _RANK, _window(exp.RowNumber(), codes, again))

    def _intervals(self) -> pa.Table:
        """Return the first and last rank of each share inside its raw combination."""
        width = len(self.maps)
        codes = [self.shares.column(position).to_numpy() for position in range(width)]
        rows = self.shares.column(width).to_numpy().astype(np.int64)
        # lexsort takes the last key first, so the first column decides.
        order = np.lexsort(codes[::-1])
        rows = rows[order]
        new = np.ones(len(rows), dtype=bool)
        if len(rows):
            new[1:] = np.any([np.diff(column[order]) != 0 for column in codes], axis=0)
        # Shares of one combination are laid end to end: share i takes the places first to last.
        ends = np.cumsum(rows)
        starts = ends - rows
        base = np.maximum.accumulate(np.where(new, starts, 0))
        released = self.shares.num_columns - width - 1
        columns = [*range(width), *range(width + 1, width + 1 + released)]
        renamed = self.shares.take(order).select(columns)
        renamed = renamed.rename_columns(
            [*map(_code, range(width)), *map(_released_name, range(released))]
        )
        placed = renamed.append_column(_FIRST, [starts - base + 1])
        return _cast_signed(placed.append_column(_LAST, [ends - base]))


@dataclass(frozen=True)
class ByCuts:
    """A recoding by a tree of cuts: each row descends to a leaf and is released with its labels.

    `maps` number the values of each column in order. `depths` has one table of cuts for each depth:
    a `node`, the index of its `column`, the largest code, `cut`, that goes to the node `lower`, and
    the node `upper` for larger codes. `ends` has the leaves, with their labels by column.
    """

    maps: tuple[ColumnMap, ...]
    depths: tuple[pa.Table, ...]
    ends: pa.Table
    unchanged: tuple[str, ...] = ()
    by_value = True  # rows with equal mapped columns reach the same leaf

    @contextmanager
    def released(self, engine: Engine, table: exp.Table) -> Iterator[exp.Query]:
        """Yield the query whose result is released, valid inside the context."""
        names = [column_map.column for column_map in self.maps]
        carried = [*map(_code, range(len(names))), *map(_carried_name, range(len(self.unchanged)))]
        with ExitStack() as lent:
            rows = _select_codes(engine, table, self.maps, self.unchanged, lent)
            rows = rows.select(exp.alias_(exp.cast(exp.convert(0), "BIGINT"), _NODE))
            for cuts in self.depths:
                joined = exp.alias_(lent.enter_context(engine.lend(cuts)), "sf_cut", table=True)
                node = exp.column(_NODE, table=_ROW)
                # The cut of a node names one column; CASE picks that column's code.
                code = exp.case()
                for position in range(len(names)):
                    mine = exp.column("column", table="sf_cut", quoted=True).eq(position)
                    code = code.when(mine, exp.column(_code(position), table=_ROW))
                low, high, cut, at = (
                    exp.column(name, table="sf_cut", quoted=True)
                    for name in ("lower", "upper", "cut", "node")
                )
                next_node = exp.case().when(at.is_(exp.Null()), node.copy())
                next_node = next_node.when(exp.GT(this=code, expression=cut), high).else_(low)
                rows = (
                    exp.select(
                        *(exp.column(name, table=_ROW) for name in carried),
                        exp.alias_(next_node, _NODE),
                    )
                    .from_(rows.subquery(_ROW))
                    .join(joined, on=node.eq(at.copy()), join_type="left")
                )
            labelled = self.ends.rename_columns([_NODE, *map(_label, range(len(names)))])
            ends = exp.alias_(lent.enter_context(engine.lend(labelled)), "sf_end", table=True)
            same_node = exp.column(_NODE, table=_ROW).eq(exp.column(_NODE, table="sf_end"))
            labels = (_rename_column("sf_end", _label(i), name) for i, name in enumerate(names))
            query = exp.select(*labels, *_unchanged_columns(self.unchanged)).from_(
                rows.subquery(_ROW)
            )
            yield _order_by_columns(query.join(ends, on=same_node), [*names, *self.unchanged])


Recoding = ByColumn | ByRow | ByCuts


def relabelled(recoding: Recoding, labels: Mapping[str, _Relabel]) -> Recoding:
    """Return a recoding with the labels of some columns rewritten."""
    if isinstance(recoding, ByColumn):
        maps = (
            replace(column_map, labels=_change_labels(column_map.labels, labels[column_map.column]))
            if column_map.column in labels
            else column_map
            for column_map in recoding.maps
        )
        return replace(recoding, maps=tuple(maps))
    if isinstance(recoding, ByCuts):
        return replace(recoding, ends=_relabel_table(recoding.ends, 1, labels))
    return replace(recoding, shares=_relabel_table(recoding.shares, len(recoding.maps) + 1, labels))


def _relabel_table(table: pa.Table, first: int, labels: Mapping[str, _Relabel]) -> pa.Table:
    """Rewrite the labels of a table, from the column at index `first` on."""
    for index in range(first, table.num_columns):
        name = table.column_names[index]
        if name in labels:
            column = table.column(index).combine_chunks()
            table = table.set_column(index, name, _change_labels(column, labels[name]))
    return table


def _change_labels(labels: pa.Array, change: Callable[[str], str]) -> pa.Array:
    coded = labels.dictionary_encode()
    changed = pa.array([change(label) for label in coded.dictionary.to_pylist()], labels.type)
    return changed.take(coded.indices)


def _select_codes(
    engine: Engine,
    table: exp.Table,
    maps: Sequence[ColumnMap],
    unchanged: Sequence[str],
    lent: ExitStack,
) -> exp.Select:
    """Select each row with codes and labels of its columns; drop rows with unmapped values."""
    query = exp.Select().from_(exp.alias_(table.copy(), "sf_source", table=True), copy=False)
    selected: list[exp.Expr] = [
        exp.alias_(exp.column(name, table="sf_source", quoted=True), _carried_name(position))
        for position, name in enumerate(unchanged)
    ]
    conditions: list[exp.Expr] = []
    for position, column_map in enumerate(maps):
        name = f"sf_map_{position}"
        value: exp.Expr = exp.column(column_map.column, table="sf_source", quoted=True)
        if column_map.key is not None:
            value = column_map.key(value)
        joined = lent.enter_context(engine.lend(column_map.table()))
        query.join(
            exp.alias_(joined, name, table=True),
            on=value.eq(exp.column(_VALUE, table=name)),
            join_type="left",
            copy=False,
        )
        # NULL never joins on equality, so its code and label are written into the query.
        code, label = column_map.missing
        absent = value.is_(exp.Null())
        known = exp.column(_CODE, table=name)
        missing_label = exp.cast(exp.convert(label), "TEXT")
        coded = exp.case().when(absent, exp.convert(code)).else_(known.copy())
        labelled = exp.case().when(absent.copy(), missing_label)
        selected.append(exp.alias_(coded, _code(position)))
        selected.append(
            exp.alias_(labelled.else_(exp.column(_LABEL, table=name)), _label(position))
        )
        known_or_absent = absent.copy() if code >= 0 else exp.false()
        conditions.append(exp.or_(known_or_absent, known.is_(exp.Null()).not_()))
    # All conditions at once: one by one, each would nest the others in another AND.
    return query.select(*selected, copy=False).where(*conditions, copy=False)


def _with(rows: exp.Select, name: str, value: exp.Expr) -> exp.Select:
    """Add a column to rows."""
    return exp.select(exp.Star(), exp.alias_(value, name)).from_(rows.subquery(f"{name}_of"))


def _window(function: exp.Expr, partition: Sequence[str], order: exp.Expr) -> exp.Window:
    """Return a window function over partitions, in an order."""
    return exp.Window(
        this=function,
        partition_by=[exp.column(name) for name in partition],
        order=exp.Order(expressions=[exp.Ordered(this=order)]),
    )


def _without(query: exp.Select, suppressed: exp.Table, width: int) -> exp.Select:
    """Leave out the rows whose combination of label codes is suppressed."""
    same_codes = exp.and_(
        *(
            exp.column(_code(position), table=_ROW).eq(exp.column(_code(position), table="sf_gone"))
            for position in range(width)
        )
    )
    # An anti-join: rows with a partner among the suppressed combinations are dropped.
    joined = query.join(
        exp.alias_(suppressed, "sf_gone", table=True), on=same_codes, join_type="left"
    )
    return joined.where(exp.column(_code(0), table="sf_gone").is_(exp.Null()))


def _number_columns(suppressed: pa.Table) -> pa.Table:
    return _cast_signed(suppressed.rename_columns([*map(_code, range(suppressed.num_columns))]))


def _cast_signed(table: pa.Table) -> pa.Table:
    types = [(field.name, _SIGNED.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(types))


def _order_by_columns(query: exp.Select, names: Sequence[str]) -> exp.Select:
    """Order by every released column."""
    outer = exp.select(*(exp.column(name, quoted=True) for name in names))
    return outer.from_(query.subquery("sf_released")).order_by(*total_order(names))


def _unchanged_columns(names: Sequence[str]) -> list[exp.Expr]:
    """Return the columns that are released unchanged, under their original names."""
    return [
        _rename_column(_ROW, _carried_name(position), name) for position, name in enumerate(names)
    ]


def _rename_column(table: str, inner: str, name: str) -> exp.Expr:
    return exp.alias_(exp.column(inner, table=table), name, quoted=True)


def _carried_name(position: int) -> str:
    return f"sf_carried_{position}"


def _released_name(position: int) -> str:
    return f"sf_released_{position}"


def _code(position: int) -> str:
    return f"sf_code_{position}"


def _label(position: int) -> str:
    return f"sf_label_{position}"


def blank_rows(columns: Mapping[str, Kind], size: int, star: str | None) -> pa.Table:
    """Blank rows: text is the star or missing, everything else is missing."""
    return pa.table(
        {
            name: pa.repeat(star, size)
            if kind is Kind.TEXT and star is not None
            else pa.nulls(size, STORED[kind])
            for name, kind in columns.items()
        }
    )
