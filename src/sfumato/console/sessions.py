"""Sessions: by a cookie the console knows who visits, until they sign out or stay away.

The cookie holds 32 random bytes and nothing else; the vault keeps their SHA-256. It cannot be read
by scripts nor sent by other sites. Decision `console`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.vault.logins import DEVICE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from sfumato.server.settings import Setting
    from sfumato.vault.principals import Principal
    from sfumato.vault.vault import Vault

IDLE_SECONDS = 30 * 60.0
ABSOLUTE_SECONDS = 12 * 3600.0
_FORM = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass
class VisitSession:
    """A visitor's session; without a person it is one of somebody who has not signed in."""

    id: str
    person: Principal | None = None
    notices: tuple[str, ...] = ()
    is_sent: bool = False
    """Whether the browser has its cookie already."""
    is_used: bool = field(default=False)
    """Whether a form needs it: who only reads gets no cookie."""

    @property
    def word(self) -> str:
        """The word that forms of this session carry; who knows it does not know the cookie."""
        self.is_used = True
        return hmac.new(self.id.encode(), b"sfumato console form", hashlib.sha256).hexdigest()


def cookie_name(setting: Setting) -> str:
    """The name of the cookie: browsers hold the first to TLS and to this very host."""
    return "__Host-sfumato" if setting.is_encrypted else "sfumato"


def find_session(vault: Vault, setting: Setting, cookies: Sequence[str]) -> VisitSession:
    """The session that a browser has, or a new one of nobody."""
    shown = list(_shown(cookie_name(setting), cookies))
    if len(shown) != 1 or not _FORM.fullmatch(shown[0]):
        # Two of them: one was put there by somebody else, and nobody knows which.
        return VisitSession(secrets.token_urlsafe(32))
    found = vault.logins.look_up(shown[0], idle=IDLE_SECONDS, absolute=ABSOLUTE_SECONDS)
    if found is None:
        return VisitSession(shown[0], is_sent=True)
    try:
        person = vault.principal_registry.admitted(found.principal)
    except SfumatoError:
        end_session(vault, shown[0])
        return VisitSession(shown[0], is_sent=True)
    return VisitSession(shown[0], person, found.notices, is_sent=True)


def begin_session(vault: Vault, before: VisitSession, principal: str) -> str:
    """A session of somebody who has just shown who they are, always under a new id."""
    end_session(vault, before.id)
    return vault.logins.begin(principal)


def end_session(vault: Vault, session: str) -> None:
    """Let a session be over, and forget those that have been for long."""
    vault.logins.end(session, began_before=time.time() - ABSOLUTE_SECONDS)


def send_cookie(response: Response, setting: Setting, session: str) -> None:
    """Give the browser the cookie of a session, or with "" take it back."""
    response.set_cookie(
        cookie_name(setting),
        session,
        max_age=None if session else 0,
        path="/",
        secure=setting.is_encrypted,
        httponly=True,
        samesite="strict",
    )


def shown_device(setting: Setting, cookies: Sequence[str]) -> str:
    """The secret of a browser that has signed in before, "" where it shows none, or several."""
    shown = _shown(_device_cookie(setting), cookies)
    return shown[0] if len(shown) == 1 and _FORM.fullmatch(shown[0]) else ""


def send_device(response: Response, setting: Setting, device: str) -> None:
    """Give the browser the secret by which it is known when somebody signs in again."""
    response.set_cookie(
        _device_cookie(setting),
        device,
        max_age=DEVICE_SECONDS,
        path="/",
        secure=setting.is_encrypted,
        httponly=True,
        samesite="strict",
    )


def _device_cookie(setting: Setting) -> str:
    return f"{cookie_name(setting)}-device"


def _shown(name: str, cookies: Sequence[str]) -> list[str]:
    pairs = [one.strip().partition("=") for line in cookies for one in line.split(";")]
    return [value for key, _, value in pairs if key == name]
