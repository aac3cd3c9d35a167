"""Connections: what is no HTTP, too long or too slow is hung up on before it costs anything.

The server's own reading of HTTP has no limit on the lines before a body, waits for them for ever
and takes in all requests that come ahead of their replies; this one limits each. A connection on
which nothing is asked is held, for a while, at no cost. Decision `server-limits`.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.server import problem_json
from sfumato.server.authorization import AUTHORITY
from sfumato.server.problem_json import RequestError
from sfumato.server.security_headers import ALWAYS
from sfumato.server.settings import Limits
from sfumato.text import dumps

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport
    from collections.abc import Sized

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def limited(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol of a server with these limits."""
    return type("LimitedProtocol", (_Limited,), {"limits": limits})


class _Flow(FlowControl):
    """The flow of a connection; nothing more is read while requests wait that were read already."""

    def __init__(self, transport: Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, unless requests wait."""
        if not self._waiting:
            super().resume_reading()


class _Limited(HttpToolsProtocol):
    """One connection."""

    limits = Limits()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._is_in_head = False
        self._head_bytes = 0
        self._timer: TimerHandle | None = None
        self._stuck: TimerHandle | None = None
        self._last: RequestError | None = None
        """What is said once all that was asked before is answered; nothing more is heard."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._wait(self.limits.idle_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._unstick()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over():
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
        if not self._is_in_head and not self._is_over():  # it came in one piece with the one before
            self._begin_head()

    def on_headers_complete(self) -> None:
        if self._is_over():
            return
        self._is_in_head = False
        self._stop_waiting()
        length = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if length > self.limits.header_bytes:
            self._hang_up(_too_long(self.limits))
            return
        if len(self.pipeline) >= self.limits.pipelined:
            self._hang_up(_too_many(self.limits))
            return
        _, absolute, rest = self.url.partition(b"://")
        if absolute and not self.url.startswith(b"/"):
            # It counts for more than Host, and nothing else that is passed on has it.
            self.scope[AUTHORITY] = re.split(rb"[/?#]", rest, maxsplit=1)[0]  # type: ignore[literal-required]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_over():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_over():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        was_last = not self.pipeline
        super().on_response_complete()
        self._unset_keepalive_if_required()
        if self._last is not None:
            if was_last:
                self._close_with(self._last)
            return
        idle = self._is_between_requests() and not self._is_in_head
        if idle and not self.transport.is_closing():
            self._wait(self.limits.idle_seconds)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  ours says the same
        """Refuse what is no HTTP."""
        self._hang_up(
            RequestError(400, "request_malformed", "This is no request that HTTP/1.1 allows.")
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

    def _is_over(self) -> bool:
        """Whether nothing more is heard on this connection."""
        return self._last is not None or self.transport.is_closing()

    def _hang_up(self, problem: RequestError) -> None:
        """Say what is wrong, after the replies to what was asked before, and close."""
        if self._is_over():
            return
        self._stop_waiting()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.more_body and not self._is_in_head:
            # Of this request the body is wrong: what it began, or waits for, is given up.
            if not self.pipeline:
                cycle.disconnected = True
                cycle.message_event.set()
                self._close_with(None if cycle.response_started else problem)
                return
            self.pipeline.popleft()
        elif self._is_between_requests():
            self._close_with(problem)
            return
        self._last = problem
        self.flow.pause_reading()

    def _close_with(self, problem: RequestError | None) -> None:
        if self.transport.is_closing():
            return
        if problem is not None:
            self.transport.write(_raw(problem))
        self.transport.close()


def _too_long(limits: Limits) -> RequestError:
    return RequestError(
        431,
        "request_too_large",
        f"The lines before the body may have {limits.header_bytes:,} bytes at most.",
    )


def _too_many(limits: Limits) -> RequestError:
    return RequestError(
        429,
        "request_malformed",
        f"At most {limits.pipelined} requests may wait for the replies to those before. Send the "
        "others again when these have come.",
        headers={"Retry-After": "1"},
    )


def _raw(problem: RequestError) -> bytes:
    """A refusal as it goes over the wire."""
    body = dumps(problem_json.told(problem)).encode()
    headers = {
        "content-type": problem_json.MEDIA,
        "content-length": str(len(body)),
        "connection": "close",
        **problem.headers,
        **ALWAYS,
    }
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
