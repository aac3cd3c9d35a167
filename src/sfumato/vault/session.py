"""A session on declared data sets: prepare private methods from public facts, and run them.

Methods of all families and doors take the same two steps: `prepare` plans a method from public
facts alone, `run` lets the gatekeeper charge and answer it.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import EngineError, ParameterError, QueryError, option
from sfumato.exact_numbers import EPSILON_MAXIMUM
from sfumato.methods.query.sql.tables import PrivateRows
from sfumato.privacy.accounting.price import price
from sfumato.privacy.ledger.chain import canonical, digest
from sfumato.vault.accounts import remaining_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sfumato.methods.method import AnswerLimit, Dataset, Plan, RowSubset
    from sfumato.methods.programs.forecast import ProgramForecast
    from sfumato.methods.programs.request import ProgramRules, ProgramRun
    from sfumato.methods.query.sql.tables import Catalogue
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.vault.answer import Answer
    from sfumato.vault.datastore import DataStore
    from sfumato.vault.families import Family
    from sfumato.vault.gatekeeper import Gatekeeper
    from sfumato.vault.principals import Principal
    from sfumato.vault.release_attacks import ReleaseGate

    AskerOf = Callable[[tuple[str, ...]], "Asker"]
    """Gives the asker of a query about these data sets, with the accounts that pay."""


@dataclass(frozen=True)
class Asker:
    """Principal, purpose and paying accounts: the data sets' and any of the asker's own."""

    principal: str
    shared: tuple[str, ...]
    own: tuple[str, ...] = ()
    purpose: str | None = None
    rights: Principal | None = None
    """The permissions of a vault's principal; None for the holder of a table in memory."""

    @property
    def is_owner(self) -> bool:
        """Whether the asker may look at the rows without a budget."""
        return self.rights is None or self.rights.is_owner

    def checked_owner(self) -> Asker:
        """This asker, if they may look at rows without a budget; else a refusal."""
        if not self.is_owner:
            raise ParameterError(
                "permission_missing",
                f"{quoted(self.principal)} may not do this: comparing candidates reads rows of "
                f"people, so only the owner may. Leave {option('principal')} out, or ask for one "
                "release.",
            )
        return self


_RESERVED = ("feed/", "console/")


class OwnRequest(str):
    """A request id that Sfumato made or has checked; texts of callers never have this type."""

    __slots__ = ()


def check_request_id(request_id: object) -> str | None:
    """Return a caller's request id; refuse those that only Sfumato itself makes."""
    # A caller who could use the request id of a feed could charge the feed, or store another answer
    # under this id in advance.
    text = arguments.maybe_text(request_id, "request_id")
    if text is None or isinstance(text, OwnRequest) or not text.startswith(_RESERVED):
        return None if text is None else str(text)
    start = text[: text.index("/") + 1]
    raise ParameterError(
        "name_invalid",
        f"A request id may not begin with {start!r}: Sfumato makes those itself, for feeds and for "
        f"forms. Take another with {option('request')}.",
    )


def plan_digest(prepared: Plan) -> str:
    """The digest of a plan: equal for two plans exactly if they ask and cost the same."""
    return digest(canonical([prepared.name, prepared.parameters]).encode())


def check_plan(prepared: Plan, expected: str | None) -> None:
    """Refuse a plan that differs from the expected one, if one is expected."""
    if expected is not None and expected != plan_digest(prepared):
        raise ParameterError(
            "plan_changed",
            "This plan differs from the expected one: declarations or costs have changed. Nothing "
            "was charged. Explain the question again, and send its new plan.",
        )


def foreign_plan() -> ParameterError:
    """The error for a plan that was not prepared in this session."""
    return ParameterError(
        "plan_foreign",
        "This plan was not made here: another table may have other bounds and people. Plan it "
        "again with the table or vault that is to answer it.",
    )


SHARE = Fraction(1, 10)
"""The part of the whole budget that a question costs when no price is given."""


@dataclass(frozen=True)
class Offer:
    """The price that the caller offers for an answer, unchecked."""

    epsilon: object = None
    rho: object = None
    delta: object = None


