"""What a server sends back, read as far as it may go: no longer than agreed, nor larger.

A server may be slow, or none of ours and lie about what it sends. So the time that is left counts
for each piece that comes, headers and all, and a length is believed when it has come.
"""

from __future__ import annotations

import io
import json
import time
from dataclasses import dataclass
from http.client import HTTPResponse, IncompleteRead
from typing import TYPE_CHECKING, Any

from sfumato.client.error_reader import unexpected

if TYPE_CHECKING:
    from socket import socket

JSON = "application/json"
LARGEST_ANSWER = 1 << 30
"""Bytes of the largest answer that is taken: it is held in memory."""
_PIECE = 1 << 20


@dataclass(frozen=True)
class Received:
    """What a server sent back."""

    status: int
    media: str
    body: bytes
    retry_after: float | None = None
    """The seconds to wait before the request is sent again, where the server is busy."""

    def json(self) -> dict[str, Any]:
        """The JSON object of the body."""
        try:
            data = json.loads(self.body) if self.media == JSON else None
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise unexpected("something that is not JSON")
        return data


class TimelyResponse(HTTPResponse):
    """A response that must have come whole at a time, however its pieces are spread."""

    def __init__(self, deadline: float, sock: socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp.close()  # what it would read by waits anew for each piece
        self.fp = io.BufferedReader(_Timely(sock, deadline))


class _Timely(io.RawIOBase):
    """What a socket receives until a time."""

    def __init__(self, sock: socket, deadline: float) -> None:
        self._socket, self._deadline = sock, deadline
        self._received = sock.makefile("rb", buffering=0)  # holds it while it is read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


def received_of(response: HTTPResponse) -> Received:
    """A response with its body; one that is longer than any answer is refused."""
    media = response.getheader("Content-Type", "").partition(";")[0].strip().lower()
    again = response.getheader("Retry-After", "")
    seconds = float(again) if again.isascii() and again.isdigit() else None
    with response:
        return Received(response.status, media, _body(response), seconds)


def _body(response: HTTPResponse) -> bytes:
    body = bytearray()
    if (response.length or 0) <= LARGEST_ANSWER:
        while piece := response.read(_PIECE):
            body += piece
            if len(body) > LARGEST_ANSWER:
                break
        else:
            if response.length:
                raise IncompleteRead(b"", response.length)
            return bytes(body)
    raise unexpected(f"more than {LARGEST_ANSWER >> 20:,} MiB")
