"""Passwords of people: argon2id, few at a time, and the same work whoever is named.

Decision `console`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from sfumato.console.page_request import Who
from sfumato.errors import ParameterError
from sfumato.server.problem_json import RequestError
from sfumato.vault.logins import TRY_LIMITS, Guesser

if TYPE_CHECKING:
    from sfumato.console.page_request import PageRoute, Visit
    from sfumato.vault.vault import Vault

SHORTEST, LONGEST = 12, 1000
HASHED_AT_A_TIME = 2
"""So many hashes are computed at a time: each takes 64 MiB, and half a second of a core."""
HASHES_PER_SECOND, HASHES_AT_ONCE = 0.5, 30
"""So many hashes are computed for one stranger's address, whatever names it tries."""


@cache
def hasher() -> PasswordHasher:
    """What computes hashes, with the costs that its makers think right today."""
    return PasswordHasher()


@cache
def _nobodys(by: PasswordHasher) -> str:
    """The hash that stands for those who have none: to check it takes as long as any of `by`."""
    return by.hash("nobody has this password")


def hashed(password: str, again: str) -> str:
    """The hash of a new password, which was typed twice."""
    if password != again:
        raise ParameterError(
            "password_invalid", "The two passwords differ. Type the same one twice."
        )
    if not SHORTEST <= len(password) <= LONGEST:
        raise ParameterError(
            "password_invalid",
            f"A password has {SHORTEST} to {LONGEST:,} characters; this one has {len(password):,}. "
            "Four words that do not belong together make a good one.",
        )
    return hasher().hash(password)


def guesser_of(route: PageRoute, visit: Visit) -> Guesser:
    """Who is about to try or to set a password, as far as a session, a link or a device tells."""
    logins, secret = visit.vault.logins, visit.path.get("secret")
    if route.who is not Who.PUBLIC:
        return Guesser(f"session {visit.session.id}", visit.principal, is_known=True)
    if secret is not None:
        invited = logins.invited(secret)
        if invited is not None:
            return Guesser(f"invitation {secret}", invited, is_known=True)
    name = visit.said("name")
    if visit.device and logins.knows_device(name, visit.device):
        return Guesser(f"device {visit.device}", name, is_known=True)
    return Guesser(f"peer {visit.peer}", visit.peer)


def check_password(vault: Vault, name: str, password: str, guesser: Guesser) -> bool:
    """Whether somebody of this name has this password; in the same time for nobody's name."""
    if not vault.logins.may_try(name, guesser):
        raise sign_in_paused(TRY_LIMITS.seconds)
    kept = vault.logins.hash_of(name)
    try:
        hasher().verify(_nobodys(hasher()) if kept is None else kept, password[:LONGEST])
    except (VerificationError, InvalidHashError):
        return False
    if kept is None:
        return False
    vault.logins.forget_tries(name, guesser)
    if hasher().check_needs_rehash(kept):
        vault.logins.rehash(name, kept, hasher().hash(password))
    return True


def sign_in_paused(seconds: float) -> RequestError:
    """The refusal of a guesser that tries too often."""
    wait = math.ceil(seconds)
    return RequestError(
        429,
        "requests_too_frequent",
        f"Too many passwords were tried from here, or under this name. Try again in {wait} s. A "
        "browser that has signed in before, and a link of the owner, are not held up by others.",
        headers={"Retry-After": str(wait)},
    )
