"""Receipts: the only way from a durable charge to randomness."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

from sfumato.errors import LedgerError
from sfumato.privacy.ledger.entropy_log import TapedEntropy
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
    """What no other process shares, not even a forked child."""
    return os.getpid(), _Forks.count


class Stage(StrEnum):
    """How far a receipt has come; there is no way back."""

    RESERVED = "reserved"
    DRAWN = "drawn"
    STORED = "stored"
    VOIDED = "voided"
    LEFT = "left to whoever asks next"


class Receipt:
    """Proof that one event is durably charged, good for one source of entropy in one process.

    It dies when the process forks, it cannot be copied or pickled, and once entropy was drawn the
    charge cannot be voided any more. Under a flight, that entropy is drawn is noted before it is
    given out; while it is not, the charge can be left to the flight's next holder.
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
        """How far this receipt has come."""
        return self._stage

    def entropy(self) -> Entropy:
        """The source of randomness for the event that was charged; given out once."""
        self.advance(Stage.DRAWN, {Stage.RESERVED})
        tape = None if self._flight is None else self._flight.tape
        return _ReceiptEntropy(self, SystemEntropy() if tape is None else TapedEntropy(tape))

    def leave(self) -> None:
        """Leave a charge from which no entropy was drawn to whoever asks next."""
        if self._stage is Stage.RESERVED:
            with suppress(LedgerError):
                self.advance(Stage.LEFT, {Stage.RESERVED})

    def advance(self, stage: Stage, allowed: set[Stage], *, ledger: object = None) -> None:
        """Compare and set the stage; a receipt moves in its own process and ledger only."""
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
            if stage is Stage.DRAWN and self._flight is not None:
                self._flight.draw()
            self._stage = stage

    def check_process(self) -> None:
        """Refuse to work in any process but the one that reserved."""
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
    """The operating system's entropy, for as long as its receipt is drawn and not yet answered."""

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
