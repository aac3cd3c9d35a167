"""Callers who ask for large replies and do not read them: the server's memory stays bounded."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.end.gate.people_served import COUNT
from tests.end.gate.test_heavy_questions import crowded

from sfumato.server import responses
from sfumato.server.settings import Limits
from sfumato.testing.servers import Client, served
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

# 17 MB of text: more than the system's own buffers take of a reply.
LARGE = {
    "sql": f"SELECT a, b, '{'x' * 400}' AS t, COUNT(*) AS n FROM people GROUP BY a, b",
    "epsilon": "0.01",
}


def asked(url: str, token: str, body: object, stack: ExitStack) -> tuple[socket.socket, bytes]:
    """A connection that has asked and read the beginning of the reply alone."""
    place, sent = urlsplit(url), json.dumps(body).encode()
    wire = stack.enter_context(socket.socket())
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    wire.settimeout(30)
    wire.connect((place.hostname, place.port))
    head = (
        f"POST /v1/query HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    wire.sendall(head.encode() + sent)
    return wire, wire.recv(1024).split(b" ")[1]


def test_who_does_not_read_is_given_no_more_and_hinders_nobody(tmp_path: Path) -> None:
    folder, token = crowded(tmp_path, 200)
    with open_vault(folder) as vault:
        other = vault.people.add(
            "eve", "external", epsilon=1, population="people", operator="Ann"
        ).name
        others = vault.tokens.new(other, operator="Ann")
    with open_vault(folder) as vault, served(vault) as server, ExitStack() as stack:
        client = Client(server.url, token)
        assert client.ask("POST", "/v1/query", LARGE).status == 200
        heard = [asked(server.url, token, LARGE, stack) for _ in range(6)]
        statuses = [status for _, status in heard]
        assert statuses[0] == b"200"
        assert statuses[-1] == b"503"
        assert statuses.count(b"200") <= 3
        refused = client.ask("POST", "/v1/query", {"sql": COUNT, "epsilon": "0.02"})
        assert (refused.status, refused.json["code"]) == (503, "server_busy")
        small = {"sql": COUNT, "epsilon": "0.03"}
        assert Client(server.url, others).ask("POST", "/v1/query", small).status == 200
        for wire, _ in heard:
            wire.close()
        end = time.monotonic() + 20
        while client.ask("POST", "/v1/query", small).status != 200:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_who_trickles_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "_SLOWEST_BYTES_PER_SECOND", 1 << 30)
    folder, token = crowded(tmp_path, 200)
    with (
        open_vault(folder) as vault,
        served(vault, limits=Limits(taking_seconds=2)) as server,
        ExitStack() as stack,
    ):
        wire, status = asked(server.url, token, LARGE, stack)
        assert status == b"200"
        end = time.monotonic() + 40
        while wire.recv(1 << 14):
            assert time.monotonic() < end, "a caller that trickles holds the reply"
            time.sleep(0.01)
