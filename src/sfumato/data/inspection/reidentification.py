"""Re-identification risk: how likely a row is matched to its person, for three attackers.

*Prosecutor*: knows that the target is in the table. *Journalist*: picks any target of a larger
population from which the table was drawn. *Marketer*: wants as many right matches as possible.
With f_j the size of class j in the table and F_j in the population (F_j = f_j where no population
is given: then the journalist's risk is at most the prosecutor's, which is what is reported):

    prosecutor   highest max 1/f_j       average (number of classes) / n
    journalist   highest max 1/F_j       average sum f_j/F_j / n over classes of the table
    marketer     average sum f_j/F_j / n: the share of rows a linkage of all rows gets right

Reference: El Emam and Dankar, Protecting privacy using k-anonymity, JAMIA 2008; Dankar and
El Emam, A method for evaluating marketer re-identification risk, PAIS 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from sfumato.data.counting.grouping import keys
from sfumato.data.inspection.uniqueness import SMALL, smallest_groups

if TYPE_CHECKING:
    from sfumato.arrays import IntArray
    from sfumato.data.counting.frequencies import Frequencies


@dataclass(frozen=True)
class Attacker:
    """The risk from one kind of attacker: the highest, the average, and the share at risk."""

    highest: float
    average: float
    at_risk: float
    """The share of rows with a risk above 1/`SMALL`."""


@dataclass(frozen=True)
class Reidentification:
    """The risk under all three attackers."""

    prosecutor: Attacker
    journalist: Attacker
    marketer: Attacker


def reidentification(
    table: Frequencies, population: Frequencies | None = None, *, person: str | None = None
) -> Reidentification:
    """Measure the risk of a table, alone or as a sample of a population with the same columns.

    Where a column names the `person`, people are counted, each by the smallest of their classes.
    """
    names = [name for name in table.columns if name != person]
    if person is not None:
        own = smallest_groups(table, names, person)[0]
        rows = np.ones_like(own)
    else:
        own = rows = table.counts
    prosecutor = attacker(rows, own)
    if population is None:
        return Reidentification(prosecutor, prosecutor, prosecutor)
    sizes = partial(_sizes_in, population)
    candidates = sizes(table) if person is None else smallest_groups(table, names, person, sizes)[0]
    journalist = attacker(rows, candidates)
    return Reidentification(prosecutor, journalist, journalist)


def attacker(rows: IntArray, candidates: IntArray) -> Attacker:
    """The risk where each row of a class matches one of so many candidates: 1/candidates."""
    total = rows.sum()
    if total == 0:
        return Attacker(0.0, 0.0, 0.0)
    return Attacker(
        highest=float(1 / candidates.min()),
        average=float((rows / candidates).sum() / total),
        at_risk=float(rows[candidates < SMALL].sum() / total),
    )


def _sizes_in(population: Frequencies, table: Frequencies) -> IntArray:
    """The size in the population of each class of the table; never less than in the table."""
    sizes = table.counts.copy()
    known = np.ones(len(table), dtype=bool)
    translated = []
    for column, codes in zip(table.columns, table.codes, strict=True):
        own, population_axis = table.axis(column), population.axis(column)
        values = own.decode(np.arange(own.size))
        code_of = pc.index_in(
            values, value_set=population_axis.decode(np.arange(population_axis.size))
        )
        translated.append(code_of.fill_null(-1).to_numpy()[codes])
        known &= translated[-1] >= 0
    axes = [population.columns.index(column) for column in table.columns]
    key, _ = keys(
        [
            np.concatenate([population.codes[axis], codes[known]])
            for axis, codes in zip(axes, translated, strict=True)
        ],
        [population.sizes[axis] for axis in axes],
    )
    candidates, sought = key[: len(population)], key[len(population) :]
    order = np.argsort(candidates)
    positions = order[np.searchsorted(candidates, sought, sorter=order).clip(max=len(order) - 1)]
    matched = np.where(candidates[positions] == sought, population.counts[positions], 0)
    # The table is part of the population, so no class is smaller there.
    sizes[known] = np.maximum(sizes[known], matched)
    return sizes
