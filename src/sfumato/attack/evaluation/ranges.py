"""Questions as people ask them of a table: how many rows lie in a box of up to three columns?

A box takes a stretch of the values of each of its columns, in their order. Its ends are those of an
additive sequence, which is as even as chance and the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.attack.evaluation.cells import Cells
    from sfumato.attack.evaluation.coding import Coding

_STEPS = np.array([2, 3, 5, 7, 11, 13]) ** 0.5 % 1
"""The fractions of square roots of primes: their multiples fill the cube of six ends evenly."""


@dataclass(frozen=True)
class Range:
    """A box, in words, and the share of rows that each table has there."""

    words: str
    original: float
    synthetic: float

    @property
    def error(self) -> float:
        """How far the answers are apart, as a share of all rows."""
        return abs(self.original - self.synthetic)


def ask(number: int, found: Cells, codings: Sequence[Coding]) -> Range | None:
    """The question of this number about some columns; None where one of them has no value."""
    if not all(one.labels for one in codings):
        return None
    places = ((number + 1) * _STEPS % 1).reshape(-1, 2)[: len(codings)]
    inside = np.ones(len(found.original), dtype=bool)
    words = []
    for coding, codes, ends in zip(codings, found.codes, np.sort(places, axis=1), strict=True):
        low, high = (ends * len(coding.labels)).astype(np.int64).tolist()
        inside &= (codes >= low) & (codes <= high)
        first, last = coding.labels[low], coding.labels[high]
        words.append(f"{coding.name} {first}" if low == high else f"{coding.name} {first} … {last}")
    shares = [float(one[inside].sum() / one.sum()) for one in (found.original, found.synthetic)]
    return Range(", ".join(words), *shares)
