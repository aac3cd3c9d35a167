"""Masks: hide the characters of a text one by one, 53715 > 5371* > 537** > ... > *."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sfumato.schema.column import Kind
from sfumato.schema.hierarchy.base import ROOT, Hierarchy, Taxonomy, part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.schema.hierarchy.base import Leaf


class Side(StrEnum):
    """Where masking begins."""

    RIGHT = "right"
    LEFT = "left"


@dataclass(frozen=True)
class Mask(Hierarchy):
    """Hide one more character at each level, from the right or from the left.

    Values of uneven length are aligned on the other side, as if filled up to the longest: level j
    hides the last j of its places, so a shorter value keeps all its characters until the mask
    reaches them. With 53715 and 53715-1234 both, level 5 is 53715***** for either.
    """

    side: Side = Side.RIGHT

    @property
    def kinds(self) -> frozenset[Kind]:
        """Masks hide characters, so they are for text."""
        return frozenset({Kind.TEXT})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Grow over these leaves, as high as the longest has characters."""
        values, missing = part(leaves, str)
        right = Side(self.side) is Side.RIGHT
        # Sorted from the side that stays visible, values that share a label lie together.
        texts = sorted(values, key=None if right else lambda text: text[::-1])
        places = max(map(len, texts), default=0)
        steps = []
        for hidden in range(1, places):
            shown, stars = places - hidden, ROOT * hidden
            steps.append(
                [text[:shown] + stars for text in texts]
                if right
                else [stars + text[-shown:] for text in texts]
            )
        return Taxonomy.build(texts, steps, missing=missing)