@dataclass(frozen=True)
class Facts:
    """The public facts from which a method is prepared: declarations and whole budgets.

    `dataset` is the data set of methods that do not name theirs themselves, as SQL does.
    """

    catalogue: Catalogue
    dataset: str
    maximum: Fraction
    """The largest epsilon that the method may cost."""
    usual: Callable[[tuple[str, ...]], Fraction]
    """The default epsilon of a query about these data sets."""
    check: Callable[[tuple[str, ...]], None]
    """Refuses private data sets that cannot be joined."""
    admit: AskerOf
    """Refuses askers who may not query these data sets."""
    rights: Principal | None = None
    """The permissions of the asker; None without limits."""
    sandbox: str | None = None
    """The sandbox that the owner chose for programs, and how many blocks it runs at once."""
    sandbox_workers: int = 1
    limit: AnswerLimit | None = None
    """The largest answer; None without a limit."""
    programs: ProgramRules | None = None
    """The rules for programs of the asker."""

    @property
    def declared(self) -> PrivateRows:
        """The declaration of the data set."""
        entry = self.catalogue.get(self.dataset)
        if not isinstance(entry, PrivateRows):
            names = [
                name
                for name, declared in self.catalogue.items()
                if isinstance(declared, PrivateRows)
            ]
            raise QueryError(
                "dataset_unknown",
                f"There is no private data set {quoted(self.dataset)}; "
                + suggestion(self.dataset, names),
            )
        return entry

    def price(self, offer: Offer) -> Price:
        """The price of a method on this data set: the offer, else the default."""
        epsilon = offer.epsilon
        if epsilon is None and offer.rho is None:
            epsilon = self.usual((self.dataset,))
        return price(epsilon=epsilon, rho=offer.rho, delta=offer.delta or 0, maximum=self.maximum)


def prepared_of(family: Family, values: Mapping[str, Any], facts: Facts) -> Plan:
    """Plan a method of a family from its arguments and public facts."""
    asked = {**values, **family.fixed}
    offer = Offer(**{name: asked.pop(name) for name in family.cost if name in asked})
    prepared: Plan = family.home().prepare(facts, offer, **asked)
    facts.check(prepared.datasets)
    return prepared


class Asking(Protocol):
    """The session of a local vault, or of a client: both plan here and run where the rows are."""

    @property
    def catalogue(self) -> Catalogue:
        """The declared data sets by name."""
        ...

    def facts(self, asker_of: AskerOf, dataset: str = "") -> Facts:
        """The public facts that an asker may know."""
        ...

    def prepare(self, family: Family, values: Mapping[str, Any], facts: Facts) -> Plan:
        """Plan a method from public facts alone."""
        ...

    def run(
        self,
        family: Family,
        prepared: Plan,
        asker_of: AskerOf,
        *,
        request_id: str | None = None,
        gate: ReleaseGate | None = None,
    ) -> Answer:
        """Charge and answer a prepared method; with a `gate`, attack the answer first."""
        ...

    def confirm(self, prepared: Plan, asker_of: AskerOf) -> None:
        """Refuse a plan that the asker may not see."""
        ...

    def dry_run(self, prepared: ProgramRun, asker_of: AskerOf) -> ProgramForecast:
        """Rehearse a program on made-up rows and forecast its cost; free."""
        ...

    def left(self, datasets: tuple[str, ...], asker_of: AskerOf) -> tuple[Mapping[str, float], str]:
        """The amounts that one more query of the asker may cost, and the same in words."""
        ...

    def left_after(self, prepared: Plan, asker_of: AskerOf) -> tuple[Mapping[str, float], str]:
        """The budget that would be left after this charge, as amounts and in words."""
        ...

    def check_all(self, methods: Sequence[Plan], asker_of: AskerOf) -> list[Charged]:
        """List what several methods would charge the owner, or refuse it; nothing is charged."""
        ...

    def owners_rows(self, dataset: str, asker_of: AskerOf) -> AbstractContextManager[Dataset]:
        """The rows of a data set, for its owner alone; nothing is charged."""
        ...


