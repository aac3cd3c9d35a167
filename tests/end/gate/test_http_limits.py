"""Requests that are broken, too large or too slow: refused at once, in one form, and hung up on."""

from __future__ import annotations

import json
import re
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.end.gate.people_served import COUNT, Served, people_served
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.server.settings import Limits
from sfumato.testing.servers import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = Limits(header_seconds=0.3, body_seconds=0.3, idle_seconds=0.8, taking_seconds=0.3)
TIGHT = Limits(workers=1, waiting=2, per_second=5, at_once=20)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with people_served(tmp_path_factory.mktemp("limits"), limits=LIMITS) as found:
        yield found


class Wire:
    """A connection on which anything may be sent."""

    def __init__(self, gate: Served) -> None:
        place = urlsplit(gate.url)
        self.socket = socket.create_connection((place.hostname, place.port), timeout=10)
        self.shown = f"Authorization: Bearer {gate.alice.token}"

    def send(self, data: bytes) -> Wire:
        with suppress(OSError):  # it may be hung up on in the middle
            self.socket.sendall(data)
        return self

    def head(self, *lines: str, method: str = "POST", path: str = "/v1/query") -> Wire:
        named = (f"{method} {path} HTTP/1.1", "Host: localhost", self.shown)
        return self.send("\r\n".join([*named, *lines, "", ""]).encode("latin-1"))

    def rest(self) -> bytes:
        """All that comes until the server hangs up."""
        parts = []
        with self.socket, suppress(ConnectionResetError):
            while part := self.socket.recv(65536):
                parts.append(part)
        return b"".join(parts)

    def refused(self) -> tuple[int, str]:
        """The status and code of a refusal, after which the server hung up."""
        begun = time.perf_counter()
        raw = self.rest()
        self.seconds = time.perf_counter() - begun
        head, _, body = raw.partition(b"\r\n\r\n")
        assert b"connection: close" in head.lower(), raw[:300]
        found = json.loads(body)
        assert head.startswith(f"HTTP/1.1 {found['status']} ".encode())
        assert b"application/problem+json" in head
        return found["status"], found["code"]


JSON = "Content-Type: application/json"


def test_bodies_that_are_no_json_object(gate: Served) -> None:
    plain = {"Content-Type": "application/json"}
    for raw, wanted in (
        (b"{", (400, "request_malformed")),
        (b"", (400, "request_malformed")),
        (b"[1]", (422, "request_malformed")),
        (b"null", (422, "request_malformed")),
        (b'{"sql": NaN}', (400, "request_malformed")),
        (b'{"sql": "a", "sql": "b"}', (400, "request_malformed")),
        (b'{"weights": {"a": 1, "a": 2}}', (400, "request_malformed")),
        (b'{"sql": "\xff"}', (400, "request_malformed")),
        (b"\xef\xbb\xbf{}", (400, "request_malformed")),
        (b'{"sql": "\\ud800"}', (400, "request_malformed")),
        (b'{"sql": "a\\u0000"}', (400, "request_malformed")),
        (b'{"sql": ' + b"[" * 100_000, (400, "request_malformed")),
        (b'{"sql": ' + b"[" * 40 + b"]" * 40 + b"}", (400, "request_malformed")),
        (b'{"sql": ' + b"9" * 5000 + b"}", (400, "request_malformed")),
        ("{}".encode("utf-16"), (400, "request_malformed")),
    ):
        begun = time.perf_counter()
        reply = gate.alice.ask("POST", "/v1/query", raw, plain)
        assert (reply.status, reply.json["code"]) == wanted, raw[:40]
        assert time.perf_counter() - begun < 2


def test_bodies_in_the_wrong_envelope(gate: Served) -> None:
    body = json.dumps({"sql": COUNT}).encode()
    for headers, wanted in (
        ({"Content-Type": "text/plain"}, (415, "request_malformed")),
        ({}, (415, "request_malformed")),
        ({"Content-Type": "application/json; charset=latin-1"}, (415, "request_malformed")),
        (
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
            (415, "request_malformed"),
        ),
        (
            {"Content-Type": "application/json", "Content-Encoding": "deflate"},
            (415, "request_malformed"),
        ),
    ):
        reply = gate.alice.ask("POST", "/v1/query", body, headers)
        assert (reply.status, reply.json["code"]) == wanted, headers
    good = {"Content-Type": 'application/json; charset="UTF-8"', "Content-Encoding": "identity"}
    assert gate.alice.ask("POST", "/v1/explain", body, good).status == 200
    unasked = gate.alice.ask("GET", "/v1/datasets", body)
    assert (unasked.status, unasked.json["code"]) == (400, "request_malformed")


