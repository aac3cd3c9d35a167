"""The entropy log: the random words of one charge, kept until its answer is stored.

Work that was killed and is resumed under the same charge reads the same words again, so that it has
one noise however often it is restarted. With fresh words, anyone who can kill the process could
choose among answers with different noise, under one charge. Words are written before they are used,
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

_WORD_BYTES = 8


class LoggedEntropy(SystemEntropy):
    """The operating system's entropy, logged in a file and read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path, self._done = path, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` words: those in the log first, then new ones."""
        length = _WORD_BYTES * count
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            content = _read(file, self._done, length)
            if len(content) < length:
                # A partly written word was never used; its bytes are random and may stay.
                _write(file, self._done + len(content), os.urandom(length - len(content)))
                content = _read(file, self._done, length)
        finally:
            os.close(file)
        self._done += length
        return np.frombuffer(content, dtype=np.uint64)


def _read(file: int, start: int, length: int) -> bytes:
    chunks, read_bytes = [], 0
    while read_bytes < length and (
        chunk := os.pread(file, length - read_bytes, start + read_bytes)
    ):
        chunks.append(chunk)
        read_bytes += len(chunk)
    return b"".join(chunks)


def _write(file: int, start: int, content: bytes) -> None:
    written_bytes = 0
    while written_bytes < len(content):
        written_bytes += os.pwrite(file, content[written_bytes:], start + written_bytes)
