"""The people of a vault: who may ask, with which budgets; every change is an entry of the ledger.

Decisions `ledger-stores` and `principals`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato import arguments, exact_numbers
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, PolicyError, option
from sfumato.exact_numbers import decimal_of, positive
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.accounting.losses import Approx
from sfumato.privacy.ledger.records import Amendment
from sfumato.vault.accounts import PRINCIPALS, account_of, balances_of
from sfumato.vault.config import covers
from sfumato.vault.principals import (
    OWNER,
    PERMITTED,
    Principal,
    PrincipalKind,
    check_name,
    kind_named,
    moment,
    shapes_named,
)
from sfumato.vault.session import Asker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from sfumato.exact_numbers import Number
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.chain import Account
    from sfumato.privacy.ledger.records import BookState, Decisions
    from sfumato.vault.config import Config


_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l"})

THE_OWNER = Principal(name=OWNER, kind=PrincipalKind.OWNER, shapes=PERMITTED[PrincipalKind.OWNER])
"""Whoever holds the vault itself."""


class PrincipalRegistry:
    """The principals of a vault in its ledger, and those that vault.toml names.

    Those of vault.toml stay as they are, as permanent staff. `operations.principals` checks types.
    """

    def __init__(self, ledger: Ledger, config: Callable[[], Config]) -> None:
        self._ledger, self._config = ledger, config

    def add(
        self,
        name: str,
        kind: str,
        *,
        operator: str,
        epsilon: Number | None = None,
        delta: Number = 0,
        population: str | None = None,
        shapes: Iterable[str] | str | None = None,
        min_epsilon: Number | None = None,
        max_epsilon: Number | None = None,
        expires: str | datetime | None = None,
    ) -> Principal:
        """Add a principal of a kind, with a budget for a population where an epsilon is given.

        `shapes` narrows what the kind may do; one question costs between `min_epsilon` and
        `max_epsilon`; `expires` is a day, a time or days from now, such as "90d".
        """
        check_name(arguments.text(name, "name"), "A principal")
        the_kind = kind_named(kind)
        low, high = _range(min_epsilon, max_epsilon)
        if the_kind is PrincipalKind.OWNER:
            _check_unbound(epsilon, low, high, shapes)
        person = Principal(
            name=name,
            kind=the_kind,
            shapes=shapes_named(the_kind, shapes),
            min_epsilon=low,
            max_epsilon=high,
        )

        def decide(now: BookState) -> Amendment:
            self._check_free(name, now)
            made = replace(person, expires=moment(expires, now.time))
            if epsilon is None:
                return written(made)
            return self._grants(now, population).grant(made, epsilon, delta)

        return self._amended(decide, name, operator)

    def grant(
        self,
        name: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str,
    ) -> Principal:
        """Give a principal a budget for a population, or a larger one: its whole from now on."""

        def decide(now: BookState) -> Amendment:
            person = self._of_ledger(name, now)
            return self._grants(now, population).grant(person, epsilon, delta)

        return self._amended(decide, name, operator)

    def lower(
        self,
        name: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str,
    ) -> Principal:
        """Leave a principal a smaller budget for a population; epsilon 0 takes it away."""

        def decide(now: BookState) -> Amendment:
            person = self._of_ledger(name, now)
            return self._grants(now, population).lower(person, epsilon, delta)

        return self._amended(decide, name, operator)

    def move(
        self,
        name: str,
        to: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str,
    ) -> Principal:
        """Move a part of a principal's budget for a population to another; both or none change."""

        def decide(now: BookState) -> Amendment:
            giver, taker = self._of_ledger(name, now), self._of_ledger(to, now)
            return self._grants(now, population).move(giver, taker, epsilon, delta)

        return self._amended(decide, name, operator)

    def expire(self, name: str, *, at: str | datetime | None = None, operator: str) -> Principal:
        """Let a principal's time end, now or at a day or time; nothing is given back."""

        def decide(now: BookState) -> Amendment:
            end = now.time.replace(microsecond=0) if at is None else moment(at, now.time)
            return written(replace(self._of_ledger(name, now), expires=end))

        return self._amended(decide, name, operator)

    def change(
        self,
        name: str,
        *,
        operator: str,
        kind: str | None = None,
        shapes: Iterable[str] | str | None = None,
        min_epsilon: Number | None = None,
        max_epsilon: Number | None = None,
    ) -> Principal:
        """Change a principal's kind, shapes or range of prices; what is left out stays."""
        low, high = _range(min_epsilon, max_epsilon)

        def decide(now: BookState) -> Amendment:
            person = self._of_ledger(name, now)
            new = person.kind if kind is None else kind_named(kind)
            if (new is PrincipalKind.OWNER) != person.is_owner:
                raise ParameterError(
                    "principal_owner",
                    f"{quoted(name)} cannot become an owner or cease to be one: owners have no "
                    "budgets of their own. Let it expire, and add another.",
                )
            if person.is_owner:
                _check_unbound(low, high, shapes)
            kept = shapes_named(new, shapes) if shapes or kind else person.shapes
            least = person.min_epsilon if low is None else low
            most = person.max_epsilon if high is None else high
            _check_range(least, most)
            return written(
                replace(person, kind=new, shapes=kept, min_epsilon=least, max_epsilon=most)
            )

        return self._amended(decide, name, operator)

    def get(self, name: str) -> Principal:
        """A principal by name, also one whose time is over; the owner is 'owner'."""
        return self._found(arguments.text(name, "name"), self._ledger.decided())

    def admitted(self, name: str, decided: Decisions | None = None) -> Principal:
        """A principal whose time is not over, by what was `decided` until now."""
        if name == OWNER:
            return THE_OWNER
        now = self._ledger.decided() if decided is None else decided
        found = self._found(arguments.text(name, "name"), now)
        if found.expires is not None and found.expired(now.time):
            raise PolicyError(
                "principal_expired",
                f"The time of {quoted(name)} is over since {found.expires.isoformat()}. Ask the "
                "vault's owner to prolong it: 'sfumato principal expire' takes a later day.",
            )
        return found

    def _found(self, name: str, decided: Decisions) -> Principal:
        if name == OWNER:
            return THE_OWNER
        told = decided.of(PRINCIPALS).get(name)
        found = self._configured().get(name) if told is None else Principal.from_json(told)
        if found is None:
            raise unknown_principal(name)
        return found

    def asker(self, name: str, purpose: str | None, populations: tuple[str, ...]) -> Asker:
        """Who asks about populations, and which accounts pay for it."""
        person = self.admitted(name)
        if person.is_owner:
            return Asker(name, populations, purpose=purpose, rights=person)
        if not all(map(person.sees, populations)):
            raise ParameterError(
                "plan_foreign",
                f"This plan is about people for whom {quoted(name)} has no budget. Plan it again "
                "as who is to run it, or ask the vault's owner for a budget.",
            )
        own = tuple(account_of(population, name) for population in populations)
        return Asker(name, populations, own, purpose, person)

    def accounts(self) -> list[dict[str, Any]]:
        """Every account with what is left of it; computing what is left takes a while."""
        return balances_of(self._ledger)

    def balances(
        self, name: str, accounts: Sequence[Mapping[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        """The accounts of one principal, as `Vault.accounts` tells them; of owners, all.

        `accounts` are those of all principals, for callers who ask about many.
        """
        principal = self.get(name)
        listed = self.accounts() if accounts is None else accounts
        if principal.is_owner:
            return [dict(account) for account in listed]
        own = {account_of(population, name): population for population in principal.populations}
        return [
            {**account, "account": own[account["account"]]}
            for account in listed
            if account["account"] in own
        ]

    def list(self) -> list[Principal]:
        """Every principal, by name, also those whose time is over; not the owner of the vault."""
        found = {**self._configured(), **self._recorded(self._ledger.records(PRINCIPALS))}
        return [found[name] for name in sorted(found)]

    def _amended(
        self, decide: Callable[[BookState], Amendment], name: str, operator: str
    ) -> Principal:
        written = self._ledger.amend(decide, operator=arguments.text(operator, "operator"))
        told: Any = written.records[PRINCIPALS, name]
        return Principal.from_json(told)

    def _configured(self) -> dict[str, Principal]:
        """Those that vault.toml names."""
        kind = PrincipalKind.PERMANENT_STAFF
        return {
            name: Principal(
                name=name, kind=kind, shapes=PERMITTED[kind], populations=tuple(budgets)
            )
            for name, budgets in self._config().principals.items()
        }

    @staticmethod
    def _recorded(told: Mapping[str, Any]) -> dict[str, Principal]:
        return {name: Principal.from_json(one) for name, one in told.items()}

    def _check_free(self, name: str, now: BookState) -> None:
        """Refuse a name that is taken, or that a person would read as one that is."""
        taken = (OWNER, *self._config().principals, *now.of(PRINCIPALS))
        for other in taken:
            if _look(other) == _look(name):
                raise ParameterError(
                    "name_taken",
                    f"There is {quoted(other)} already, which {quoted(name)} cannot be told from. "
                    "Choose another name, or change that one.",
                    parameter="name",
                )

    def _of_ledger(self, name: str, now: BookState) -> Principal:
        """A principal that stands in the ledger, and can be changed there."""
        told = now.of(PRINCIPALS).get(arguments.text(name, "name"))
        if told is not None:
            return Principal.from_json(told)
        if name in self._config().principals or name == OWNER:
            raise ParameterError(
                "account_elsewhere",
                f"{quoted(name)} is not kept in the ledger: it is the owner, or stands in "
                "vault.toml. Use 'sfumato ledger limit' for a budget there, or take it out of "
                "vault.toml and add it here.",
            )
        raise unknown_here(name, now.of(PRINCIPALS))

    def _grants(self, now: BookState, population: str | None) -> Grants:
        where = self._population(population)
        return Grants(where, now.accounts, self._config().max_epsilon)

    def _population(self, asked: str | None) -> str:
        """A population by name; where there is but one it need not be named."""
        names = list(self._config().budgets)
        if asked is None and len(names) == 1:
            return names[0]
        if asked is None or arguments.text(asked, "population") not in names:
            said = (
                f"There is no population {quoted(asked)}"
                if asked
                else f"Give {option('population')}"
            )
            raise ParameterError("population_unknown", f"{said}; {suggestion(asked or '', names)}")
        return asked


def unknown_principal(name: str) -> PolicyError:
    """What is said of a name that is nobody's."""
    return PolicyError(
        "principal_unknown",
        f"{quoted(name)} may not ask here. Ask the vault's owner for a budget.",
    )


def unknown_here(name: str, names: Iterable[str]) -> ParameterError:
    """What is said to who would change a principal that is none."""
    return ParameterError(
        "principal_unknown_here",
        f"There is no principal {quoted(name)}; {suggestion(name, names)}",
    )


def _look(name: str) -> str:
    """A name as a hasty reader sees it: without case, 0 as o, 1 and i as l."""
    return name.casefold().translate(_ALIKE)


def _check_unbound(*limits: object) -> None:
    """Refuse what would bind an owner: it would be shown and not applied."""
    if any(one is not None for one in limits):
        raise ParameterError(
            "principal_owner",
            "An owner may do everything, and draws on the budgets of the populations themselves. "
            f"Leave out {option('epsilon')}, {option('min_epsilon')}, {option('max_epsilon')} and "
            f"{option('shapes')}, or add somebody of another {option('kind')}.",
        )


def _range(low: object, high: object) -> tuple[Fraction | None, Fraction | None]:
    least = None if low is None else positive(low, "min_epsilon")
    most = None if high is None else positive(high, "max_epsilon")
    _check_range(least, most)
    return least, most


def _check_range(low: Fraction | None, high: Fraction | None) -> None:
    if low is not None and high is not None and low > high:
        raise ParameterError(
            "parameter_out_of_range",
            f"The smallest epsilon {decimal_of(low)} is above the largest, {decimal_of(high)}. "
            f"Give {option('min_epsilon')} at most {option('max_epsilon')}.",
        )


# Budgets of principals for one population: given, lowered, moved; decided by what stands.
#
# Nothing is written here. What comes back is written whole or not at all. Decision `principals`.

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
