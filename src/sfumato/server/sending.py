"""Replies on their way: sent in parts, and counted until their caller has taken them.

A reply lies in memory until its caller has read it. A stored answer costs nothing to ask for again,
so whoever asks and does not read could fill the memory of the server. Decision `server-limits`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.responses import Response

from sfumato.server.problem_json import UnreadyError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from sfumato.server.authorization import Caller
    from sfumato.server.settings import Limits

UNSENT_BYTES_OF_ONE = 32 << 20
"""Who has so many bytes still to read is given no further reply."""
UNSENT_BYTES = 256 << 20
"""Where callers have so many bytes to read together, only those with a token who have read all of
their own are given more."""
_PART_BYTES = 1 << 16
_SLOWEST_BYTES_PER_SECOND = 1 << 15
"""A caller who reads more slowly is hung up on: it would hold memory for hours."""


class UnsentReplies:
    """The bytes of replies that callers have not read yet; used by the event loop alone."""

    def __init__(self, limits: Limits) -> None:
        self._taking_seconds = limits.taking_seconds
        self._of: Counter[str] = Counter()

    def check(self, caller: Caller) -> None:
        """Refuse who has not read earlier replies, before anything is worked on or charged."""
        own = self._of[_key(caller)]
        is_full = self._of.total() >= UNSENT_BYTES and (own > 0 or not caller.token)
        if own >= UNSENT_BYTES_OF_ONE or is_full:
            raise UnreadyError(
                "server_busy",
                "Too many bytes of earlier replies wait to be read. Nothing was charged. Read them "
                "and try again.",
            )

    def counted(self, response: Response, caller: Caller) -> Response:
        """A response that is counted until it is sent; one that is read from a file is not."""
        if type(response) is not Response:
            return response
        return _CountedResponse(response, self, _key(caller))

    async def send(self, response: Response, key: str, send: Send) -> None:
        """Send a response in parts: the connection buffers one of them at a time."""
        body = memoryview(bytes(response.body))
        self._of[key] += len(body)
        seconds = self._taking_seconds + len(body) / _SLOWEST_BYTES_PER_SECOND
        try:
            # What is not sent in full ends its connection.
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await _send_parts(response, body, send)
        finally:
            self._of[key] -= len(body)
            if not self._of[key]:
                del self._of[key]


class _CountedResponse(Response):
    def __init__(self, response: Response, unsent: UnsentReplies, key: str) -> None:
        self.status_code, self.raw_headers = response.status_code, response.raw_headers
        self.body, self.background = response.body, None
        self._unsent, self._key = unsent, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await self._unsent.send(self, self._key, send)


async def _send_parts(response: Response, body: memoryview, send: Send) -> None:
    start = {"type": "http.response.start", "status": response.status_code}
    await send({**start, "headers": response.raw_headers})
    for place in range(0, max(len(body), 1), _PART_BYTES):
        part = bytes(body[place : place + _PART_BYTES])
        more = place + _PART_BYTES < len(body)
        await send({"type": "http.response.body", "body": part, "more_body": more})


def _key(caller: Caller) -> str:
    return f"token {caller.token}" if caller.token else f"peer {caller.peer}"
