"""Skewness: a class in which a rare value is common says much about everyone in it.

*Attacker*: knows how common each value is among all people (from the list if it has the column,
else from the release), and a person's class.
*Success*: the share of people for whom the belief in their own value grows at least by the factor
`gain`, by default 2.
*Baseline*: the same after the values are dealt out to the classes at random: small classes differ
from the whole by chance too.
*Victims*: those people.
*Reference*: Li, Li and Venkatasubramanian, t-Closeness, 2007, section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.beliefs import believed

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray
    from sfumato.attack.beliefs import Hit
    from sfumato.attack.case import Case
    from sfumato.attack.classes import ClassValues
    from sfumato.attack.finding import Finding
    from sfumato.data.schema.column import Column


def run(case: Case) -> Finding:
    """Find people in whose class the belief in their value grows by the factor `gain`."""
    gain = case.options.gain

    def hit(column: Column, values: ClassValues) -> Hit:
        common = public_shares(case, column, values)
        return lambda dealt_values: gains(dealt_values, common) >= gain

    return believed(
        case,
        "skewness",
        hit,
        attacker="knows how common values are, and which class a person is in",
        meaning=f"People whose {case.options.sensitive or 'sensitive value'} becomes at least "
        f"{gain:g} times as probable",
        reference="Li et al. 2007",
    )


def public_shares(case: Case, column: Column, values: ClassValues) -> FloatArray:
    """Return how common each value is among all people."""
    totals = values.totals.astype(np.float64)
    if case.known is not None and column.name in case.known.names:
        table = case.known.counted([column.name])
        listed = table.axes[0].decode(table.codes[0]).to_pylist()
        counts = dict(zip(listed, table.counts.tolist(), strict=True))
        totals = np.array([counts.get(name, 0) for name in values.names], dtype=np.float64)
        totals = np.maximum(totals, 1)  # no value that occurs is believed to be impossible
    shares: FloatArray = totals / totals.sum()
    return shares


def gains(values: ClassValues, common: FloatArray) -> FloatArray:
    """Return the factor by which the belief in each value of each class grows."""
    inside = values.counts / values.sizes[values.owners]
    growth: FloatArray = inside / common[values.values]
    return growth
