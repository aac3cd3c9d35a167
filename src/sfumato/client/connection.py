"""Requests to a server: connections that are reused, safe retries, and refusals as exceptions.

Every request may be sent again: one that charges has an Idempotency-Key, under which the server
returns the stored answer. A connection that breaks off therefore costs nothing. Decision `client`.
"""

from __future__ import annotations

import os
import secrets
import ssl
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from socket import gaierror
from typing import TYPE_CHECKING, Any

from sfumato.client.error_reader import refusal
from sfumato.client.response_reader import JSON, Received, TimelyResponse, received_of
from sfumato.errors import InternalError, ParameterError, SfumatoError
from sfumato.server.idempotency_key import key_of
from sfumato.server.request_body import LARGEST
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.client.address import Address

_PAUSES = (0.0, 0.2, 0.6, 1.5, 3.0, 6.0, 10.0)
"""Seconds before each further attempt; a kept connection may be stale, so the first is at once.

A server that answered before may be restarting, so we try longer than for the first answer.
"""
_FIRST_PAUSES = (0.2, 0.6)


@dataclass(eq=False)
class Connection:
    """Connections to one server: one for each request at a time, reused while they stay open."""

    address: Address
    token: str = field(repr=False)
    seconds: float
    """The time limit of one request with all its attempts."""
    trust: ssl.SSLContext | None = None
    """The trusted certificates; None for those of the system."""
    _reached: bool = field(default=False, init=False, repr=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)
    _idle: deque[HTTPConnection] = field(default_factory=deque, init=False, repr=False)
    is_closed: bool = field(default=False, init=False, repr=False)

    def get(self, path: str, *, accept: str = JSON) -> Received:
        """Read a path."""
        return self.send("GET", path, accept=accept)

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        accept: str = JSON,
        key: str | None = None,
    ) -> Received:
        """Send a request, again if it got lost; raises the refusal of the server.

        A server answers the same `key` once, however often it is sent.
        """
        self.check_open()
        headers = {"Authorization": f"Bearer {self.token}", "Accept": accept}
        headers |= {} if key is None else {"Idempotency-Key": key_of(key)}
        headers |= {} if body is None else {"Content-Type": JSON}
        content = None if body is None else _encoded(body)
        deadline = time.monotonic() + self.seconds
        for pause in (*(_PAUSES if self._reached else _FIRST_PAUSES), None):
            try:
                received = self._once(method, path, content, headers, deadline)
            except ssl.SSLCertVerificationError as error:
                # Not retried: a wrong certificate stays wrong. No token was sent.
                raise self._not_trusted(error) from None
            except (OSError, HTTPException) as error:
                # A POST may have been charged, so the error says how to read the stored answer.
                lost: SfumatoError = self._lost(error, asked=method == "POST")
                if isinstance(error, gaierror):  # an unknown host will not become known soon
                    raise lost from None
                wait = pause
            else:
                self._reached = True
                # A server that is busy for longer is reported to the caller instead of waited for.
                if received.retry_after is None or received.retry_after > _PAUSES[-1]:
                    return _accepted(received)
                lost = refusal(received)
                wait = None if pause is None else max(pause, received.retry_after)
            # 1.5 is the largest random factor below: never sleep beyond the deadline.
            if wait is None or time.monotonic() + 1.5 * wait >= deadline:
                raise lost
            # A random factor, so that clients that a busy server refused together do not all
            # return at once.
            time.sleep(wait * (0.5 + secrets.randbelow(1000) / 1000))
        raise AssertionError("the last pause is none")

    def close(self) -> None:
        """Close every idle connection; those in use close after their request."""
        self.is_closed = True
        self._let_go()

    def _once(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        deadline: float,
    ) -> Received:
        connection = self._connection(max(0.1, deadline - time.monotonic()))
        try:
            connection.request(method, f"{self.address.prefix}/v1/{path}", body, dict(headers))
            connection.response_class = partial(TimelyResponse, deadline)  # type: ignore[assignment]
            received = received_of(connection.getresponse())
        except BaseException:
            # On an interruption too: the rest of this response would be read as the next one.
            connection.close()
            self._let_go()  # the other connections are probably broken as well
            raise
        self._idle.append(connection)
        if self.is_closed:
            self._let_go()
        return received

    def _let_go(self) -> None:
        """Close the idle connections."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _connection(self, seconds: float) -> HTTPConnection:
        if self._process != os.getpid():
            # A forked process shares sockets with its parent and would read its responses.
            self._process, self._idle = os.getpid(), deque()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.address.open_connection(seconds, self.trust)
        connection.timeout = seconds
        # A kept connection is open already and has the timeout of its last request.
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        return connection

    def check_open(self) -> None:
        """Refuse a request on a closed connection."""
        if self.is_closed:
            raise ParameterError(
                "vault_closed", "A vault that was closed answers nothing. Connect to it again."
            )

    def _lost(self, error: Exception, *, asked: bool) -> InternalError:
        """The error if no response came; the request may have been answered and charged."""
        slow = isinstance(error, TimeoutError)
        why = f"no answer within {self.seconds:g} seconds" if slow else _reason(error)
        advice = (
            " What was asked may have been charged: ask the very same again, which is answered "
            "from store then."
            if asked
            else ""
        )
        return InternalError(
            "server_unreachable",
            f"Cannot reach {self.address}: {why}. Look whether 'sfumato serve' is running there"
            f"{', or give a longer timeout' if slow else ''}.{advice}",
        )

    def _not_trusted(self, error: ssl.SSLCertVerificationError) -> InternalError:
        return InternalError(
            "server_unreachable",
            f"Cannot trust {self.address}: {error.verify_message or 'its certificate is wrong'}. "
            "Give the certificate of whoever signs there with certificates='ca.pem'.",
        )


def _encoded(body: Mapping[str, Any]) -> bytes:
    """The JSON text of a body; refused here if it is too large for a server."""
    content = dumps(body).encode()
    if len(content) > LARGEST:
        raise ParameterError(
            "request_too_large",
            f"The request has {len(content):,} bytes, and a server takes {LARGEST:,}. Ask about "
            "fewer ranges or sets of columns at a time.",
        )
    return content


def _accepted(received: Received) -> Received:
    if 200 <= received.status < 300:
        return received
    raise refusal(received)


def _reason(error: Exception) -> str:
    reason = getattr(error, "strerror", None)
    return str(reason).lower() if reason else "the connection broke off"
