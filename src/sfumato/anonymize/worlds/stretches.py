"""Leaves for numbers too many to write out: the stretches between the ends of ranges and constants.

A range of reals, or a very wide one of integers, holds numbers that no label names. No question
tells those apart that lie between two neighbouring cuts (ends of ranges, values, constants of the
question), so one leaf stands for all of them. Decision 0087.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.anonymize.label_spelling import plain_label
from sfumato.anonymize.labels import members_of
from sfumato.anonymize.taxonomy import declared, ends_of
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import EXACT, Bounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.hierarchy.base import Leaf, Taxonomy

    Number = int | Decimal
    Stretches = Mapping[Leaf, tuple[Number, Number]]

_PARTS = 1 << 40
"""So finely the widths of stretches are weighed; a single number weighs one part."""


@dataclass(frozen=True, eq=False)
class LeafNumbers:
    """The least and the greatest number that each leaf stands for, and how many they are."""

    low: FloatArray
    high: FloatArray
    weights: IntArray

    @classmethod
    def of(cls, leaves: Sequence[Leaf], stretches: Stretches) -> LeafNumbers:
        """Leaves that are no numbers are never summed."""
        ends = [stretches.get(leaf) or (_float(leaf), _float(leaf)) for leaf in leaves]
        low, high = np.array([(float(one), float(other)) for one, other in ends]).T
        weights = np.ones(len(leaves), dtype=np.int64)
        if stretches:
            first = min(one for one, _ in stretches.values())
            span = max(other for _, other in stretches.values()) - first
            for place, leaf in enumerate(leaves):
                if leaf in stretches:
                    weights[place] = _weight(*stretches[leaf], span)
        return cls(low, high, weights)

    @property
    def middle(self) -> FloatArray:
        """The mean of what each leaf stands for."""
        middle: FloatArray = self.low + (self.high - self.low) / 2
        return np.where(self.low == self.high, self.low, middle)


def stretches_between(
    column: Column, taxonomy: Taxonomy, labels: Iterable[Leaf], constants: Iterable[Any]
) -> Stretches:
    """More leaves of a column whose numbers are not written out, and the ends of each.

    The cuts are among them. Empty where every number that a label can stand for is a leaf.
    """
    spans = _spans(column, labels)
    if not spans or declared(column):
        return {}
    first, last = min(low for low, _ in spans), max(high for _, high in spans)
    cuts = {end for span in spans for end in span}
    cuts |= {leaf for leaf in taxonomy.leaves if isinstance(leaf, int | Decimal) and _finite(leaf)}
    cuts |= {cut for one in constants for cut in _cuts(one, column, first, last)}
    found: dict[Leaf, tuple[Number, Number]] = {cut: (cut, cut) for cut in cuts}
    for one, other in pairwise(sorted(cuts)):
        if isinstance(one, Decimal):
            middle = EXACT.multiply(EXACT.add(one, Decimal(other)), Decimal("0.5"))
            found[middle] = (one, other)
        elif other - one > 1:
            found[one + 1] = (one + 1, int(other) - 1)
    return found


def _spans(column: Column, labels: Iterable[Leaf]) -> list[tuple[Number, Number]]:
    """The ends of bounds and of ranges, as far as these lie within the bounds."""
    if column.kind not in (Kind.INTEGER, Kind.REAL):
        return []
    bounds = column.domain if isinstance(column.domain, Bounds) else None
    spans: list[Any] = [] if bounds is None else [(bounds.low, bounds.high)]
    for label in labels:
        text = plain_label(column, label) if isinstance(label, str) else ""
        for member in members_of(text) or [text]:
            ends = None if member is None else ends_of(member, column)
            if ends is None or not _finite(ends[0]) or not _finite(ends[1]):
                continue
            low, high = ends[:2]
            if bounds is not None:
                low, high = max(low, bounds.low), min(high, bounds.high)
            if low <= high:  # type: ignore[operator]
                spans.append((low, high))
    return spans


def _cuts(constant: Decimal, column: Column, first: Number, last: Number) -> list[Number]:
    """A constant as a double, which all values are, or the whole numbers next to it."""
    if not first <= constant <= last:
        return []
    if column.kind is Kind.REAL:
        return [Decimal(repr(float(constant)))]
    return [int(constant.to_integral_value(way)) for way in (ROUND_FLOOR, ROUND_CEILING)]


def _weight(low: Number, high: Number, span: Number) -> int:
    """The share of a stretch in all of them, in parts; a number has one part or is one of few."""
    if isinstance(low, int) and span < _PARTS:
        return int(high) - low + 1
    return max(1, int((Decimal(high) - Decimal(low)) / Decimal(span or 1) * _PARTS))


def _finite(number: object) -> bool:
    return not isinstance(number, Decimal) or number.is_finite()


def _float(leaf: object) -> float:
    return float(leaf) if isinstance(leaf, int | Decimal) else 0.0
