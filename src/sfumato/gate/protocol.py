"""Connections: what is no HTTP, too long or too slow is hung up on before it costs anything.

The server's own reading of HTTP has no limit on the lines before a body and waits for them for
ever; this one has both. A connection on which nothing is asked is held, for a while, at no cost.
Decision 0361.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.gate import problems
from sfumato.gate.headers import ALWAYS
from sfumato.gate.problems import RequestError
from sfumato.gate.settings import Limits
from sfumato.texts import dumps

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def limited(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol of a server with these limits."""
    return type("LimitedProtocol", (_Limited,), {"limits": limits})


class _Limited(HttpToolsProtocol):
    """One connection."""

    limits = Limits()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._is_in_head = False
        self._head_bytes = 0
        self._timer: TimerHandle | None = None
        self._stuck: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(self.limits.idle_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._unstick()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        # A line between two requests begins none; whatever else comes first does.
        if not self._is_in_head and self._is_between_requests():
            self._begin_head()
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > self.limits.header_bytes:
            self._hang_up(_too_long(self.limits))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._is_in_head:  # it came in one piece with the one before
            self._begin_head()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_waiting()
        length = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if length > self.limits.header_bytes:
            self._hang_up(_too_long(self.limits))
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()
        idle = self._is_between_requests() and not self._is_in_head
        if idle and not self.transport.is_closing():
            self._wait(self.limits.idle_seconds)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  ours says the same
        """Refuse what is no HTTP."""
        self._hang_up(
            RequestError(400, "request_not_http", "This is no request that HTTP/1.1 allows.")
        )

    def pause_writing(self) -> None:
        """Wait for a caller who does not take the reply, but not for ever."""
        super().pause_writing()
        self._stuck = self.loop.call_later(self.limits.taking_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with the reply."""
        self._unstick()
        super().resume_writing()

    def _unstick(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _begin_head(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        self._wait(self.limits.header_seconds)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self._waited)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _waited(self) -> None:
        if self._is_in_head:
            seconds = self.limits.header_seconds
            self._hang_up(
                RequestError(
                    408, "request_slow", f"The request did not arrive within {seconds:g} seconds."
                )
            )
        elif not self.transport.is_closing():
            self.transport.close()

    def _hang_up(self, problem: RequestError) -> None:
        """Say what is wrong, and close the connection."""
        if self.transport.is_closing():
            return
        if self._is_between_requests():
            self.transport.write(_raw(problem))
        self._stop_waiting()
        self.transport.close()


def _too_long(limits: Limits) -> RequestError:
    return RequestError(
        431,
        "head_too_large",
        f"The lines before the body may have {limits.header_bytes:,} bytes at most.",
    )


def _raw(problem: RequestError) -> bytes:
    """A refusal as it goes over the wire."""
    body = dumps(problems.told(problem)).encode()
    headers = {
        "content-type": problems.MEDIA,
        "content-length": str(len(body)),
        "connection": "close",
        **ALWAYS,
    }
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
