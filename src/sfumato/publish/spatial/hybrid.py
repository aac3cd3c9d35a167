"""The hybrid tree: a kd-tree that is cut at medians near its root and evenly further down."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.publish.spatial import kdtree
from sfumato.publish.spatial.space import Space

if TYPE_CHECKING:
    from sfumato.publish.request import Request


_MEDIANS = Fraction(1, 10)
_PART = 4
"""One level in so many is cut at medians: further down a box has too few rows to find its own."""


def prepare(
    request: Request, *, height: object = None, medians: object = None, prune: object = None
) -> kdtree.KdTree:
    """A kd-tree of the height given, or the usual one, that is cut at medians down to a quarter."""
    tall = kdtree.height_of(Space(request.axes), height)
    return kdtree.prepare(
        request,
        height=tall,
        medians=_MEDIANS if medians is None else medians,
        hybrid=-(-tall // _PART),
        prune=prune,
    )
