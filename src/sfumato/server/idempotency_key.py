"""Idempotency-Key: the header with the request id, by which a server recognizes a repeated request.

A header may contain only printable ASCII. An id with other characters, or with blanks around it
that would be lost on the way, is encoded as in RFC 8187: `utf-8''gr%C3%B6%C3%9Fe`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from sfumato.server.problem_json import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PREFIX = "utf-8''"
_LONGEST = 200


def key_of(request_id: str) -> str:
    """Write a request id as a header."""
    is_plain = request_id.isascii() and request_id.isprintable()
    if is_plain and request_id == request_id.strip() and not request_id.startswith(_PREFIX):
        return request_id
    return f"{_PREFIX}{quote(request_id, safe='')}"


def request_id_of(key: str) -> str | None:
    """Read a request id from a header; None if the header is not written as `key_of` does."""
    if not key.startswith(_PREFIX):
        return key
    try:
        request_id = unquote(key[len(_PREFIX) :], errors="strict")
    except UnicodeDecodeError:
        return None
    # Only the spelling of `key_of` is read: different keys must stand for different requests.
    return request_id if key == f"{_PREFIX}{quote(request_id, safe='')}" else None


def read_request_id(keys: Sequence[str]) -> str | None:
    """Read the request id from all Idempotency-Key headers of a request; None if it has none."""
    if not keys:
        return None
    request_id = request_id_of(keys[0]) if len(keys) == 1 and keys[0].isascii() else None
    if request_id is None or not 1 <= len(request_id) <= _LONGEST or not request_id.isprintable():
        raise RequestError(
            422,
            "name_invalid",
            f"An Idempotency-Key must be one text of 1 to {_LONGEST} printable ASCII characters, "
            "or other characters as utf-8''gr%C3%B6%C3%9Fe. Make a new key for each new request.",
        )
    return request_id
