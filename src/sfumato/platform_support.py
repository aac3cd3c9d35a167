"""What not every system has: locks between processes, flags of open files, whose a file is.

Linux and macOS have all of it. Elsewhere importing must not fail: tables are read and looked at as
anywhere, and what would need a lock says so.
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
"""The module of locks, where there is one."""

NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
NO_WAITING: int = getattr(os, "O_NONBLOCK", 0)
NOT_INHERITED: int = getattr(os, "O_CLOEXEC", 0)
ONLY_FOLDERS: int = getattr(os, "O_DIRECTORY", 0)
BYTES_AS_THEY_ARE: int = getattr(os, "O_BINARY", 0)


def needs_locks(what: str) -> None:
    """Refuse what is only safe where processes can lock each other out."""
    if locks is None:
        raise ParameterError(
            "platform_unsupported",
            f"{what} needs locks between processes, which this system ({sys.platform}) does not "
            "offer. Use Linux or macOS, or Linux inside Windows (WSL).",
        )


def is_ours(status: os.stat_result) -> bool:
    """Whether a file belongs to this user."""
    return hasattr(os, "geteuid") and status.st_uid == os.geteuid()


class OpenedFile:
    """Where a file was opened, and which one it was: another may be put in its place any time.

    Once its place was found to hold another, it counts as lost, also if it is put back: what
    happened meanwhile is unknown. Decision `ledger-head`.
    """

    def __init__(self, path: Path, opened: os.stat_result) -> None:
        self._path, self._opened = path.absolute(), opened
        self._lost = False

    def in_place(self) -> bool:
        """Whether its place holds it, and has whenever this was asked."""
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            self._lost = True
        else:
            self._lost = self._lost or not os.path.samestat(found, self._opened)
        return not self._lost
