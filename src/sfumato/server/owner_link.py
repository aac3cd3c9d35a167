"""The first owner's way in: a link that is good once, printed where the server was started.

Whoever follows it sees a page with two buttons: one makes a token for programs, the other leads to
where the owner sets a password for the console. Only a button uses the link up, so that no program
that looks at links in advance does. The link's secret is kept as a hash, in memory alone;
that it is still good is one byte in a pipe, which among all processes of a server one can take.
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
_GOOD_SECONDS = 24 * 3600
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
_ASKED = """<p>You hold this vault. This link is used up by either of these.</p>
<h2>For the console, in a browser</h2>
<p>Set a password, and sign in as <strong>owner</strong> from then on.</p>
<form method="post" action="{path}/password"><button>Set my password</button></form>
<h2>For programs</h2>
<p>This makes a token that is good for everything an owner may do. It is shown once.</p>
<form method="post"><button>Make my token</button></form>"""
_MADE = """<p>Keep it where you keep passwords: it is not shown again. It is good for 90 days.</p>
<p><code>{token}</code></p>
<p>In Python: <code>sfumato.connect("{url}", token)</code></p>"""


class OwnerLink:
    """One link, exchanged once for a token of the owner; processes that are forked share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.secret = secrets.token_urlsafe(32)
        self._hash = _hash(self.secret)
        self._until = clock() + _GOOD_SECONDS
        self._good, full = os.pipe()
        os.set_blocking(self._good, False)
        os.write(full, b"1")
        os.close(full)

    @property
    def path(self) -> str:
        """Where it is, below the server's address."""
        return PATH.format(secret=self.secret)

    def show(self, request: Request) -> Response:
        """The page with the button, if the link is still good."""
        self._check(request)
        asked = _ASKED.format(path=self.path)
        return HTMLResponse(_PAGE.format(title="Welcome to this vault", content=asked))

    def exchange(self, vault: Vault, request: Request) -> Response:
        """The token, to whoever comes first."""
        self._use(request)
        token = vault.tokens.new(OWNER, operator="owner link", expires=_TOKEN_DAYS)
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"token": token})
        url = f"{request.url.scheme}://{request.headers['host']}"
        made = _MADE.format(token=escape(token), url=escape(url))
        return HTMLResponse(_PAGE.format(title="Your token", content=made))

    def invite(self, vault: Vault, request: Request) -> Response:
        """The way to where the owner sets a password, to whoever comes first."""
        self._use(request)
        return RedirectResponse(invitation_path(vault.logins.invite(OWNER)), 303)

    def _use(self, request: Request) -> None:
        """Use the link up, or refuse."""
        self._check(request)
        if not os.read(self._good, 1):
            raise not_found()

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self._good)

    def _check(self, request: Request) -> None:
        """Refuse a link that is none, was used or is too old; and a page of others that asks."""
        right = hmac.compare_digest(_hash(request.path_params["secret"]), self._hash)
        if not right or self._clock() > self._until or not self._is_good():
            raise not_found()
        page = urlsplit(request.headers.get("origin", "null"))
        is_ours = page.geturl() == "null" or page.netloc == request.headers["host"].lower()
        site = request.headers.get("sec-fetch-site", "none")
        if not is_ours or site not in {"none", "same-origin"}:
            raise RequestError(403, "form_foreign", "Follow the link itself, not from a page.")

    def _is_good(self) -> bool:
        """Whether nobody has used it yet: the byte is still there."""
        waiting = array("i", [0])
        fcntl.ioctl(self._good, termios.FIONREAD, waiting)
        return waiting[0] > 0


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