def test_a_body_that_is_too_large_is_refused_by_its_length(gate: Served) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wire = Wire(gate).head(JSON, f"Content-Length: {10**9}")
    assert wire.refused() == (413, "request_too_large")
    Wire(gate).head(JSON, "Content-Length: 1048577").send(b"x" * 1048577).rest()  # hung up on
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    most = b'{"sql": "' + b"S" * (1024 * 1024 - 11) + b'"}'
    reply = gate.alice.ask("POST", "/v1/query", most, {"Content-Type": "application/json"})
    assert reply.json["code"] == "request_malformed"


def test_lengths_that_lie_or_are_missing(gate: Served) -> None:
    none = Wire(gate).head(JSON, "Connection: close")
    assert none.rest().startswith(b"HTTP/1.1 411 ")
    pieces = Wire(gate).head(JSON, "Transfer-Encoding: chunked").send(b"2\r\n{}\r\n")
    assert pieces.refused() == (411, "request_malformed")
    both = Wire(gate).head(JSON, "Transfer-Encoding: chunked", "Content-Length: 5")
    assert both.refused() == (400, "request_malformed")
    for wrong in ("-1", "1e3", "+5", "0x10", "5, 6"):
        refused = Wire(gate).head(JSON, f"Content-Length: {wrong}").refused()
        assert refused == (400, "request_malformed"), wrong
    twice = Wire(gate).head(JSON, "Content-Length: 2", "Content-Length: 3")
    assert twice.refused() == (400, "request_malformed")
    short = Wire(gate).head(JSON, "Content-Length: 50").send(b'{"sql": "')
    assert short.refused() == (408, "request_slow")


def test_what_is_wrong_after_the_head_is_said_too(gate: Served) -> None:
    for lines, sent in (
        (("Transfer-Encoding: xchunked",), b""),
        (("Transfer-Encoding: chunked",), b"zz\r\n{}\r\n"),
    ):
        head = ("POST /v1/query HTTP/1.1", "Host: localhost", JSON, *lines, "", "")
        broken = "\r\n".join(head).encode() + sent
        assert Wire(gate).send(broken).refused() == (400, "request_malformed"), lines
        fine = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        raw = Wire(gate).send(fine + broken).rest()
        assert re.findall(rb"HTTP/1.1 (\d+)", raw) == [b"200", b"400"], lines


def test_what_is_no_http(gate: Served) -> None:
    for raw in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
    ):
        assert Wire(gate).send(raw).refused() == (400, "request_malformed"), raw
    missing = Wire(gate).send(b"GET /v1/health HTTP/1.1\r\n\r\n")
    assert missing.refused() == (421, "host_unknown")
    twice = Wire(gate).send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n")
    assert twice.refused() == (421, "host_unknown")


def test_a_target_that_names_a_host_names_one_of_ours(gate: Served) -> None:
    shown = f"Authorization: Bearer {gate.alice.token}\r\nConnection: close"
    for target, wanted in (
        ("http://evil/v1/datasets", b"421"),
        ("http://evil:80/v1/datasets", b"421"),
        ("http://localhost@evil/v1/datasets", b"421"),
        ("http://evil@localhost/v1/datasets", b"421"),
        ("HTTP://LOCALHOST:8321/v1/datasets", b"200"),
        ("http://127.0.0.1/v1/datasets", b"200"),
        ("//evil/v1/datasets", b"404"),
        ("evil:443", b"400"),
    ):
        lines = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{shown}\r\n\r\n"
        assert Wire(gate).send(lines.encode()).rest()[9:12] == wanted, target


def test_heads_that_are_too_large(gate: Served) -> None:
    assert Wire(gate).head("X: " + "x" * 17_000).refused() == (431, "request_too_large")
    assert Wire(gate).head("A:" * 9000).refused()[0] in {400, 431}
    assert Wire(gate).send(b"GET /" + b"a" * 17_000).refused() == (431, "request_too_large")
    many = [f"X-{one}: {'y' * 50}" for one in range(400)]
    assert Wire(gate).head(*many).refused() == (431, "request_too_large")
    fits = Wire(gate).head("X: " + "x" * 9000, "Connection: close", method="GET", path="/v1/health")
    assert fits.rest().startswith(b"HTTP/1.1 200")


