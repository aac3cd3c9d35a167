"""Work for at most so long: what takes longer is stopped, and its result never seen.

Decision 0126.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.data.engines.base import Engine

R = TypeVar("R")

_PATIENCE_SECONDS = 0.1

QUESTION_SECONDS = 600.0
"""How long a question may take where the owner has set no deadline."""


def allowed_seconds(deadline: float | None, method: str) -> float | None:
    """How long a method may take by an owner's deadline; None: for as long as it takes.

    Where the owner has set none, questions have one, and jobs, which may take hours, have not.
    """
    if deadline is None:
        return QUESTION_SECONDS if method == "query" else None
    return deadline or None


def within(seconds: float | None, work: Callable[[], R], engines: Sequence[Engine]) -> R:
    """Work for at most so long; what takes longer is stopped, and its result never seen."""
    if seconds is None:
        return work()
    done: list[R] = []
    failed: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001  it is raised again by the one who waits
            failed.append(error)
        finally:
            ended.set()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        ended.wait(seconds)
    finally:
        if not ended.is_set():  # at the deadline, or at Ctrl-C
            # Apart, because the reply must not wait for however long the databases take to stop.
            threading.Thread(target=_stop, args=(worker.ident, ended, engines), daemon=True).start()
    if failed:
        raise failed[0]
    if not done:
        raise TimeoutError(f"not done within {seconds} seconds")
    return done[0]


def _stop(worker: int, ended: threading.Event, engines: Sequence[Engine]) -> None:
    """Cancel what a thread runs, and whatever it begins next, until it has ended."""
    while not ended.is_set():
        for engine in list(engines):
            with suppress(SfumatoError):
                engine.cancel(worker)
        ended.wait(_PATIENCE_SECONDS)
