"""Read and write batches of cells by the declared spelling of their column.

A spelling is kept in the metadata of the Arrow field: writers of text write cells by it, and
Parquet files keep plain dates and numbers.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.engines.kinds import STORED, kind_of
from sfumato.data.schema.column import Kind
from sfumato.data.schema.spelling import DateSpelling, NumberSpelling, spelling_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sfumato.data.files.cell_conversion import CellArray
    from sfumato.data.schema.spelling import Spelling

_MARK = b"sfumato.spelling"


def read_spelled(cells: CellArray, spelling: Spelling, kind: Kind) -> CellArray | None:
    """Read text by a spelling, each distinct cell once; None where some cell has another form."""
    coded = pc.dictionary_encode(pc.cast(cells, pa.large_string()))
    values = _read(coded.dictionary, spelling, kind)
    return None if values is None else values.take(coded.indices)


def _read(cells: CellArray, spelling: Spelling, kind: Kind) -> CellArray | None:
    matches = pc.extract_regex(cells, f"^{spelling.pattern(kind)}$")
    if matches.null_count:
        return None
    groups = {field.name: pc.struct_field(matches, field.name) for field in matches.type}
    if isinstance(spelling, DateSpelling):
        plain = _iso(groups, spelling.pivot)
    else:
        plain = _number(groups, spelling, kind)
    try:
        values = pc.cast(plain, STORED[kind])
    except pa.ArrowInvalid:
        return None
    if kind is Kind.REAL:
        lost = pc.and_(pc.is_inf(values), pc.equal(groups["special"], ""))
        return None if pc.any(lost).as_py() else values
    return values


def _iso(groups: Mapping[str, CellArray], pivot: int | None) -> CellArray:
    year = groups["year"]
    if pivot is not None:
        is_past_pivot = pc.greater(pc.cast(year, pa.int8()), pivot)
        year = _join_texts(pc.if_else(is_past_pivot, *_texts("19", "20")), year)
    month, day = (pc.utf8_lpad(groups[name], 2, "0") for name in ("month", "day"))
    return _join_texts(year, month, day, separator="-")


def _number(groups: Mapping[str, CellArray], spelling: NumberSpelling, kind: Kind) -> CellArray:
    sign, digits = groups["sign"], groups["whole"]
    if "inner" in groups:
        sign = _join_texts(sign, groups["inner"])
    if spelling.thousands is not None:
        digits = pc.replace_substring_regex(digits, "[^0-9]", "")
    written = [pc.utf8_ltrim(sign, "+"), digits]
    if kind is Kind.REAL:
        written += [
            pc.replace_substring(groups["decimals"], spelling.point, "."),
            groups["special"],
        ]
    return _join_texts(*written)


def _join_texts(*texts: CellArray, separator: str = "") -> CellArray:
    return pc.binary_join_element_wise(*texts, *_texts(separator))


def _texts(*texts: str) -> list[pa.Scalar[Any]]:
    return [pa.scalar(text, pa.large_string()) for text in texts]


_PLAIN = r"^(?P<sign>-?)(?P<whole>[0-9]+)(?P<decimals>\.[0-9]+)?$"


def write_spelled(cells: CellArray, spelling: Spelling) -> CellArray:
    """Write dates or numbers by a spelling, each distinct value once."""
    coded = pc.dictionary_encode(cells)
    written = None
    if isinstance(spelling, NumberSpelling):
        plain = pc.extract_regex(pc.cast(coded.dictionary, pa.large_string()), _PLAIN)
        # Exponents, infinities and NaN are rare: a batch with one of them is written in Python.
        written = None if plain.null_count else _with_signs(plain, spelling)
    if written is None:
        values = (
            Decimal(repr(value)) if isinstance(value, float) else value
            for value in coded.dictionary.to_pylist()
        )
        written = pa.array([spelling.write(value) for value in values], pa.large_string())
    return written.take(coded.indices)


def _with_signs(plain: CellArray, spelling: NumberSpelling) -> CellArray:
    sign, digits, decimals = (
        pc.struct_field(plain, name) for name in ("sign", "whole", "decimals")
    )
    if spelling.thousands is not None:
        while pc.any(pc.match_substring_regex(digits, "^[0-9]{4}")).as_py():
            separated = f"\\1{spelling.thousands}\\2"
            digits = pc.replace_substring_regex(digits, "^([0-9]+)([0-9]{3})", separated)
    if spelling.places:
        padded = pc.utf8_rpad(pc.utf8_ltrim(decimals, "."), spelling.places, "0")
        decimals = _join_texts(*_texts("."), padded)
    decimals = pc.replace_substring(decimals, ".", spelling.point)
    before, behind = _texts(*spelling.around)
    return _join_texts(sign, before, digits, decimals, behind)


def marked(schema: pa.Schema, spellings: Mapping[str, Spelling]) -> pa.Schema:
    """Add the spellings to the metadata of fields; fields of text are left as they are."""
    packed = {
        name: json.dumps(spelling.keys, allow_nan=False).encode()
        for name, spelling in spellings.items()
    }
    return pa.schema(
        [
            field.with_metadata({_MARK: packed[field.name]})
            if field.name in packed and kind_of(field.type) is not Kind.TEXT
            else field
            for field in schema
        ]
    )


class Marked:
    """Batches with their schema replaced by one with other field metadata."""

    def __init__(self, rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        self._rows = rows
        self.schema = schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._rows:
            yield pa.record_batch(batch.columns, schema=self.schema)


def keys_in(schema: pa.Schema) -> dict[str, dict[str, Any]]:
    """Return the schema keys of the spellings in the metadata of fields."""
    spellings = ((field.name, spelling_in(field)) for field in schema)
    return {name: spelling.keys for name, spelling in spellings if spelling is not None}


def spelling_in(field: pa.Field[Any]) -> Spelling | None:
    """Return the spelling in the metadata of a field."""
    mark = (field.metadata or {}).get(_MARK)
    kind = kind_of(field.type)
    return None if mark is None or kind is None else spelling_of(kind, json.loads(mark))
