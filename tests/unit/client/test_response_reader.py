"""A server that is slow, or lies about what it sends, ends in one clear error, in time."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from sfumato.client import connection as connecting
from sfumato.client import response_reader
from sfumato.client.address import read_address
from sfumato.client.connection import Connection
from sfumato.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "sfu_" + "a" * 40
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture(autouse=True)
def asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_FIRST_PAUSES", ())


@contextmanager
def sending(*pieces: bytes, pause: float = 0.0, seconds: float = 10) -> Iterator[Connection]:
    """A server that sends these pieces one after the other, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            peer, _ = listener.accept()
            with closing(peer):
                peer.recv(65536)
                for piece in pieces:
                    peer.sendall(piece)
                    time.sleep(pause)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with closing(listener), closing(Connection(read_address(url), TOKEN, seconds)) as connection:
        yield connection
    server.join(10)


@pytest.mark.parametrize(
    "sent",
    [
        [HEAD, b"Content-Length: 8\r\n\r\n", b'{"a":', b" 1}"],
        [HEAD, b"Transfer-Encoding: chunked\r\n\r\n", b'5\r\n{"a":\r\n3\r\n 1}\r\n0\r\n\r\n'],
        [HEAD, b"Connection: close\r\n\r\n", b'{"a": 1}'],
        [b"HTTP/1.1 100 Continue\r\n\r\n", HEAD, b'Content-Length: 8\r\n\r\n{"a": 1}'],
    ],
    ids=["length", "chunked", "until it ends", "continued"],
)
def test_what_comes_in_pieces_is_read_whole(sent: list[bytes]) -> None:
    with sending(*sent, pause=0.01) as connection:
        assert connection.get("a").json() == {"a": 1}


ENDLESS = {
    "body": [HEAD, b"Content-Length: 9999\r\n\r\n", *[b"x"] * 40],
    "chunks": [HEAD, b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\nx\r\n"] * 40],
    "headers": [HEAD, *[b"X: y\r\n"] * 40],
    "status": [b"HTTP/1.1 ", *[b"2"] * 40],
    "continued": [b"HTTP/1.1 100 Continue\r\n\r\n"] * 40,
}


@pytest.mark.parametrize("endless", ENDLESS)
def test_what_trickles_in_is_given_up_in_time(endless: str) -> None:
    begun = time.monotonic()
    with sending(*ENDLESS[endless], pause=0.05, seconds=0.4) as connection:
        with pytest.raises(InternalError) as refused:
            connection.get("a")
        assert time.monotonic() - begun < 1.5
    assert refused.value.code == "server_unreachable"
    assert "no answer within 0.4 seconds" in str(refused.value)


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 5000\r\n\r\n",
        b"Connection: close\r\n\r\n" + b"x" * 5000,
        b"Transfer-Encoding: chunked\r\n\r\n1388\r\n" + b"x" * 5000 + b"\r\n0\r\n\r\n",
        b"Content-Length: -3\r\nConnection: close\r\n\r\n" + b"x" * 5000,
    ],
    ids=["said", "until it ends", "chunked", "less than nothing"],
)
def test_more_than_any_answer_is_not_taken(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_reader, "LARGEST_ANSWER", 4096)
    monkeypatch.setattr(response_reader, "_CHUNK_BYTES", 1000)
    with sending(HEAD, sent) as connection:
        with pytest.raises(InternalError) as refused:
            connection.get("a")
        assert refused.value.code == "server_unexpected"
        assert not connection._idle or connection._idle[0].sock is None


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 800\r\n\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"X" * 99_999,
    ],
    ids=["short", "half a chunk", "no chunk", "long line"],
)
def test_what_breaks_off_is_no_answer(sent: bytes) -> None:
    with sending(HEAD, sent) as connection, pytest.raises(InternalError) as refused:
        connection.get("a")
    assert refused.value.code == "server_unreachable"
