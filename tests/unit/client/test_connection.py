"""Requests get lost, servers are odd: nothing is asked twice, and whoever asks is told what is."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.client import connection as connecting
from sfumato.client.address import read_address, read_token, read_trust
from sfumato.client.connection import Connection
from sfumato.errors import BudgetError, InternalError, ParameterError, PolicyError, SfumatoError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "sfu_" + "a" * 8 + "S3cret" * 7
FINE = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"a": 1}'


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_PAUSES", (0.0,) * 5)
    monkeypatch.setattr(connecting, "_FIRST_PAUSES", (0.0,) * 2)


class Server:
    """Sends one after the other what it is told to, a connection each unless it is kept."""

    def __init__(self, replies: list[bytes | None], context: ssl.SSLContext | None = None) -> None:
        self.replies, self.heard = replies, list[bytes]()
        self.listener = socket.create_server(("127.0.0.1", 0))
        if context is not None:
            self.listener = context.wrap_socket(self.listener, server_side=True)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while self.replies:
            try:
                peer, _ = self.listener.accept()
            except ssl.SSLError:
                continue
            except OSError:
                return
            with closing(peer), suppress(OSError):
                peer.settimeout(5)
                self._answer(peer)

    def _answer(self, peer: socket.socket) -> None:
        while self.replies:
            request = _request(peer)
            if not request:
                return
            self.heard.append(request)
            reply = self.replies.pop(0)
            if reply is None:  # got lost on its way, after it was worked on
                return
            peer.sendall(reply)
            if b"Connection: close" in reply or reply.startswith(b"half"):
                return


def _request(peer: socket.socket) -> bytes:
    found = b""
    while b"\r\n\r\n" not in found:
        part = peer.recv(65536)
        if not part:
            return b""
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    lengths = [one for one in head.split(b"\r\n") if one.lower().startswith(b"content-length:")]
    length = int(lengths[0].split(b":")[1]) if lengths else 0
    while len(body) < length:
        body += peer.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def connected(*replies: bytes | None, seconds: float = 10) -> Iterator[tuple[Connection, Server]]:
    server = Server([*replies])
    with (
        closing(server.listener),
        closing(Connection(read_address(server.url), TOKEN, seconds)) as connection,
    ):
        yield connection, server


def problem(status: int, code: str, kind: str, *more: str) -> bytes:
    told = {
        "type": "x",
        "title": "x",
        "status": status,
        "code": code,
        "detail": "Why.",
        "kind": kind,
    }
    body = json.dumps(told).encode()
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/problem+json", *more]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def test_what_got_lost_is_sent_again_under_the_same_name() -> None:
    with connected(None, None, FINE) as (connection, server):
        assert connection.send("POST", "query", {"sql": "x"}, key="k 1").json() == {"a": 1}
    assert len(server.heard) == 3
    assert len(set(server.heard)) == 1, "the same bytes each time"
    assert b"Idempotency-Key: k 1\r\n" in server.heard[0]
    assert f"Authorization: Bearer {TOKEN}".encode() in server.heard[0]


def test_a_connection_is_kept_and_renewed_when_it_has_ended() -> None:
    with connected(FINE, FINE, None, FINE) as (connection, server):
        assert [connection.get("a").json() for _ in range(3)] == [{"a": 1}] * 3
    assert len(server.heard) == 4


def test_what_cannot_be_sent_leaves_nothing_before_the_next_request() -> None:
    with connected(FINE, FINE) as (connection, server):
        assert connection.get("a").json() == {"a": 1}
        with pytest.raises(ValueError, match="header"):
            connection.get("a", accept="x\r\nX: y")
        assert connection.get("c").json() == {"a": 1}
    assert [one.split()[1] for one in server.heard] == [b"/v1/a", b"/v1/c"]


def test_who_is_sent_away_comes_back_after_the_time_that_was_named() -> None:
    busy = problem(503, "requests_too_frequent", "InternalError", "Retry-After: 0")
    with connected(busy, busy, FINE) as (connection, server):
        assert connection.get("a").json() == {"a": 1}
    assert len(server.heard) == 3


def test_who_is_always_sent_away_is_told_so() -> None:
    busy = problem(503, "requests_too_frequent", "InternalError", "Retry-After: 0")
    with connected(*[busy] * 12) as (connection, server):
        with pytest.raises(InternalError) as refused:
            connection.get("a")
        assert refused.value.code == "requests_too_frequent"
        assert len(server.heard) == 3
        with pytest.raises(InternalError):
            connection.get("a")
        assert len(server.heard) == 9, "a server that was there is asked more often"
    long = problem(503, "requests_too_frequent", "InternalError", "Retry-After: 3600")
    with connected(long, FINE, seconds=2) as (connection, server):
        with pytest.raises(InternalError) as refused:
            connection.get("a")
        assert refused.value.code == "requests_too_frequent"


@pytest.mark.parametrize(
    ("kind", "raised"),
    [("BudgetError", BudgetError), ("PolicyError", PolicyError), ("SfumatoError", SfumatoError)],
)
def test_a_refusal_is_the_exception_that_it_was(kind: str, raised: type[SfumatoError]) -> None:
    with connected(problem(402, "budget_exhausted", kind)) as (connection, server):
        with pytest.raises(SfumatoError) as refused:
            connection.get("a")
        assert type(refused.value) is raised
        assert (refused.value.code, str(refused.value)) == ("budget_exhausted", "Why.")
        assert len(server.heard) == 1, "what was refused is not asked again"


ODD = {
    "kind": problem(400, "odd", "Exception"),
    "kind of ours that is none": problem(400, "odd", "annotations"),
    "no reason": b"HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\nno",
    "moved": b"HTTP/1.1 302 X\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n",
    "list": FINE.replace(b'{"a": 1}', b"[1,2, 3]"),
    "deep": FINE.replace(b"8\r\n\r\n" + b'{"a": 1}', b"99999\r\n\r\n" + b"[" * 99999),
    "page": FINE.replace(b"application/json", b"text/html"),
    "number": FINE.replace(b'{"a": 1}', b'{"a": 1}'[::-1]),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_server_that_is_none_of_ours_is_told_in_words(odd: str) -> None:
    with connected(ODD[odd]) as (connection, server):
        with pytest.raises(InternalError) as refused:
            connection.get("a").json()
        assert TOKEN not in str(refused.value)
        assert len(server.heard) == 1


def test_what_a_server_says_is_shown_in_length_and_letters_that_do_no_harm() -> None:
    body = json.dumps({"code": "odd", "detail": "\x1b[31m" + "x" * 100_000, "kind": "SystemExit"})
    head = f"HTTP/1.1 422 X\r\nContent-Length: {len(body)}\r\n\r\n"
    for sent in (body, body.replace('"odd"', "5"), body.replace('"odd"', '"\\u001b[31m"')):
        length = f"Content-Length: {len(sent)}"
        reply = head.replace(f"Content-Length: {len(body)}", length) + sent
        with connected(reply.encode()) as (connection, _), pytest.raises(InternalError) as refused:
            connection.get("a")
        assert len(str(refused.value)) < 5000
        assert str(refused.value).isprintable()
        assert refused.value.code == ("odd" if sent is body else "server_unexpected")


def test_half_an_answer_is_none() -> None:
    half = FINE.replace(b"Content-Length: 8", b"Content-Length: 800\r\nConnection: close")
    with connected(half, FINE) as (connection, server):
        assert connection.get("a").json() == {"a": 1}
    assert len(server.heard) == 2


def test_nobody_there_is_told_with_what_to_do() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(InternalError) as refused:
        sf.connect(url, TOKEN)
    assert refused.value.code == "server_unreachable"
    assert "sfumato serve" in str(refused.value)
    assert "charged" not in str(refused.value)
    with pytest.raises(InternalError) as refused:
        Connection(read_address(url), TOKEN, 5).send("POST", "query", {}, key="k")
    assert "from store" in str(refused.value)


def test_no_answer_in_time_is_told_with_what_to_do() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(InternalError) as refused:
            sf.connect(url, TOKEN, timeout=0.2)
    assert refused.value.code == "server_unreachable"
    assert "longer timeout" in str(refused.value)


def test_connections_that_are_used_at_a_time_are_several_and_kept() -> None:
    with connected(FINE) as (connection, _):
        one, other = connection._connection(1), connection._connection(1)
        assert one is not other
        connection._idle.append(other)
        assert connection.get("a").json() == {"a": 1}
        assert list(connection._idle) == [other]
        connection.close()
        assert not connection._idle
        assert other.sock is None


def test_a_process_that_was_forked_takes_no_answers_of_its_parent() -> None:
    with connected(FINE) as (connection, _):
        assert connection.get("a").json() == {"a": 1}
        child = os.fork()
        if not child:
            os._exit(0 if connection._connection(1).sock is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert connection._idle[0].sock is not None


def test_what_is_too_much_for_a_server_is_not_sent() -> None:
    with connected() as (connection, server):
        with pytest.raises(ParameterError) as refused:
            connection.send("POST", "publish", {"workload": [[[0, 1]]] * 120_000})
        assert refused.value.code == "request_too_large"
        assert not server.heard


def test_a_token_is_never_shown() -> None:
    connection = Connection(read_address("http://127.0.0.1:1"), TOKEN, 1)
    assert TOKEN not in repr(connection)
    for wrong in (None, "", "secret", f"{TOKEN}\r\nX: y", f"{TOKEN}é", TOKEN.encode()):
        with pytest.raises(SfumatoError) as refused:
            read_token(wrong)
        assert refused.value.code == "parameter_type_wrong"
        assert "cret" not in str(refused.value)
    assert read_token(f" {TOKEN}\n") == TOKEN


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    wished = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *wished, *names, *files], check=True, capture_output=True)
    return certificate, key


def test_a_certificate_is_verified(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = Server([FINE], context)
    url = server.url.replace("http:", "https:")
    with closing(server.listener):
        with pytest.raises(InternalError) as refused:
            sf.connect(url, TOKEN, timeout=5)
        assert refused.value.code == "server_unreachable"
        assert not server.heard, "no token was sent"
        trust = read_trust(certificate)
        with closing(Connection(read_address(url), TOKEN, 5, trust)) as connection:
            assert connection.get("a").json() == {"a": 1}
    for wrong in (key, tmp_path / "none.pem"):
        with pytest.raises(SfumatoError) as unread:
            sf.connect(url, TOKEN, certificates=wrong)
        assert unread.value.code == "certificate_unusable"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://127.0.0.1", "address_malformed"),
        ("127.0.0.1:8321", "address_malformed"),
        ("http://", "address_malformed"),
        ("http://127.0.0.1:99999", "address_malformed"),
        ("http://[::1", "address_malformed"),
        ("http://me:secret@127.0.0.1", "address_malformed"),
        ("http://127.0.0.1/?token=sfu_x", "address_malformed"),
        ("http://127.0.0.1/#x", "address_malformed"),
        ("http://exa mple.org", "address_malformed"),
        ("http://example.org\r\n", "address_malformed"),
        ("http://example.org", "address_malformed"),
        ("http://10.0.0.1:8321", "address_malformed"),
        ("http://127.0.0.1.example.org", "address_malformed"),
        (7, "parameter_type_wrong"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(url: object, code: str) -> None:
    with pytest.raises(SfumatoError) as refused:
        read_address(url)
    assert refused.value.code == code
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("http://localhost:8321", "http://localhost:8321"),
        ("http://127.0.0.1:8321/", "http://127.0.0.1:8321"),
        ("http://[::1]:8321/v1/", "http://[::1]:8321"),
        ("https://data.example.org", "https://data.example.org"),
        ("https://data.example.org:443/clinic/", "https://data.example.org/clinic"),
    ],
)
def test_an_address_is_read(url: str, read: str) -> None:
    assert str(read_address(url)) == read
