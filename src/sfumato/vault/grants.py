"""Budgets of principals for one population: given, lowered, moved; decided by what stands.

Nothing is written here. What comes back is written whole or not at all. Decision `principals`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato import exact_numbers
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, option
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.accounting.losses import Approx
from sfumato.privacy.ledger.records import Amendment
from sfumato.vault.accounts import PRINCIPALS, account_of
from sfumato.vault.config import covers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.privacy.ledger.chain import Account
    from sfumato.vault.principals import Principal

_Amounts = tuple[Fraction, Fraction]
"""An epsilon and a delta."""

_NOTHING = Fraction(0), Fraction(0)


def written(person: Principal) -> Amendment:
    """What writes a principal down."""
    return Amendment(records={(PRINCIPALS, person.name): person.to_json()})


@dataclass(frozen=True)
class Grants:
    """The budgets for one population, among all accounts as they stand."""

    population: str
    accounts: Mapping[str, Account]
    max_epsilon: Fraction

    def grant(self, person: Principal, epsilon: object, delta: object) -> Amendment:
        """Give a budget, or a larger one."""
        total, had = _amounts(exact_numbers.positive(epsilon, "epsilon"), delta), self._held(person)
        if min(_less(total, had)) < 0:
            raise ParameterError(
                "budget_out_of_range",
                f"{quoted(person.name)} has {_said(had)}; {_said(total)} would be less. Give at "
                "least that, or use 'sfumato principal lower'.",
            )
        return self._with(person, total)

    def lower(self, person: Principal, epsilon: object, delta: object) -> Amendment:
        """Leave a smaller budget, or none."""
        total, had = _amounts(epsilon, delta), self._needed(person)
        if min(_less(had, total)) < 0:
            raise ParameterError(
                "budget_out_of_range",
                f"{quoted(person.name)} has {_said(had)}; {_said(total)} would be more. Give at "
                "most that, or use 'sfumato principal grant'.",
            )
        return self._with(person, total)

    def move(self, giver: Principal, taker: Principal, epsilon: object, delta: object) -> Amendment:
        """Take a part of one budget and add it to another."""
        moved = _amounts(exact_numbers.positive(epsilon, "epsilon"), delta)
        if giver.name == taker.name:
            raise ParameterError(
                "move_to_self",
                f"{quoted(giver.name)} cannot move a budget to itself. Name another with "
                f"{option('to')}.",
            )
        had, held = self._needed(giver), self._held(taker)
        rest = _less(had, moved)
        if min(rest) < 0:
            raise ParameterError(
                "budget_out_of_range",
                f"{quoted(giver.name)} has {_said(had)}; {_said(moved)} is more. Move less.",
            )
        total = held[0] + moved[0], held[1] + moved[1]
        less, more = self._with(giver, rest), self._with(taker, total)
        return Amendment({**less.budgets, **more.budgets}, {**less.records, **more.records})

    def _held(self, person: Principal) -> _Amounts:
        """What a principal has for the population in all, spent or not."""
        if self.population not in person.populations:
            return _NOTHING
        return _loss(self.accounts[account_of(self.population, person.name)].budget)

    def _needed(self, person: Principal) -> _Amounts:
        if self.population not in person.populations:
            raise ParameterError(
                "budget_not_held",
                f"{quoted(person.name)} has no budget for {quoted(self.population)}. Give one with "
                "'sfumato principal grant'.",
            )
        return self._held(person)

    def _with(self, person: Principal, total: _Amounts) -> Amendment:
        """A principal with so much for the population; nothing takes the population away."""
        others = tuple(one for one in person.populations if one != self.population)
        if not total[0]:
            return written(replace(person, populations=others))
        if person.is_owner:
            raise ParameterError(
                "principal_owner",
                f"{quoted(person.name)} is an owner, who draws on the budgets of the populations "
                "themselves. Name a principal of another kind.",
            )
        budget = Budget.for_epsilon_delta(
            epsilon=total[0], delta=total[1], maximum=self.max_epsilon
        )
        whole = self.accounts[self.population].budget
        if not covers(whole, budget):
            raise ParameterError(
                "budget_out_of_range",
                f"The budget of {quoted(person.name)} would be {_said(total)}, but all of "
                f"{quoted(self.population)} is {_said(_loss(whole))}. Give at most that.",
            )
        made = replace(person, populations=tuple(sorted((*others, self.population))))
        account = account_of(self.population, person.name)
        return Amendment({account: budget}, written(made).records)


def _amounts(epsilon: object, delta: object) -> _Amounts:
    return exact_numbers.not_negative(epsilon, "epsilon"), exact_numbers.delta(delta)


def _less(whole: _Amounts, part: _Amounts) -> _Amounts:
    return whole[0] - part[0], whole[1] - part[1]


def _loss(budget: Budget) -> _Amounts:
    loss = budget.loss()
    return loss.epsilon, loss.delta if isinstance(loss, Approx) else Fraction(0)


def _said(amounts: _Amounts) -> str:
    epsilon, delta = map(exact_numbers.decimal_of, amounts)
    return f"epsilon {epsilon}" + (f" and delta {delta}" if amounts[1] else "")
