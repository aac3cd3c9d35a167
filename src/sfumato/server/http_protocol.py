"""The HTTP protocol of a connection, with limits on size, time and pipelining.

Uvicorn alone does not limit the size of headers, waits for them without end, and reads all requests
that are sent ahead of their responses (pipelining). Each of these lets one caller exhaust the
server (slow loris). Here a connection that exceeds a limit is refused and closed before the request
costs anything. Decision `server-limits`.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.server import problem_json
from sfumato.server.authorization import AUTHORITY
from sfumato.server.endpoints import SECURITY_HEADERS
from sfumato.server.problem_json import RequestError
from sfumato.server.settings import Limits
from sfumato.text import dumps

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport
    from collections.abc import Sized

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def limited(limits: Limits) -> type[HttpToolsProtocol]:
    """Make the protocol class of a server with these limits."""
    return type("LimitedProtocol", (_Limited,), {"limits": limits})


class _Flow(FlowControl):
    """Flow control that reads nothing more while requests wait in the pipeline."""

    def __init__(self, transport: Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        """Resume reading if no request waits."""
        if not self._pipeline:
            super().resume_reading()


class _Limited(HttpToolsProtocol):
    """One connection."""

    limits = Limits()

    def __init__(self, *positional: Any, **keywords: Any) -> None:
        super().__init__(*positional, **keywords)
        self._is_in_head = False
        self._head_bytes = 0
        self._timer: TimerHandle | None = None
        self._write_timer: TimerHandle | None = None
        self._pending_refusal: RequestError | None = None
        """A refusal to send after the responses to earlier requests. All further input is
        ignored."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._wait(self.limits.idle_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over():
            return
        # The first bytes after a response begin the next headers.
        if not self._is_in_head and self._is_between_requests():
            self._begin_head()
        if self._is_in_head:
            self._head_bytes += len(data)
        # Counted before parsing: the parser itself would collect headers without end.
        super().data_received(data)
        if self._is_in_head and self._head_bytes > self.limits.header_bytes:
            self._hang_up(_too_long(self.limits))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._is_in_head and not self._is_over():  # pipelined after another request
            self._begin_head()

    def on_headers_complete(self) -> None:
        if self._is_over():
            return
        self._is_in_head = False
        self._stop_waiting()
        # Again without the framing: the bytes above may include part of a body.
        length = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if length > self.limits.header_bytes:
            self._hang_up(_too_long(self.limits))
            return
        # Each waiting request holds memory, also if its responses are never read.
        if len(self.pipeline) >= self.limits.pipelined:
            self._hang_up(_too_many(self.limits))
            return
        _, absolute, rest = self.url.partition(b"://")
        if absolute and not self.url.startswith(b"/"):
            # RFC 9112: this host overrides the Host header, but uvicorn does not pass it on.
            self.scope[AUTHORITY] = re.split(rb"[/?#]", rest, maxsplit=1)[0]  # type: ignore[literal-required]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_over():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_over():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        pipeline_was_empty = not self.pipeline
        super().on_response_complete()
        # Uvicorn starts its own timer for idle connections; ours replaces it.
        self._unset_keepalive_if_required()
        if self._pending_refusal is not None:
            if pipeline_was_empty:
                self._close_with(self._pending_refusal)
            return
        idle = self._is_between_requests() and not self._is_in_head
        if idle and not self.transport.is_closing():
            self._wait(self.limits.idle_seconds)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse input that is not HTTP."""
        self._hang_up(RequestError(400, "request_malformed", "This is not an HTTP/1.1 request."))

    def pause_writing(self) -> None:
        """Start the time in which the caller must go on reading the response."""
        super().pause_writing()
        # abort, not close: close would wait for the very bytes that the caller does not read.
        self._write_timer = self.loop.call_later(self.limits.taking_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing the response."""
        self._stop_write_timer()
        super().resume_writing()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _begin_head(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        self._wait(self.limits.header_seconds)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self._time_out)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
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
        """Whether all further input of this connection is ignored."""
        return self._pending_refusal is not None or self.transport.is_closing()

    def _hang_up(self, problem: RequestError) -> None:
        """Refuse and close, after the responses to earlier requests."""
        if self._is_over():
            return
        self._stop_waiting()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.more_body and not self._is_in_head:
            # The body of the current request is malformed: its handler is cancelled.
            if not self.pipeline:
                cycle.disconnected = True
                cycle.message_event.set()
                self._close_with(None if cycle.response_started else problem)
                return
            self.pipeline.popleft()
        elif self._is_between_requests():
            self._close_with(problem)
            return
        self._pending_refusal = problem  # sent in order, after the earlier responses
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
        f"The request line and the headers may have {limits.header_bytes:,} bytes at most.",
    )


def _too_many(limits: Limits) -> RequestError:
    return RequestError(
        429,
        "request_malformed",
        f"At most {limits.pipelined} requests of a connection may wait. Send the others again when "
        "the responses have come.",
        headers={"Retry-After": "1"},
    )


def _raw(problem: RequestError) -> bytes:
    """A refusal as bytes of HTTP."""
    body = dumps(problem_json.problem_of(problem)).encode()
    headers = {
        "content-type": problem_json.MEDIA,
        "content-length": str(len(body)),
        "connection": "close",
        **problem.headers,
        **SECURITY_HEADERS,
    }
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
