"""Locks between processes of one machine: waited for within a time, and told who holds them."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

PATIENCE_SECONDS = 30.0
"""How long to wait for somebody else's lock."""

_LOCKS = Path("/proc/locks")
_LONGEST_PAUSE = 0.008


def acquire(handle: int, *, seconds: float) -> bool:
    """Lock an open file against all other processes; say whether that was possible in time."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
        else:
            return True
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def release(handle: int) -> None:
    """Let others have the lock."""
    fcntl.flock(handle, fcntl.LOCK_UN)


def holder(handle: int) -> str:
    """Who holds the lock of an open file, in words, as far as the system tells."""
    status = os.fstat(handle)
    device, node = status.st_dev, str(status.st_ino)
    wanted = (f"{os.major(device):02x}:{os.minor(device):02x}", node)
    with suppress(OSError):
        for line in _LOCKS.read_text(encoding="ascii", errors="replace").splitlines():
            words = line.split()
            if len(words) < 6 or words[1] != "FLOCK":
                continue
            *found, inode = words[5].split(":")
            if (":".join(found), inode) == wanted and int(words[4]) > 0:
                return f"process {words[4]}{_name(words[4])}"
    return "another process"


def _name(process: str) -> str:
    with suppress(OSError):
        name = Path("/proc", process, "comm").read_text(encoding="utf-8", errors="replace").strip()
        return f" ({name})" if name.isprintable() else ""
    return ""
