"""Features that not every system has: file locks, flags of open files, owners of files.

Linux and macOS have all of them. On other systems importing must not fail: reading and inspecting
tables works, and an operation that needs a lock is refused with a message.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:
    locks: Any = None
else:
    locks = fcntl
"""The module `fcntl`, or None."""

# 0 where the system lacks the flag: a file is then opened without that protection.
NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
NO_WAITING: int = getattr(os, "O_NONBLOCK", 0)
NOT_INHERITED: int = getattr(os, "O_CLOEXEC", 0)
ONLY_FOLDERS: int = getattr(os, "O_DIRECTORY", 0)
BYTES_AS_THEY_ARE: int = getattr(os, "O_BINARY", 0)


def needs_locks(feature: str) -> None:
    """Refuse a feature that is only safe with locks between processes."""
    # Two processes that charge one ledger at the same time could spend a budget twice.
    if locks is None:
        raise ParameterError(
            "platform_unsupported",
            f"{feature} needs locks between processes, which this system ({sys.platform}) does not "
            "offer. Use Linux or macOS, or Linux inside Windows (WSL).",
        )


def is_ours(status: os.stat_result) -> bool:
    """Whether a file belongs to this user."""
    return hasattr(os, "geteuid") and status.st_uid == os.geteuid()


class OpenedFile:
    """The path and the identity of an opened file, to detect that it was replaced.

    Once the path was found to hold another file, the file counts as lost, even if it is put back:
    what was written to the other one meanwhile is unknown. Decision `ledger`.
    """

    def __init__(self, path: Path, opened: os.stat_result) -> None:
        self._path, self._opened = path.absolute(), opened
        self._lost = False

    def in_place(self) -> bool:
        """Whether the path holds the file, now and at every earlier check."""
        try:
            current = self._path.lstat()
        except FileNotFoundError:
            self._lost = True
        else:
            self._lost = self._lost or not os.path.samestat(current, self._opened)
        return not self._lost
