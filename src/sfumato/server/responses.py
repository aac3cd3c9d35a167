"""Count the bytes of responses until the caller has read them.

A response stays in memory until its caller has read it. Stored answers are free, so somebody who
asks for them and never reads could fill the memory of the server. Decision `server-limits`.
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
"""A caller with this many unread bytes gets no further response."""
UNSENT_BYTES = 256 << 20
"""With this many unread bytes of all callers together, only callers with a token who have no
unread bytes themselves get a response."""
_PART_BYTES = 1 << 16
_SLOWEST_BYTES_PER_SECOND = 1 << 15
"""A caller who reads more slowly is disconnected: it would hold memory for hours."""


class UnsentReplies:
    """The number of bytes that each caller has not read yet; used by the event loop alone."""

    def __init__(self, limits: Limits) -> None:
        self._taking_seconds = limits.taking_seconds
        self._bytes: Counter[str] = Counter()

    def check(self, caller: Caller) -> None:
        """Refuse a caller who has not read earlier responses, before any work or charge."""
        unread = self._bytes[caller.key]
        is_full = self._bytes.total() >= UNSENT_BYTES and (unread > 0 or not caller.token)
        if unread >= UNSENT_BYTES_OF_ONE or is_full:
            raise UnreadyError(
                "server_busy",
                "Too many bytes of earlier replies wait to be read. Nothing was charged. Read them "
                "and try again.",
            )

    def counted(self, response: Response, caller: Caller) -> Response:
        """Make a response counted until it is sent; a file is not counted: it is read in parts."""
        # Streams and files hold only one part in memory.
        if type(response) is not Response:
            return response
        return _CountedResponse(response, self._bytes, caller.key, self._taking_seconds)


class _CountedResponse(Response):
    def __init__(
        self, response: Response, unsent: Counter[str], key: str, taking_seconds: float
    ) -> None:
        self.status_code, self.raw_headers = response.status_code, response.raw_headers
        self.body, self.background = response.body, None
        self._unsent, self._key, self._taking_seconds = unsent, key, taking_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the response in parts, so that the connection buffers one part at a time."""
        body = memoryview(bytes(self.body))
        self._unsent[self._key] += len(body)
        seconds = self._taking_seconds + len(body) / _SLOWEST_BYTES_PER_SECOND
        try:
            # After a timeout the response is incomplete, so the server closes the connection.
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._send_parts(body, send)
        finally:
            self._unsent[self._key] -= len(body)
            if not self._unsent[self._key]:
                del self._unsent[self._key]

    async def _send_parts(self, body: memoryview, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for offset in range(0, max(len(body), 1), _PART_BYTES):
            chunk = bytes(body[offset : offset + _PART_BYTES])
            is_last = offset + _PART_BYTES >= len(body)
            await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})
