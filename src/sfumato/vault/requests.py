"""Request ids: what whoever asks may call a request, and what Sfumato calls its own.

A period of a feed and a form of the console are charged under ids that can be foretold. Somebody
who could ask something else under them would have it taken for the answer there.
"""

from __future__ import annotations

from sfumato import arguments
from sfumato.errors import ParameterError, option

_RESERVED = ("feed/", "console/")


class OwnRequest(str):
    """A request id that Sfumato made, or has checked before; no caller can send one."""

    __slots__ = ()


def taken(request_id: object) -> str | None:
    """A request id as it was given, or a refusal of one that is not the caller's to give."""
    found = arguments.maybe_text(request_id, "request_id")
    if found is None or isinstance(found, OwnRequest) or not found.startswith(_RESERVED):
        return None if found is None else str(found)
    start = found[: found.index("/") + 1]
    raise ParameterError(
        "request_id_reserved",
        f"A request id may not begin with {start!r}: Sfumato makes those itself, for feeds and for "
        f"forms. Take another with {option('request')}.",
    )
