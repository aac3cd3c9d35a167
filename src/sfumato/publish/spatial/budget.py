"""How a price is shared out: between the shape of a tree and its counts, and over its levels."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.privacy.numbers import exact

if TYPE_CHECKING:
    from sfumato.publish.purse import Purse

_GRAIN = 1 << 20
USUAL_HEIGHT = 8
"""The height of a tree whose leaves most rows come to lie in."""


def share(value: object, name: str, *, default: Fraction) -> Fraction:
    """Read the share of the price that is spent on the shape of a tree."""
    given = default if value is None else exact(value, name)
    if not 0 < given < 1:
        raise ParameterError(
            "share_out_of_range",
            f"{name} must be a share of the price between 0 and 1, both excluded, not {given}.",
        )
    return given


def levels(height: int, dimensions: int, purse: Purse) -> list[Fraction]:
    """Shares of the levels of a tree, the root's first, that err least on ranges.

    They grow down to depth 8. Levels further down, n of them, have together as much as sqrt(n)
    levels: a tree goes there where many rows are, in few boxes of a level.

    A box crosses about 2^((k-1) i) nodes of depth i in k dimensions. The sum of crossings times
    variances is least for shares that grow as their cube root under Laplace noise, of variance
    1 / share^2, and as their square root under Gaussian noise, of variance 1 / share
    (Cormode et al. 2012, Lemma 3).
    """
    growth = 2 ** ((dimensions - 1) / (2 if purse.epsilon is None else 3))
    most = growth ** min(height, USUAL_HEIGHT)
    further = max(height - USUAL_HEIGHT, 1) ** 0.5
    wanted = [
        Fraction(round((growth**depth if depth <= USUAL_HEIGHT else most / further) * _GRAIN))
        for depth in range(height + 1)
    ]
    return [one / sum(wanted) for one in wanted]
