"""Tokens: by them a server knows who asks. Shown once; the ledger keeps their SHA-256 alone.

A token is 'sfu_', eight letters and digits by which it is listed, and 32 random bytes. A fast hash
is right for so many random bits: nobody can try them. Whatever is wrong with a token, one refusal
tells it, and the same work is done first. Decision `principals`.
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
from sfumato.vault.principals import moment, words_of

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
"""What a token may be for, each with what it allows."""

_SCOPE_OF = {
    **dict.fromkeys(("query", "publish", "synthesize", "download"), "query"),
    "code": "submit-code",
}
_PREFIX = "sfu_"
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_FORM = re.compile(rf"{_PREFIX}[{_LETTERS}]{{8}}[A-Za-z0-9_-]{{43}}", re.ASCII)
_LONGEST = 200
_NOBODYS = "0" * 64
_COARSE_SECONDS = 3600
"""When a token was last used is noted no more often than this: to tidy up, not to follow people."""


def scope_of(shape: str) -> str:
    """The scope that a token needs for answers of a shape."""
    return _SCOPE_OF[shape]


@dataclass(frozen=True)
class Holder:
    """Who holds a token, and what it may be used for."""

    principal: str
    scopes: frozenset[str]
    token: str
    """The eight letters and digits by which it is listed."""
    person: Principal = field(compare=False)
    """What the principal may do, as it stood at the same moment."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Token(Shown):
    """What the ledger keeps of a token; not the token."""

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
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        end, used = told["expires"], told["used"]
        return cls(
            id=told["id"],
            principal=told["principal"],
            scopes=tuple(told["scopes"]),
            expires=None if end is None else datetime.fromisoformat(end),
            used=None if used is None else datetime.fromisoformat(used),
        )

    def _card(self) -> Card:
        end = "" if self.expires is None else f", until {self.expires.isoformat()}"
        return Card(f"{self.id} of {self.principal}: {', '.join(self.scopes)}{end}", {})


class TokenRegistry:
    """The tokens of a vault: made, revoked and recognised; every change stands in the ledger."""

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
        """Make a token for a principal and return its text, which is never shown again.

        By default it may be used for all that its principal may do, and expires with them.
        """
        person = self._principals.admitted(principal)
        granted = _scopes(person, scopes)
        known = self._ledger.records(TOPIC)
        while True:
            text, name = _random_token()
            if name not in known:
                break

        def decide(now: BookState) -> Amendment:
            end = moment(expires, now.time)
            told = {
                "principal": person.name,
                "scopes": list(granted),
                "expires": None if end is None else end.isoformat(),
                "sha256": _hash(text),
            }
            return Amendment(records={(TOPIC, name): told})

        self._ledger.amend(decide, operator=arguments.text(operator, "operator"))
        return text

    def revoke(self, token: str, *, operator: str) -> str:
        """Let a token never be used again, at any server, from now on; return its name."""
        name = id_of(arguments.text(token, "token"))

        def decide(now: BookState) -> Amendment:
            known = now.of(TOPIC)
            if name not in known:
                raise unknown_token(name, known)
            return Amendment(records={(TOPIC, name): None})

        self._ledger.amend(decide, operator=arguments.text(operator, "operator"))
        return name

    def list(self) -> list[Token]:
        """Every token that was not revoked, by principal."""
        found = [self._token(*one) for one in self._ledger.records(TOPIC).items()]
        return sorted(found, key=lambda one: (one.principal, one.id))

    def holder(self, text: str) -> Holder:
        """Who holds a token; refused in one way whatever is wrong with it, or with them."""
        said = arguments.text(text, "token")[:_LONGEST]
        name = id_of(said) if _FORM.fullmatch(said) else ""
        decided = self._ledger.decided()
        told = decided.of(TOPIC).get(name)
        # The same work for a token that nobody has.
        right = hmac.compare_digest(_hash(said), _NOBODYS if told is None else told["sha256"])
        if told is None or not right:
            raise _refused()
        end = told["expires"]
        if end is not None and datetime.fromisoformat(end) <= decided.time:
            raise _refused()
        try:
            person = self._principals.admitted(told["principal"], decided)
        except PolicyError:
            raise _refused() from None
        self._mark(name)
        return Holder(person.name, frozenset(told["scopes"]), name, person)

    def _token(self, name: str, told: Mapping[str, Any]) -> Token:
        end = told["expires"]
        used = None
        with suppress(OSError):
            used = datetime.fromtimestamp((self._marks / name).stat().st_mtime, UTC)
        return Token(
            id=name,
            principal=told["principal"],
            scopes=tuple(told["scopes"]),
            expires=None if end is None else datetime.fromisoformat(end),
            used=used,
        )

    def _mark(self, name: str) -> None:
        """Note, to the hour, that a token was used; where that fails nothing else does."""
        hour = time() // _COARSE_SECONDS * _COARSE_SECONDS
        if self._marked.get(name) == hour:
            return
        self._marked[name] = hour
        with suppress(OSError):
            self._marks.mkdir(mode=0o700, exist_ok=True)
            mark = self._marks / name
            mark.touch(mode=0o600)
            os.utime(mark, (hour, hour))


def unknown_token(name: str, known: Iterable[str]) -> ParameterError:
    """What is said of a token that is none."""
    return ParameterError(
        "token_unknown", f"There is no token {quoted(name)}; {suggestion(name, sorted(known))}"
    )


def _scopes(person: Principal, asked: Iterable[str] | str | None) -> tuple[str, ...]:
    """What a token of a principal may be used for: no more than they may do themselves."""
    may = {_SCOPE_OF[one] for one in person.shapes if one in _SCOPE_OF} | {"ledger:read"}
    may |= {"plan"} if person.shapes else set()
    may |= {"admin"} if person.is_owner else set()
    listed = [one for one in SCOPES if one in may]
    if asked is None:
        return tuple(listed)
    named = words_of(asked, "scopes")
    for one in named:
        if one not in may:
            raise ParameterError(
                "choice_unknown",
                f"A token of {quoted(person.name)} ({person.kind}) cannot be for {quoted(one)}; "
                f"{suggestion(one, listed)}",
            )
    if not named:
        raise ParameterError(
            "choice_unknown",
            f"A token must be for something; leave {option('scopes')} out, or name some.",
        )
    return tuple(one for one in SCOPES if one in named)


def _random_token() -> tuple[str, str]:
    """A new token and the name by which it is listed."""
    name = "".join(secrets.choice(_LETTERS) for _ in range(8))
    secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
    return f"{_PREFIX}{name}{secret}", name


def id_of(text: str) -> str:
    """The name of a token, also where somebody gives the whole of it."""
    said = text[:_LONGEST]
    return said[len(_PREFIX) : len(_PREFIX) + 8] if _FORM.fullmatch(said) else said


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _refused() -> PolicyError:
    return PolicyError(
        "token_refused",
        "This token gives no access: it is unknown, revoked or expired, or its holder's time is "
        "over. Ask the vault's owner for another.",
    )
