"""The hash chain: every entry carries the SHA-256 of itself and of the entry before it."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

ORIGIN = "0" * 64
"""What stands for the hash before the first entry."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


class Position(NamedTuple):
    """A place in the chain: how many entries there are and the hash of the last."""

    seq: int
    hash: str


class Entry(NamedTuple):
    """One line of the book: its canonical JSON and the hash that binds it to all before it."""

    seq: int
    body: str
    hash: str


def canonical(value: object) -> str:
    """Write JSON in the one form that is hashed: sorted keys, no blanks, ASCII."""
    return _ENCODER.encode(value)


def link(previous: str, body: str) -> str:
    """The hash of an entry whose canonical JSON is `body`, after an entry with hash `previous`."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def digest(content: bytes) -> str:
    """The SHA-256 of a request's body or of an answer, as the ledger records it."""
    return hashlib.sha256(content).hexdigest()
