"""The sign-in link of the first owner: printed when the server starts, and valid once.

Its page has two buttons: one makes a token for programs, the other leads to the page where the
owner sets a password for the console. Only a button uses the link up, so a mail program that opens
links in advance does not. The server keeps only a hash of the secret, in memory. An unused link is
one byte in a pipe: of all processes of a server, exactly one can read it.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import termios
import time
from array import array
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse

from sfumato.server.problem_json import RequestError, not_found
from sfumato.vault.console_store import invitation_path
from sfumato.vault.principals import OWNER

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from sfumato.vault.vault import Vault

PATH = "/welcome/{secret}"
# A link in an old log or terminal must be of no use.
_VALID_SECONDS = 24 * 3600
_TOKEN_DAYS = "90d"

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<h1>{title}</h1>
{content}
</html>
"""
_CHOICES = """<p>You are the owner of this vault. This link works for one of these, once.</p>
<h2>For the console, in a browser</h2>
<p>Set a password. From then on, sign in as <strong>owner</strong>.</p>
<form method="post" action="{path}/password"><button>Set my password</button></form>
<h2>For programs</h2>
<p>Make a token that allows everything an owner may do. It is shown once.</p>
<form method="post"><button>Make my token</button></form>"""
_TOKEN = """<p>Keep it where you keep passwords: it is not shown again. It is valid for 90 days.</p>
<p><code>{token}</code></p>
<p>In Python: <code>sfumato.connect("{url}", token)</code></p>"""


class OwnerLink:
    """One link, exchanged once for a token or an invitation; forked processes share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.secret = secrets.token_urlsafe(32)
        self._hash = _hash(self.secret)
        self._expires = clock() + _VALID_SECONDS
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)  # the loser of a race must not wait for a second byte
        os.write(write_end, b"1")
        os.close(write_end)

    @property
    def path(self) -> str:
        """The path of the link, below the server's address."""
        return PATH.format(secret=self.secret)

    def show(self, request: Request) -> Response:
        """Show the page with the two buttons."""
        self._check(request)
        content = _CHOICES.format(path=self.path)
        return HTMLResponse(_PAGE.format(title="Welcome to this vault", content=content))

    def exchange(self, vault: Vault, request: Request) -> Response:
        """Make the owner's token, and use the link up."""
        self._use(request)
        token = vault.tokens.new(OWNER, operator="owner link", expires=_TOKEN_DAYS)
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"token": token})
        url = f"{request.url.scheme}://{request.headers['host']}"
        content = _TOKEN.format(token=escape(token), url=escape(url))
        return HTMLResponse(_PAGE.format(title="Your token", content=content))

    def invite(self, vault: Vault, request: Request) -> Response:
        """Lead to the page where the owner sets a password, and use the link up."""
        self._use(request)
        return RedirectResponse(invitation_path(vault.logins.invite(OWNER)), 303)

    def _use(self, request: Request) -> None:
        """Use the link up; refuse if another request did so first."""
        self._check(request)
        if not os.read(self._pipe, 1):
            raise not_found()

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._pipe)

    def _check(self, request: Request) -> None:
        """Refuse a wrong, used or expired link, and a request that another site made (CSRF)."""
        # In constant time: the duration must not show how many characters are right.
        is_right = hmac.compare_digest(_hash(request.path_params["secret"]), self._hash)
        if not is_right or self._clock() > self._expires or not self._is_unused():
            raise not_found()
        # Another site that knows the link could make a signed-in browser use it up.
        page = urlsplit(request.headers.get("origin", "null"))
        is_ours = page.geturl() == "null" or page.netloc == request.headers["host"].lower()
        site = request.headers.get("sec-fetch-site", "none")
        if not is_ours or site not in {"none", "same-origin"}:
            raise RequestError(403, "form_foreign", "Open the link itself, not from another page.")

    def _is_unused(self) -> bool:
        """Whether the byte is still in the pipe."""
        unread_bytes = array("i", [0])
        fcntl.ioctl(self._pipe, termios.FIONREAD, unread_bytes)
        return unread_bytes[0] > 0


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
