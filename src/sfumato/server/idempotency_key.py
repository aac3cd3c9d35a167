"""Idempotency-Keys: a request id as a header carries it, which takes printable ASCII alone.

An id of other characters, or with blanks around it that are lost on the way, is sent as headers
extend texts: `utf-8''gr%C3%B6%C3%9Fe`.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

_MARK = "utf-8''"


def key_of(request_id: str) -> str:
    """A request id as it is sent."""
    is_plain = request_id.isascii() and request_id.isprintable()
    if is_plain and request_id == request_id.strip() and not request_id.startswith(_MARK):
        return request_id
    return f"{_MARK}{quote(request_id, safe='')}"


def request_id_of(key: str) -> str | None:
    """The request id that a key stands for; None for a key that is not as keys are written."""
    if not key.startswith(_MARK):
        return key
    try:
        found = unquote(key[len(_MARK) :], errors="strict")
    except UnicodeDecodeError:
        return None
    return found if key == f"{_MARK}{quote(found, safe='')}" else None
