"""A stream in memory: charged to a table's budget, then told what comes, period by period."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.cards import Card, CardTable, Shown
from sfumato.engines.sources import open_source
from sfumato.errors import ParameterError
from sfumato.method import text_limits
from sfumato.noise.entropy import SystemEntropy
from sfumato.schema.column import Kind
from sfumato.schema.names import quoted
from sfumato.vault.streaming import Reached, take_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.engines.wellformed import TextLimit
    from sfumato.noise.entropy import Entropy
    from sfumato.release.release import Guarantee
    from sfumato.schema.column import Column
    from sfumato.vault.answer import Answer
    from sfumato.vault.streaming import WholeStream

_TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.REAL: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.DATE: "DATE",
    Kind.BOOLEAN: "BOOLEAN",
}
_TRUSTED = "counts, bounded by whoever counted"
"""What is noted of a step that hides people if what was promised of its counts is true."""


class KeptEntropy(SystemEntropy):
    """The operating system's entropy, whose words are kept and given again from the beginning."""

    def __init__(self, kept: list[NDArray[np.uint64]]) -> None:
        self._kept, self._at = kept, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` words: those that were drawn here before, or else new ones."""
        if self._at == len(self._kept):
            self._kept.append(super().words(count))
        self._at += 1
        return self._kept[self._at - 1]


@dataclass
class InMemory:
    """How far a stream is, for as long as its process lives."""

    _reached: Reached
    _words: list[NDArray[np.uint64]] = field(default_factory=list)
    """What was drawn for the next step, should that be interrupted."""

    def reached(self, stream: str) -> Reached:
        """The last step."""
        del stream
        return self._reached

    def tape(self, stream: str, step: int) -> Entropy:
        """The entropy of the next step: the same words however often it is begun."""
        del stream, step
        return KeptEntropy(self._words)

    def settle(self, stream: str, reached: Reached) -> Reached:
        """Remember one more step."""
        del stream
        self._reached, self._words = reached, []
        return reached


@dataclass(frozen=True, repr=False)
class StreamStep(Shown):
    """What one step of a stream told."""

    number: int
    table: pa.Table
    error: dict[str, dict[str, float]]
    note: str = ""

    @property
    def values(self) -> list[Any]:
        """One figure for each cell."""
        found: list[Any] = self.table.column("rows").to_pylist()
        return found

    @property
    def stddev(self) -> float:
        """How far each figure is off."""
        return self.error["rows"]["sd"]

    def _card(self) -> Card:
        rows = [tuple(map(str, one.values())) for one in self.table.slice(0, 10).to_pylist()]
        more = max(0, self.table.num_rows - 10)
        shown = CardTable(tuple(self.table.column_names), rows, more)
        return Card(f"step {self.number}, off by {self.stddev:.4g}", {}, shown)


@dataclass(repr=False)
class Stream(Shown):
    """A stream whose whole price is paid: `step` takes what a period brought, `told` has it all.

    It lives as long as its process. What must outlive it is a feed of a vault.
    """

    whole: WholeStream
    receipt: str
    told: list[StreamStep] = field(default_factory=list)
    _memory: InMemory | None = None
    _rows: Counter[Any] = field(default_factory=Counter)
    """By person the rows, or the periods, that counted so far."""

    @classmethod
    def begun(cls, whole: WholeStream, answer: Answer) -> Stream:
        """A stream by what was stored under its charge."""
        state = json.loads(answer.table.column("state")[0].as_py())
        return cls(whole, answer.entry, _memory=InMemory(Reached(0, state, {})))

    @property
    def guarantee(self) -> Guarantee:
        """What all steps together promise, and to whom."""
        return self.whole.guarantee

    def step(self, came: Any, *, bounded: bool = False) -> StreamStep:
        """Tell one more period, of which the rows came, or how many in each cell.

        Rows are a table, bounded by person here. Nothing of counts says whose they are: where a
        person is hidden, they are taken only as `bounded`, by which whoever counted promises that
        no person is in more of them, or of the periods, than the guarantee says.
        """
        assert self._memory is not None
        before = self._memory.reached(self.receipt)
        periods = self.whole.request.periods
        if periods is not None and before.step >= periods:
            raise ParameterError(
                "stream_over",
                f"The stream was paid for {periods:,} periods, and all are told. Begin another; "
                "one without periods= never ends.",
            )
        of_counts = _is_counts(came)
        counts = self._counts(came, bounded=bounded) if of_counts else self._of_rows(came)
        reached = take_step(self._memory, self.receipt, self.whole.method, before, counts)
        told = reached.told
        table, error = self.whole.table(told["values"]), self.whole.error(told["sd"])
        note = [told["note"]] if told.get("note") else []
        note += [_TRUSTED] if of_counts and self.whole.request.unit.by_person else []
        self.told.append(StreamStep(reached.step, table, error, "; ".join(note)))
        return self.told[-1]

    def _counts(self, came: Any, *, bounded: bool) -> NDArray[np.int64]:
        request = self.whole.request
        if request.unit.by_person and bounded is not True:
            raise ParameterError(
                "stream_counts_unbounded",
                f"The stream hides a {quoted(str(request.unit.column))} as a whole, and counts do "
                "not say whose rows they are. Give the rows, which are bounded here; or, if you "
                "have counted no person more often than the guarantee says, over all steps, pass "
                "bounded=True.",
            )
        counts, cells = np.atleast_1d(came), request.cells
        if counts.shape == (cells,) and counts.dtype.kind in "iu" and (counts >= 0).all():
            return counts.astype(np.int64)
        raise ParameterError(
            "stream_counts_wrong",
            f"A step takes {cells:,} whole numbers of at least 0, one for each cell, or a "
            "table of rows.",
        )

    def _of_rows(self, table: Any) -> NDArray[np.int64]:
        """The rows of a table in each cell, columns being of the kinds that are declared."""
        unit, by = self.whole.request.unit, self.whole.by
        declared = {one.name: one for one in self.whole.columns}
        # What is no value of its column is missing: how a file is read depends on no row.
        engine = open_source(table, kinds=declared, strict=False, short_texts=True)
        try:
            limits = text_limits(self.whole.columns, unit)
            cells = (_read(one, limits[one.name]) for one in self.whole.columns)
            asked = exp.select(*cells, "1").from_(engine.table)
            found = engine.run(asked)
        finally:
            engine.close()
        if unit.column is not None:
            found = found.filter(pa.array(self._allowed(found.column(unit.column))))
        if by is None:
            return np.array([found.num_rows], dtype=np.int64)
        cells = pa.array(self.whole.values).cast(found.column(by).type)
        places = pc.index_in(found.column(by), value_set=cells).drop_null().to_numpy()
        return np.bincount(places, minlength=len(cells)).astype(np.int64)

    def _allowed(self, people: pa.ChunkedArray) -> NDArray[np.bool_]:
        """Which rows count: of each person the first ones, or those of the first periods."""
        request = self.whole.request
        coded = people.combine_chunks().dictionary_encode()
        names, codes = coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy()
        nobody = [place for place, one in enumerate(names) if one != one]  # NaN is nobody
        before = np.array([self._rows[one] for one in names], dtype=np.int64)
        most, rows = request.unit.max_rows, len(codes)
        left = np.where(before < request.days, most, 0) if request.days else most - before
        left[nobody] = 0
        order = np.argsort(codes, kind="stable")
        begins = np.append(True, codes[order][1:] != codes[order][:-1])[:rows]
        starts = np.maximum.accumulate(np.where(begins, np.arange(rows), 0))
        places = np.empty(rows, dtype=np.int64)
        places[order] = np.arange(rows) - starts
        kept: NDArray[np.bool_] = (codes >= 0) & (places < np.append(left, 0)[codes])
        counted = np.bincount(codes[kept], minlength=len(names))
        for name, many in zip(names, counted.tolist(), strict=True):
            if many:
                self._rows[name] += 1 if request.days else many
        return kept

    def _card(self) -> Card:
        steps = [(str(one.number), str(one.values), f"{one.stddev:.4g}") for one in self.told]
        table = CardTable(("Step", "Rows", "Sd"), steps[-10:], max(0, len(steps) - 10))
        facts = {"Guarantee": self.guarantee.statement}
        return Card(f"{len(steps)} steps told", facts, table if steps else None)


def _is_counts(came: Any) -> bool:
    """Whether something is meant as a count for each cell; records of rows are a table."""
    if isinstance(came, list | tuple):
        return not came or not isinstance(came[0], Mapping)
    return isinstance(came, int | np.ndarray | np.integer) and not isinstance(came, bool)


def _read(column: Column, limit: TextLimit | None) -> exp.Expr:
    """A column as its declared kind, however the rows of a step hold it; else as missing.

    Texts are cut as everywhere, and days beyond those of Python, which it cannot name, are missing.
    """
    value: exp.Expr = exp.TryCast(
        this=exp.column(column.name, quoted=True), to=exp.DataType.build(_TYPES[column.kind])
    )
    if limit is not None:
        value = limit.applied(value)
    elif column.kind is Kind.DATE:
        low, high = (exp.cast(exp.convert(day.isoformat()), "DATE") for day in (date.min, date.max))
        inside = exp.Between(this=value.copy(), low=low, high=high)
        value = exp.case().when(inside, value)
    return exp.alias_(value, column.name, quoted=True)
