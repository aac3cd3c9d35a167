"""Names and cells as they arrive: names are checked, a cell that does not fit is never guessed at.

Its owner is told its place. Where others would learn of it, for reading would fail because of one
person's cell, it is NULL instead: reading that is not strict fails by no cell. Decision 0162.

What counts as a value, in text:

- integer: an optional sign and ASCII digits, within 64 bits. `-0` is 0, `007` is 7; no spaces,
  separators, exponents, fractions, other scripts' digits or hexadecimal.
- real: an optional sign, ASCII digits with an optional `.` and exponent; or `nan`, `NaN`, `inf`,
  `-inf`. A finite text too large for a float64 is refused.
- date: YYYY-MM-DD, years 0001 to 9999, days that exist.
- boolean: `true` or `false` in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from sfumato.engines.kinds import STORED, fits, is_text
from sfumato.errors import SourceError
from sfumato.schema import names as declared
from sfumato.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

MOST_COLUMNS = 10_000
"""More columns than this are refused before anything is allocated for them."""


def check_count(count: int) -> None:
    """Refuse a table with too many columns."""
    if count > MOST_COLUMNS:
        raise SourceError(
            "too_many_columns",
            f"The table has {count:,} columns; at most {MOST_COLUMNS:,} are allowed. "
            "Leave out columns first.",
        )


def check_names(names: Sequence[str]) -> None:
    """Refuse too many names, and those that no schema could declare."""
    check_count(len(names))
    declared.check_names(list(names))


CellArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
Reading: TypeAlias = "Callable[[CellArray, Kind], CellArray | None]"
"""Reads cells as a kind, all of them or none."""

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


def conform(
    batches: Iterable[pa.RecordBatch], kinds: Mapping[str, Kind], *, strict: bool = True
) -> Iterator[pa.RecordBatch]:
    """Turn every batch into the stored types of the kinds.

    The first cell that is not of its kind is refused or, where that is not `strict`, every one
    becomes NULL.
    """
    schema = pa.schema([pa.field(name, STORED[kind]) for name, kind in kinds.items()])
    rows_before = 0
    for batch in batches:
        arrays = [
            _converted(cells, kind, name, rows_before if strict else None)
            for cells, (name, kind) in zip(batch.columns, kinds.items(), strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)
        rows_before += batch.num_rows


def fitting(batches: Iterable[pa.RecordBatch], names: Iterable[str]) -> dict[str, set[Kind]]:
    """Find, for text columns, the kinds that every cell of a column fits.

    A column without any value fits every kind.
    """
    possible = {name: set(Kind) for name in names}
    for batch in batches:
        for name, cells in zip(possible, batch.columns, strict=True):
            possible[name] = {kind for kind in possible[name] if _parsed(cells, kind) is not None}
    return possible


def _converted(cells: CellArray, kind: Kind, name: str, rows_before: int | None) -> CellArray:
    """Convert one column of a batch; without a place to name, what does not fit becomes NULL."""
    if cells.type == STORED[kind]:
        return cells
    if types.is_dictionary(cells.type):
        cells = pc.cast(cells, cells.type.value_type)
    if fits(cells.type, kind):
        return pc.cast(cells, STORED[kind])
    if is_text(cells.type):
        read = _parsed
    elif (cells.type, kind) in _CHECKED or (types.is_timestamp(cells.type) and kind is Kind.DATE):
        read = _exact
    else:
        raise SourceError(
            "kind_mismatch",
            f"Column {name!r} holds {cells.type}, which cannot be read as {kind}. "
            "Declare another kind or convert the column first.",
        )
    converted = read(cells, kind)
    if converted is not None:
        return converted
    if rows_before is None:
        return _with_gaps(_candidates(cells, kind), kind, read)
    raise _refusal(cells, kind, name, rows_before, read)


_CHECKED = {
    (pa.uint64(), Kind.INTEGER),
    (pa.float64(), Kind.INTEGER),
    (pa.float32(), Kind.INTEGER),
    (pa.int64(), Kind.REAL),
    (pa.uint64(), Kind.REAL),
    (pa.date64(), Kind.DATE),
}
"""Conversions of numbers and dates that are allowed where they lose nothing."""


def _exact(cells: CellArray, kind: Kind) -> CellArray | None:
    """Convert where nothing is lost: no fraction, no rounding, no time of day; else None."""
    try:
        values = pc.cast(cells, STORED[kind], safe=True)
        if types.is_timestamp(cells.type):  # Arrow drops the time of day without a word
            return values if _all(pc.equal(pc.cast(values, cells.type), cells)) else None
    except pa.ArrowInvalid:
        return None
    return values


def _parsed(cells: CellArray, kind: Kind) -> CellArray | None:
    """Read text as a kind; None when some cell is no such value."""
    if kind is Kind.TEXT:
        return pc.cast(cells, pa.string())
    # Most integer columns are bare digits, and asking for those is seven times faster.
    bare = kind is Kind.INTEGER and _all(pc.ascii_is_decimal(cells))
    if not bare and not _all(pc.match_substring_regex(cells, _PATTERN[kind])):
        return None
    try:
        values = pc.cast(pc.utf8_ltrim(cells, "+") if not bare else cells, STORED[kind])
    except pa.ArrowInvalid:
        return None
    if kind is Kind.REAL:
        lost = pc.and_(pc.is_inf(values), pc.invert(pc.match_substring(cells, "inf")))
        return None if pc.any(lost).as_py() else values
    return values


def _all(checks: CellArray) -> bool:
    """Whether all checks hold; missing cells always do."""
    return pc.all(checks, min_count=0).as_py() is True


def _candidates(cells: CellArray, kind: Kind) -> CellArray:
    """The cells that are written like the kind, the others NULL; only their size can be wrong."""
    if not is_text(cells.type) or kind is Kind.TEXT:
        return cells
    written = pc.match_substring_regex(cells, _PATTERN[kind])
    return pc.if_else(written, cells, pa.scalar(None, cells.type))


def _with_gaps(cells: CellArray, kind: Kind, read: Reading) -> CellArray:
    """Read what can be read, halving where that fails: a cell that fails alone is NULL."""
    converted = read(cells, kind)
    if converted is not None:
        return converted
    if len(cells) == 1:
        return pa.nulls(1, STORED[kind])
    middle = len(cells) // 2
    halves = cells.slice(0, middle), cells.slice(middle)
    return pa.concat_arrays([_with_gaps(half, kind, read) for half in halves])


def _refusal(
    cells: CellArray, kind: Kind, name: str, rows_before: int, read: Reading
) -> SourceError:
    """Find the first cell that fails by halving, and name its place."""
    low, high = 0, len(cells)
    while high - low > 1:
        middle = (low + high) // 2
        if read(cells.slice(low, middle - low), kind) is None:
            high = middle
        else:
            low = middle
    return SourceError(
        "cell_not_of_kind",
        f"Column {name!r}, data row {rows_before + low + 1:,}, is not {_EXPECTED[kind]}. "
        f"Correct the cell, or declare a kind other than {kind}.",
    )
