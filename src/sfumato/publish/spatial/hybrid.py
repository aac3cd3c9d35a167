"""The hybrid tree: a kd-tree that is cut at medians near its root and evenly further down."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.publish import options
from sfumato.publish.spatial import kdtree
from sfumato.publish.spatial.decomposition import USUAL_HEIGHT
from sfumato.publish.spatial.growth import Space

if TYPE_CHECKING:
    from sfumato.publish.request import Request


_MEDIANS = Fraction(1, 10)
_PART = 4
"""One level in so many is cut at medians: further down a box has too few rows to find its own."""


def prepare(
    request: Request, *, height: object = None, medians: object = None, prune: object = None
) -> kdtree.KdTree:
    """A kd-tree cut at medians for a quarter of its height, or two levels if none is given."""
    tall = USUAL_HEIGHT if height is None else height
    whole = options.whole(tall, "height", least=1, most=1 << 20)
    finest = max((size - 1).bit_length() for size in Space(request.axes).shape)
    cut = -(-whole // _PART) if height is not None else -(-min(whole, max(finest, 1)) // _PART)
    return kdtree.prepare(
        request,
        height=height,
        medians=_MEDIANS if medians is None else medians,
        hybrid=cut,
        prune=prune,
    )
