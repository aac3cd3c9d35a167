"""A real server of a vault on a free port of this machine, for tests."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sfumato.server.serve import Listening, VaultServer
from sfumato.server.settings import Limits
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sfumato.server.serve import Server
    from sfumato.vault.vault import Vault


@dataclass(frozen=True)
class Heard:
    """A server's response: its status, its headers by lower-case name, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cookies: tuple[str, ...] = ()
    """Each Set-Cookie header."""

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """An HTTP client, with or without a token."""

    url: str
    token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    """The local address to connect from, one of 127.0.0.0/8; None for the usual one."""

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Heard:
        """Send one request, with JSON or bytes as its body, and return the response."""
        address = urlsplit(self.url)
        sent = {**self.headers, **(headers or {})}
        if self.token is not None:
            sent = {"Authorization": f"Bearer {self.token}", **sent}
        if body is not None and not isinstance(body, bytes):
            body, sent = dumps(body).encode(), {"Content-Type": "application/json", **sent}
        # Addresses of the loopback network stand for different callers.
        source = None if self.source is None else (self.source, 0)
        connection = HTTPConnection(
            str(address.hostname), address.port, timeout=30, source_address=source
        )
        try:
            connection.request(method, path, body, sent)
            return heard(connection.getresponse())
        finally:
            connection.close()


def heard(reply: HTTPResponse) -> Heard:
    """Read a response to its end."""
    named = {name.lower(): value for name, value in reply.getheaders()}
    cookies = tuple(reply.msg.get_all("Set-Cookie", ()))
    return Heard(reply.status, named, reply.read(), cookies)


@contextmanager
def served(
    vault: Vault, *, limits: Limits | None = None, listening: Listening | None = None
) -> Iterator[VaultServer]:
    """Run a server of a vault in a thread of this process."""
    address = listening or Listening(port=0)
    server = VaultServer(vault, address, limits=limits or Limits(), owner_link=True)
    with running(server):
        yield server


@contextmanager
def running(server: Server) -> Iterator[None]:
    """Run a server in a thread of this process."""
    thread = threading.Thread(target=server.answer, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started, "the server did not start"
    try:
        yield
    finally:
        server.should_exit = True  # as a signal would: signals reach only the main thread
        thread.join(30)
