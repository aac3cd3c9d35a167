"""Small tables of every form, and their neighbours.

A `Form` has a schema for each unit and rows of people. Common keys have counts that one person
cannot confuse, which `mechanism_calls` needs to tell keys apart by their counts. The person who
comes, goes or is replaced has more rows than count, in more groups than count.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import sfumato as sf
from sfumato.data.schema.unit import Ties

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Row = dict[str, Any]
Relation = sf.Neighbours

DAY = dt.date(2020, 1, 1)


@dataclass(frozen=True)
class Pair:
    """Two neighbouring tables of a form, each by its name, and what they differ in."""

    label: str
    first: Mapping[str, pa.Table]
    second: Mapping[str, pa.Table]


@dataclass(frozen=True)
class Form:
    """Tables of one form: the schemas by name, the rows of everybody, and people to move.

    `people` are rows of one person each: usual ones, others to replace them by, and rows with
    extreme cells. `owner` is the column that says whose a row is.
    """

    name: str
    schemas: tuple[sf.Schema, ...]
    rows: Mapping[str, Sequence[Row]]
    owner: str
    usual: Mapping[str, Sequence[Row]]
    other: Mapping[str, Sequence[Row]]
    types: Mapping[str, pa.DataType]
    keys: frozenset[str]
    """Columns that say whose a row is, or of which period: their cells are never extreme."""
    units: tuple[str, ...] = ("row", "person")
    max_rows: int = 3
    max_groups: int = 2

    def unit(self, name: str, relation: Relation, rows: int | None = None) -> Any:
        """The privacy unit of that name."""
        if name == "row":
            return sf.Rows(relation=relation)
        if name == "node":
            return Ties(("a", "b"), self.max_rows)
        groups = self.max_groups if rows is None else rows
        return sf.Entity(self.owner, rows or self.max_rows, groups, relation)

    def declared(self, unit: Any) -> tuple[sf.Schema, ...]:
        """The schemas under a unit."""
        return tuple(
            replace(schema, unit=unit if schema.unit == sf.Rows() else schema.unit)
            for schema in self.schemas
        )

    def table(self, name: str, rows: Sequence[Row], layout: Mapping[str, pa.DataType]) -> pa.Table:
        """Rows as an Arrow table, with the physical types of a layout."""
        schema = next(one for one in self.schemas if one.table == name)
        kinds = {column.name: layout.get(column.name, self.types[column.name])
                 for column in schema.columns}  # fmt: skip
        return pa.table({
            column: physical([row[column] for row in rows], kind)
            for column, kind in kinds.items()
        })  # fmt: skip

    def tables(
        self,
        moved: Mapping[str, Sequence[Row]],
        layout: Mapping[str, pa.DataType],
    ) -> dict[str, pa.Table]:
        """All tables, with some rows more."""
        return {
            name: self.table(name, [*rows, *moved.get(name, ())], layout)
            for name, rows in self.rows.items()
        }

    def pairs(self, unit: str, relation: Relation) -> Iterator[Pair]:
        """Neighbouring tables: somebody comes, goes, or is replaced."""
        sides = [{}, self.usual] if relation is Relation.ADD_REMOVE else [self.usual, self.other]
        if unit == "row":
            sides = [_one_row(side, self.schemas[0].table) for side in sides]
        first, second = (self.tables(side, {}) for side in sides)
        yield Pair("comes" if relation is Relation.ADD_REMOVE else "replaced", first, second)
        yield Pair("goes" if relation is Relation.ADD_REMOVE else "back", second, first)

    def extreme_pairs(self, unit: str, relation: Relation, layout: Layout) -> Iterator[Pair]:
        """Neighbouring tables of one physical layout, of which one holds extreme cells.

        Of a person first all columns are extreme, then each by itself: a row that is left out for
        one of its cells shows nothing of the others.
        """
        name = self.schemas[0].table
        usual = self.usual[name][0]
        columns = layout.extreme_cells(self)
        if unit == "node":  # all edges of one node: only their other ends are extreme
            del columns[self.owner]
        # Equal columns have unequal cells: an edge from a node to itself counts nowhere.
        rows = [
            {
                **usual,
                **{
                    column: cells[(place + turn) % len(cells)]
                    for turn, (column, cells) in enumerate(columns.items())
                },
            }
            for place in range(max(map(len, columns.values())))
        ]
        by_column = (
            [{**usual, column: cell} for cell in cells] for column, cells in columns.items()
        )
        singles = [[row] for row in rows] if unit == "row" else [rows, *by_column]
        before: Mapping[str, Sequence[Row]] = {}
        if relation is Relation.REPLACE_ONE:
            before = _one_row(self.usual, name)
        first = self.tables(before, layout.types(self))
        for place, moved in enumerate(singles):
            second = self.tables({**before, name: moved}, layout.types(self))
            yield Pair(f"{layout.name} {place}" if len(singles) > 1 else layout.name, first, second)


def _one_row(side: Mapping[str, Sequence[Row]], name: str) -> dict[str, Sequence[Row]]:
    return {name: side[name][:1]} if side else {}


def physical(cells: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Cells as one physical type; a date or a number as text where the type is text."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        texts = [_text(cell) for cell in cells]
        return pa.array(texts, pa.string()).cast(kind) if pa.types.is_dictionary(kind) else (
            pa.array(texts, kind)
        )  # fmt: skip
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.array([_ticks(cell, kind) for cell in cells], _integer(kind)).view(kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if one is None else _decimal(one, kind) for one in cells], kind)
    if pa.types.is_floating(kind):
        return pa.array([None if one is None else float(one) for one in cells], kind)
    if pa.types.is_integer(kind):
        low, high = _ends(kind)
        return pa.array(
            [None if one is None else min(max(int(one), low), high) for one in cells], kind
        )
    return pa.array(cells, kind)


def _ends(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    if pa.types.is_signed_integer(kind):
        return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    return 0, 2**kind.bit_width - 1


def _decimal(cell: Any, kind: pa.DataType) -> Decimal:
    """A number as a decimal of a type, moved to its nearer end where it does not fit."""
    largest = 10 ** (kind.precision - kind.scale) - 1
    return min(max(Decimal(str(cell)), Decimal(-largest)), Decimal(largest))


def _integer(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind == pa.date32() else pa.int64()


_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _ticks(cell: Any, kind: pa.DataType) -> Any:
    """A date, or the stored number itself, as the number that an Arrow type stores."""
    if cell is None or isinstance(cell, int):
        return cell
    days = (cell - dt.date(1970, 1, 1)).days
    if kind == pa.date32():
        return days
    if kind == pa.date64():
        return days * 86_400_000
    ticks = days * 86_400 * _TICKS[kind.unit]
    return max(-(2**63), min(ticks, 2**63 - 1))


def _text(cell: Any) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


# Legal but extreme cells, by the kind that is declared and the physical type that holds it

_INTEGERS = [2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62, 0, -1]
_FLOATS = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 2.0**53, 2.0**63, 0.1]
_TEXTS = [
    "",
    "\u202eevil\u202c",
    "e\u0301\u0327",
    "\U0001f9d1\u200d\U0001f680",
    "\ufeff\uffff",
    "x" * 1_000_001,
    "'; --",
    "NULL",
]
_NUMERALS = ["9" * 40, "1e400", "-0", "0x10", " 7", "\u0663", "abc", "", "nan", "+3", "1.5"]
_DATES = [dt.date(1, 1, 1), dt.date(9999, 12, 31)]
_DATE_TEXTS = ["0001-01-01", "9999-12-31", "2020-02-30", "12020-01-01", "", "yesterday"]


def extremes(
    declared: sf.Kind, kind: pa.DataType, days: Mapping[str, tuple[int, int]] | None = None
) -> list[Any]:
    """Extreme cells that a physical type holds under a declared kind; missing is one of them.

    Days that an engine does not hold are its first and its last instead.
    """
    if days is not None and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        first, last = days["timestamp" if pa.types.is_timestamp(kind) else "date"]
        ticks = _ticks(DAY, kind) // _ticks(DAY, pa.date32())
        least, most = max(first * ticks, -(2**63)), min((last + 1) * ticks - 1, 2**63 - 1)
        return [
            None if cell is None else min(max(_ticks(cell, kind), least), most)
            for cell in extremes(declared, kind)
        ]
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if declared is sf.Kind.TEXT:
            return [*_TEXTS, None]
        return [*(_DATE_TEXTS if declared is sf.Kind.DATE else _NUMERALS), None]
    if pa.types.is_integer(kind):
        ends = _ends(kind)
        return [*(one for one in _INTEGERS if ends[0] <= one <= ends[1]), *ends, None]
    if kind == pa.float32():
        return [math.nan, math.inf, -math.inf, 3.4e38, -3.4e38, 1e-45, -0.0, 0.1, None]
    if pa.types.is_floating(kind):
        return [*_FLOATS, None]
    if pa.types.is_decimal(kind):
        largest = Decimal(10 ** (kind.precision - kind.scale) - 1)
        return [largest, -largest, Decimal(1).scaleb(-kind.scale), Decimal(2**53 + 1), None]
    if kind == pa.date32():
        return [*_DATES, 2**31 - 1, -(2**31), 3_663_477, None]
    if pa.types.is_timestamp(kind) or kind == pa.date64():
        return [*_DATES, 2**63 - 1, -(2**63) + 1, 1, None]
    return [True, False, None]


@dataclass(frozen=True)
class Layout:
    """The physical types that hold a table, by the declared kind; a column may differ."""

    name: str
    by_kind: Mapping[sf.Kind, pa.DataType]
    days: Mapping[str, tuple[int, int]] | None = None
    """The first and the last day that an engine holds, as `TestedEngine.days`."""

    def types(self, form: Form) -> dict[str, pa.DataType]:
        """The physical type of each column that is not stored in the usual one."""
        return {
            column.name: self.by_kind[column.kind]
            for schema in form.schemas
            for column in schema.columns
            if column.kind in self.by_kind and column.name not in form.keys
        }

    def extreme_cells(self, form: Form) -> dict[str, list[Any]]:
        """Every extreme cell of every column."""
        types = self.types(form)
        return {
            column.name: extremes(
                column.kind, types.get(column.name, form.types[column.name]), self.days
            )
            for column in form.schemas[0].columns
            if column.name not in form.keys
        }


_K = sf.Kind
LAYOUTS = (
    Layout("plain", {}),
    Layout("text", {kind: pa.string() for kind in sf.Kind}),
    Layout("double", {_K.INTEGER: pa.float64(), _K.REAL: pa.float32(),
                      _K.DATE: pa.timestamp("us"), _K.TEXT: pa.large_string()}),
    Layout("decimal", {_K.INTEGER: pa.decimal128(38, 0), _K.REAL: pa.decimal128(38, 10),
                       _K.DATE: pa.timestamp("ns"),
                       _K.TEXT: pa.dictionary(pa.int32(), pa.string())}),
    Layout("unsigned", {_K.INTEGER: pa.uint64(), _K.REAL: pa.int64(), _K.DATE: pa.date64()}),
    Layout("small", {_K.INTEGER: pa.int8(), _K.REAL: pa.uint8(), _K.DATE: pa.timestamp("s")}),
    Layout("halves", {_K.INTEGER: pa.int16(), _K.REAL: pa.uint16(), _K.DATE: pa.timestamp("ms")}),
    Layout("words", {_K.INTEGER: pa.uint32(), _K.REAL: pa.int32(),
                     _K.DATE: pa.timestamp("us")}),
    Layout("fractions", {_K.INTEGER: pa.decimal128(20, 2), _K.REAL: pa.decimal128(18, 17)}),
    Layout("digits", {_K.INTEGER: pa.decimal128(18, 0), _K.REAL: pa.decimal128(15, 2)}),
)  # fmt: skip
"""Physical types under declared kinds; `plain` is what each kind is stored as."""
