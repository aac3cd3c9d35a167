"""Responses of a server, read within a time limit and a size limit.

A server may be slow, or be a foreign one that lies about what it sends. So one deadline holds for
all pieces together, headers included, and a stated length is believed only once the bytes are here.
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
"""The largest answer in bytes; it is held in memory."""
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Received:
    """The response of a server."""

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
    """A response that must arrive whole before a deadline, in however many pieces."""

    def __init__(self, deadline: float, sock: socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp.close()  # the standard reader would start a new timeout with each piece
        self.fp = io.BufferedReader(_Timely(sock, deadline))


class _Timely(io.RawIOBase):
    """The bytes that a socket receives before a deadline."""

    def __init__(self, sock: socket, deadline: float) -> None:
        self._socket, self._deadline = sock, deadline
        self._received = sock.makefile("rb", buffering=0)  # keeps the socket open while read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        seconds_left = self._deadline - time.monotonic()
        if seconds_left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(seconds_left)
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


def received_of(response: HTTPResponse) -> Received:
    """A response with its body; refused if it is longer than any answer."""
    media = response.getheader("Content-Type", "").partition(";")[0].strip().lower()
    again = response.getheader("Retry-After", "")
    seconds = float(again) if again.isascii() and again.isdigit() else None
    with response:
        return Received(response.status, media, _body(response), seconds)


def _body(response: HTTPResponse) -> bytes:
    body = bytearray()
    # A stated length that is too large is refused before anything is read.
    if (response.length or 0) <= LARGEST_ANSWER:
        while chunk := response.read(_CHUNK_BYTES):
            body += chunk
            if len(body) > LARGEST_ANSWER:
                break
        else:
            if response.length:  # the connection ended before the stated length
                raise IncompleteRead(b"", response.length)
            return bytes(body)
    raise unexpected(f"more than {LARGEST_ANSWER >> 20:,} MiB")
