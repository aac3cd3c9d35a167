"""What every hierarchy can do: grow a taxonomy over a set of leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sfumato.schema.domain import Scalar

ROOT = "*"
"""The label that says nothing: every hierarchy ends in it."""


@dataclass(frozen=True)
class Taxonomy:
    """A hierarchy grown over its leaves: for every level, which leaf wears which label.

    Level 0 is the value itself, the last level the root. `codes[i, level]` indexes
    `labels[level]`; leaves are in canonical order, and labels in order of their first leaf.
    A missing value (None) is a leaf of its own: it stays missing at every level below the root,
    where it joins all others, so that absence is neither mixed with a value nor lost.
    """

    leaves: tuple[Scalar | None, ...]
    labels: tuple[tuple[str | None, ...], ...]
    codes: NDArray[np.int32]

    @property
    def height(self) -> int:
        """The level of the root."""
        return len(self.labels) - 1


class Hierarchy(Protocol):
    """A rule that says how values of one column become coarser, step by step."""

    def grow(self, leaves: Sequence[Scalar | None]) -> Taxonomy:
        """Grow the taxonomy over these leaves, or say which leaf has no place in it."""
        ...
