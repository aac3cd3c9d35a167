"""Names and cells as they arrive: names are checked, a cell that does not fit is never guessed at.

Its owner is told its place. Where others would learn of it, for reading would fail because of one
person's cell, it is NULL instead: reading that is not strict fails by no cell. Decision
`malformed-cells`.

What counts as a value, in text:

- integer: an optional sign and ASCII digits, within 64 bits. `-0` is 0, `007` is 7; no spaces,
  separators, exponents, fractions, other scripts' digits or hexadecimal.
- real: an optional sign, ASCII digits with an optional `.` and exponent; or `nan`, `NaN`, `inf`,
  `-inf`. A finite text too large for a float64 is refused.
- date: YYYY-MM-DD, years 0001 to 9999, days that exist.
- boolean: `true` or `false` in any case.

Where a column declares how it is spelled, that is what counts instead: `column_spelling`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from sfumato.data.engines.kinds import STORED, fits, is_text, kind_asked, plain, stored_schema
from sfumato.data.files.column_spelling import read_spelled
from sfumato.data.schema import names as declared
from sfumato.data.schema.column import USUAL_LENGTH, Column, Kind
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sfumato.data.engines.kinds import Asked

MOST_COLUMNS = 10_000
"""More columns than this are refused before anything is allocated for them."""


def check_count(count: int) -> None:
    """Refuse a table with too many columns."""
    if count > MOST_COLUMNS:
        raise SourceError(
            "problem_too_large",
            f"The table has {count:,} columns; at most {MOST_COLUMNS:,} are allowed. "
            "Leave out columns first.",
        )


def check_names(names: Sequence[str]) -> None:
    """Refuse too many names, and those that no schema could declare."""
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
    """How cells become a kind: all of them or none, what they look like, what is expected."""

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
    """Turn every batch into the stored types of what is asked.

    The first cell that is not of its kind is refused or, where that is not `strict`, every one
    becomes NULL. With `short_texts`, texts are cut as by `shortened`.
    """
    if short_texts:
        # Before: a conversion fails where the texts of a batch have 2 GiB. After: bytes are texts
        # only then, and one cell that is not UTF-8 makes bytes of its whole column.
        converted = conform(shortened(batches, kinds), kinds, strict=strict)
        yield from shortened(converted, kinds)
        return
    schema = stored_schema(kinds)
    rows_before = 0
    for batch in batches:
        arrays = [
            _converted(cells, asked, name, rows_before if strict else None)
            for cells, (name, asked) in zip(batch.columns, kinds.items(), strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)
        rows_before += batch.num_rows


def shortened(
    batches: Iterable[pa.RecordBatch], kinds: Mapping[str, Asked]
) -> Iterator[pa.RecordBatch]:
    """Batches whose texts are cut where a private method would cut them, one character later.

    So what is copied into an engine is bounded by the schema, and nobody can tell the difference:
    a text that is too long still is. Columns of which nothing is declared are cut likewise.
    """
    for batch in batches:
        arrays = [
            _shorter(cells, longest(asked) + 1) if kind_asked(asked) is Kind.TEXT else cells
            for cells, asked in zip(batch.columns, kinds.values(), strict=True)
        ]
        yield pa.record_batch(arrays, names=batch.schema.names)


def longest(asked: Asked) -> int:
    """How many characters of a text private methods read at most, names of people included."""
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
    """Read cells as a column; what does not fit is NULL."""
    return _converted(cells, asked, asked.name, None)


def find_fitting_kinds(
    batches: Iterable[pa.RecordBatch], names: Iterable[str]
) -> dict[str, set[Kind]]:
    """Find, for text columns, the kinds that every cell of a column fits.

    A column without any value fits every kind.
    """
    possible = {name: set(Kind) for name in names}
    for batch in batches:
        for name, cells in zip(possible, batch.columns, strict=True):
            possible[name] = {kind for kind in possible[name] if _parsed(cells, kind) is not None}
    return possible


def _converted(cells: CellArray, asked: Asked, name: str, rows_before: int | None) -> CellArray:
    """Convert one column of a batch; without a place to name, what does not fit becomes NULL."""
    kind = kind_asked(asked)
    if cells.type == STORED[kind]:
        return cells
    cells = pc.cast(cells, plain(cells.type))
    if cells.type in _BYTES:
        cells = _read(cells, _Reading(Kind.TEXT, _decoded, expected=_UTF8), name, rows_before)
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
    """Read all cells, or refuse the first that does not fit; without a place, it is NULL."""
    converted = reading.read(cells)
    if converted is not None:
        return converted
    if rows_before is None:
        return _with_gaps(_candidates(cells, reading), reading)
    raise _refusal(cells, reading, name, rows_before)


_BYTES = {pa.binary(), pa.large_binary(), pa.binary_view()}
_UTF8 = "text in UTF-8"


def _decoded(cells: CellArray) -> CellArray | None:
    """Bytes as the text that they are in UTF-8; None when some are not."""
    try:
        return pc.cast(cells, pa.string())
    except pa.ArrowInvalid:
        return None


def _of_text(asked: Asked) -> _Reading:
    """How text is read: as its column is spelled, else as the kind is written everywhere."""
    if isinstance(asked, Column) and asked.spelling is not None:
        return _Reading(
            asked.kind,
            partial(read_spelled, spelling=asked.spelling, kind=asked.kind),
            f"^{asked.spelling.pattern(asked.kind)}$",
            f"one of {asked.spelling.describe(asked.kind)}",
        )
    kind = kind_asked(asked)
    return _Reading(kind, partial(_parsed, kind=kind), _PATTERN.get(kind), _EXPECTED[kind])


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
            return values if _all_hold(pc.equal(pc.cast(values, cells.type), cells)) else None
    except pa.ArrowInvalid:
        return None
    return values


def _parsed(cells: CellArray, kind: Kind) -> CellArray | None:
    """Read text as a kind; None when some cell is no such value."""
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
        lost = pc.and_(pc.is_inf(values), pc.invert(pc.match_substring(cells, "inf")))
        return None if pc.any(lost).as_py() else values
    return values


def _all_hold(checks: CellArray) -> bool:
    """Whether all checks hold; missing cells always do."""
    return pc.all(checks, min_count=0).as_py() is True


def _candidates(cells: CellArray, reading: _Reading) -> CellArray:
    """The cells that are written like the kind, the others NULL; only their size can be wrong."""
    if reading.pattern is None:
        return cells
    written = pc.match_substring_regex(cells, reading.pattern)
    return pc.if_else(written, cells, pa.scalar(None, cells.type))


def _with_gaps(cells: CellArray, reading: _Reading) -> CellArray:
    """Read what can be read, halving where that fails: a cell that fails alone is NULL."""
    converted = reading.read(cells)
    if converted is not None:
        return converted
    if len(cells) == 1:
        return pa.nulls(1, STORED[reading.kind])
    middle = len(cells) // 2
    halves = cells.slice(0, middle), cells.slice(middle)
    return pa.concat_arrays([_with_gaps(half, reading) for half in halves])


def _refusal(cells: CellArray, reading: _Reading, name: str, rows_before: int) -> SourceError:
    """Find the first cell that fails by halving, and name its place."""
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
