"""The ledger: no answer without a durable charge, no charge beyond the budget.

The order of every answer: reserve (durable, and the head outside the database synced) → receipt →
entropy → read → noise → `store` (durable) → release. After a crash every open charge stays spent;
only one that is known to have drawn no entropy can be resumed.

Decision `ledger`. Decision `ledger`.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from sfumato.errors import CallerError, LedgerError, RefusedError, RolledBackError, SfumatoError
from sfumato.privacy.accounting.event_records import to_record
from sfumato.privacy.accounting.purchase import event_of
from sfumato.privacy.ledger import replay, rules
from sfumato.privacy.ledger.chain import ChargeRequest, Draft, canonical, follows, utc_now
from sfumato.privacy.ledger.commit import GroupCommit, Result, Ticket
from sfumato.privacy.ledger.failure import do_nothing, storage_failure
from sfumato.privacy.ledger.large_answers import read_answer, store_answer
from sfumato.privacy.ledger.receipt import Receipt, Stage, this_process
from sfumato.privacy.ledger.records import Amendment, Decisions, RecordCache, amend, write_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sfumato.privacy.accounting.filters import Budget, Charge
    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.privacy.ledger.chain import Account, Entry, Key, Position, Reader, Store
    from sfumato.privacy.ledger.commit import OutsideHead
    from sfumato.privacy.ledger.records import BookState
    from sfumato.privacy.ledger.single_flight import Flight


class Ledger:
    """A tree of accounts with budgets, the charges against them, and the answers they paid for.

    Safe for any number of threads, and for any number of processes that each open their own.
    After a failure of its storage it refuses every operation until it is opened again: the state
    of the storage is unknown, and a lost charge would mean a budget spent twice.

    Parameters
    ----------
    store : Store
        The database, or memory.
    head : OutsideHead or None
        The last position, kept outside the database to detect a restored backup; None in memory.
    clock : callable
        The time written into entries. No charge depends on it.
    at_step : callable
        Called with the name of each step of a commit; tests inject crashes here.
    tell_operator : callable
        Receives the cause of a storage failure, which callers must not see.
    """

    def __init__(
        self,
        store: Store,
        *,
        head: OutsideHead | None,
        clock: Callable[[], datetime] = utc_now,
        at_step: Callable[[str], None] = do_nothing,
        tell_operator: Callable[[str], None] = do_nothing,
    ) -> None:
        self._store = store
        self._head = head
        self._clock = clock
        self._at_step = at_step
        self._tell_operator = tell_operator
        self._process = this_process()
        self._failed = False
        self._turn = threading.Lock()
        self._group = GroupCommit(self._commit)
        self._recorded = RecordCache()
        self._heal_head()
        if store.files is not None:  # settle what a crash left of large answers
            with self._guarded():
                store.files.sweep(store.reading)

    @classmethod
    def create(
        cls, store: Store, *, head: OutsideHead, at_step: Callable[[str], None] = do_nothing
    ) -> Ledger:
        """Create a ledger: write the head of its first entry.

        Raises
        ------
        LedgerError
            If the database holds more than a first entry, or the head belongs to another ledger.
        """
        with head.lock(), store.reading() as reader:
            position = reader.position()
            # A creation that crashed before or after writing the head may be repeated.
            is_new = position.seq == 1 and head.read() in (None, position)
            if is_new:
                head.write(position)
        ledger = cls(store, head=head, at_step=at_step)
        if not is_new:
            ledger.close()
            raise LedgerError(
                "ledger_exists",
                "There already is a ledger in this database, or its head belongs to another.",
                hint="Name an empty database and another head.",
            )
        return ledger

    def open_account(self, name: str, *, budget: Budget, parent: str | None = None) -> Account:
        """Open an account, below a parent if given; an existing account is returned unchanged."""
        return self._run(lambda draft: rules.open_account(draft, name, budget, parent))

    def attach(self, dataset: str, *, account: str) -> None:
        """Attach a data set to an account for good; data sets about the same people share one."""
        self._run(lambda draft: rules.attach(draft, dataset, account))

    def set_limit(self, name: str, *, budget: Budget, operator: str) -> Account:
        """Give an account another budget, recorded with its operator; charges stay."""

        def operation(draft: Draft) -> Account:
            earlier_charges = replay.standing_charges(draft).get(name, ())
            return rules.set_limit(draft, name, budget, operator, earlier_charges)

        return self._run(operation)

    def reserve(
        self,
        event: Charged,
        *,
        accounts: Iterable[str],
        principal: str,
        request_id: str,
        body_digest: str,
        flight: Flight | None = None,
    ) -> Receipt:
        """Charge an event to accounts and their ancestors, durably, all or none.

        Parameters
        ----------
        event : Event or Purchase
            The mechanisms that the answer will run, with the pair that was paid for them if there
            is one.
        accounts : iterable of str
            The accounts to charge.
        principal, request_id : str
            Who asks, and the id under which the answer is stored.
        body_digest : str
            SHA-256 of the question, in hexadecimal: the id never stands for another question.
        flight : Flight, optional
            The lock on the question. Under it, a charge that drew no entropy can be resumed.

        Returns
        -------
        Receipt
            The only way to the entropy of the charge.

        Raises
        ------
        BudgetError
            If an account has too little budget left; nothing is charged.
        CallerError, LedgerError
            If the request id was used before.
        """
        rules.check_request(principal, request_id, body_digest)
        names, record = tuple(accounts), to_record(event)
        # The note is written before the charge: a crash in between leaves a note of a charge that
        # does not exist, which `resume` refuses. The other order could leave a charge without note.
        mark = None if flight is None else flight.claim((principal, request_id))

        def operation(draft: Draft) -> tuple[int, str]:
            seq = rules.reserve(
                draft,
                event,
                record,
                names,
                principal=principal,
                request_id=request_id,
                body_digest=body_digest,
                mark=mark,
            )
            return seq, draft.position.hash

        try:
            seq, proof = self._run(operation, (principal, request_id))
        except (CallerError, RefusedError):
            if flight is not None:
                flight.forget()
            raise
        self._at_step("reserved")
        request = ChargeRequest(principal, request_id, body_digest, seq)
        return Receipt(request, event_of(event), proof, self, flight)

    def resume(
        self, flight: Flight, event: Charged, *, accounts: Iterable[str], body_digest: str
    ) -> Receipt | None:
        """Resume the charge of a flight's earlier holder, if no entropy was drawn from it.

        The entry's mark, event and accounts must match, so that a note on disk that was changed
        cannot redirect the charge.
        """
        if flight.key is None or flight.drawn:
            return None
        with self._reading(checked=True) as reader:
            request = reader.requests_among([flight.key]).get(flight.key)
            if request is None or (request.body_digest, request.answered) != (body_digest, None):
                return None
            entry = rules.linked(reader, request.charge)
        record = json.loads(entry.body)
        is_same_event = canonical(record["event"]) == canonical(to_record(event))
        if (
            record.get("flight") != flight.mark
            or not is_same_event
            or set(accounts) - set(record["charges"])
        ):
            return None
        return Receipt(request, event_of(event), entry.hash, self, flight)

    def void(self, receipt: Receipt) -> None:
        """Return a charge to the budget; only its holder can, and only before entropy was drawn."""
        # The stage moves first: even if the commit fails, no entropy can be drawn any more.
        receipt.advance(Stage.VOIDED, {Stage.RESERVED}, ledger=self)
        self._run(
            lambda draft: rules.void(
                draft, receipt.request, lambda: replay.standing_charges(draft)
            ),
            receipt.request.key,
        )

    def store(
        self, receipt: Receipt, answer: bytes, *, consent: Mapping[str, int] | None = None
    ) -> None:
        """Store an answer durably; it may be released when this returns, and not if it raises."""
        receipt.advance(Stage.STORED, {Stage.RESERVED, Stage.DRAWN}, ledger=self)
        request, versions = receipt.request, consent or {}
        # A large answer's file is durable before the entry that names it is committed.
        with store_answer(self._store.files, request.charge, answer, self._tell_operator) as row:
            self._at_step("placed")
            self._run(lambda draft: rules.store(draft, request, answer, row, versions), request.key)
        self._at_step("stored")

    def answer(self, *, principal: str, request_id: str, body_digest: str) -> bytes | None:
        """The stored answer to a request, or None for a request that was never charged."""
        rules.check_request(principal, request_id, body_digest)
        with self._reading(checked=True) as reader:
            key = (principal, request_id)
            request = reader.requests_among([key]).get(key)
            if request is None:
                return None
            if request.body_digest != body_digest:
                raise rules.refused_reuse(request_id)
            # Never computed again: fresh noise would be a second answer under one charge.
            if request.answered is None:
                raise rules.answer_lost(request_id)
            row, entry = reader.answer(request.charge), reader.entry(request.answered)
        return read_answer(self._store.files, row, entry, request)

    def stored_bytes(self) -> dict[str, int]:
        """The size in bytes of each principal's stored answers."""
        with self._reading() as reader:
            return reader.stored_bytes()

    def check_room(self, size: int) -> None:
        """Refuse an answer of `size` bytes if the disk has no room for it."""
        if self._store.files is not None:
            self._store.files.check_room(size)

    def charged(self, principal: str, request_ids: Sequence[str]) -> dict[str, ChargeRequest]:
        """The principal's requests that were charged, answered or not, by id."""
        with self._reading(checked=True) as reader:
            requests = reader.requests_among(
                [(principal, request_id) for request_id in request_ids]
            )
        return {request_id: request for (_, request_id), request in requests.items()}

    def account(self, name: str) -> Account:
        """One account, with its budget and the units spent."""
        with self._reading() as reader:
            return rules.known(Draft(reader, self._clock), name)

    def accounts(self) -> list[Account]:
        """All accounts, by name."""
        with self._reading(checked=True) as reader:
            return reader.accounts()

    def account_of(self, dataset: str) -> str | None:
        """The account that a data set is charged to, or None for one never attached."""
        with self._reading() as reader:
            return reader.dataset(dataset)

    def spent(self, name: str) -> Charge:
        """The units spent from an account, for each filter of its budget."""
        return self.account(name).spent

    def remaining(self, name: str) -> Charge:
        """The units that remain of an account's own budget; its ancestors may have less."""
        account = self.account(name)
        return account.budget.remaining(account.spent)

    def record(self, topic: str, name: str, value: object, *, operator: str) -> None:
        """Record an operator's decision about a name; None revokes it. Nothing is charged."""
        self._run(lambda draft: write_record(draft, topic, name, value, operator))

    def records(self, topic: str) -> dict[str, Any]:
        """The current value of every name of a topic: the one written last, unless revoked."""
        return dict(self.decided().of(topic))

    def decided(self) -> Decisions:
        """All current records, with the later of the clock and the last entry's time."""
        with self._reading(checked=True) as reader:
            state = self._recorded.read(reader)
        return Decisions(state.values, max(self._clock(), state.time))

    def amend(self, decide: Callable[[BookState], Amendment], *, operator: str) -> Amendment:
        """Change budgets and records in one transaction, decided on its state; all or none.

        `decide` runs under the write lock and must be fast.
        """
        return self._run(lambda draft: amend(draft, decide, operator, self._recorded))

    def entries(self) -> Iterator[Entry]:
        """All entries, oldest first."""
        with self._reading() as reader:
            yield from reader.entries()

    def entry(self, seq: int) -> Entry | None:
        """One entry, by its number."""
        with self._reading() as reader:
            return reader.entry(seq)

    def verify(self) -> replay.Verification:
        """Check the hash chain, replay it, and compare the result with every stored balance.

        Raises
        ------
        LedgerError
            If an entry, a balance, a request or an answer does not agree.
        """
        with self._reading(checked=True) as reader:
            return replay.check_book(reader, self._store.files)

    def export(self, target: TextIO) -> None:
        """Write every entry as a line of JSON, then the head, which proves that none is missing."""
        with self._reading(checked=True) as reader:
            replay.write_export(reader, target)

    def exported(self, after: int, most: int) -> list[str]:
        """One page of what `export` writes: entries after one, and the head on the last page."""
        with self._reading(checked=True) as reader:
            return replay.export_page(reader, after, most)

    def acknowledge_rollback(
        self, *, operator: str, accounts: Mapping[str, Budget] | None = None
    ) -> None:
        """Accept, as an operator, a database older than the outside head; burns every budget.

        `accounts` are all accounts that should exist: a missing one is opened with its budget
        burnt, because its charges may be among the lost entries.
        """
        self._check_usable()
        if self._head is None:
            return
        with self._turn, self._guarded(), self._head.lock():
            lost = self._head.read()
            with self._store.writing() as writer:
                if follows(writer, lost):
                    return
                draft = Draft(writer, self._clock)
                rules.acknowledge(
                    draft, lost, operator, accounts or {}, replay.standing_charges(draft)
                )
                writer.save(draft)
            self._head.write(draft.position)

    def close(self) -> None:
        """Close connections and files; open receipts stay spent."""
        self._store.close()
        if self._head is not None:
            self._head.close()

    def _run(self, operation: Callable[[Draft], Result], key: Key | None = None) -> Result:
        # Before any lock: a forked child would wait for a thread that exists in its parent only.
        self._check_usable()
        return self._group.run(operation, key)

    def _commit(self, batch: list[Ticket[object]]) -> None:
        """Commit a batch in one transaction, then move the outside head.

        In this order a crash leaves the head behind the database, never ahead of it: a head ahead
        of the database means lost charges.
        """
        self._check_usable()
        lock = nullcontext() if self._head is None else self._head.lock()
        with self._turn, self._guarded(), lock:
            with self._store.writing() as writer:
                self._at_step("locked")
                if self._head is not None:
                    self._check_follows(writer, self._head.read())
                draft = Draft(writer, self._clock)
                draft.prefetch({ticket.key for ticket in batch if ticket.key is not None})
                # A refused operation leaves the draft unchanged, so the others still commit.
                for ticket in batch:
                    try:
                        ticket.apply(draft)
                    except SfumatoError as refusal:
                        ticket.error = refusal
                if not draft.entries:
                    return
                self._at_step("applied")
                writer.save(draft)
                self._at_step("saved")
            self._at_step("committed")
            if self._head is not None:
                self._head.write(draft.position)
            self._at_step("published")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Stop using the storage after any failure: its state is then unknown."""
        try:
            yield
        except SfumatoError:
            raise
        except Exception as error:  # noqa: BLE001 - the closed door is the same for all
            self._failed = True
            raise storage_failure(error, self._tell_operator) from None
        except BaseException:
            self._failed = True
            raise

    @contextmanager
    def _reading(self, *, checked: bool = False) -> Iterator[Reader]:
        self._check_usable()
        try:
            # The head is read first: the database only grows meanwhile, so it still follows it.
            outside = self._head.read() if checked and self._head is not None else None
            with self._store.reading() as reader:
                if checked:
                    self._check_follows(reader, outside)
                yield reader
        except (SfumatoError, BrokenPipeError):  # an export's reader may go away
            raise
        except Exception as error:  # noqa: BLE001 - the closed door is the same for all
            raise storage_failure(error, self._tell_operator) from None

    def _check_usable(self) -> None:
        if self._process != this_process():
            raise LedgerError(
                "object_not_shareable",
                "A ledger cannot be used in a forked process.",
                hint="Open it again there.",
            )
        if self._failed:
            raise LedgerError(
                "ledger_failed",
                "The ledger stopped after a failure of its storage; no answer is given. "
                "Find the cause and open it again.",
            )

    def _check_follows(self, reader: Reader, outside: Position | None) -> None:
        if self._head is None or follows(reader, outside):
            return
        raise RolledBackError(
            "ledger_rolled_back",
            "The ledger's database is older than its outside head, or another one, or the head "
            "is missing. No answer is given.",
            hint="Put the right files back, or acknowledge the loss, which burns every budget.",
            detail=f"outside {outside}, database {reader.position()}",
        )

    def _heal_head(self) -> None:
        """Move the outside head past commits whose process died before moving it."""
        if self._head is None:
            return
        with self._guarded(), self._head.lock(), self._store.reading() as reader:
            position, outside = reader.position(), self._head.read()
            # Only forward: a head that is ahead of the database is a rollback, not a crash.
            if position != outside and follows(reader, outside):
                self._head.write(position)
