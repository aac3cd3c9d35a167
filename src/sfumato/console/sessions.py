"""Sessions: the console recognizes a visitor by a cookie until they sign out or stay away.

The cookie holds 32 random bytes and nothing else; the vault keeps only their SHA-256, so a stolen
copy of the vault opens no session. Scripts cannot read the cookie, and other sites cannot send it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.vault.console_store import DEVICE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from sfumato.server.settings import Setting
    from sfumato.vault.principals import Principal
    from sfumato.vault.vault import Vault

IDLE_SECONDS = 30 * 60.0  # a visitor who leaves a shared computer
ABSOLUTE_SECONDS = 12 * 3600.0  # a working day: a stolen cookie is of no use tomorrow
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)  # 32 random bytes in base64url


@dataclass
class VisitSession:
    """The session of a visitor; `person` is None before they sign in."""

    id: str
    person: Principal | None = None
    notices: tuple[str, ...] = ()
    is_sent: bool = False
    """Whether the browser has the cookie already."""
    is_used: bool = False
    """Whether a form needs the session. Visitors who only read get no cookie."""

    @property
    def form_token(self) -> str:
        """The token in the forms of this session. It does not reveal the cookie."""
        self.is_used = True
        # Derived, not stored: a server needs no state for it, and it ends with the session.
        return hmac.new(self.id.encode(), b"sfumato console form", hashlib.sha256).hexdigest()


def cookie_name(setting: Setting) -> str:
    """The name of the cookie. Browsers bind the prefix __Host- to TLS and to this very host."""
    return "__Host-sfumato" if setting.is_encrypted else "sfumato"


def find_session(vault: Vault, setting: Setting, cookies: Sequence[str]) -> VisitSession:
    """The session of a browser, or a new one without a person."""
    values = _cookie_values(cookie_name(setting), cookies)
    if len(values) != 1 or not _SECRET.fullmatch(values[0]):
        # Of two cookies, one was planted by an attacker, and nothing shows which.
        return VisitSession(secrets.token_urlsafe(32))
    [session] = values
    login = vault.logins.look_up(session, idle=IDLE_SECONDS, absolute=ABSOLUTE_SECONDS)
    if login is None:
        return VisitSession(session, is_sent=True)
    try:
        person = vault.principal_registry.admitted(login.principal)
    except SfumatoError:  # their access expired while they were signed in
        end_session(vault, session)
        return VisitSession(session, is_sent=True)
    return VisitSession(session, person, login.notices, is_sent=True)


def begin_session(vault: Vault, before: VisitSession, principal: str) -> str:
    """Begin a session after a sign-in.

    The id is always new: an attacker who planted the former id learns nothing (session fixation).
    """
    end_session(vault, before.id)
    return vault.logins.begin(principal)


def end_session(vault: Vault, session: str) -> None:
    """End a session and forget expired ones."""
    vault.logins.end(session, began_before=time.time() - ABSOLUTE_SECONDS)


def send_cookie(response: Response, setting: Setting, session: str) -> None:
    """Set the session cookie; an empty id deletes it."""
    _set_cookie(response, setting, cookie_name(setting), session, None if session else 0)


def send_device(response: Response, setting: Setting, device: str) -> None:
    """Set the cookie by which a browser is recognized at the next sign-in."""
    _set_cookie(response, setting, _device_cookie(setting), device, DEVICE_SECONDS)


def device_of(setting: Setting, cookies: Sequence[str]) -> str:
    """The secret of a browser that has signed in before; empty if there is none or several."""
    values = _cookie_values(_device_cookie(setting), cookies)
    return values[0] if len(values) == 1 and _SECRET.fullmatch(values[0]) else ""


def _set_cookie(
    response: Response, setting: Setting, name: str, value: str, age_seconds: int | None
) -> None:
    response.set_cookie(
        name,
        value,
        max_age=age_seconds,
        path="/",
        secure=setting.is_encrypted,
        httponly=True,  # scripts cannot read it
        samesite="strict",  # other sites cannot make the browser send it
    )


def _device_cookie(setting: Setting) -> str:
    return f"{cookie_name(setting)}-device"


def _cookie_values(name: str, cookies: Sequence[str]) -> list[str]:
    pairs = [pair.strip().partition("=") for line in cookies for pair in line.split(";")]
    return [value for key, _, value in pairs if key == name]
