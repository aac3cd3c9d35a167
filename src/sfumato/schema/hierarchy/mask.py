"""Masks: hide the characters of a text one by one, 53715 > 5371* > 537** > ... > *."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sfumato.errors import SchemaError
from sfumato.schema.column import Kind
from sfumato.schema.hierarchy.base import ROOT, Hierarchy, Taxonomy, part, quote_label
from sfumato.schema.names import count

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
        starred = sum(ROOT in value for value in values)
        if starred:
            raise SchemaError(
                "mask_value_starred",
                f"{count(starred, 'value')} of the data cannot be masked: a mask writes {ROOT!r} "
                f"for what it hides, and they hold {ROOT!r} themselves. Replace it in the data, or "
                "declare a hierarchy file.",
            )
        right = Side(self.side) is Side.RIGHT
        # Sorted from the side that stays visible, values that share a label lie together.
        texts = sorted(values, key=None if right else lambda text: text[::-1])
        places = max(map(len, texts), default=0)
        steps = []
        for hidden in range(1, places):
            shown, stars = places - hidden, ROOT * hidden
            masked = [text[:shown] + stars if right else stars + text[-shown:] for text in texts]
            # Of an empty text one star is left, which is not the root.
            steps.append([quote_label(one) if one == ROOT else one for one in masked])
        return Taxonomy.build(texts, steps, missing=missing)
