"""Sum up reports where they lie: `.reports` files in pieces, tables by GROUP BY in their engine.

A table may be CSV, Parquet, DuckDB, PostgreSQL, Spark or a frame in memory. Its engine groups
reports by their codes and sums their bits, so that no more rows come here than the sketch has
cells. Where a report has too many codes to group by, rows come here batch by batch. Decision
`local-privacy`.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato import arguments
from sfumato.data.engines.base import column
from sfumato.data.schema.column import Kind
from sfumato.errors import SourceError
from sfumato.methods.local.reports import LONGEST_HEADER, Reports, check_same, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.methods.local.mechanism import LocalMechanism
    from sfumato.methods.local.reports import ReportSketch

_PIECE_BYTES = 1 << 25
_ROWS_AT_ONCE = 1 << 20
_VALID, _COUNT, _SUM = "valid", "reports", "sum"


def read_reports(oracle: LocalMechanism, data: bytes) -> Reports:
    """Read the bytes of a `.reports` file, or those that a client sent."""
    arguments.require(data, "data", bytes, "the bytes of reports, as `to_bytes` wrote them")
    made_by, start = read_header(data[:LONGEST_HEADER])
    check_same(oracle.made_by, made_by, "Reports")
    size = oracle.layout.dtype.itemsize
    if (len(data) - start) % size:
        raise _cut_short()
    rows = np.frombuffer(data, dtype=oracle.layout.dtype, offset=start)
    return Reports(made_by, oracle.layout, rows)


def sketch_source(oracle: LocalMechanism, source: Any) -> ReportSketch:
    """Sum up a file, a table, a reader of batches, or a list of files."""
    if isinstance(source, list | tuple) and all(isinstance(path, str | Path) for path in source):
        return oracle.merge(sketch_source(oracle, path) for path in source)
    if isinstance(source, pa.RecordBatchReader):
        return _sum_batches(oracle, source)
    if isinstance(source, str | Path) and str(source).endswith(".reports"):
        return oracle.merge(_pieces(oracle, Path(source)))
    from sfumato.data.engines.sources import open_source

    kinds = dict.fromkeys(oracle.layout.columns, Kind.INTEGER)
    with closing(open_source(source, kinds=kinds, strict=False)) as engine:
        _check_columns(oracle, engine)
        return sketch_of(oracle, engine)


def _check_columns(oracle: LocalMechanism, engine: Engine) -> None:
    held = engine.columns(engine.table)
    missing = [name for name in oracle.layout.columns if held.get(name) is not Kind.INTEGER]
    if missing:
        raise SourceError(
            "file_malformed",
            f"Reports by {oracle.name} need the columns {', '.join(oracle.layout.columns[:6])}"
            f"{', ...' if len(oracle.layout.columns) > 6 else ''} of whole numbers; the table has "
            f"no such column {missing[0]!r}.",
        )


def _pieces(oracle: LocalMechanism, path: Path) -> Iterator[ReportSketch]:
    from sfumato.data.files.file_identity import regular_file

    size = oracle.layout.dtype.itemsize
    with regular_file(path).open() as file:
        made_by, _ = read_header(file.readline(LONGEST_HEADER))
        check_same(oracle.made_by, made_by, "Reports")
        while piece := file.read(_PIECE_BYTES // size * size or size):
            if len(piece) % size:
                raise _cut_short()
            yield oracle.sum_rows(np.frombuffer(piece, dtype=oracle.layout.dtype))


def _cut_short() -> SourceError:
    return SourceError(
        "file_malformed",
        "The last report is only there in part, so the file or the message was cut short. "
        "Ask for it again, whole.",
    )


def sketch_of(oracle: LocalMechanism, engine: Engine) -> ReportSketch:
    """The sketch of the table that an engine was opened on."""
    if oracle.grouped:
        return _sum_groups(oracle, engine.run(_grouping_query(oracle, engine.table)))
    names = oracle.layout.columns
    query = exp.select(*map(column, names)).from_(engine.table)
    return _sum_batches(oracle, engine.stream(query, batch_rows=_ROWS_AT_ONCE))


def _sum_batches(oracle: LocalMechanism, batches: pa.RecordBatchReader) -> ReportSketch:
    # Batches may be small, and summing few rows costs as much as summing many.
    return oracle.merge(
        oracle.sum_rows(rows, rejected=rejected)
        for piece in _gather_batches(batches)
        for rows, rejected in [oracle.layout.rows(pa.Table.from_batches(piece))]
    )


def _gather_batches(batches: pa.RecordBatchReader) -> Iterator[list[pa.RecordBatch]]:
    """Join batches to lists of about a million rows."""
    piece: list[pa.RecordBatch] = []
    for batch in batches:
        piece.append(batch)
        if sum(batch.num_rows for batch in piece) >= _ROWS_AT_ONCE:
            yield piece
            piece = []
    if piece:
        yield piece


def _grouping_query(oracle: LocalMechanism, table: exp.Table) -> exp.Select:
    """One row for each combination of codes: the number of reports, and of those with each bit.

    All rows that cannot be reports fall into one group, so that forged rows cannot make the
    result large.
    """
    layout = oracle.layout
    tests = [
        exp.and_(column(name) >= 0, column(name) < limit)
        for name, limit in [
            *layout.codes,
            *zip(layout.word_names, _limits(layout.width), strict=True),
        ]
    ]
    valid = exp.case().when(exp.and_(*tests), "1").else_("0")
    inner = (
        exp.select(valid.as_(_VALID, quoted=True))
        .select(*(_only_valid(tests, code.name) for code in layout.codes))
        .select(*(_only_valid(tests, word_name) for word_name in layout.word_names))
        .from_(table)
    )
    keys = [column(_VALID), *(column(code.name) for code in layout.codes)]
    sums = [
        _bigint(exp.Sum(this=_bit(bit // 32, bit % 32))).as_(f"{_SUM}_{bit}", quoted=True)
        for bit in range(layout.width)
    ]
    return (
        exp.select(*keys, _bigint(exp.Count(this=exp.Star())).as_(_COUNT, quoted=True), *sums)
        .from_(inner.subquery("reported"))
        .group_by(*keys)
    )


def _limits(width: int) -> list[int]:
    """The limit of each 32-bit word of `width` bits."""
    return [1 << min(32, width - start) for start in range(0, width, 32)]


def _only_valid(tests: Sequence[exp.Expr], name: str) -> exp.Expr:
    """A column with NULL in rows that cannot be reports."""
    return exp.case().when(exp.and_(*tests), column(name)).as_(name, quoted=True)


def _bit(word: int, bit: int) -> exp.Expr:
    shifted = exp.IntDiv(this=column(f"bits_{word}"), expression=exp.Literal.number(1 << bit))
    return exp.Mod(this=exp.Paren(this=shifted), expression=exp.Literal.number(2))


def _bigint(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, "BIGINT")


def _sum_groups(oracle: LocalMechanism, groups: pa.Table) -> ReportSketch:
    """The sketch of the groups of an engine."""
    valid = np.asarray(groups.column(_VALID)).astype(np.int64) == 1
    times = np.asarray(groups.column(_COUNT)).astype(np.int64)
    valid_groups = groups.filter(pa.array(valid))
    rows = oracle.layout.empty(valid_groups.num_rows)
    for code in oracle.layout.codes:
        rows[code.name] = np.asarray(valid_groups.column(code.name)).astype(np.int64)
    sums = None
    if oracle.layout.width:
        bits = range(oracle.layout.width)
        sums = np.stack(
            [np.asarray(valid_groups.column(f"{_SUM}_{bit}")) for bit in bits], axis=1
        ).astype(np.int64)
    return oracle.sum_groups(rows, times[valid], sums, rejected=int(times[~valid].sum()))
