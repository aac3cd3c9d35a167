"""Two tables counted over the same codes: how many rows of each lie in every cell of some columns.

The rows of a table of moderate size, or of few combinations, are counted once in all columns, and
every set of columns is added up from that here; a larger one is asked set by set. Either way the
engine counts, and no row comes here by itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sfumato.data.counting.frequencies import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.attack.evaluation.coding import Coding
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine

    Counts = NDArray[np.int64]
    Codes = NDArray[np.integer]

MOST_HELD = 2_000_000
"""Tables of no more rows, or of no more combinations, are held as counts of all columns."""
_DENSE = 2
"""So many cells for each row are still quicker to add up in place than by sorting."""


@dataclass(frozen=True)
class Cells:
    """The cells of some columns that either table has, and the rows of both in each."""

    codes: tuple[Codes, ...]
    original: Counts
    synthetic: Counts


@dataclass(frozen=True)
class CodedCounts:
    """Combinations of codes of all columns, and how often each occurs."""

    codes: tuple[Codes, ...]
    counts: Counts
    single: bool
    """Whether every combination is one row."""

    def of(self, places: Sequence[int]) -> CodedCounts:
        """Some of the columns; combinations may come more than once."""
        return replace(self, codes=tuple(self.codes[place] for place in places))

    def added(self, keys: Codes, size: int) -> Counts:
        """The rows of each key; sums of floats are exact below 2^53 of them."""
        weights = None if self.single else self.counts
        return np.bincount(keys, weights=weights, minlength=size).astype(np.int64, copy=False)


@dataclass(frozen=True)
class CodedTable:
    """One of the two tables: an engine with a view of its keys, and how they are coded."""

    engine: Engine
    view: exp.Table
    codings: tuple[Coding, ...]
    rows: int

    @cached_property
    def held(self) -> CodedCounts | None:
        """All columns counted at once; None where that would be too much to hold."""
        cells = prod(one.size for one in self.codings)
        if min(self.rows, cells) > MOST_HELD:
            return None
        return self.counted(range(len(self.codings)))

    def of(self, places: Sequence[int]) -> CodedCounts:
        """Combinations of some columns."""
        return self.held.of(places) if self.held is not None else self.counted(places)

    def counted(self, places: Sequence[int], *, one_in: int = 1) -> CodedCounts:
        """Combinations of some columns, counted in the engine; of one in so many of them."""
        chosen = [self.codings[place] for place in places]
        where = None
        if one_in > 1:
            values = [exp.column(one.name, quoted=True) for one in chosen]
            hashed = exp.Mod(
                this=exp.Paren(this=self.engine.traits.hashed("sample", values)),
                expression=exp.convert(one_in),
            )
            where = hashed.eq(0)
        found = count(self.engine, self.view, [one.name for one in chosen], where=where)
        single = bool(found.counts.max(initial=1) == 1)
        return CodedCounts(_coded(found, chosen), found.counts, single)

    def sample(self, most: int) -> CodedCounts:
        """Combinations of all columns, of as many rows or somewhat more than asked for."""
        if self.held is not None:
            return self.held
        return self.counted(range(len(self.codings)), one_in=max(1, self.rows // most))


def _coded(found: Frequencies, codings: Sequence[Coding]) -> tuple[Codes, ...]:
    """The codes of counted keys."""
    return tuple(
        coding.codes(axis.decode(np.arange(axis.size)).to_pylist())[codes]
        for coding, axis, codes in zip(codings, found.axes, found.codes, strict=True)
    )


@contextmanager
def coded(engine: Engine, table: exp.Table, codings: Sequence[Coding]) -> Iterator[CodedTable]:
    """Let a table be counted by the keys of its columns."""
    named = [exp.alias_(one.key.copy(), one.name, quoted=True) for one in codings]
    rows = engine.run(exp.select(exp.Count(this=exp.Star()).as_("n")).from_(table.copy()))
    with engine.view(exp.select(*named).from_(table.copy())) as view:
        yield CodedTable(engine, view, tuple(codings), int(rows.column(0)[0].as_py()))


def cells(original: CodedTable, synthetic: CodedTable, places: Sequence[int]) -> Cells:
    """The cells of up to three columns, each with the rows that both tables have there."""
    sizes = [original.codings[place].size for place in places]
    sides = [one.of(places) for one in (original, synthetic)]
    keyed = [_keys(one.codes, sizes) for one in sides]
    radix, rows = prod(sizes), sum(map(len, keyed))
    present = None
    if radix > _DENSE * rows:
        present, places_of = np.unique(np.concatenate(keyed), return_inverse=True)
        keyed = np.split(places_of, [len(keyed[0])])
        radix = len(present)
    real, made = (one.added(key, radix) for one, key in zip(sides, keyed, strict=True))
    occupied = np.flatnonzero(real + made)
    flat = occupied if present is None else present[occupied]
    return Cells(tuple(np.unravel_index(flat, sizes)), real[occupied], made[occupied])


def _keys(codes: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """One number for each combination; of three columns it is far from 64 bits."""
    key = codes[0].astype(np.int64)
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        key *= size
        key += column
    return key
