"""The gatekeeper: the one place where a private answer comes about, whatever method and door.

The order is always the same: cost and size from public facts → the answer is within its limits and
there is room to store it → room among heavy work → the data can be reached → charge, durable →
receipt → data opened → entropy → read → noise → answer stored, durable → released. What an analyst
sees once the charge is made is an answer or one fixed refusal, which never tells why. A charge that
failed before entropy was drawn is used by whoever asks the same next; later it is lost.
Decisions `ledger-stores` and `charge-order`.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING

from sfumato.errors import BudgetError, EngineError, LedgerError, PolicyError, SfumatoError, option
from sfumato.privacy.accounting.balance import (
    describe_balance,
    describe_cost,
    describe_costs,
    explain_shortage,
)
from sfumato.privacy.ledger.chain import canonical, digest
from sfumato.privacy.ledger.rules import charge_account, exhausted, with_ancestors
from sfumato.privacy.ledger.single_flight import Flights
from sfumato.release.codec import from_bytes, to_bytes
from sfumato.vault.accounts import remaining_budget
from sfumato.vault.answer import Answer
from sfumato.vault.limits import HeavyWork, VaultLimits, allowed_seconds, within, work_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sfumato.data.engines.base import Engine
    from sfumato.methods.method import Dataset, Plan
    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.chain import Account, Key
    from sfumato.privacy.ledger.receipt import Receipt
    from sfumato.privacy.ledger.single_flight import Flight
    from sfumato.release.release import Release
    from sfumato.vault.answer import AnswerIndex
    from sfumato.vault.session import Asker

    OpenData = Callable[[], AbstractContextManager[Mapping[str, Dataset]]]
    """Opens the data sets of a question, and keeps them open while it is being answered."""

_LOSSES = ("epsilon", "rho", "delta")
_NO_ANSWER = ("answer_lost", "request_reused")


@dataclass(frozen=True)
class _Asked:
    """One question on its way: what, by whom, what makes it the same, and how to get at data."""

    prepared: Plan
    asker: Asker
    body: str
    open_data: OpenData
    check_data: Callable[[], None]
    consent: Mapping[str, int]
    seconds: float | None


@dataclass(frozen=True)
class Gatekeeper:
    """Charges, runs and stores prepared methods over one ledger.

    Answers and failures leave at the next multiple of `tick_seconds` of the machine's clock;
    nothing that runs longer than `deadline_seconds` is answered; 0 is no deadline, and None one for
    questions alone. Why a request failed is told to `tell_operator` alone: the receipt's number,
    and words that may quote data.
    """

    ledger: Ledger
    answered: AnswerIndex
    flights: Flights = field(default_factory=Flights)
    snapshot: int = 1
    tick_seconds: float = 0.0
    deadline_seconds: float | None = 0.0
    tell_operator: Callable[[int, str], None] = field(default=lambda _charge, _text: None)
    limits: VaultLimits = field(default_factory=VaultLimits)
    heavy: HeavyWork = field(default_factory=HeavyWork)

    def answer(
        self,
        prepared: Plan,
        asker: Asker,
        open_data: OpenData,
        *,
        check_data: Callable[[], None] = lambda: None,
        request_id: str | None = None,
        consent: Mapping[str, int] = MappingProxyType({}),
        taped: bool = False,
    ) -> Answer:
        """Answer a prepared method: from store where it was paid for, else charge and run it.

        Whoever asks what is being answered waits for that answer. `check_data` refuses, before
        anything is charged, what cannot be read; nothing that it tells may depend on rows. The
        versions of `consent` that were read with the data stand beside the stored answer. What is
        `taped` is not lost when its process is killed: it is begun again to the same end.
        """
        body = self._body(prepared, asker)
        seconds = allowed_seconds(self.deadline_seconds, prepared.name)
        asked = _Asked(prepared, asker, body, open_data, check_data, consent, seconds)
        with self._on_the_tick(), self.room(prepared, asker):  # before any lock on the question
            # From public facts alone: a limit that looked at rows would tell of them.
            self.limits.check_answer(prepared, asker)
            # Before any charge: an answer that was paid for is never paid for twice.
            stored = self._free(asker, asked.body, request_id)
            if stored is None:
                # One flight for each question: whoever asks the same meanwhile waits for this
                # answer and shares its charge and its noise.
                alone = self.flights.alone(asked.body, timeout_seconds=seconds, keep_entropy=taped)
                with alone as flight:
                    self._settle(asked, flight)
                    return self._alone(asked, flight, request_id)
            return self.read(stored, asker, charged=False)

    def room(self, prepared: Plan, asker: Asker) -> AbstractContextManager[None]:
        """Room for an answer among heavy work; a second one, within the first, is the same."""
        seconds = allowed_seconds(self.deadline_seconds, prepared.name)
        return self.heavy.room(work_of(prepared), asker, seconds)

    def check_all(self, methods: Sequence[Plan], asker: Asker) -> list[Charged]:
        """List the charges of several methods whose answers are not stored yet.

        They are refused if they are too much together. Nothing is charged: another asker may still
        come first.
        """
        unpaid = [
            method.charged
            for method in methods
            if self._free(asker, self._body(method, asker), None) is None
        ]
        self.check_affordable(unpaid, asker)
        return unpaid

    def check_affordable(self, charges: Sequence[Charged], asker: Asker) -> None:
        """Refuse charges that an owner's budgets could not pay together; nothing is charged."""
        account = self._short(charges, (*asker.shared, *asker.own))
        if account is not None:
            raise BudgetError(
                "budget_exhausted",
                f"The budget {account.name!r} has too little left for all of them together: they "
                f"ask {describe_costs(charges)}, and there is "
                f"{describe_balance(account.budget, account.spent)}. Nothing was charged.",
            )

    def check_payable(self, prepared: Plan, asker: Asker, request_id: str) -> None:
        """Refuse what could not be paid for now, in the words of a charge; nothing is charged.

        Another asker may still come first.
        """
        body, charged = self._body(prepared, asker), prepared.charged
        if self._free(asker, body, request_id) is not None:
            return
        self.limits.check_stored(prepared, asker, self.ledger)
        is_there = self._hinted(asker.principal, body, own=False) is not None
        payers = asker.own if is_there else (*asker.shared, *asker.own)
        account = self._short([charged], payers)
        if account is not None:
            refusal = exhausted(account, charged, own=account.name in payers)
            raise self._exhausted(charged, asker) if asker.own else refusal

    def check_stored(self, prepared: Plan, asker: Asker) -> None:
        """Refuse an answer that there is no room to store, unless it is in store already."""
        try:
            self.limits.check_stored(prepared, asker, self.ledger)
        except PolicyError:
            if self._free(asker, self._body(prepared, asker), None) is None:
                raise

    def _short(self, charges: Sequence[Charged], payers: Sequence[str]) -> Account | None:
        """The first account, of those that pay and those above them, that has too little left.

        The decision is the one of the charge itself, so a preview and a charge agree.
        """
        for before in with_ancestors(payers, self.ledger.account):
            account = before
            for charged in charges:
                after = charge_account(account, charged)
                if after is None:
                    return before
                account = after
        return None

    def _free(self, asker: Asker, body: str, request_id: str | None) -> bytes | None:
        """A stored answer that costs the asker nothing."""
        try:
            answer_or_id = self._lookup(asker.principal, request_id, body)
        except LedgerError as error:
            if error.code != "answer_lost":  # it may be on its way
                raise
            return None
        if isinstance(answer_or_id, bytes):
            return answer_or_id
        return None if asker.own else self._hinted(asker.principal, body, own=False)

    def _settle(self, asked: _Asked, flight: Flight) -> None:
        """Bring to its end what an earlier asker of the same question left.

        A charge from which no entropy was drawn is used; an answer that was stored is noted.
        """
        key = flight.key
        if key is None:
            return
        stored, _ = self._looked_up(key, asked.body)
        receipt = None
        if stored is None:
            receipt = self.ledger.resume(
                flight, asked.prepared.charged, accounts=asked.asker.shared, body_digest=asked.body
            )
        if receipt is not None:
            self._check(asked)
            stored = self._run(asked, receipt)
            self.ledger.store(receipt, stored, consent=asked.consent)
        if receipt is not None or stored is not None:
            self.answered.note(asked.body, key)
            flight.settle()

    def _alone(self, asked: _Asked, flight: Flight, request_id: str | None) -> Answer:
        """Answer as the only asker of a question."""
        asker, body = asked.asker, asked.body
        answer_or_id = self._lookup(asker.principal, request_id, body)
        if isinstance(answer_or_id, bytes):
            return self.read(answer_or_id, asker, charged=False)
        elsewhere = self._hinted(asker.principal, body, own=False)
        if elsewhere is None or asker.own:
            # An answer without room in store would be charged and lost.
            self.limits.check_stored(asked.prepared, asker, self.ledger)
        if elsewhere is None:
            # Whatever can be refused without reading rows is refused before the charge.
            self._check(asked)
            # No receipt, no randomness: the charge is durable before any row is read.
            receipt = self._reserve(asked, (*asker.shared, *asker.own), answer_or_id, flight)
            stored = self._run(asked, receipt)
        elif asker.own:
            # The people were charged for this answer; the asker's own budget pays for seeing it.
            receipt = self._reserve(asked, asker.own, answer_or_id, None)
            stored = _under(receipt, from_bytes(elsewhere))
        else:
            return self.read(elsewhere, asker, charged=False)
        # Stored before it is released: a crash in between must not lead to a second noise.
        self.ledger.store(receipt, stored, consent=asked.consent)
        self.answered.note(body, receipt.request.key)
        flight.settle()
        return self.read(stored, asker, charged=True)

    def _body(self, prepared: Plan, asker: Asker) -> str:
        """What makes two questions the same. Never anything read from data.

        A stored answer is found by this digest, so the keys and values of `parameters` stay as they
        are from version to version.
        """
        asked = {
            "method": prepared.name,
            "parameters": prepared.parameters,
            "accounts": asker.shared,
            "purpose": asker.purpose,
            "snapshot": self.snapshot,
        }
        return digest(canonical(asked).encode())

    def _lookup(self, principal: str, request_id: str | None, body: str) -> bytes | str:
        """The answer that the principal has already paid for, or else the id to charge under."""
        if request_id is not None:
            stored = self._stored((principal, request_id), body)
            if stored is not None:
                return stored
        stored = self._hinted(principal, body, own=True)
        if stored is not None:
            return stored
        if request_id is not None:
            return request_id
        for number in count(1):  # what was charged and failed is lost: the next attempt pays
            attempt = f"{body[:40]}-{number}"
            stored, usable = self._looked_up((principal, attempt), body)
            if usable:
                return attempt if stored is None else stored
        raise AssertionError("numbers never end")

    def _hinted(self, principal: str, body: str, *, own: bool) -> bytes | None:
        """The answer that the principal, or else that another one, has paid for."""
        for key in self.answered.requests_of(body):
            if (key[0] == principal) is own:
                stored, _ = self._looked_up(key, body)
                if stored is not None:
                    return stored
        return None

    def _looked_up(self, key: Key, body: str) -> tuple[bytes | None, bool]:
        """A stored answer, and whether the request is free or answered rather than lost."""
        try:
            return self._stored(key, body), True
        except SfumatoError as error:
            if error.code not in _NO_ANSWER:
                raise
            return None, False

    def _stored(self, key: Key, body: str) -> bytes | None:
        principal, request_id = key
        return self.ledger.answer(principal=principal, request_id=request_id, body_digest=body)

    def _check(self, asked: _Asked) -> None:
        """Refuse what cannot be read now, before anything is charged for it."""
        try:
            within(asked.seconds, asked.check_data, [])
        except TimeoutError:
            raise EngineError(
                "data_unreachable",
                "The data did not answer within the deadline. Nothing was charged. Try again "
                "later, or let the operator look for the cause.",
            ) from None

    def _reserve(
        self, asked: _Asked, accounts: tuple[str, ...], request_id: str, flight: Flight | None
    ) -> Receipt:
        charged, asker = asked.prepared.charged, asked.asker
        try:
            return self.ledger.reserve(
                charged,
                accounts=accounts,
                principal=asker.principal,
                request_id=request_id,
                body_digest=asked.body,
                flight=flight,
            )
        except BudgetError as refusal:
            refused = self._exhausted(charged, asker) if asker.own else refusal
        raise refused from None

    def _exhausted(self, charged: Charged, asker: Asker) -> BudgetError:
        """Say what is left of the asker's own budget; of a shared one nothing is told."""
        for name in asker.own:
            account = self.ledger.account(name)
            if charge_account(account, charged) is None:
                return BudgetError(
                    "budget_exhausted",
                    f"Your budget {name!r} has too little left: "
                    + explain_shortage(account.budget, account.spent, charged),
                )
        return BudgetError(
            "budget_exhausted",
            "The data set has too little budget left for this question, which asks "
            f"{describe_cost(charged)}. Ask for less with {option('epsilon')}, or ask its owner "
            "for budget.",
        )

    def _run(self, asked: _Asked, receipt: Receipt) -> bytes:
        """Read and add noise. Whatever goes wrong from here on is one and the same to see."""
        engines: list[Engine] = []

        def work() -> Release:
            with asked.open_data() as datasets:
                engines.extend(dataset.engine for dataset in datasets.values())
                # Last, because from here on the charge can never be used again.
                return asked.prepared.run(datasets, receipt.entropy())

        try:
            return _under(receipt, within(asked.seconds, work, engines))
        except Exception as error:  # noqa: BLE001  an analyst must not tell one from another
            cause = getattr(error, "detail", None) or error
            detail = f"{type(error).__name__}: {cause}"
            self.tell_operator(receipt.request.charge, detail)
        finally:
            # A thread that still opens data must not draw from what the next asker takes up.
            receipt.leave()
        # Outside the handler, so that the cause is not kept as the context either.
        raise EngineError(
            "answer_failed",
            "The question was charged but could not be answered. The charge stays spent. "
            "Ask for less at a time, or let the operator look for the cause.",
            detail=detail,
        )

    def read(self, stored: bytes, asker: Asker, *, charged: bool) -> Answer:
        """An answer as the ledger keeps it, with what is left to the asker now.

        The number of its entry is the owner's to know: numbers between two of them would tell a
        principal how much others do.
        """
        release = from_bytes(stored)
        number = release.receipt or ""
        remaining, balance = remaining_budget(self.ledger, asker.own or asker.shared)
        promised = release.guarantee.parameters
        return Answer(
            release.tables,
            release.guarantee,
            release.provenance,
            release.error,
            number if asker.is_owner else number.rpartition(":")[2],
            cost={name: float(Fraction(promised[name])) for name in _LOSSES if promised.get(name)},
            charged=charged,
            remaining=remaining,
            balance=balance,
            entry=number,
        )

    @contextmanager
    def _on_the_tick(self) -> Iterator[None]:
        """Let whatever comes leave at the next tick, so that its time tells little."""
        try:
            yield
        finally:
            if self.tick_seconds > 0:
                time.sleep(self.tick_seconds - time.monotonic() % self.tick_seconds)


def _under(receipt: Receipt, release: Release) -> bytes:
    """A release as it is stored, with the entry of the ledger that paid for it."""
    number = f"{receipt.request.charge}:{receipt.proof}"
    return to_bytes(replace(release, receipt=number))
