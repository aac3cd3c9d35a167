"""Tokens, by which a server recognizes principals: shown once, stored as a SHA-256.

A token is 'sfu_', eight letters and digits by which it is listed, and 32 random bytes. A fast hash
is enough for that many random bits: nobody can try them all. Decision `principals`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING, Any, Self

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, PolicyError, option
from sfumato.privacy.ledger.records import Amendment
from sfumato.report.display import Card, Shown
from sfumato.vault.principals import read_expiry, split_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.records import BookState
    from sfumato.vault.principal_registry import PrincipalRegistry
    from sfumato.vault.principals import Principal

TOPIC = "token"
"""The topic of records about tokens."""

SCOPES = {
    "query": "ask, publish, synthesize, download releases",
    "plan": "see data sets, and what a question would cost",
    "submit-code": "send a program",
    "ledger:read": "see what was spent of their own budgets",
    "admin": "administer the vault; for owners",
}
"""The scopes of tokens, and what each allows."""

_SCOPE_OF = {
    **dict.fromkeys(("query", "publish", "synthesize", "download"), "query"),
    "code": "submit-code",
}
_PREFIX = "sfu_"
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # without 0, 1, l and o, which people confuse
_FORM = re.compile(rf"{_PREFIX}[{_LETTERS}]{{8}}[A-Za-z0-9_-]{{43}}", re.ASCII)
_LONGEST = 200
_UNUSED_HASH = "0" * 64
_HOUR_SECONDS = 3600
"""The time of the last use is noted to the hour: to find unused tokens, not to follow people."""


def scope_of(shape: str) -> str:
    """The scope that a token needs for answers of a shape."""
    return _SCOPE_OF[shape]


@dataclass(frozen=True)
class Holder:
    """The principal that holds a token, and the token's scopes."""

    principal: str
    scopes: frozenset[str]
    token: str
    """The eight letters and digits by which it is listed."""
    person: Principal = field(compare=False)
    """The principal as it stood when the token was checked."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Token(Shown):
    """The ledger's record of a token, without the token itself."""

    id: str
    principal: str
    scopes: tuple[str, ...]
    expires: datetime | None
    used: datetime | None = None
    """When it was last used at this vault's folder, to the hour."""

    def to_json(self) -> dict[str, Any]:
        """The token as JSON-able data."""
        return {
            "id": self.id,
            "principal": self.principal,
            "scopes": list(self.scopes),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "used": None if self.used is None else self.used.isoformat(),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        end, used = record["expires"], record["used"]
        return cls(
            id=record["id"],
            principal=record["principal"],
            scopes=tuple(record["scopes"]),
            expires=None if end is None else datetime.fromisoformat(end),
            used=None if used is None else datetime.fromisoformat(used),
        )

    def _card(self) -> Card:
        end = "" if self.expires is None else f", until {self.expires.isoformat()}"
        return Card(f"{self.id} of {self.principal}: {', '.join(self.scopes)}{end}", {})


class TokenRegistry:
    """Issue, revoke and recognize the tokens of a vault; every change is an entry of the ledger."""

    def __init__(self, ledger: Ledger, principals: PrincipalRegistry, folder: Path) -> None:
        self._ledger, self._principals = ledger, principals
        self._marks = folder / "tokens"
        self._marked: dict[str, float] = {}

    def new(
        self,
        principal: str,
        *,
        operator: str,
        scopes: Iterable[str] | str | None = None,
        expires: str | datetime | None = None,
    ) -> str:
        """Issue a token for a principal and return its text, which is never shown again.

        By default it has every scope that the principal may use, and expires with the principal.
        """
        person = self._principals.admitted(principal)
        granted = _scopes(person, scopes)
        known = self._ledger.records(TOPIC)
        while True:
            name = "".join(secrets.choice(_LETTERS) for _ in range(8))
            if name not in known:
                break
        secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
        text = f"{_PREFIX}{name}{secret}"

        def decide(book: BookState) -> Amendment:
            end = read_expiry(expires, book.time)
            record = {
                "principal": person.name,
                "scopes": list(granted),
                "expires": None if end is None else end.isoformat(),
                "sha256": _hash(text),
            }
            return Amendment(records={(TOPIC, name): record})

        self._ledger.amend(decide, operator=arguments.text(operator, "operator"))
        return text

    def revoke(self, token: str, *, operator: str) -> str:
        """Revoke a token, at every server and permanently; return its name."""
        name = id_of(arguments.text(token, "token"))

        def decide(book: BookState) -> Amendment:
            known = book.of(TOPIC)
            if name not in known:
                raise unknown_token(name, known)
            return Amendment(records={(TOPIC, name): None})

        self._ledger.amend(decide, operator=arguments.text(operator, "operator"))
        return name

    def list(self) -> list[Token]:
        """Every token that was not revoked, by principal."""
        records = self._ledger.records(TOPIC)
        tokens = [self._token(name, record) for name, record in records.items()]
        return sorted(tokens, key=lambda token: (token.principal, token.id))

    def holder(self, text: str) -> Holder:
        """Recognize a token; return its holder and scopes.

        Raises
        ------
        PolicyError
            `token_refused`, the same for an unknown, revoked or expired token and for a principal
            who has expired: a visitor must not learn which tokens exist.
        """
        # Cut, so that a header of megabytes costs no hashing.
        shown = arguments.text(text, "token")[:_LONGEST]
        name = id_of(shown) if _FORM.fullmatch(shown) else ""
        # Read at each request: a revoked token ends at once, at every server.
        decided = self._ledger.decided()
        record = decided.of(TOPIC).get(name)
        # The same work for a token that does not exist, or response times would tell them apart.
        sha256 = _UNUSED_HASH if record is None else record["sha256"]
        is_right = hmac.compare_digest(_hash(shown), sha256)
        if record is None or not is_right:
            raise _refused()
        end = record["expires"]
        if end is not None and datetime.fromisoformat(end) <= decided.time:
            raise _refused()
        try:
            person = self._principals.admitted(record["principal"], decided)
        except PolicyError:
            raise _refused() from None
        self._mark(name)
        return Holder(person.name, frozenset(record["scopes"]), name, person)

    def _token(self, name: str, record: Mapping[str, Any]) -> Token:
        end = record["expires"]
        used = None
        with suppress(OSError):
            used = datetime.fromtimestamp((self._marks / name).stat().st_mtime, UTC)
        return Token(
            id=name,
            principal=record["principal"],
            scopes=tuple(record["scopes"]),
            expires=None if end is None else datetime.fromisoformat(end),
            used=used,
        )

    def _mark(self, name: str) -> None:
        """Note the hour of a token's use; if that fails, the token works all the same."""
        hour = time() // _HOUR_SECONDS * _HOUR_SECONDS
        if self._marked.get(name) == hour:
            return
        self._marked[name] = hour
        with suppress(OSError):
            self._marks.mkdir(mode=0o700, exist_ok=True)
            mark = self._marks / name
            mark.touch(mode=0o600)
            os.utime(mark, (hour, hour))


def unknown_token(name: str, known: Iterable[str]) -> ParameterError:
    """The error for an owner who names a token that does not exist."""
    return ParameterError(
        "token_unknown",
        f"There is no token {quoted(name)}; {suggestion(name, sorted(known))}",
        parameter="token",
    )


def _scopes(person: Principal, asked: Iterable[str] | str | None) -> tuple[str, ...]:
    """The scopes of a new token: no more than the principal may do."""
    # A token never widens what its principal may do; scopes are checked beside permissions.
    allowed = {_SCOPE_OF[shape] for shape in person.shapes if shape in _SCOPE_OF} | {"ledger:read"}
    allowed |= {"plan"} if person.shapes else set()
    allowed |= {"admin"} if person.is_owner else set()
    listed = [scope for scope in SCOPES if scope in allowed]
    if asked is None:
        return tuple(listed)
    scopes = split_names(asked, "scopes")
    for scope in scopes:
        if scope not in allowed:
            raise ParameterError(
                "choice_unknown",
                f"A token of {quoted(person.name)} ({person.kind}) cannot be for {quoted(scope)}; "
                f"{suggestion(scope, listed)}",
                parameter="scopes",
                allowed=listed,
            )
    if not scopes:
        raise ParameterError(
            "choice_unknown",
            f"A token must be for something; leave {option('scopes')} out, or name some.",
            parameter="scopes",
            allowed=listed,
        )
    return tuple(scope for scope in SCOPES if scope in scopes)


def id_of(text: str) -> str:
    """The name of a token, also if somebody gives the whole token."""
    shown = text[:_LONGEST]
    # The secret half goes no further: the owner may paste a whole token into a command or a form.
    return shown[len(_PREFIX) : len(_PREFIX) + 8] if _FORM.fullmatch(shown) else shown


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _refused() -> PolicyError:
    return PolicyError(
        "token_refused",
        "This token gives no access: it is unknown, revoked or expired, or its holder's time is "
        "over.",
        hint="Ask the vault's owner for another.",
    )
