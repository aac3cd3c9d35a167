"""Convert cells to kinds: exactly, or not at all; a cell that does not fit is never guessed.

Reading for the owner (`strict`) refuses such a cell and names its row. Reading for others makes it
NULL. *Attack*: otherwise one person's cell would decide whether queries are answered. Decision
`malformed-cells`.

The values of text:

- integer: an optional sign and ASCII digits, within 64 bits. `-0` is 0, `007` is 7; no spaces,
  separators, exponents, fractions, other scripts' digits or hexadecimal.
- real: an optional sign, ASCII digits with an optional `.` and exponent; or `nan`, `NaN`, `inf`,
  `-inf`. A finite text too large for a float64 is refused.
- date: YYYY-MM-DD, years 0001 to 9999, days that exist.
- boolean: `true` or `false` in any case.

A declared spelling replaces these forms: see `column_spelling`. Typed cells, such as those of a
spreadsheet, are taken as they are where they have the kind, else converted through their text.
*Invariant*: the result for a cell depends only on the cell and on declarations, not on other cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from sqlglot import exp

from sfumato.data.engines.base import column
from sfumato.data.engines.kinds import STORED, fits, is_text, kind_asked, plain, stored_schema
from sfumato.data.files.column_spelling import read_spelled
from sfumato.data.schema import names as declared
from sfumato.data.schema.column import USUAL_LENGTH, Column, Kind
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.data.engines.kinds import Asked


MOST_COLUMNS = 10_000
"""A table with more columns is refused before anything is allocated for it."""


def check_count(count: int) -> None:
    """Refuse a table with too many columns."""
    if count > MOST_COLUMNS:
        raise SourceError(
            "problem_too_large",
            f"The table has {count:,} columns; at most {MOST_COLUMNS:,} are allowed. "
            "Leave out columns first.",
        )


def check_names(names: Sequence[str]) -> None:
    """Refuse too many names, and names that no schema could declare."""
    check_count(len(names))
    declared.check_names(list(names))


CellArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"

_PATTERN = {
    Kind.INTEGER: "^[+-]?[0-9]+$",
    Kind.REAL: r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^(nan|NaN|-?inf)$",
    Kind.DATE: "^([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}$",
    Kind.BOOLEAN: "^(?i:true|false)$",
}

_EXPECTED = {
    Kind.INTEGER: "a whole number within 64 bits, written in plain digits with an optional sign",
    Kind.REAL: "a decimal number such as -1.5 or 2e3 within the range of a 64-bit float",
    Kind.DATE: "a date that exists, written YYYY-MM-DD",
    Kind.BOOLEAN: "true or false",
    Kind.TEXT: "text",
}


@dataclass(frozen=True)
class _Reading:
    """A conversion of text or numbers to a kind.

    `read` converts all cells or returns None; `pattern` matches cells that look like the kind;
    `expected` and `mend` are for the error message.
    """

    kind: Kind
    read: Callable[[CellArray], CellArray | None]
    pattern: str | None = None
    expected: str = ""
    mend: str = ""


def conform(
    batches: Iterable[pa.RecordBatch],
    kinds: Mapping[str, Asked],
    *,
    strict: bool = True,
    short_texts: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Convert batches to the stored types of the asked kinds.

    Parameters
    ----------
    batches : iterable of pa.RecordBatch
        Batches whose columns are in the order of `kinds`.
    kinds : mapping
        For each column by name the kind or declared column to read it as.
    strict : bool
        Whether to refuse the first cell that does not fit; else every such cell becomes NULL.
    short_texts : bool
        Whether to cut texts as `shortened` does.

    Raises
    ------
    SourceError
        If a cell does not fit and `strict` is true, or a type cannot become the kind at all.
    """
    if short_texts:
        # Cut before, because a conversion fails where the texts of a batch exceed 2 GiB; and again
        # after, because a column with a cell that is not UTF-8 arrives as bytes and is text only
        # then.
        converted = conform(shortened(batches, kinds), kinds, strict=strict)
        yield from shortened(converted, kinds)
        return
    schema = stored_schema(kinds)
    rows_before = 0
    for batch in batches:
        arrays = [
            _convert_column(cells, asked, name, rows_before if strict else None)
            for cells, (name, asked) in zip(batch.columns, kinds.items(), strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)
        rows_before += batch.num_rows


def shortened(
    batches: Iterable[pa.RecordBatch], kinds: Mapping[str, Asked]
) -> Iterator[pa.RecordBatch]:
    """Cut texts one character after the length at which private methods cut or drop them.

    This bounds the memory of a copy by the schema without changing any answer: a text that is too
    long still is. Undeclared columns are cut to the usual length.
    """
    for batch in batches:
        arrays = [
            _shorter(cells, longest(asked) + 1) if kind_asked(asked) is Kind.TEXT else cells
            for cells, asked in zip(batch.columns, kinds.values(), strict=True)
        ]
        yield pa.record_batch(arrays, names=batch.schema.names)


def longest(asked: Asked) -> int:
    """The largest number of characters of a text that private methods read, names included."""
    return max(asked.characters if isinstance(asked, Column) else 0, USUAL_LENGTH)


def _shorter(cells: CellArray, characters: int) -> CellArray:
    if isinstance(cells, pa.DictionaryArray):
        dictionary = _shorter(cells.dictionary, characters)
        return pa.DictionaryArray.from_arrays(cells.indices, dictionary)
    if not is_text(cells.type):
        return cells
    if cells.type == pa.string_view():
        cells = pc.cast(cells, pa.large_string())
    bytes_of = pc.max(pc.binary_length(cells)).as_py() or 0
    return cells if bytes_of <= characters else pc.utf8_slice_codeunits(cells, 0, characters)


def read_leniently(cells: CellArray, asked: Column) -> CellArray:
    """Convert cells to a column; cells that do not fit become NULL."""
    return _convert_column(cells, asked, asked.name, None)


def find_fitting_kinds(
    batches: Iterable[pa.RecordBatch], names: Iterable[str]
) -> dict[str, set[Kind]]:
    """For each text column the kinds that all its cells fit; a column without values fits all."""
    possible = {name: set(Kind) for name in names}
    for batch in batches:
        for name, cells in zip(possible, batch.columns, strict=True):
            possible[name] = {
                kind for kind in possible[name] if _parse_cells(cells, kind) is not None
            }
    return possible


def _convert_column(
    cells: CellArray, asked: Asked, name: str, rows_before: int | None
) -> CellArray:
    """Convert one column of a batch; with `rows_before` None, cells that do not fit are NULL."""
    kind = kind_asked(asked)
    if cells.type == STORED[kind]:
        return cells
    cells = pc.cast(cells, plain(cells.type))
    if cells.type in _BYTES:
        cells = _read(cells, _Reading(Kind.TEXT, _decode_utf8, expected=_UTF8), name, rows_before)
    if fits(cells.type, kind):
        return pc.cast(cells, STORED[kind])
    if is_text(cells.type):
        reading = _of_text(asked)
    elif types.is_timestamp(cells.type) and kind is Kind.DATE:
        reading = _Reading(
            kind,
            partial(_exact, kind=kind),
            expected="a day alone: it has a time of day, and those are not kept",
            mend="Cut the column to days first: in a database by a view with CAST(... AS DATE), in "
            "pandas by .dt.normalize(), in polars by .dt.date().",
        )
    elif (cells.type, kind) in _CHECKED:
        reading = _Reading(kind, partial(_exact, kind=kind), expected=_EXPECTED[kind])
    else:
        raise SourceError(
            "kind_mismatch",
            f"Column {name!r} holds {cells.type}, which cannot be read as {kind}.",
            hint="Declare another kind or convert the column first.",
        )
    return _read(cells, reading, name, rows_before)


def _read(cells: CellArray, reading: _Reading, name: str, rows_before: int | None) -> CellArray:
    """Convert cells; refuse the first that does not fit, or make it NULL without `rows_before`."""
    converted = reading.read(cells)
    if converted is not None:
        return converted
    if rows_before is None:
        return _with_gaps(_candidates(cells, reading), reading)
    raise _refusal(cells, reading, name, rows_before)


_BYTES = {pa.binary(), pa.large_binary(), pa.binary_view()}
_UTF8 = "text in UTF-8"


def _decode_utf8(cells: CellArray) -> CellArray | None:
    """Decode bytes as UTF-8; None where some are not."""
    try:
        return pc.cast(cells, pa.string())
    except pa.ArrowInvalid:
        return None


def _of_text(asked: Asked) -> _Reading:
    """The conversion of text: by the spelling of the column, else by the plain form of the kind."""
    if isinstance(asked, Column) and asked.spelling is not None:
        return _Reading(
            asked.kind,
            partial(read_spelled, spelling=asked.spelling, kind=asked.kind),
            f"^{asked.spelling.pattern(asked.kind)}$",
            f"one of {asked.spelling.describe(asked.kind)}",
        )
    kind = kind_asked(asked)
    return _Reading(kind, partial(_parse_cells, kind=kind), _PATTERN.get(kind), _EXPECTED[kind])


# Conversions of numbers and dates that are allowed where they are exact.
_CHECKED = {
    (pa.uint64(), Kind.INTEGER),
    (pa.float64(), Kind.INTEGER),
    (pa.float32(), Kind.INTEGER),
    (pa.int64(), Kind.REAL),
    (pa.uint64(), Kind.REAL),
    (pa.date64(), Kind.DATE),
}


def _exact(cells: CellArray, kind: Kind) -> CellArray | None:
    """Convert where that is exact, without a fraction, rounding or time of day; else None."""
    try:
        values = pc.cast(cells, STORED[kind], safe=True)
        if types.is_timestamp(cells.type):  # Arrow drops the time of day even with safe=True
            return values if _all_hold(pc.equal(pc.cast(values, cells.type), cells)) else None
    except pa.ArrowInvalid:
        return None
    return values


def _parse_cells(cells: CellArray, kind: Kind) -> CellArray | None:
    """Parse text as a kind; None where some cell is no such value."""
    if kind is Kind.TEXT:
        return pc.cast(cells, pa.string())
    # Most integer columns are bare digits, and asking for those is seven times faster.
    bare = kind is Kind.INTEGER and _all_hold(pc.ascii_is_decimal(cells))
    if not bare and not _all_hold(pc.match_substring_regex(cells, _PATTERN[kind])):
        return None
    try:
        values = pc.cast(pc.utf8_ltrim(cells, "+") if not bare else cells, STORED[kind])
    except pa.ArrowInvalid:
        return None
    if kind is Kind.REAL:
        # A finite text beyond the range of a float64 is parsed as infinity: that is a loss.
        lost = pc.and_(pc.is_inf(values), pc.invert(pc.match_substring(cells, "inf")))
        return None if pc.any(lost).as_py() else values
    return values


def _all_hold(checks: CellArray) -> bool:
    """Return whether all checks hold; a missing cell passes."""
    return pc.all(checks, min_count=0).as_py() is True


def _candidates(cells: CellArray, reading: _Reading) -> CellArray:
    """Keep the cells that look like the kind, NULL for others; only their range can be wrong."""
    if reading.pattern is None:
        return cells
    written = pc.match_substring_regex(cells, reading.pattern)
    return pc.if_else(written, cells, pa.scalar(None, cells.type))


def _with_gaps(cells: CellArray, reading: _Reading) -> CellArray:
    """Convert what can be converted by halving; a cell that fails alone becomes NULL."""
    converted = reading.read(cells)
    if converted is not None:
        return converted
    if len(cells) == 1:
        return pa.nulls(1, STORED[reading.kind])
    middle = len(cells) // 2
    halves = cells.slice(0, middle), cells.slice(middle)
    return pa.concat_arrays([_with_gaps(half, reading) for half in halves])


def _refusal(cells: CellArray, reading: _Reading, name: str, rows_before: int) -> SourceError:
    """Find the first cell that fails by bisection; the error names its row, not its content."""
    low, high = 0, len(cells)
    while high - low > 1:
        middle = (low + high) // 2
        if reading.read(cells.slice(low, middle - low)) is None:
            high = middle
        else:
            low = middle
    mend = reading.mend or f"Correct the cell, or declare a kind other than {reading.kind}."
    return SourceError(
        "cell_malformed",
        f"Column {name!r}, data row {rows_before + low + 1:,}, is not {reading.expected}. {mend}",
    )


Cell = str | float | int | bool | date | datetime | time | timedelta | None

# Rows converted at a time, which bounds the memory of the texts in between.
ROWS_AT_ONCE = 65_536

# Integers up to 2^53 are exact as float64, the only numbers of a sheet.
_EXACT = 1 << 53


def natural_kind(cells: Sequence[Cell]) -> Kind:
    """Return the kind of cells; text where they are of several kinds."""
    types = {type(cell) for cell in cells} - {type(None)}
    if types == {bool}:
        return Kind.BOOLEAN
    if types == {date}:
        return Kind.DATE
    if types and types <= {int, float}:
        numbers = [cell for cell in cells if cell is not None]
        return Kind.INTEGER if all(map(_is_whole, numbers)) else Kind.REAL
    return Kind.TEXT


def settled(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Convert datetimes to dates where all are midnight, else all of them to text with a time.

    Only for undeclared tables, which only their owner reads: here a cell depends on others.
    """
    if datetime not in {type(cell) for cell in cells}:
        return cells
    if any(not isinstance(cell, date | None) for cell in cells):
        return cells
    times = [
        cell if cell is None or isinstance(cell, datetime) else datetime.combine(cell, time())
        for cell in cells
        if cell is None or isinstance(cell, date)
    ]
    if all(cell is None or cell.time() == time() for cell in times):
        return [cell and cell.date() for cell in times]
    return [as_text(cell) for cell in times]


def as_text(cell: Cell) -> str | None:
    """A cell as text: numbers in plain form, dates in ISO form."""
    match cell:
        case None | str():
            return cell
        case bool():
            return str(cell).lower()
        case float() if _is_whole(cell):
            return str(int(cell))
        case datetime():
            return cell.isoformat(sep=" ")
        case date() | time():
            return cell.isoformat()
        case _:
            return str(cell)


def read_cells(
    columns: Mapping[str, Sequence[Cell]], asked: Mapping[str, Asked], *, strict: bool
) -> Iterator[pa.RecordBatch]:
    """Convert columns to kinds: cells of the right type as they are, others through text."""
    schema = stored_schema(asked)
    kinds = {name: kind_asked(column) for name, column in asked.items()}
    texts = pa.schema([(name, pa.string()) for name in kinds])
    rows = max(map(len, columns.values()), default=0)

    def written() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, ROWS_AT_ONCE):
            chunks = [_chunk(columns[name], start) for name in kinds]
            spelled = [
                pa.array(
                    [None if _native(cell, kind) is not None else as_text(cell) for cell in chunk],
                    pa.string(),
                )
                for chunk, kind in zip(chunks, kinds.values(), strict=True)
            ]
            yield pa.record_batch(spelled, schema=texts)

    for number, batch in enumerate(conform(written(), asked, strict=strict)):
        merged = []
        for name, read in zip(kinds, batch.columns, strict=True):
            chunk, kind = _chunk(columns[name], number * ROWS_AT_ONCE), kinds[name]
            native = pa.array([_native(cell, kind) for cell in chunk], STORED[kind])
            merged.append(read if native.null_count == len(native) else pc.coalesce(native, read))
        yield pa.record_batch(merged, schema=schema)


def _chunk(cells: Sequence[Cell], start: int) -> Sequence[Cell]:
    return cells[start : start + ROWS_AT_ONCE]


def _native(cell: Cell, kind: Kind) -> Cell:
    """Return the value of a cell whose type is of the kind; None for other cells."""
    match kind, cell:
        case Kind.BOOLEAN, bool():
            return cell
        case Kind.INTEGER | Kind.REAL, bool():
            return None
        case Kind.INTEGER, int() | float() if _is_whole(cell):
            return int(cell)
        case Kind.REAL, int() | float():
            return float(cell)
        case Kind.DATE, datetime():
            return cell.date()
        case Kind.DATE, date():
            return cell
    return None


def _is_whole(cell: object) -> bool:
    return isinstance(cell, int | float) and abs(cell) <= _EXACT and cell == int(cell)


def fitting_kinds(engine: Engine) -> dict[str, set[Kind]]:
    """For each text column of the source the kinds that all its cells fit."""
    names = [name for name, kind in engine.columns(engine.table).items() if kind is Kind.TEXT]
    if not names:
        return {}
    return find_fitting_kinds(
        engine.stream(exp.select(*map(column, names)).from_(engine.table)), names
    )


def fitting_cells(engine: Engine, asked: Column) -> int:
    """Return the number of cells of a text column that can be read as the column `asked`."""
    cell, rows = column(asked.name), exp.Count(this=exp.Star())
    counted = (
        exp.select(exp.alias_(cell, "sf_value"), exp.alias_(rows, "sf_count"))
        .from_(engine.table)
        .group_by(cell.copy())
    )
    return sum(
        pc.sum(pc.if_else(cells.is_valid(), batch.column(1), 0)).as_py() or 0
        for batch in engine.stream(counted)
        for cells in [read_leniently(batch.column(0), asked)]
    )
