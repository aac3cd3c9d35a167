"""What every reply tells a browser: there is nothing to run, to frame, to guess or to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.responses import Response

    from sfumato.server.settings import Setting

ALWAYS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
ENCRYPTED = {"Strict-Transport-Security": "max-age=31536000"}


def secured(response: Response, setting: Setting) -> Response:
    """A response with these headers."""
    response.headers.update(ALWAYS)
    if setting.is_encrypted:
        response.headers.update(ENCRYPTED)
    return response
