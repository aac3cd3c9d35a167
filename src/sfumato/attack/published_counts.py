"""Published counts as an attacker reads them: the tables, their promise, and a membership score.

Every person of the data is one in one cell of each table. An attacker who draws n people from the
population expects n p in that cell, with p from reference people, and sees by how much the count
exceeds it. The score sums (count - n p) / v over tables. To first order it is the logarithm of how
much likelier the counts are with the person than without. v is the variance of a cell by chance:
of the draw of n people, of the m reference people, and of noise with a known standard deviation,
v = n p (1 + n / m) + sd^2. The person counts among the reference people, so no p is 0.

*Reference*: Homer et al. 2008 for shares of single traits; Sankararaman, Obozinski, Jordan and
Halperin 2009 for the likelihood ratio. Decision `matching`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.records import plain_values
from sfumato.data.counting.axes import Grid, declared
from sfumato.data.counting.grouping import keys
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.names import untaken
from sfumato.privacy.accounting.losses import Zcdp, zcdp_to_approx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.records import Trait
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.release.release import Release


PUBLISHED = "publish "
"""How the method of a publication begins; answers to queries count only some of the rows."""


_MISSING = "missing"


_USUAL_DELTA = Fraction(1, 10**6)
"""A rho gives an epsilon for every delta; it is stated for this delta unless one is given."""


def published_tables(release: Release, schema: Schema) -> list[PublishedTable]:
    """Return the tables of a publication that count all people by values of declared columns."""
    if not release.provenance.method.startswith(PUBLISHED):
        return []
    published = []
    for name, table in release.tables.items():
        figure = figure_of(table, [column.name for column in schema.columns])
        if figure is None or (name == _MISSING and name not in table.column_names):
            continue  # ranges and sketches, or the count of missing values beside ranges
        columns = tuple(column for column in schema.columns if column.name in table.column_names)
        counts = table[figure].cast(pa.float64()).fill_null(0.0)
        stddev = _stddev(release.error or {}, name)
        published.append(PublishedTable(columns, table, np.asarray(counts, np.float64), stddev))
    return published


def figure_of(table: pa.Table, columns: Sequence[str]) -> str | None:
    """Return the count column of single combinations; None if a table has ranges or no counts."""
    present = [column for column in columns if column in table.column_names]
    figure = untaken("count", present)
    return figure if present and figure in table.column_names else None


def _stddev(error: Mapping[str, Any], name: str) -> float:
    """Return the standard deviation of the counts of a table; 0 if none is stated."""
    errors = ((error.get("tables") or {}).get(name), error.get("cell"), error.get("cells"))
    return next(
        (float(error_entry["sd"]) for error_entry in errors if error_entry and "sd" in error_entry),
        0.0,
    )


def price(parameters: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the epsilon and delta of a guarantee; a rho is converted."""
    delta = Fraction(str(parameters.get("delta") or 0))
    if parameters.get("epsilon") is not None:
        return float(Fraction(str(parameters["epsilon"]))), float(delta)
    if parameters.get("rho") is None:
        return None
    loss = zcdp_to_approx(Zcdp(rho=Fraction(str(parameters["rho"]))), delta=delta or _USUAL_DELTA)
    return float(loss.epsilon), float(loss.delta)


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """Counts of single combinations of some columns, with noise of a known deviation."""

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
    """Score how much likelier published counts are with each person than without.

    `reference` and `people` have the codes of each trait.
    """
    size = len(next(iter(people.values())))
    scores = np.zeros(size)
    for table in tables:
        released, reference_cells, mine = _cells(attack, table, traits, reference, people)
        cells = (
            int(
                max(
                    cell_numbers.max(initial=0)
                    for cell_numbers in (released, reference_cells, mine)
                )
            )
            + 1
        )
        counts = np.bincount(released, table.counts, cells)
        total, beside = max(float(table.counts.sum()), 1.0), max(len(reference_cells), 1)
        # The person counts among the reference people, so that no expected count is 0.
        expected = total * (np.bincount(reference_cells, minlength=cells) + 1) / (beside + 1)
        # Variances of the draw, of the reference people and of the noise add up.
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
    """Number the cells of a table, and return the cells of its rows, the reference and people."""
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
    released, reference_cells, mine = np.split(numbered, ends)
    return released, reference_cells, mine


def _codes(column: Column, trait: Trait, values: pa.Array) -> tuple[IntArray, IntArray]:
    """Return the codes of published values, and the code of each value of a trait."""
    known = trait.values if trait.numbers is None else pa.array(trait.numbers, from_pandas=True)
    if isinstance(column.public_domain, Bounds):
        axis = declared(column)
        assert isinstance(axis, Grid)
        released, own = (
            _points(axis, array.to_numpy(zero_copy_only=False).astype(np.float64))
            for array in (values, known)
        )
        return released, own
    value_codes = pc.index_in(values, value_set=known).fill_null(len(known))  # nobody's values
    return value_codes.to_numpy().astype(np.int64), np.arange(len(known))


def _points(axis: Grid, numbers: FloatArray) -> IntArray:
    """Return the point of a declared grid at which each number is counted.

    Numbers outside the bounds are clipped, as the publication does; missing ones come last.
    """
    low, step = axis.bounds.low, axis.bounds.grid_step
    assert step is not None
    first = low.toordinal() - date(1970, 1, 1).toordinal() if isinstance(low, date) else low
    points = np.clip(np.floor((numbers - float(first)) / float(step) + 0.5), 0, axis.points - 1)
    return np.where(np.isnan(numbers), axis.points, np.nan_to_num(points)).astype(np.int64)
