"""`sfumato serve`: what it prints, where it refuses to listen, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.end.gate.people_served import COUNT, people_vault

from sfumato.cli.main import run
from sfumato.server import serve
from sfumato.server.authorization import check_caller
from sfumato.server.problem_json import RequestError
from sfumato.server.settings import Limits
from sfumato.testing.servers import Client, served
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ANY = ("--port", "0", "--json")
NAME = ("--allow-host", "data.example.org")
COMMAND = "from sfumato.cli import main; main()"


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    people_vault(tmp_path).close()
    return tmp_path / "clinic"


class Started:
    """The command in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.ready = json.loads(process.stdout.readline())

    def ended(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=40)
        return self.process.returncode, errors


@pytest.fixture
def started(clinic: Path) -> Iterator[Callable[[], Started]]:
    """Starts the command before the vault; it does not outlive a test that fails."""
    words = [sys.executable, "-c", COMMAND, "serve", "--vault", str(clinic), *ANY]
    pipe = subprocess.PIPE
    with ExitStack() as stack:

        def start() -> Started:
            process = stack.enter_context(
                subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True)
            )
            stack.callback(process.kill)
            return Started(process)

        yield start


def code(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    left = run(["serve", "--vault", "clinic", *ANY, *options])
    found = json.loads(capsys.readouterr().out)
    return left, found["error"]["code"]


def test_it_says_where_it_is_and_lets_the_first_owner_in_and_ends_in_order(
    clinic: Path, started: Callable[[], Started]
) -> None:
    server = started()
    ready = server.ready
    assert set(ready) == {"url", "owner_link"}
    assert ready["owner_link"].startswith(f"{ready['url']}/welcome/")
    guest = Client(ready["url"], headers={"Accept": "application/json"})
    path = ready["owner_link"].removeprefix(ready["url"])
    owner = Client(ready["url"], guest.ask("POST", path).json["token"])
    assert owner.ask("POST", "/v1/query", {"sql": COUNT, "epsilon": 1}).status == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.ended() == (0, "")
    with open_vault(clinic) as vault:
        assert vault.verify()["requests"] == 1
        later = serve.VaultServer(vault, serve.Listening(port=0))
        later.close()
        assert later.owner_link is None, "an owner has a token now"


def test_what_it_works_on_is_answered_before_it_ends(
    clinic: Path, started: Callable[[], Started]
) -> None:
    config = clinic / "vault.toml"
    text = config.read_text()
    config.write_text(text.replace("tick_milliseconds = 0", "tick_milliseconds = 900"))
    with open_vault(clinic) as vault:
        token = vault.tokens.new("owner", operator="Ann")
    server = started()
    host, port = server.ready["url"].removeprefix("http://").split(":")
    body = json.dumps({"sql": COUNT, "epsilon": 1})
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(
            f"POST /v1/query HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        time.sleep(0.3)
        server.process.send_signal(signal.SIGINT)
        assert wire.recv(65536).startswith(b"HTTP/1.1 200 OK")
    assert server.ended() == (0, "")


@pytest.mark.usefixtures("clinic")
def test_where_it_would_be_overheard_it_does_not_listen(capsys: pytest.CaptureFixture[str]) -> None:
    for host in ("0.0.0.0", "::", "10.1.2.3", "data.example.org"):
        assert code(capsys, "--host", host, *NAME) == (2, "address_unusable"), host
    unnamed = ("--host", "0.0.0.0", "--behind-proxy", "10.0.0.5")
    assert code(capsys, *unnamed) == (2, "parameter_missing")
    assert run(["serve", "--vault", "clinic", *ANY, *unnamed, *NAME, "--check"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"url", "owner_link"}
    assert code(capsys, "--behind-proxy", "proxy") == (2, "address_unusable")
    for wide in ("0.0.0.0/0", "128.0.0.0/1", "10.0.0.0/8", "::/0", "2001:db8::/32"):
        assert code(capsys, "--behind-proxy", wide, "--check") == (2, "address_unusable"), wide
    assert code(capsys, "--cert", "x.pem") == (2, "options_conflict")
    assert code(capsys, "--data", "nowhere") == (2, "source_missing")
    assert code(capsys, "--cert", "x.pem", "--key", "y.pem") == (2, "certificate_unusable")


@pytest.mark.usefixtures("clinic")
def test_a_port_that_is_none_or_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert code(capsys, "--port", "70000") == (2, "parameter_out_of_range")
    assert code(capsys, "--port", "-1") == (2, "parameter_out_of_range")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert code(capsys, "--port", port) == (2, "address_unusable")
    nowhere = ("--host", "nowhere.invalid", "--behind-proxy", "::1", *NAME)
    assert code(capsys, *nowhere) == (2, "address_unusable")


def test_a_vault_that_cannot_be_served_is_told_in_one_line(
    clinic: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sfumato.server.serve.time.time", lambda: 0.0)
        assert code(capsys) == (2, "clock_wrong")
    (clinic / "ledger.sqlite").rename(clinic / "away")
    left, found = code(capsys)
    assert left != 0
    assert found.startswith("ledger")
    assert run(["serve", "--vault", "nowhere"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_encrypted_server_is_reached_by_tls_alone(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    made += ["-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost"]
    if subprocess.run(made, capture_output=True, check=False).returncode:
        pytest.skip("there is no openssl to make a certificate with")
    certificate, key = Path("cert.pem"), Path("key.pem")
    key.chmod(0o644)
    assert code(capsys, "--cert", "cert.pem", "--key", "key.pem") == (2, "secret_exposed")
    key.chmod(0o600)
    listening = serve.Listening(port=0, certificate=certificate, key=key)
    request = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with open_vault(clinic) as vault, served(vault, listening=listening) as server:
        assert server.url.startswith("https://127.0.0.1:")
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        context = ssl.create_default_context(cafile="cert.pem")
        with (
            socket.create_connection(place, timeout=20) as wire,
            context.wrap_socket(wire, server_hostname="localhost") as safe,
        ):
            safe.sendall(request)
            assert b"strict-transport-security" in safe.recv(65536)
        with socket.create_connection(place, timeout=20) as bare:
            bare.sendall(request)
            assert not bare.recv(65536).startswith(b"HTTP/1.1 200")


def test_who_comes_past_the_proxy_is_sent_away() -> None:
    listening = serve.Listening(
        host="0.0.0.0", allow_hosts=("data.example.org",), behind_proxy=("10.0.0.0/24", "fd00::7")
    )
    setting = listening.setting(Limits())
    scope = {"headers": [(b"host", b"data.example.org")], "client": ("10.0.0.7", 5)}
    check_caller(scope, setting)
    for near in ("fd00::7", "127.0.0.1", "::1", "::ffff:10.0.0.7", "::ffff:127.0.0.1"):
        check_caller({**scope, "client": (near, 5)}, setting)
    for far in (("10.0.1.7", 5), ("::ffff:10.0.1.7", 5), ("fd00::8", 5), None):
        with pytest.raises(RequestError) as refusal:
            check_caller({**scope, "client": far}, setting)
        assert refusal.value.code == "host_unknown"
