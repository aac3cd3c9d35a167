"""The registry of principals: who may query the vault, with which budgets.

Every change is an entry of the ledger. It is decided under the ledger's write lock, by the records
that stand at that moment, and written as a whole or not at all. Decisions `ledger` and
`principals`.
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
    read_expiry,
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

_LOOKALIKES = str.maketrans({"0": "o", "1": "l", "i": "l"})

THE_OWNER = Principal(name=OWNER, kind=PrincipalKind.OWNER, shapes=PERMITTED[PrincipalKind.OWNER])
"""The owner of the vault's folder, who needs no record in the ledger."""


class PrincipalRegistry:
    """The principals of a vault: those in its ledger, and those that vault.toml names.

    Those of vault.toml cannot be changed here; they are permanent staff. `operations.principals`
    checks types.
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
        """Add a principal of a kind, with a budget for a population if an epsilon is given.

        `shapes` narrows what the kind may do; one question costs between `min_epsilon` and
        `max_epsilon`; `expires` is a day, a time or days from now, such as "90d".
        """
        check_name(arguments.text(name, "name"), "A principal")
        its_kind = kind_named(kind)
        low, high = _epsilon_range(min_epsilon, max_epsilon)
        if its_kind is PrincipalKind.OWNER:
            _check_no_limits(epsilon, low, high, shapes)
        person = Principal(
            name=name,
            kind=its_kind,
            shapes=shapes_named(its_kind, shapes),
            min_epsilon=low,
            max_epsilon=high,
        )

        def decide(book: BookState) -> Amendment:
            # In `decide`, under the lock: of two owners who add the same name at once, one is
            # refused.
            self._check_free(name, book)
            added = replace(person, expires=read_expiry(expires, book.time))
            if epsilon is None:
                return record_of(added)
            return self._budgets(book, population).grant(added, epsilon, delta)

        return self._amend(decide, name, operator)

    def grant(
        self,
        name: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str,
    ) -> Principal:
        """Give a principal a budget for a population, or a larger one: its total from now on."""

        def decide(book: BookState) -> Amendment:
            person = self._of_ledger(name, book)
            return self._budgets(book, population).grant(person, epsilon, delta)

        return self._amend(decide, name, operator)

    def lower(
        self,
        name: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        population: str | None = None,
        operator: str,
    ) -> Principal:
        """Lower a principal's budget for a population; epsilon 0 takes it away."""

        def decide(book: BookState) -> Amendment:
            person = self._of_ledger(name, book)
            return self._budgets(book, population).lower(person, epsilon, delta)

        return self._amend(decide, name, operator)

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

        def decide(book: BookState) -> Amendment:
            giver, taker = self._of_ledger(name, book), self._of_ledger(to, book)
            return self._budgets(book, population).move(giver, taker, epsilon, delta)

        return self._amend(decide, name, operator)

    def expire(self, name: str, *, at: str | datetime | None = None, operator: str) -> Principal:
        """End a principal's access, now or at a day or time; no budget is given back."""

        def decide(book: BookState) -> Amendment:
            end = book.time.replace(microsecond=0) if at is None else read_expiry(at, book.time)
            return record_of(replace(self._of_ledger(name, book), expires=end))

        return self._amend(decide, name, operator)

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
        """Change a principal's kind, shapes or range of costs; None leaves a setting as it is."""
        low, high = _epsilon_range(min_epsilon, max_epsilon)

        def decide(book: BookState) -> Amendment:
            person = self._of_ledger(name, book)
            new_kind = person.kind if kind is None else kind_named(kind)
            if (new_kind is PrincipalKind.OWNER) != person.is_owner:
                raise ParameterError(
                    "option_not_applicable",
                    f"{quoted(name)} cannot become an owner or cease to be one: owners have no "
                    "budgets of their own.",
                    parameter="kind",
                    hint="Let it expire, and add another.",
                )
            if person.is_owner:
                _check_no_limits(low, high, shapes)
            new_shapes = shapes_named(new_kind, shapes) if shapes or kind else person.shapes
            least = person.min_epsilon if low is None else low
            most = person.max_epsilon if high is None else high
            _check_range(least, most)
            return record_of(
                replace(
                    person, kind=new_kind, shapes=new_shapes, min_epsilon=least, max_epsilon=most
                )
            )

        return self._amend(decide, name, operator)

    def get(self, name: str) -> Principal:
        """A principal by name, also one that has expired; the owner is 'owner'."""
        return self._named(arguments.text(name, "name"), self._ledger.decided())

    def admitted(self, name: str, decided: Decisions | None = None) -> Principal:
        """A principal that has not expired, by the newest records or by those given.

        Raises
        ------
        PolicyError
            `principal_unknown` or `principal_expired`.
        """
        if name == OWNER:
            return THE_OWNER
        book = self._ledger.decided() if decided is None else decided
        person = self._named(arguments.text(name, "name"), book)
        # By the ledger's time, never earlier than its last entry: setting the clock back gives
        # nobody access again.
        if person.expires is not None and person.has_expired(book.time):
            raise PolicyError(
                "principal_expired",
                f"The time of {quoted(name)} is over since {person.expires.isoformat()}.",
                hint="Ask the vault's owner to prolong it: 'sfumato principal expire' takes a "
                "later day.",
            )
        return person

    def _named(self, name: str, decided: Decisions) -> Principal:
        if name == OWNER:
            return THE_OWNER
        record = decided.of(PRINCIPALS).get(name)
        # The ledger's record first: it was written later than the line in vault.toml.
        person = self._configured().get(name) if record is None else Principal.from_json(record)
        if person is None:
            raise unknown_principal(name)
        return person

    def asker(self, name: str, purpose: str | None, populations: tuple[str, ...]) -> Asker:
        """The asker of a query about populations, with the accounts that pay for it."""
        person = self.admitted(name)
        if person.is_owner:
            return Asker(name, populations, purpose=purpose, rights=person)
        # Checked with every query: a budget may have been taken away since the plan was made.
        if not all(map(person.sees, populations)):
            raise ParameterError(
                "plan_foreign",
                f"This plan is about people for whom {quoted(name)} has no budget.",
                hint="Plan it again as who is to run it, or ask the vault's owner for a budget.",
            )
        own = tuple(account_of(population, name) for population in populations)
        return Asker(name, populations, own, purpose, person)

    def accounts(self) -> list[dict[str, Any]]:
        """Every account with what is left of it; computing what is left takes a while."""
        return balances_of(self._ledger)

    def balances(
        self, name: str, accounts: Sequence[Mapping[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        """The accounts of one principal, as `accounts` lists them; for an owner, all.

        `accounts` are those of all principals, for callers who ask about many.
        """
        person = self.get(name)
        listed = self.accounts() if accounts is None else accounts
        if person.is_owner:
            return [dict(account) for account in listed]
        own = {account_of(population, name): population for population in person.populations}
        return [
            {**account, "account": own[account["account"]]}
            for account in listed
            if account["account"] in own
        ]

    def list(self) -> list[Principal]:
        """Every principal by name, also those that have expired; not the owner of the vault."""
        records = self._ledger.records(PRINCIPALS)
        recorded = {name: Principal.from_json(record) for name, record in records.items()}
        people = {**self._configured(), **recorded}
        return [people[name] for name in sorted(people)]

    def _amend(
        self, decide: Callable[[BookState], Amendment], name: str, operator: str
    ) -> Principal:
        # What was written, not what was asked: the ledger's time decides an expiry in days.
        amendment = self._ledger.amend(decide, operator=arguments.text(operator, "operator"))
        record: Any = amendment.records[PRINCIPALS, name]
        return Principal.from_json(record)

    def _configured(self) -> dict[str, Principal]:
        """The principals of vault.toml."""
        kind = PrincipalKind.PERMANENT_STAFF
        return {
            name: Principal(
                name=name, kind=kind, shapes=PERMITTED[kind], populations=tuple(budgets)
            )
            for name, budgets in self._config().principals.items()
        }

    def _check_free(self, name: str, book: BookState) -> None:
        """Refuse a name that is taken or easily mistaken for one that is."""
        for known in (OWNER, *self._config().principals, *book.of(PRINCIPALS)):
            if _looks(known) == _looks(name):
                raise ParameterError(
                    "name_taken",
                    f"There is {quoted(known)} already, which {quoted(name)} cannot be told from.",
                    parameter="name",
                    hint="Choose another name, or change that one.",
                )

    def _of_ledger(self, name: str, book: BookState) -> Principal:
        """A principal whose record is in the ledger, where it can be changed."""
        record = book.of(PRINCIPALS).get(arguments.text(name, "name"))
        if record is not None:
            return Principal.from_json(record)
        if name in self._config().principals or name == OWNER:
            raise ParameterError(
                "account_elsewhere",
                f"{quoted(name)} is not kept in the ledger: it is the owner, or stands in "
                "vault.toml.",
                parameter="name",
                hint="Use 'sfumato ledger limit' for a budget there, or take it out of vault.toml "
                "and add it here.",
            )
        raise unknown_here(name, book.of(PRINCIPALS))

    def _budgets(self, book: BookState, population: str | None) -> PopulationBudgets:
        config = self._config()
        names = list(config.budgets)
        if population is None and len(names) == 1:
            [population] = names
        if population is None or arguments.text(population, "population") not in names:
            sentence = (
                f"There is no population {quoted(population)}"
                if population
                else f"Give {option('population')}"
            )
            raise ParameterError(
                "population_unknown",
                f"{sentence}; {suggestion(population or '', names)}",
                parameter="population",
                allowed=names,
            )
        return PopulationBudgets(population, book.accounts, config.max_epsilon)


def unknown_principal(name: str) -> PolicyError:
    """The error for a query under an unknown name."""
    return PolicyError(
        "principal_unknown",
        f"{quoted(name)} may not ask here.",
        hint="Ask the vault's owner for a budget.",
    )


def unknown_here(name: str, names: Iterable[str]) -> ParameterError:
    """The error for an owner who changes a principal that does not exist."""
    return ParameterError(
        "principal_unknown",
        f"There is no principal {quoted(name)}; {suggestion(name, names)}",
        parameter="name",
    )


def _looks(name: str) -> str:
    """A name without differences that a reader overlooks: case, 0 and o, 1 and i and l."""
    return name.casefold().translate(_LOOKALIKES)


def _check_no_limits(*limits: object) -> None:
    """Refuse limits of an owner: they would be shown and not applied."""
    if any(limit is not None for limit in limits):
        raise ParameterError(
            "option_not_applicable",
            "An owner may do everything, and draws on the budgets of the populations themselves.",
            hint=f"Leave out {option('epsilon')}, {option('min_epsilon')}, "
            f"{option('max_epsilon')} and {option('shapes')}, or add somebody of another "
            f"{option('kind')}.",
        )


def _epsilon_range(low: object, high: object) -> tuple[Fraction | None, Fraction | None]:
    least = None if low is None else positive(low, "min_epsilon")
    most = None if high is None else positive(high, "max_epsilon")
    _check_range(least, most)
    return least, most


def _check_range(low: Fraction | None, high: Fraction | None) -> None:
    if low is not None and high is not None and low > high:
        raise ParameterError(
            "parameter_out_of_range",
            f"The smallest epsilon {decimal_of(low)} is above the largest, {decimal_of(high)}.",
            parameter="min_epsilon",
            given=decimal_of(low),
            hint=f"Give {option('min_epsilon')} at most {option('max_epsilon')}.",
        )


_Amounts = tuple[Fraction, Fraction]
"""An epsilon and a delta."""


def record_of(person: Principal) -> Amendment:
    """The amendment of the ledger that writes a principal."""
    return Amendment(records={(PRINCIPALS, person.name): person.to_json()})


@dataclass(frozen=True)
class PopulationBudgets:
    """The principals' budgets for one population, as they stand; changes are decided, not written.

    No budget of a principal may exceed that of the whole population.
    """

    population: str
    accounts: Mapping[str, Account]
    max_epsilon: Fraction

    def grant(self, person: Principal, epsilon: object, delta: object) -> Amendment:
        """Give a budget, or a larger one."""
        total, before = _amounts(positive(epsilon, "epsilon"), delta), self._total_of(person)
        if min(_difference(total, before)) < 0:
            raise _out_of_range(
                f"{quoted(person.name)} has {_in_words(before)}; {_in_words(total)} would be less.",
                "Give at least that, or use 'sfumato principal lower'.",
            )
        return self._with_total(person, total)

    def lower(self, person: Principal, epsilon: object, delta: object) -> Amendment:
        """Leave a smaller budget, or none."""
        total, before = _amounts(epsilon, delta), self._needed_total_of(person)
        if min(_difference(before, total)) < 0:
            raise _out_of_range(
                f"{quoted(person.name)} has {_in_words(before)}; {_in_words(total)} would be more.",
                "Give at most that, or use 'sfumato principal grant'.",
            )
        return self._with_total(person, total)

    def move(self, giver: Principal, taker: Principal, epsilon: object, delta: object) -> Amendment:
        """Take a part of one budget and add it to another."""
        moved = _amounts(positive(epsilon, "epsilon"), delta)
        if giver.name == taker.name:
            raise ParameterError(
                "options_conflict",
                f"{quoted(giver.name)} cannot move a budget to itself.",
                parameter="to",
                hint=f"Name another with {option('to')}.",
            )
        givers, takers = self._needed_total_of(giver), self._total_of(taker)
        remainder = _difference(givers, moved)
        if min(remainder) < 0:
            raise _out_of_range(
                f"{quoted(giver.name)} has {_in_words(givers)}; {_in_words(moved)} is more.",
                "Move less.",
            )
        # One amendment: no crash between the two halves loses budget or doubles it.
        lowered = self._with_total(giver, remainder)
        raised = self._with_total(taker, (takers[0] + moved[0], takers[1] + moved[1]))
        return Amendment(
            {**lowered.budgets, **raised.budgets}, {**lowered.records, **raised.records}
        )

    def _total_of(self, person: Principal) -> _Amounts:
        """A principal's whole budget for the population, spent or not."""
        if self.population not in person.populations:
            return Fraction(0), Fraction(0)
        return _amounts_of(self.accounts[account_of(self.population, person.name)].budget)

    def _needed_total_of(self, person: Principal) -> _Amounts:
        if self.population not in person.populations:
            raise ParameterError(
                "budget_not_held",
                f"{quoted(person.name)} has no budget for {quoted(self.population)}.",
                hint="Give one with 'sfumato principal grant'.",
            )
        return self._total_of(person)

    def _with_total(self, person: Principal, total: _Amounts) -> Amendment:
        """A principal with this budget for the population; epsilon 0 takes the population away."""
        remaining = tuple(name for name in person.populations if name != self.population)
        if not total[0]:
            # The account and what was spent of it stay: a later grant does not start at nothing.
            return record_of(replace(person, populations=remaining))
        if person.is_owner:
            raise ParameterError(
                "option_not_applicable",
                f"{quoted(person.name)} is an owner, who draws on the budgets of the populations "
                "themselves.",
                hint="Name a principal of another kind.",
            )
        budget = Budget.for_epsilon_delta(
            epsilon=total[0], delta=total[1], maximum=self.max_epsilon
        )
        population_budget = self.accounts[self.population].budget
        # More could never be spent, since the population's own budget is charged too, but it would
        # look promised.
        if not covers(population_budget, budget):
            raise _out_of_range(
                f"The budget of {quoted(person.name)} would be {_in_words(total)}, but all of "
                f"{quoted(self.population)} is {_in_words(_amounts_of(population_budget))}.",
                "Give at most that.",
            )
        funded = replace(person, populations=tuple(sorted((*remaining, self.population))))
        account = account_of(self.population, person.name)
        return Amendment({account: budget}, record_of(funded).records)


def _amounts(epsilon: object, delta: object) -> _Amounts:
    return exact_numbers.not_negative(epsilon, "epsilon"), exact_numbers.delta(delta)


def _difference(minuend: _Amounts, subtrahend: _Amounts) -> _Amounts:
    return minuend[0] - subtrahend[0], minuend[1] - subtrahend[1]


def _amounts_of(budget: Budget) -> _Amounts:
    loss = budget.loss()
    return loss.epsilon, loss.delta if isinstance(loss, Approx) else Fraction(0)


def _in_words(amounts: _Amounts) -> str:
    epsilon, delta = map(decimal_of, amounts)
    return f"epsilon {epsilon}" + (f" and delta {delta}" if amounts[1] else "")


def _out_of_range(sentence: str, hint: str) -> ParameterError:
    return ParameterError("budget_out_of_range", sentence, parameter="epsilon", hint=hint)
