"""An orderly end: what the system tells a command to do is done as Ctrl-C would do it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

_STOPPING = (signal.SIGTERM, signal.SIGHUP)
_told: list[int] = []


def end_in_order() -> None:
    """Clean up before a request to end (SIGTERM) or a lost terminal (SIGHUP) ends the command.

    A signal that whoever started us wants ignored, as nohup does, stays so.
    """
    for one in _STOPPING:
        if signal.getsignal(one) == signal.SIG_DFL:
            signal.signal(one, _stop)


def exit_code() -> int:
    """The exit code of an interrupted command: 128 and the number of the signal."""
    return 128 + _told[0] if _told else INTERRUPTED


def _stop(number: int, _frame: FrameType | None) -> None:
    # Cleaning up must not be cut short by the next request; only SIGKILL can, and Ctrl-C.
    for one in _STOPPING:
        signal.signal(one, signal.SIG_IGN)
    _told.append(number)
    raise KeyboardInterrupt
