"""Published counts as an attacker reads them: how well a person's own cells fit them.

In every table a person of the data is one in one cell. Who draws n people from the world expects
n p in the cell, with p as reference people have it; who knows the counts sees by how much they pass
that. The sum over tables of (count - n p) / v is, to first order, the logarithm of how much
likelier the counts are with the person than without: v is what the cell is off by chance, by the
draw of the people, by that of the m reference people, and by noise of a known deviation:
v = n p (1 + n / m) + sd^2. The person counts among the reference people, so that nobody's p is 0.

*Reference*: Homer et al. 2008 for shares of single traits; Sankararaman, Obozinski, Jordan and
Halperin 2009 for the likelihood ratio. Decision 0304.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.records import plain_values
from sfumato.data.counting.axes import Grid, declared
from sfumato.data.counting.grouping import keys
from sfumato.data.schema.domain import Bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.records import Trait
    from sfumato.data.schema.column import Column


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """Counts of single combinations of some columns, off by noise of a known deviation."""

    columns: tuple[Column, ...]
    cells: pa.Table
    counts: FloatArray
    stddev: float = 0.0


def likelihoods(
    attack: str,
    tables: Sequence[PublishedTable],
    traits: Mapping[str, Trait],
    reference: Mapping[str, IntArray],
    people: Mapping[str, IntArray],
) -> FloatArray:
    """How much likelier published counts are with each of these people than without.

    Reference people and these are given by their codes of each trait.
    """
    size = len(next(iter(people.values())))
    scores = np.zeros(size)
    for table in tables:
        released, others, mine = _cells(attack, table, traits, reference, people)
        cells = int(max(part.max(initial=0) for part in (released, others, mine))) + 1
        counts = np.bincount(released, table.counts, cells)
        total, beside = max(float(table.counts.sum()), 1.0), max(len(others), 1)
        expected = total * (np.bincount(others, minlength=cells) + 1) / (beside + 1)
        variance = expected * (1 + total / beside) + table.stddev**2
        scores += ((counts - expected) / variance)[mine]
    return scores


def _cells(
    attack: str,
    table: PublishedTable,
    traits: Mapping[str, Trait],
    reference: Mapping[str, IntArray],
    people: Mapping[str, IntArray],
) -> tuple[IntArray, IntArray, IntArray]:
    """The cells of a table, and those that reference people and these are in, numbered."""
    columns, sizes = [], []
    for column in table.columns:
        trait, name = traits[column.name], column.name
        values = plain_values(attack, column, table.cells[name].combine_chunks())
        released, own = _codes(column, trait, values)
        every = np.concatenate([released, own[reference[name]], own[people[name]]])
        columns.append(every)
        sizes.append(int(every.max(initial=0)) + 1)
    key, _ = keys(columns, sizes)
    numbered = np.unique(key, return_inverse=True)[1]
    ends = np.cumsum([table.cells.num_rows, len(next(iter(reference.values())))])
    released, others, mine = np.split(numbered, ends)
    return released, others, mine


def _codes(column: Column, trait: Trait, values: pa.Array) -> tuple[IntArray, IntArray]:
    """A column's codes of published values, and those of each code of a trait."""
    known = trait.values if trait.numbers is None else pa.array(trait.numbers, from_pandas=True)
    if isinstance(column.public_domain, Bounds):
        axis = declared(column)
        assert isinstance(axis, Grid)
        released, own = (
            _points(axis, one.to_numpy(zero_copy_only=False).astype(np.float64))
            for one in (values, known)
        )
        return released, own
    found = pc.index_in(values, value_set=known).fill_null(len(known))  # nobody has these
    return found.to_numpy().astype(np.int64), np.arange(len(known))


def _points(axis: Grid, numbers: FloatArray) -> IntArray:
    """The points of a declared grid where numbers are counted; missing ones are behind all."""
    low, step = axis.bounds.low, axis.bounds.grid_step
    assert step is not None
    first = low.toordinal() - date(1970, 1, 1).toordinal() if isinstance(low, date) else low
    places = np.clip(np.floor((numbers - float(first)) / float(step) + 0.5), 0, axis.points - 1)
    return np.where(np.isnan(numbers), axis.points, np.nan_to_num(places)).astype(np.int64)
