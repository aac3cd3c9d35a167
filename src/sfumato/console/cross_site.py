"""Requests that another site makes a browser send: refused before anything of them is read.

A form is taken only from a page of ours: the browser says so itself (Sec-Fetch-Site, or Origin
where it knows no better), and the form carries a word that only our pages could know.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sfumato.server.problem_json import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request


def check_site(request: Request) -> None:
    """Refuse a form that did not come from a page of this very server."""
    site = request.headers.getlist("sec-fetch-site")
    origin = request.headers.getlist("origin")
    # Our pages send no referrer, and browsers then tell their origin as null.
    told = [one for one in origin if one != "null"]
    ours = urlsplit(told[0]).netloc == request.headers["host"].lower() if told else None
    if len(site) > 1 or len(origin) > 1 or ours is False or site not in ([], ["same-origin"]):
        raise _foreign()
    if not site and ours is None:
        raise _foreign()


def check_word(expected: str, said: str) -> None:
    """Refuse a form that lacks the word of the visitor's own pages."""
    if not hmac.compare_digest(expected.encode(), said.encode("utf-8", "surrogatepass")):
        raise RequestError(
            403,
            "form_foreign",
            "This form is not from a page of your session, or that session is over. Nothing was "
            "done. Go back, load the page again and send it from there.",
        )


def _foreign() -> RequestError:
    return RequestError(
        403,
        "form_foreign",
        "This form did not come from a page of this server, so nothing was done. Open the console "
        "itself and send it from there.",
    )
