"""A tape: the entropy that one charge has given out, kept until its answer is stored.

Work that was killed on its way and must come to its end under the same charge reads the same words
again, so that there is one noise for it, however often it is begun: to draw anew would give chance,
or whoever can kill a process, a choice among answers. Words are written before they are given out,
and come from the operating system alone. Decision `charge-order`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_WORD = 8


class TapedEntropy(SystemEntropy):
    """The operating system's entropy by way of a file; read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path, self._done = path, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` words: those on the tape, and new ones once it is at its end."""
        length = _WORD * count
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            found = _read(file, self._done, length)
            if len(found) < length:
                # A word that was half written was never given out; what is there of it is as good.
                _write(file, self._done + len(found), os.urandom(length - len(found)))
                found = _read(file, self._done, length)
        finally:
            os.close(file)
        self._done += length
        return np.frombuffer(found, dtype=np.uint64)


def _read(file: int, start: int, length: int) -> bytes:
    parts, done = [], 0
    while done < length and (part := os.pread(file, length - done, start + done)):
        parts.append(part)
        done += len(part)
    return b"".join(parts)


def _write(file: int, start: int, content: bytes) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(file, content[done:], start + done)
