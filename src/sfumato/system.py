"""What not every system has: locks between processes, flags of open files, whose a file is.

Linux and macOS have all of it. Elsewhere importing must not fail: tables are read and looked at as
anywhere, and what would need a lock says so.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from sfumato.errors import ParameterError

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
