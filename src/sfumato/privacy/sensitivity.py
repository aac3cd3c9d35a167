"""How far one person can move an answer: exact sensitivities by privacy unit and relation.

A person's rows contribute a sum of at most `max_rows` terms, each of them nothing or a declared
bound in one group. A norm is largest at an extreme point, where all of a person's rows say the
same in one group; so these are the exact suprema, and the number of groups matters only where each
person counts once per group.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.privacy.numbers import bounds, exact
from sfumato.privacy.units import Neighbours

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The largest move of a vector of answers, in both norms; the L2 norm squared, so rational."""

    l1: Fraction
    l2_squared: Fraction


def of_count(unit: Unit, *, grouped: bool = False) -> Sensitivity:
    """Bound COUNT over rows, in total or per group (a histogram)."""
    return of_sum(unit, 1, 1, grouped=grouped)


def of_people(unit: Unit, *, grouped: bool = False) -> Sensitivity:
    """Bound the count of people, each counted once, in total or per group."""
    groups = Fraction(unit.groups if grouped else 1)
    if grouped and unit.relation is Neighbours.REPLACE_ONE:
        # One person leaves all of its groups and another one enters as many other ones.
        groups *= 2
    return Sensitivity(l1=groups, l2_squared=groups)


def of_sum(
    unit: Unit, lower: object, upper: object, *, grouped: bool = False, optional: bool = True
) -> Sensitivity:
    """Bound SUM of values clamped to [lower, upper], in total or per group.

    `optional` says that a row may contribute nothing, as under a WHERE or with a NULL; only rows
    that always contribute keep a replacement within upper - lower.
    """
    low, high = bounds(lower, upper, constant=True)
    rows = unit.max_rows
    largest = rows * max(abs(low), abs(high))
    if unit.relation is Neighbours.ADD_REMOVE:
        return Sensitivity(l1=largest, l2_squared=largest**2)
    if optional or grouped or unit.by_person:
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
    spread = rows * (high - low)
    if grouped:
        # Either the rows change their group, or they change their value within it.
        return Sensitivity(l1=2 * largest, l2_squared=max(2 * largest**2, spread**2))
    return Sensitivity(l1=spread, l2_squared=spread**2)


def of_quantile_score(unit: Unit, quantile: object) -> Fraction:
    """Bound the score -|#(rows below) - quantile * #(rows)| of a candidate value."""
    share = exact(quantile, "quantile")
    if not 0 <= share <= 1:
        raise ParameterError(
            "quantile_out_of_range", f"quantile must be from 0 to 1, but {share} was given."
        )
    if unit.relation is Neighbours.REPLACE_ONE:
        return Fraction(unit.max_rows)
    return unit.max_rows * max(share, 1 - share)
