"""Receipts: the only way from a durable charge to randomness."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

from sfumato.errors import LedgerError
from sfumato.privacy.ledger.entropy_log import LoggedEntropy
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.ledger.chain import ChargeRequest
    from sfumato.privacy.ledger.single_flight import Flight
    from sfumato.privacy.noise.entropy import Entropy


class _Forks:
    """Counts forks, because a process id may come back after its owner died."""

    count = 0

    @classmethod
    def add(cls) -> None:
        cls.count += 1


os.register_at_fork(after_in_child=_Forks.add)


def this_process() -> tuple[int, int]:
    """An identity of this process that a forked child does not share."""
    return os.getpid(), _Forks.count


class Stage(StrEnum):
    """The stage of a receipt; it only moves forward."""

    RESERVED = "reserved"
    DRAWN = "drawn"
    STORED = "stored"
    VOIDED = "voided"
    HANDED_OVER = "handed over to the next request"


class Receipt:
    """Proof that one event is durably charged; it gives one source of entropy in one process.

    It is invalid in a forked child and cannot be copied or pickled. Once entropy was drawn, the
    charge cannot be voided: a principal could otherwise see answers and return those with unwelcome
    noise. Under a flight, a note is written before entropy is given out; until then the charge can
    be handed over to the flight's next holder.
    """

    def __init__(
        self,
        request: ChargeRequest,
        event: Event,
        proof: str,
        ledger: object,
        flight: Flight | None = None,
    ) -> None:
        self.request = request
        self.event = event
        self.proof = proof
        self._ledger = ledger
        self._flight = flight
        self._process = this_process()
        self._stage = Stage.RESERVED
        self._lock = threading.Lock()

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self._stage

    def entropy(self) -> Entropy:
        """The source of randomness for the charged event; it is given out once."""
        # Only a reserved receipt gives entropy, so that one charge never pays for two noises.
        self.advance(Stage.DRAWN, {Stage.RESERVED})
        log_path = None if self._flight is None else self._flight.entropy_log
        return _ReceiptEntropy(
            self, SystemEntropy() if log_path is None else LoggedEntropy(log_path)
        )

    def leave(self) -> None:
        """Hand over a charge from which no entropy was drawn to the next request."""
        if self._stage is Stage.RESERVED:
            with suppress(LedgerError):
                self.advance(Stage.HANDED_OVER, {Stage.RESERVED})

    def advance(self, stage: Stage, allowed: set[Stage], *, ledger: object = None) -> None:
        """Compare and set the stage, in the receipt's own process and ledger only."""
        self.check_process()
        if ledger is not None and ledger is not self._ledger:
            raise LedgerError(
                "receipt_invalid", "This receipt was given by another ledger; return it there."
            )
        with self._lock:
            if self._stage not in allowed:
                raise LedgerError(
                    "receipt_invalid",
                    f"This receipt cannot become {stage} because it is already {self._stage}.",
                    hint="Reserve again for another answer.",
                )
            # The note comes before the entropy: after a crash in between, the charge counts as
            # drawn, which is safe. The other order would let the same charge be drawn twice.
            if stage is Stage.DRAWN and self._flight is not None:
                self._flight.draw()
            self._stage = stage

    def check_process(self) -> None:
        """Refuse to work in any process but the one that reserved the charge."""
        if self._process != this_process():
            raise LedgerError(
                "object_not_shareable",
                "A receipt is good only in the process that reserved it.",
                hint="Reserve in the process that answers.",
            )

    def __reduce__(self) -> NoReturn:
        raise LedgerError(
            "object_not_shareable", "A receipt cannot be copied or pickled: one charge, one answer."
        )


class _ReceiptEntropy(SystemEntropy):
    """The operating system's entropy, usable only while its receipt is in the stage DRAWN."""

    def __init__(self, receipt: Receipt, source: SystemEntropy) -> None:
        self._receipt, self._source = receipt, source

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` independent uniform 64-bit words."""
        self._receipt.check_process()
        if self._receipt.stage is not Stage.DRAWN:
            raise LedgerError(
                "receipt_invalid", "The answer under this receipt is stored; its entropy is closed."
            )
        return self._source.words(count)

    def __reduce__(self) -> NoReturn:
        raise LedgerError(
            "object_not_shareable", "A receipt's entropy cannot be copied or pickled."
        )
