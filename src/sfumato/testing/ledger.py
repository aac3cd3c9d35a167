"""Short words for tests of ledgers."""

from __future__ import annotations

import os
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.ledger.chain import digest
from sfumato.privacy.events import PureEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.base import Ledger
    from sfumato.ledger.receipt import Receipt

BODY = digest(b"SELECT COUNT(*) FROM visits")


def pure(epsilon: str) -> PureEvent:
    """An event of that epsilon."""
    return PureEvent(epsilon=Fraction(epsilon))


def charge(ledger: Ledger, epsilon: str, request_id: str, account: str = "visits") -> Receipt:
    """Reserve as alice, for the same question each time."""
    return ledger.reserve(
        pure(epsilon),
        accounts=[account],
        principal="alice",
        request_id=request_id,
        body_digest=BODY,
    )


def ask(ledger: Ledger, request_id: str, body: str = BODY) -> bytes | None:
    """Ask for alice's stored answer."""
    return ledger.answer(principal="alice", request_id=request_id, body_digest=body)


def nano(ledger: Ledger, account: str = "visits") -> int | None:
    """What an account with a pure budget has spent, in units of 1e-9."""
    (part,) = ledger.spent(account)
    return None if part is None else part[0]


def code_of(action: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """The code of the error that an action must raise."""
    try:
        action(*arguments, **options)
    except SfumatoError as error:
        return error.code
    return "no error"


def in_child(action: Callable[[], object]) -> str:
    """The code of the error that an action raises in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, code_of(action).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read().decode()


def run_threads(work: Callable[[int], None], count: int) -> None:
    """Run work in that many threads at once."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