@dataclass(frozen=True)
class Session:
    """The declared data sets, the store that opens them, and the gatekeeper before them."""

    catalogue: Catalogue
    store: DataStore
    gatekeeper: Gatekeeper
    maximum: Fraction = EPSILON_MAXIMUM
    """The largest epsilon of one query or publication."""
    kept: Sequence[Path] = ()
    """The files in use, which no saved answer may overwrite."""
    sandbox: str | None = None
    """The sandbox that the owner chose for programs, and how many blocks it runs at once."""
    sandbox_workers: int = 1
    rules_for: Callable[[Principal | None], ProgramRules | None] = lambda _rights: None
    """Gives the rules for programs of a principal."""
    _prepared: Mapping[str, WeakValueDictionary[int, Plan]] = field(
        default_factory=partial(defaultdict, WeakValueDictionary), repr=False, compare=False
    )
    """The plans of this session, by the shape of their answers; no other plan is run.

    Weak references: a plan that its caller has dropped needs no memory here."""

    def renewed(self, catalogue: Catalogue, gatekeeper: Gatekeeper, maximum: Fraction) -> Session:
        """A session with new declarations; plans stay valid if all old declarations do."""
        session = replace(self, catalogue=catalogue, gatekeeper=gatekeeper, maximum=maximum)
        is_same = all(catalogue.get(name) == declared for name, declared in self.catalogue.items())
        is_good = is_same and maximum == self.maximum
        return session if is_good else replace(session, _prepared=defaultdict(WeakValueDictionary))

    def facts(self, asker_of: AskerOf, dataset: str = "") -> Facts:
        """The public facts that an asker may know."""
        usual, asker = partial(self._usual, asker_of), asker_of(())
        return Facts(
            self._seen(asker.rights), dataset, self.maximum, usual, self.store.check, asker_of,
            asker.rights, self.sandbox, self.sandbox_workers,
            limit=self.gatekeeper.limits.of_answer(asker), programs=self.rules_for(asker.rights),
        )  # fmt: skip

    def _seen(self, rights: Principal | None) -> Catalogue:
        """The data sets that exist for a principal: public ones, and those they may query."""
        if rights is None or rights.is_owner:
            return self.catalogue
        return {
            name: declared
            for name, declared in self.catalogue.items()
            if not isinstance(declared, PrivateRows) or rights.sees(declared.population)
        }

    def prepare(self, family: Family, values: Mapping[str, Any], facts: Facts) -> Plan:
        """Plan a method from public facts alone."""
        shape, rights = family.shape, facts.rights
        if rights is not None and shape not in rights.shapes:
            # Without the shape itself a principal may only see what it would cost.
            rights.check("explain")
        return self.admit(shape, prepared_of(family, values, facts), facts)

    def admit(self, shape: str, prepared: Plan, facts: Facts) -> Plan:
        """Admit a prepared method: only admitted methods are run here."""
        asker = facts.admit(prepared.datasets)
        _check(asker, None, prepared)
        # Here and again at the gatekeeper: a plan may be run later, under other limits.
        self.gatekeeper.limits.check_answer(prepared, asker)
        self._prepared[shape][id(prepared)] = prepared
        return prepared

    def run(
        self,
        family: Family,
        prepared: Plan,
        asker_of: AskerOf,
        *,
        request_id: str | None = None,
        gate: ReleaseGate | None = None,
    ) -> Answer:
        """Charge and answer a prepared method; with a `gate`, attack the answer first."""
        request = check_request_id(request_id)
        if gate is not None:
            gate.check(self, asker_of, prepared)
        answer = family.read(self.answer(prepared, asker_of, request_id=request), prepared)
        return answer if gate is None else gate.attack(self, asker_of, prepared, answer)

    def answer(
        self,
        prepared: Plan,
        asker_of: AskerOf,
        *,
        request_id: str | None,
        subset: RowSubset | None = None,
    ) -> Answer:
        """The answer of the gatekeeper, before its family reads it further.

        With a `subset` of the rows, such as a period of a feed, the same question is answered only
        once, whatever the snapshot number of the vault is.
        """
        shapes = [
            shape
            for shape, admitted in list(self._prepared.items())
            # By identity: a plan that somebody built or altered by hand equals none that was
            # admitted.
            if admitted.get(id(prepared)) is prepared
        ]
        if not shapes:
            raise foreign_plan()
        datasets, public = prepared.datasets, prepared.public
        # The asker is looked up now: permission or budget may have ended since the plan was made.
        asker, versions = asker_of(datasets), dict[str, int]()
        purpose = asker.purpose
        _check(asker, shapes[0], prepared)
        self.store.check_purpose(datasets, purpose)
        keeper, asked = self.gatekeeper, prepared
        if subset is not None:
            keeper, asked = replace(keeper, snapshot=0), subset.of(prepared)
        answer = keeper.answer(
            asked,
            asker,
            lambda: self._open_datasets(datasets, public, purpose, versions),
            check_data=lambda: self._check_ready(prepared),
            request_id=request_id,
            consent=versions,
            keep_entropy=subset is not None,
        )
        return replace(answer, kept=tuple(self.kept))

    def _check_ready(self, prepared: Plan) -> None:
        """Refuse, before any charge, data that cannot be read and programs that would fail."""
        self.store.check_readable((*prepared.datasets, *prepared.public))
        prepared.check_runnable(self.gatekeeper.deadline_seconds or None)

    @contextmanager
    def _open_datasets(
        self,
        private: tuple[str, ...],
        public: tuple[str, ...],
        purpose: str | None,
        versions: dict[str, int],
    ) -> Iterator[Mapping[str, Dataset]]:
        """Open the data sets of a plan; refuse those whose schema has changed since."""
        with self.store.together(private, public, purpose=purpose, versions=versions) as datasets:
            for name in (*private, *public):
                # The plan's sensitivities follow from the schema; under another one its noise
                # would be too small.
                if datasets[name].schema != self.catalogue[name].schema:
                    raise EngineError(
                        "declarations_changed",
                        f"The declarations of {quoted(name)} have changed since the plan was made.",
                    )
            yield datasets

    def confirm(self, prepared: Plan, asker_of: AskerOf) -> None:
        """Refuse a plan whose answer could not be stored; the rest was checked by `prepare`."""
        self.gatekeeper.check_stored(prepared, asker_of(prepared.datasets))

    def dry_run(self, prepared: ProgramRun, asker_of: AskerOf) -> ProgramForecast:
        """Rehearse a program on made-up rows and forecast its cost; free."""
        _check(asker_of(prepared.datasets), "code", prepared)
        return prepared.explain()

    def left(self, datasets: tuple[str, ...], asker_of: AskerOf) -> tuple[Mapping[str, float], str]:
        """The amounts that one more query of the asker may cost, and the same in words."""
        asker = asker_of(datasets)
        return remaining_budget(self.gatekeeper.ledger, asker.own or asker.shared)

    def left_after(self, prepared: Plan, asker_of: AskerOf) -> tuple[Mapping[str, float], str]:
        """The budget left after this charge, as amounts and in words."""
        self.confirm(prepared, asker_of)
        asker, ledger = asker_of(prepared.datasets), self.gatekeeper.ledger
        return remaining_budget(ledger, asker.own or asker.shared, prepared.charged)

    def check_all(self, methods: Sequence[Plan], asker_of: AskerOf) -> list[Charged]:
        """What several methods cost the owner together, or a refusal; nothing is charged."""
        datasets = methods[0].datasets
        asker = asker_of(datasets).checked_owner()
        self.store.check_purpose(datasets, asker.purpose)
        return self.gatekeeper.check_all(methods, asker)

    @contextmanager
    def owners_rows(self, dataset: str, asker_of: AskerOf) -> Iterator[Dataset]:
        """The rows of a data set, for its owner alone; nothing is charged.

        Where people are asked for consent, only those who agree to the named purpose.
        """
        purpose = asker_of((dataset,)).checked_owner().purpose
        with self.store.open_for_owner(dataset, purpose=purpose) as rows:
            yield rows

    def _usual(self, asker_of: AskerOf, datasets: tuple[str, ...]) -> Fraction:
        """A tenth of the smallest whole budget that pays, however much of it is spent."""
        asker, ledger = asker_of(datasets), self.gatekeeper.ledger
        # A default that followed what is left would tell askers how much others have spent.
        payers = (*asker.shared, *asker.own)
        usual = SHARE * min(ledger.account(name).budget.loss().epsilon for name in payers)
        return usual if asker.rights is None else asker.rights.usual(usual)


def _check(asker: Asker, shape: str | None, prepared: Plan) -> None:
    """Refuse a shape of answer or a cost that the principal is not permitted."""
    if asker.rights is not None and not asker.rights.is_owner:
        asker.rights.check(shape, prepared.parameters["cost"])
