"""Anatomy: quasi-identifiers as they are, sensitive values by bucket, in two tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.anonymize.criteria.base import whole
from sfumato.anonymize.dealing import Given, as_they_are, deal, rows_of
from sfumato.errors import CriterionError, SchemaError, SourceError
from sfumato.grouping import group
from sfumato.noise.entropy import SystemEntropy
from sfumato.noise.uniform import permutation, uniform_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.frequencies import Frequencies
    from sfumato.noise.entropy import Entropy
    from sfumato.recoding import ByRow

    Ints = NDArray[np.int64]

GROUP, COUNT = "group", "count"


@dataclass(frozen=True, eq=False)
class Anatomy:
    """A release in two tables: rows with their group, and how often each group has which value."""

    groups: int
    rows: int
    quasi: ByRow
    sensitive: pa.Table


def anatomize(
    table: Frequencies,
    sensitive: str,
    *,
    l: int,  # noqa: E741  # the name of the parameter in the literature
    unchanged: Sequence[str] = (),
    entropy: Entropy | None = None,
) -> Anatomy:
    """Put rows into groups of l or a few more, no two of which share a sensitive value.

    *Guarantee*: in every group each value has at most 1/l of the rows (folk l-diversity), and no
    group has a value twice; k-anonymity does not apply, because quasi-identifiers are released.
    *Edges*: impossible where a value has more than 1/l of all rows; NULL counts as a value.
    *Reference*: Xiao and Tao 2006. Rows are dealt out by value, so many groups as there
    are l rows each, which makes the same number of groups of the same sizes as taking the l
    commonest values again and again.
    """
    source = SystemEntropy() if entropy is None else entropy
    names = [name for name in table.columns if name != sensitive]
    if {GROUP, COUNT} & {*table.columns, *unchanged}:
        raise SchemaError(
            "column_name_taken",
            f"Anatomy adds columns named {GROUP!r} and {COUNT!r}, but the table has one of that "
            "name. Rename it.",
        )
    if not table.total:
        raise SourceError("table_empty", "The table has no rows: there is nothing to anonymize.")
    combination = rows_of(table)
    value = as_they_are(table, sensitive, combination)
    groups = _groups(value.codes.astype(np.int64), whole(l, "l"), sensitive, source)
    count = int(groups.max()) + 1
    given = [as_they_are(table, name, combination) for name in names]
    numbers = Given(GROUP, groups, pa.array(np.arange(1, count + 1)))
    return Anatomy(
        count,
        table.total,
        deal(table, combination, [*given, numbers], unchanged),
        _buckets(value, groups, count),
    )


def _groups(values: Ints, least: int, name: str, entropy: Entropy) -> Ints:
    """The group of each row: random rows of one value after the other, dealt out in turn.

    A value has no more rows than there are groups, so none meets itself.
    """
    counts = np.bincount(values)
    count = len(values) // least
    if counts.max() > count:
        raise CriterionError(
            "criterion_not_reachable",
            f"No buckets reach {least}-diversity of {name}: its commonest value has "
            f"{int(counts.max()):,} of {len(values):,} rows, more than one in {least}. Ask for "
            "less.",
        )
    order = permutation(len(values), entropy)
    order = order[np.argsort(values[order], kind="stable")]
    names = permutation(count, entropy)
    groups = np.empty(len(values), dtype=np.int64)
    dealt = count * least
    groups[order[:dealt]] = names[np.arange(dealt) % count]
    for place in range(dealt, len(values)):
        mine = values[order[place]]
        taken = groups[order[:place]][values[order[:place]] == mine]
        free = np.setdiff1d(np.arange(count), taken)
        groups[order[place]] = free[uniform_integers(len(free), 1, entropy)[0]]
    return groups


def _buckets(value: Given, groups: Ints, count: int) -> pa.Table:
    """Group, value and count, in order."""
    ones = np.ones(len(groups), dtype=np.int64)
    cells = group([groups, value.codes], [count, len(value.values)], ones)
    first = cells.representatives
    columns = [
        pa.array(groups[first] + 1),
        value.values.take(pa.array(value.codes[first])),
        pa.array(cells.counts),
    ]
    return pa.Table.from_arrays(columns, names=[GROUP, value.name, COUNT])
