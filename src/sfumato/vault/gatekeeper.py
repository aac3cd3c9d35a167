"""The gatekeeper: it charges, computes and stores every private answer, for all methods and doors.

The order is always the same:

1. cost and size of the answer, from public facts;
2. limits of the answer, room to store it, room among heavy work, and the data can be reached;
3. the charge, made durable in the ledger, which gives a receipt;
4. the data sets are opened, the receipt gives entropy, rows are read, noise is added;
5. the answer is stored, durable, and only then released.

After the charge an analyst sees an answer or one fixed refusal, which gives no cause. A charge that
failed before entropy was drawn pays for the next request of the same question; a later one is lost.
Decisions `ledger` and `charge-order`.
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
from sfumato.vault.limits import HeavyWork, VaultLimits, allowed_seconds, within

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
    """One request: the plan, the asker, the digest of the question, and how to open the data."""

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

    Parameters
    ----------
    tick_seconds
        Answers and failures leave at the next multiple of it of the machine's clock; 0: at once.
    deadline_seconds
        What runs longer is not answered. 0 for no deadline; None for a deadline of queries only.
    tell_operator
        Receives the number of the receipt and the cause of a failure. The cause may quote data, so
        the analyst never sees it.
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
        keep_entropy: bool = False,
    ) -> Answer:
        """Answer a prepared method: from store where it was paid for, else charge and run it.

        A second request for the same question waits for the first and gets its answer.

        Parameters
        ----------
        check_data
            Refuses data that cannot be read, before anything is charged. Its refusals must not
            depend on rows.
        consent
            The versions of the consent registries that were read; stored beside the answer.
        keep_entropy
            The entropy is logged until the answer is stored, so that a request whose process
            was killed can be begun again with the same noise.
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
                alone = self.flights.alone(
                    asked.body, timeout_seconds=seconds, keep_entropy=keep_entropy
                )
                with alone as flight:
                    self._settle(asked, flight)
                    return self._alone(asked, flight, request_id)
            return self.read(stored, asker, charged=False)

    def room(self, prepared: Plan, asker: Asker) -> AbstractContextManager[None]:
        """Room for an answer among heavy work; a second one, within the first, is the same."""
        seconds = allowed_seconds(self.deadline_seconds, prepared.name)
        size = prepared.answer_size
        # A method whose size is not known does not wait.
        return self.heavy.room(0 if size is None else size.work, asker, seconds)

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
        # Each account that pays has to hold all charges together.
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
        # An answer that is free is never refused for want of budget or room.
        if self._free(asker, body, request_id) is not None:
            return
        self.limits.check_stored(prepared, asker, self.ledger)
        is_there = self._hinted(asker.principal, body, own=False) is not None
        # The people are charged once for an answer; a second principal pays from its own account
        # alone.
        payers = asker.own if is_there else (*asker.shared, *asker.own)
        account = self._short([charged], payers)
        if account is not None:
            refusal = exhausted(account, charged, own=account.name in payers)
            # With an account of their own askers hear nothing about the shared one: what others
            # have spent of it is not theirs to know.
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
            if error.code != "answer_lost":  # without an answer yet, it may be on its way
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
        # The last holder of this flight may have stored the answer and died before it noted that.
        stored, _ = self._looked_up(key, asked.body)
        receipt = None
        if stored is None:
            receipt = self.ledger.resume(
                flight, asked.prepared.charged, accounts=asked.asker.shared, body_digest=asked.body
            )
        if receipt is not None:
            # Checked anew: the data may have gone since the charge was made.
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
        # Whatever changes the answer is in here: the same people under another purpose, or a new
        # snapshot of the data, are another question with noise of its own.
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
        # The caller's own id: a request that is sent again finds its charge and pays no second.
        if request_id is not None:
            return request_id
        for number in count(1):  # what was charged and failed is lost: the next attempt pays
            # The id follows from the question, so that two processes that ask the same charge
            # under one id and the ledger lets only one of them through.
            attempt = f"{body[:40]}-{number}"
            stored, usable = self._looked_up((principal, attempt), body)
            if usable:
                return attempt if stored is None else stored
        raise AssertionError("numbers never end")

    def _hinted(self, principal: str, body: str, *, own: bool) -> bytes | None:
        """The answer that the principal, or else that another one, has paid for."""
        # The index is a hint and may lie: an answer counts only as the ledger confirms it under
        # this digest.
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
            # The ledger names the account that is short; that would tell askers of accounts beside
            # their own.
            refused = self._exhausted(charged, asker) if asker.own else refusal
        raise refused from None

    def _exhausted(self, charged: Charged, asker: Asker) -> BudgetError:
        """The error with the balance of the asker's own budget; never with that of a shared one."""
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
            "The data set has too little budget left for this request, which costs "
            f"{describe_cost(charged)}. Ask for less with {option('epsilon')}, or ask its owner "
            "for budget.",
        )

    def _run(self, asked: _Asked, receipt: Receipt) -> bytes:
        """Read and add noise. Whatever goes wrong from here on is one and the same to see."""
        # Filled by the worker, read by the deadline: what is to be cancelled is known only once it
        # is open.
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
        """Read a stored answer, with the asker's present balance.

        The number of its entry is the owner's to know: numbers between two of them would tell a
        principal how much others do.
        """
        release = from_bytes(stored)
        number = release.receipt or ""
        # Read now and not stored: a balance in a stored answer would be out of date, and another
        # asker's.
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
        """Delay an answer or a refusal until the next tick, so that its time reveals little."""
        try:
            yield
        finally:
            if self.tick_seconds > 0:
                # Also after a refusal: the time of a failure may depend on rows as much as that of
                # an answer.
                time.sleep(self.tick_seconds - time.monotonic() % self.tick_seconds)


def _under(receipt: Receipt, release: Release) -> bytes:
    """A release as it is stored, with the entry of the ledger that paid for it."""
    number = f"{receipt.request.charge}:{receipt.proof}"
    return to_bytes(replace(release, receipt=number))
