"""A server that is killed in the middle of a job: the next one brings it to its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.end.gate.people_served import people_vault

from sfumato.testing.servers import Client, served
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Callable

SERVER = Path(__file__).with_name("stalling_server.py")
HISTOGRAM = {"dataset": "people", "kind": "histogram", "columns": ["sex"], "epsilon": "0.5"}


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_job_outlives_its_server_and_is_paid_for_once(tmp_path: Path) -> None:
    with people_vault(tmp_path) as vault:
        token = vault.tokens.new("alice", operator="Ann")
    command = [sys.executable, str(SERVER), str(tmp_path / "clinic")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        try:
            url = first.stdout.readline().strip()
            until(lambda: _answers(url))
            job = Client(url, token).ask("POST", "/v1/publish", HISTOGRAM).json["job"]
            until((tmp_path / "begun").exists)
            told = Client(url, token).ask("GET", f"/v1/jobs/{job}").json
            assert (told["state"], told["progress"]["stage"]) == ("running", "answering")
        finally:
            first.send_signal(signal.SIGKILL)
    with open_vault(tmp_path / "clinic") as vault, served(vault) as second:
        client = Client(second.url, token)
        until(lambda: client.ask("GET", f"/v1/jobs/{job}").json["state"] == "done")
        assert client.ask("GET", f"/v1/releases/{job}/release.csv").status == 200
        [account] = client.ask("GET", "/v1/ledger").json["accounts"]
        assert account["remaining"]["epsilon"] == 5.5
        assert vault.verify()["entries"] > 0


def _answers(url: str) -> bool:
    try:
        return Client(url).ask("GET", "/v1/jobs").status == 401
    except OSError:
        return False
