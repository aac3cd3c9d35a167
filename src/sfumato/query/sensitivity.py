"""How far one person can move a statistic, over all groups of one level together.

Under an `Entity` the engine has bounded every person's rows after all joins, so `max_rows` and
`max_groups` hold for the rows that are aggregated. A row that is a person of its own may have
become as many rows as joins with public tables allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.privacy.sensitivity import Sensitivity, of_count, of_people, of_quantile_score, of_sum
from sfumato.privacy.units import Entity, Relation
from sfumato.query.bounding import WHOLE
from sfumato.query.statistic import Distinct, People, Rank, Total

if TYPE_CHECKING:
    from sfumato.query.plan import Plan
    from sfumato.query.statistic import Statistic


@dataclass(frozen=True)
class Effect:
    """The largest move by one person, in both norms, and the declared range to see it against.

    For a quantile it is twice the move of the scores, over the groups together, and a person of
    `unit`, each row counting `granule`, moves the score of a single group as much.
    """

    sensitivity: Sensitivity
    spread: Fraction
    unit: Entity
    granule: int = 1

    @property
    def relative(self) -> Fraction:
        """The L1 move in units of the range."""
        return self.sensitivity.l1 / self.spread

    @property
    def relative_squared(self) -> Fraction:
        """The squared L2 move in squared units of the range."""
        return self.sensitivity.l2_squared / self.spread**2


def bounded(plan: Plan) -> Entity:
    """The unit as it stands after bounding: at most so many rows, in at most so many groups."""
    if isinstance(plan.unit, Entity):
        return plan.unit
    return Entity("row", plan.multiplicity, relation=plan.unit.relation)


def _ranking(unit: Entity, fine: int, *, grouped: bool) -> tuple[Entity, int]:
    """The unit, and what its rows count, whose score moves as much as those of all groups together.

    A replaced person leaves some groups and enters others: twice as many rows come or go.
    """
    if grouped and unit.relation is Relation.REPLACE_ONE:
        return Entity(unit.column, unit.max_rows), 2 * fine
    return Entity(unit.column, unit.max_rows, relation=unit.relation), fine


def granule(plan: Plan, statistic: Statistic) -> int:
    """How many units of what the engine sums make one row, or one step of a value."""
    weighed = isinstance(plan.unit, Entity) and not isinstance(statistic, People | Distinct)
    return WHOLE if weighed else 1


def effect(plan: Plan, statistic: Statistic, *, grouped: bool) -> Effect:
    """Bound what one person changes, in granules; `grouped` says that there are several groups."""
    unit, fine = bounded(plan), granule(plan, statistic)
    match statistic:
        case Total():
            low, high = statistic.ends
            if low == high == 0:
                high = 1  # what is always zero gets noise like anything else
            moved = of_sum(unit, low, high, grouped=grouped)
            return Effect(_scaled(moved, fine), Fraction(fine * max(1, high - low)), unit)
        case People():
            return Effect(of_people(unit, grouped=grouped), Fraction(1), unit)
        case Rank():
            # All choices together lose 2 rate times the sum of the moves of the groups' scores.
            all_groups, weight = _ranking(unit, fine, grouped=grouped)
            score = weight * of_quantile_score(all_groups, statistic.quantile)
            # A bounded range makes half the loss a mere shift: as Gaussian noise of half the size.
            moved = Sensitivity(l1=2 * score, l2_squared=score**2)
            return Effect(moved, Fraction(fine), all_groups, weight)
        case _:
            return Effect(_scaled(of_count(unit, grouped=grouped), fine), Fraction(fine), unit)


def _scaled(moved: Sensitivity, fine: int) -> Sensitivity:
    return Sensitivity(l1=moved.l1 * fine, l2_squared=moved.l2_squared * fine**2)
