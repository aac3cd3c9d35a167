"""A worker: one thread that answers what is due, for as long as a server runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_SECONDS = 5.0


class FeedWorker:
    """Does what is due, again and again; what goes wrong is told to the operator."""

    def __init__(self, work: Callable[[], int], tell_operator: Callable[[str], None]) -> None:
        self._work, self._tell = work, tell_operator
        self._thread: threading.Thread | None = None
        self._stopping, self._wake = threading.Event(), threading.Event()

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Take up no more, and wait so long for what is being done."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def is_stopping(self) -> bool:
        """Whether it is to take up no more."""
        return self._stopping.is_set()

    def wake(self) -> None:
        """Look now rather than at the next turn."""
        self._wake.set()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except SfumatoError as error:  # the ledger is away, or the vault is being edited
                self._tell(f"{error.code}: {error.detail or error.message}")
            except Exception as error:  # noqa: BLE001  a worker outlives whatever a feed does
                self._tell(f"{type(error).__name__}: {error}")
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()