def test_who_sends_drop_by_drop_is_hung_up_on(gate: Served) -> None:
    slow = Wire(gate)
    for one in range(10):
        slow.send(b"GET / HTTP/1.1"[one : one + 1])
        time.sleep(0.05)
    assert slow.refused() == (408, "request_slow")
    body = Wire(gate).head(JSON, "Content-Length: 100")
    begun = time.perf_counter()
    for _ in range(10):
        body.send(b" ")
        time.sleep(0.05)
    assert body.refused() == (408, "request_slow")
    assert time.perf_counter() - begun < 5
    silent = Wire(gate)
    assert silent.rest() == b""


def test_who_does_not_take_the_reply_is_hung_up_on(gate: Served) -> None:
    whole = len(gate.nobody.ask("GET", "/v1/openapi.json").body)
    wire = Wire(gate)
    begun = time.perf_counter()
    while time.perf_counter() - begun < 1.2:
        wire.send(b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.005)
    assert 0 < len(wire.rest()) < 200 * whole


def test_requests_ahead_of_their_replies_are_few(gate: Served) -> None:
    asked = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for many in (100, 100_000):
        raw = Wire(gate).send(asked * many).rest()
        assert raw.count(b"HTTP/1.1 200 ") <= Limits().pipelined + 1, many
    raw = Wire(gate).send(asked * 100).rest()
    assert raw.count(b"HTTP/1.1 200 ") == Limits().pipelined + 1
    last = raw[raw.rindex(b"HTTP/1.1 ") :]
    assert last.startswith(b"HTTP/1.1 429 ")
    assert json.loads(last.partition(b"\r\n\r\n")[2])["code"] == "request_malformed"


def test_nothing_is_read_while_requests_wait(monkeypatch: pytest.MonkeyPatch, gate: Served) -> None:
    waiting: list[int] = []
    received = HttpToolsProtocol.data_received

    def looked(self: HttpToolsProtocol, data: bytes) -> None:
        waiting.append(len(self.pipeline))
        received(self, data)

    monkeypatch.setattr(HttpToolsProtocol, "data_received", looked)
    asked = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    wire = Wire(gate)
    for _ in range(20):
        wire.send(asked * 5)
    wire.send(asked.replace(b"Host", b"Connection: close\r\nHost")).rest()
    assert waiting
    assert not any(waiting)


def test_a_connection_that_is_idle_is_held_and_used_again(gate: Served) -> None:
    wire = Wire(gate)
    for _ in range(3):
        time.sleep(0.4)  # longer than a head may take, shorter than a connection is held
        wire.head(method="GET", path="/v1/health")
        raw = b""
        while not raw.endswith(b"}"):  # head and body may come apart
            raw += wire.socket.recv(65536)
        assert raw.startswith(b"HTTP/1.1 200")
    wire.socket.close()


def test_requests_that_come_in_one_go_are_answered_in_order(gate: Served) -> None:
    line = "GET /v1/{} HTTP/1.1\r\nHost: localhost\r\n{}\r\n"
    both = line.format("health", "") + line.format("nothing", "Connection: close\r\n")
    raw = Wire(gate).send(both.encode()).rest()
    assert raw.index(b"HTTP/1.1 200") < raw.index(b"HTTP/1.1 404")


def test_what_follows_a_refused_body_is_not_taken_for_a_request(gate: Served) -> None:
    smuggled = b"GET /v1/ledger HTTP/1.1\r\nHost: localhost\r\n\r\n"
    wire = Wire(gate).head("Content-Type: text/plain", f"Content-Length: {len(smuggled)}")
    raw = wire.send(smuggled + smuggled).rest()
    assert raw.count(b"HTTP/1.1 ") == 1


def test_a_full_queue_and_a_hasty_token_are_sent_away(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with people_served(tmp_path_factory.mktemp("tight"), limits=TIGHT) as tight:
        asked = [{"sql": f"{COUNT} WHERE age < {age}", "epsilon": 0.001} for age in range(1, 13)]
        with ThreadPoolExecutor(12) as pool:
            replies = list(pool.map(lambda one: tight.owner.ask("POST", "/v1/query", one), asked))
        full = [one for one in replies if one.status == 503]
        assert {one.status for one in replies} == {200, 503}
        assert {one.json["code"] for one in full} == {"server_busy"}
        assert all(one.headers["retry-after"] == "1" for one in full)
        hasty = [tight.alice.ask("GET", "/v1/health") for _ in range(2)]
        assert [one.status for one in hasty] == [200, 200]
        replies = [tight.alice.ask("GET", "/v1/ledger") for _ in range(40)]
        late = [one for one in replies if one.status == 429]
        assert late
        assert late[0].json["code"] == "requests_too_frequent"
        assert int(late[0].headers["retry-after"]) >= 1
        assert Client(tight.url, tight.bob.token).ask("GET", "/v1/ledger").status == 200
