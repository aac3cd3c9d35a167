"""Propose hierarchies for quasi-identifiers from their profiles."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.data.inspection.profile import MOST_TOP
from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy.base import ROOT
from sfumato.data.schema.hierarchy.rules import Calendar, Mask, Removal, Widths
from sfumato.data.schema.hierarchy.tree import Tree

if TYPE_CHECKING:
    from sfumato.data.inspection.profile import ColumnProfile
    from sfumato.data.schema.hierarchy.base import Hierarchy

# Lengths at which texts of equal length with digits count as codes, for which a mask is proposed.
_MASKED_LENGTHS = range(3, 33)

# Lengths of texts for which a mask is proposed where nothing better fits.
_LETTERS = range(1, 81)

_DIGIT = re.compile(r"[0-9]")

# Widths with more digits before or after the point are not proposed.
_MOST_PLACES = 12

# Values in less than this share of the rows are joined first, under this label.
_RARE, _RARER = 0.02, "rarer values"

# The approximate number of intervals of the smallest width.
_INTERVALS = 20


def propose(profile: ColumnProfile, kind: Kind) -> Hierarchy:
    """Propose a hierarchy for a column; `Removal` where nothing else fits.

    So every proposal can be released at once.
    """
    if kind is Kind.DATE:
        return Calendar()
    if kind in (Kind.INTEGER, Kind.REAL):
        return _widths(profile, kind) or _flat(profile, kind) or Removal()
    if profile.warnings:
        return Removal()  # text like dates or numbers: no mask hides them, and a person decides
    if kind is Kind.TEXT and profile.fixed_length in _MASKED_LENGTHS:
        texts = [str(value) for value, _ in profile.top]
        if texts and all(_DIGIT.search(text) for text in texts):
            return Mask()
    proposed = _frequency_tree(profile, kind) or _flat(profile, kind)
    lettered = kind is Kind.TEXT and profile.longest in _LETTERS
    return proposed or (Mask() if lettered else Removal())


def _frequency_tree(profile: ColumnProfile, kind: Kind) -> Tree | None:
    """A tree of two levels: rare values are joined first, then all."""
    flat = _flat(profile, kind)
    rare = {value for value, rows in profile.top if rows < _RARE * profile.present}
    if kind is not Kind.TEXT or flat is None or not 2 <= len(rare) < len(flat.leaves):
        return None
    common = [leaf for leaf in flat.leaves if leaf not in rare]
    if {_RARER, ROOT} & {*flat.leaves}:
        return None
    leaves = (*common, *(leaf for leaf in flat.leaves if leaf in rare))
    steps = [(_RARER if leaf in rare else str(leaf), ROOT) for leaf in leaves]
    return Tree(leaves, tuple(steps), seen=True)


def _widths(profile: ColumnProfile, kind: Kind) -> Widths | None:
    """A round width and its doublings: a range of 17 to 90 gives 5, 10, 20."""
    low, high = finite(profile.minimum), finite(profile.maximum)
    if low is None or high is None or low >= high:
        return None
    base = round_up((high - low) / _INTERVALS)
    if kind is Kind.INTEGER:
        base = max(base, Decimal(2))
    elif not -_MOST_PLACES <= base.adjusted() < _MOST_PLACES:
        return None
    # Each width divides the next, so that intervals nest.
    widths = [base * factor for factor in (1, 2, 4) if base * factor < high - low]
    if not widths:
        return None
    if kind is Kind.INTEGER:
        return Widths(tuple(int(width) for width in widths))
    return Widths(tuple(widths))


def finite(end: object) -> Decimal | None:
    """A number as an exact decimal; None for other values and infinities."""
    if isinstance(end, bool) or not isinstance(end, int | float | Decimal):
        return None
    number = Decimal(repr(end)) if isinstance(end, float) else Decimal(end)
    return number if number.is_finite() else None


def round_up(number: Decimal) -> Decimal:
    """The smallest of ..., 0.5, 1, 2, 5, 10, 20, 50, ... that is not below a number."""
    power = Decimal(1).scaleb(number.adjusted())
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= number)


def _flat(profile: ColumnProfile, kind: Kind) -> Tree | None:
    """A tree of one level, value > *, where the profile lists every value."""
    values = [value for value, _ in profile.top]
    if not values or len(values) < profile.distinct or profile.distinct > MOST_TOP:
        return None
    if any(type(value) is not kind.type for value in values):
        return None
    leaves = tuple(sorted(values))
    return Tree(leaves, ((ROOT,),) * len(leaves), seen=True)  # type: ignore[arg-type]  # no floats here
