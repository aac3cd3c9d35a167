"""Check that the released rows are those that were decided on; refuse a source that changed.

DuckDB watches its files. Other engines do not report that a table changed, or that a frame gives
other rows to another query. So their source is compared with its earlier fingerprint, and the
released rows themselves, in memory or as written, are counted once more.

Decision `writing-releases`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet
from sqlglot import exp

from sfumato.data.engines.base import column
from sfumato.data.schema.hierarchy import ROOT
from sfumato.data.schema.names import quoted
from sfumato.errors import SourceError
from sfumato.release.fingerprint import fingerprint, holder_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sfumato.data.engines.base import Engine
    from sfumato.release.open_table import Table

_ROWS = "count_all"
# Counts of batches are summed in groups, so that memory holds few of them.
_WAITING = 64
"""The number of counts that are united at a time."""


@dataclass(frozen=True)
class Promised:
    """The decided shape of released rows, which is checked while they are written.

    `rows` is their number, with `starred` ones among them. If the `quasi` columns hold labels,
    there are `classes` classes, none smaller than `k`; None if that is not known.
    """

    table: str
    rows: int
    starred: int
    quasi: tuple[str, ...] = ()
    classes: int | None = None
    k: int | None = None

    def check_rows(self, rows: pa.Table) -> None:
        """Refuse rows that are about to be handed out."""
        self._check(self._sum_counts([self._count_classes(rows)]))

    def check_parts(self, paths: Iterable[Path]) -> None:
        """Refuse files that were written."""
        counts: list[pa.Table] = []
        for path in paths:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=[*self.quasi] or None):
                    self._count(batch, counts)
        self._check(self._sum_counts(counts))

    def check_table(self, engine: Engine, table: exp.Table) -> None:
        """Refuse a table that was written in an engine."""
        keys = [column(name) for name in self.quasi]
        counted = exp.cast(exp.Count(this=exp.Star()), "BIGINT").as_(_ROWS)
        query = exp.select(*keys, counted).from_(table.copy())
        self._check(engine.run(query.group_by(*(key.copy() for key in keys))))

    def watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows unchanged; raise after the last if they are not the decided ones."""
        counts: list[pa.Table] = []
        for batch in batches:
            self._count(batch, counts)
            yield batch
        self._check(self._sum_counts(counts))

    def _count(self, batch: pa.RecordBatch, counts: list[pa.Table]) -> None:
        counts.append(self._count_classes(pa.Table.from_batches([batch])))
        if len(counts) == _WAITING:
            counts[:] = [self._sum_counts(counts)]

    def _count_classes(self, rows: pa.Table) -> pa.Table:
        """Return how many rows of each class there are."""
        return rows.group_by([*self.quasi]).aggregate([([], _ROWS)])

    def _sum_counts(self, counts: list[pa.Table]) -> pa.Table:
        if not counts:
            return pa.table({name: pa.nulls(0) for name in (*self.quasi, _ROWS)})
        counted = pa.concat_tables(counts).group_by([*self.quasi])
        return counted.aggregate([(_ROWS, "sum")]).rename_columns([*self.quasi, _ROWS])

    def _check(self, counts: pa.Table) -> None:
        sizes: list[int] = counts[_ROWS].to_pylist()
        # These counts are of the released rows themselves: if they agree, no class is below k,
        # whatever happened to the source meanwhile.
        agreed = sum(sizes) == self.rows
        if agreed and self.classes is not None:
            sizes = list(self._without_starred(counts, sizes))
            agreed = len(sizes) == self.classes and min(sizes, default=0) >= (self.k or 0)
        if not agreed:
            raise changed(self.table)

    def _without_starred(self, counts: pa.Table, sizes: list[int]) -> Iterator[int]:
        """Yield the sizes of classes without starred rows."""
        # A released class may be blank too; only as many blank rows as were starred are set aside.
        starred = self.starred
        if not starred:
            yield from sizes
            return
        labels = zip(*(counts[name].to_pylist() for name in self.quasi), strict=True)
        for size, worn in zip(sizes, labels, strict=True):
            blank_rows = min(size, starred) if set(worn) <= {None, ROOT} else 0
            starred -= blank_rows
            if size > blank_rows:
                yield size - blank_rows


def mark_before(table: Table) -> str | None:
    """Return the fingerprint of a table before counting; None if its engine notices changes."""
    return None if table.engine.traits.keeps_source else mark(table)


def mark(table: Table) -> str:
    """Return the present fingerprint of a table."""
    names = [column.name for column in table.schema.columns]
    return fingerprint(table.engine, table.engine.table, names, secret=holder_secret())


def changed(table: str) -> SourceError:
    """Return the error for rows that differ from the decided ones."""
    return SourceError(
        "source_changed",
        f"The rows of table {quoted(table)} are not those that this release was decided on, so "
        "that they may not satisfy the criteria: they changed, or differ at each look. Anonymize "
        "them again, from a table or from Parquet files that nothing writes to.",
    )
