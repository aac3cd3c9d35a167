"""The ledger: no answer without a durable charge, no charge beyond the budget.

The order of every answer: reserve (durable, and the head outside the database synced) → receipt →
entropy → read → noise → `store` (durable) → released. After a crash every open reservation stays
spent; one that is known to have drawn no entropy can be resumed.

Decision `ledger-stores`. Decision `ledger-head`.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from sfumato.errors import CallerError, LedgerError, RefusedError, RolledBackError, SfumatoError
from sfumato.privacy.accounting.events import to_record
from sfumato.privacy.ledger import replay, rules
from sfumato.privacy.ledger.chain import ChargeRequest, Draft, canonical, follows, utc_now
from sfumato.privacy.ledger.commit import GroupCommit, Result, Ticket
from sfumato.privacy.ledger.failure import failure, pass_by
from sfumato.privacy.ledger.large_answers import placed, read_answer
from sfumato.privacy.ledger.receipt import Receipt, Stage, this_process
from sfumato.privacy.ledger.records import Amendment, Decided, RecordCache, amend, write_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.filters import Budget, Charge
    from sfumato.privacy.ledger.chain import Account, Entry, Key, Position, Reader, Store
    from sfumato.privacy.ledger.commit import OutsideHead
    from sfumato.privacy.ledger.records import BookState
    from sfumato.privacy.ledger.single_flight import Flight


class Ledger:
    """Budgets in a tree of accounts, charges, and the answers that were paid for.

    Safe for any number of threads, and for any number of processes that each open their own.
    Once its storage has failed it refuses everything until it is opened again.
    """

    def __init__(
        self,
        store: Store,
        *,
        head: OutsideHead | None,
        clock: Callable[[], datetime] = utc_now,
        at_step: Callable[[str], None] = pass_by,
        tell_operator: Callable[[str], None] = pass_by,
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
        cls, store: Store, *, head: OutsideHead, at_step: Callable[[str], None] = pass_by
    ) -> Ledger:
        """Begin a book: give its first entry a head. One that holds anything more is refused."""
        with head.lock(), store.reading() as reader:
            position = reader.position()
            begun = position.seq == 1 and head.read() in (None, position)
            if begun:
                head.write(position)
        ledger = cls(store, head=head, at_step=at_step)
        if not begun:
            ledger.close()
            raise LedgerError(
                "ledger_exists",
                "There already is a ledger in this database, or its head belongs to another.",
                hint="Name an empty database and another head.",
            )
        return ledger

    def open_account(self, name: str, *, budget: Budget, parent: str | None = None) -> Account:
        """Open an account, below a parent if given; one that exists is returned as it stands."""
        return self._run(lambda draft: rules.open_account(draft, name, budget, parent))

    def attach(self, dataset: str, *, account: str) -> None:
        """Charge a data set to an account for good; data sets about the same people share one."""
        self._run(lambda draft: rules.attach(draft, dataset, account))

    def set_limit(self, name: str, *, budget: Budget, operator: str) -> Account:
        """Give an account another budget, by an operator's entry; what was spent stays spent."""

        def operation(draft: Draft) -> Account:
            seen = replay.events_seen(draft).get(name, ())
            return rules.set_limit(draft, name, budget, operator, seen)

        return self._run(operation)

    def reserve(
        self,
        event: Event,
        *,
        accounts: Iterable[str],
        principal: str,
        request_id: str,
        body_digest: str,
        flight: Flight | None = None,
    ) -> Receipt:
        """Charge an event to accounts and their ancestors, durably, all or none.

        Under a flight, a charge that comes to nothing before entropy was drawn can be resumed.
        """
        rules.check_request(principal, request_id, body_digest)
        names, record = tuple(accounts), to_record(event)
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
        return Receipt(request, event, proof, self, flight)

    def resume(
        self, flight: Flight, event: Event, *, accounts: Iterable[str], body_digest: str
    ) -> Receipt | None:
        """Take up the charge that a flight's earlier holder made and drew no entropy from."""
        if flight.key is None or flight.drawn:
            return None
        with self._reading(checked=True) as reader:
            request = reader.requests_among([flight.key]).get(flight.key)
            if request is None or (request.body_digest, request.answered) != (body_digest, None):
                return None
            entry = rules.linked(reader, request.charge)
        record = json.loads(entry.body)
        same = canonical(record["event"]) == canonical(to_record(event))
        if (
            record.get("flight") != flight.mark
            or not same
            or set(accounts) - set(record["charges"])
        ):
            return None
        return Receipt(request, event, entry.hash, self, flight)

    def void(self, receipt: Receipt) -> None:
        """Give a charge back; only its holder can, and only before entropy was drawn."""
        receipt.advance(Stage.VOIDED, {Stage.RESERVED}, ledger=self)
        self._run(lambda draft: rules.void(draft, receipt.request), receipt.request.key)

    def store(
        self, receipt: Receipt, answer: bytes, *, consent: Mapping[str, int] | None = None
    ) -> None:
        """Keep an answer durably; it may be released when this returns, and not if it raises."""
        receipt.advance(Stage.STORED, {Stage.RESERVED, Stage.DRAWN}, ledger=self)
        request, versions = receipt.request, consent or {}
        with placed(self._store.files, request.charge, answer, self._tell_operator) as row:
            self._at_step("placed")
            self._run(lambda draft: rules.store(draft, request, answer, row, versions), request.key)
        self._at_step("stored")

    def answer(self, *, principal: str, request_id: str, body_digest: str) -> bytes | None:
        """The stored answer to a request, or None for one that was never charged."""
        rules.check_request(principal, request_id, body_digest)
        with self._reading(checked=True) as reader:
            key = (principal, request_id)
            request = reader.requests_among([key]).get(key)
            if request is None:
                return None
            if request.body_digest != body_digest:
                raise rules.refused_reuse(request_id)
            if request.answered is None:
                raise rules.answer_lost(request_id)
            row, entry = reader.answer(request.charge), reader.entry(request.answered)
        return read_answer(self._store.files, row, entry, request)

    def stored_bytes(self) -> dict[str, int]:
        """How many bytes the stored answers of each principal take."""
        with self._reading() as reader:
            return reader.stored_bytes()

    def check_room(self, size: int) -> None:
        """Refuse an answer of so many bytes for which there is no room on the disk."""
        if self._store.files is not None:
            self._store.files.check_room(size)

    def charged(self, principal: str, request_ids: Sequence[str]) -> dict[str, ChargeRequest]:
        """Those of a principal's requests that were charged, answered or not, by their ids."""
        with self._reading(checked=True) as reader:
            found = reader.requests_among([(principal, one) for one in request_ids])
        return {request_id: one for (_, request_id), one in found.items()}

    def account(self, name: str) -> Account:
        """An account with its budget and what was spent of it."""
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
        """What was spent from an account, in whole units of each filter."""
        return self.account(name).spent

    def remaining(self, name: str) -> Charge:
        """What is left of an account's own budget; its ancestors may hold less."""
        account = self.account(name)
        return account.budget.remaining(account.spent)

    def record(self, topic: str, name: str, value: object, *, operator: str) -> None:
        """Write down what an operator decided of a name; None takes it back. Nothing is charged."""
        self._run(lambda draft: write_record(draft, topic, name, value, operator))

    def records(self, topic: str) -> dict[str, Any]:
        """What stands of every name of a topic: the value written last, unless taken back."""
        return dict(self.decided().of(topic))

    def decided(self) -> Decided:
        """All records, and the later of the clock and of the last entry, at one moment."""
        with self._reading(checked=True) as reader:
            found = self._recorded.read(reader)
        return Decided(found.values, max(self._clock(), found.time))

    def amend(self, decide: Callable[[BookState], Amendment], *, operator: str) -> Amendment:
        """Change budgets and records together, all or none, by what stands when nobody writes."""
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
        """Walk the chain, replay it to the balances, and compare both with what is stored."""
        with self._reading(checked=True) as reader:
            return replay.check_book(reader, self._store.files)

    def export(self, target: TextIO) -> None:
        """Write every entry as a line of JSON, then the head that proves none is missing."""
        with self._reading(checked=True) as reader:
            replay.write_export(reader, target)

    def exported(self, after: int, most: int) -> list[str]:
        """Some lines of what `export` writes: entries behind one, and the head if they are all."""
        with self._reading(checked=True) as reader:
            return replay.export_page(reader, after, most)

    def acknowledge_rollback(
        self, *, operator: str, accounts: Mapping[str, Budget] | None = None
    ) -> None:
        """Accept, as an operator, a database older than the outside head; burns every budget.

        `accounts` are all that should stand: those that the database lacks are opened, burnt.
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
                rules.acknowledge(draft, lost, operator, accounts or {}, replay.events_seen(draft))
                writer.save(draft)
            self._head.write(draft.position)

    def close(self) -> None:
        """Let go of connections and files; receipts still open stay spent."""
        self._store.close()
        if self._head is not None:
            self._head.close()

    def _run(self, operation: Callable[[Draft], Result], key: Key | None = None) -> Result:
        # Before any lock: a forked child would wait for a thread that it does not have.
        self._check_usable()
        return self._group.run(operation, key)

    def _commit(self, batch: list[Ticket[object]]) -> None:
        """Apply a batch in one transaction, then move the outside head, then let it be seen."""
        self._check_usable()
        lock = nullcontext() if self._head is None else self._head.lock()
        with self._turn, self._guarded(), lock:
            with self._store.writing() as writer:
                self._at_step("locked")
                if self._head is not None:
                    self._check_follows(writer, self._head.read())
                draft = Draft(writer, self._clock)
                draft.prefetch({ticket.key for ticket in batch if ticket.key is not None})
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
        """After any failure of the storage its state is unknown: stop using it."""
        try:
            yield
        except SfumatoError:
            raise
        except Exception as error:  # noqa: BLE001 - the closed door is the same for all
            self._failed = True
            raise failure(error, self._tell_operator) from None
        except BaseException:
            self._failed = True
            raise

    @contextmanager
    def _reading(self, *, checked: bool = False) -> Iterator[Reader]:
        self._check_usable()
        try:
            # The head is read before the database, which only grows meanwhile.
            outside = self._head.read() if checked and self._head is not None else None
            with self._store.reading() as reader:
                if checked:
                    self._check_follows(reader, outside)
                yield reader
        except (SfumatoError, BrokenPipeError):  # an export's reader may go away
            raise
        except Exception as error:  # noqa: BLE001 - the closed door is the same for all
            raise failure(error, self._tell_operator) from None

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
        """Catch up with commits whose process died before it could move the outside head."""
        if self._head is None:
            return
        with self._guarded(), self._head.lock(), self._store.reading() as reader:
            position, outside = reader.position(), self._head.read()
            if position != outside and follows(reader, outside):
                self._head.write(position)
