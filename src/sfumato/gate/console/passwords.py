"""Passwords of people: argon2id, few at a time, and the same work whoever is named.

Decision 0255.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from sfumato.errors import ParameterError
from sfumato.gate.problems import RequestError

if TYPE_CHECKING:
    from sfumato.vault.vault import Vault

SHORTEST, LONGEST = 12, 1000
TRIES, TRY_SECONDS = 5, 60.0
HASHED_AT_A_TIME = 2
"""So many hashes are computed at a time: each takes 64 MiB, and half a second of a core."""


@cache
def hasher() -> PasswordHasher:
    """What computes hashes, with the costs that its makers think right today."""
    return PasswordHasher()


@cache
def _nobodys() -> str:
    """The hash that stands for those who have none: to check it takes as long as any."""
    return hasher().hash("nobody has this password")


def hashed(password: str, again: str) -> str:
    """The hash of a new password, which was typed twice."""
    if password != again:
        raise ParameterError(
            "password_differs", "The two passwords differ. Type the same one twice."
        )
    if not SHORTEST <= len(password) <= LONGEST:
        raise ParameterError(
            "password_length",
            f"A password has {SHORTEST} to {LONGEST:,} characters; this one has {len(password):,}. "
            "Four words that do not belong together make a good one.",
        )
    return hasher().hash(password)


def check_password(vault: Vault, name: str, password: str) -> bool:
    """Whether somebody of this name has this password; in the same time for nobody's name."""
    if not vault.logins.may_try(name, most=TRIES, seconds=TRY_SECONDS):
        raise RequestError(
            429,
            "sign_in_paused",
            f"{TRIES} tries a minute may be made under one name. Wait a minute and try again.",
            headers={"Retry-After": str(round(TRY_SECONDS))},
        )
    kept = vault.logins.hash_of(name)
    try:
        hasher().verify(_nobodys() if kept is None else kept, password[:LONGEST])
    except (VerificationError, InvalidHashError):
        return False
    if kept is None:
        return False
    vault.logins.forget_tries(name)
    if hasher().check_needs_rehash(kept):
        vault.logins.rehash(name, kept, hasher().hash(password))
    return True
