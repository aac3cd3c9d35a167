"""A server of several processes: one link, one ledger, and no death that others notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.end.gate.people_served import COUNT, people_vault

from sfumato.testing.servers import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVE = [sys.executable, "-c", "from sfumato.cli import main; main()", "serve", "--json"]


def children(parent: int) -> set[int]:
    """The processes that one has begun."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii")
    return {int(one) for one in listed.split()}


@contextmanager
def serving(vault: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Two processes before a vault, and what they told when they were ready."""
    words = [*SERVE, "--port", "0", "--processes", "2", "--vault", str(vault)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server, json.loads(server.stdout.readline())
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


def test_processes_share_a_link_and_a_budget_and_are_replaced(tmp_path: Path) -> None:
    with people_vault(tmp_path) as vault:
        folder = vault.config.folder
    with serving(folder) as (server, told), ThreadPoolExecutor(8) as threads:
        ready = time.monotonic()
        link = told["owner_link"].removeprefix(told["url"])
        nobody = Client(told["url"], headers={"Accept": "application/json"})
        replies = list(threads.map(lambda _: nobody.ask("POST", link), range(16)))
        (token,) = [one.json["token"] for one in replies if one.status == 200]
        assert {one.status for one in replies} == {200, 404}
        owner = Client(told["url"], token)
        body = {"sql": COUNT, "epsilon": 1}
        asked = threads.map(
            lambda key: owner.ask("POST", "/v1/query", body, {"Idempotency-Key": f"k{key}"}),
            range(16),
        )
        answers = [one.json for one in asked]
        assert sum(one["cost"]["charged"] for one in answers) == 1  # the others had it from store
        first = children(server.pid)
        assert len(first) == 2
        time.sleep(max(0.0, ready + 1.1 - time.monotonic()))  # one that dies at once ends them all
        os.kill(min(first), signal.SIGKILL)
        until = time.monotonic() + 30
        while (now := children(server.pid)) == first or len(now) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert all(owner.ask("GET", "/v1/datasets").status == 200 for _ in range(8))
    assert server.returncode == 0


def test_processes_end_in_order_when_who_began_them_is_killed(tmp_path: Path) -> None:
    with people_vault(tmp_path) as vault:
        folder = vault.config.folder
    words = [*SERVE, "--port", "0", "--processes", "2", "--vault", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        left = children(server.pid)
        assert len(left) == 2
        server.kill()
        server.wait()
        try:
            until = time.monotonic() + 15
            while any(map(is_running, left)):
                assert time.monotonic() < until, "they go on without who began them"
                time.sleep(0.05)
        finally:
            for one in filter(is_running, left):
                os.kill(one, signal.SIGKILL)
    with pytest.raises(OSError, match="refused"):
        Client(told["url"]).ask("GET", "/v1/health")


def is_running(process: int) -> bool:
    """Whether a process is there and no mere entry that nobody has read."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return False
