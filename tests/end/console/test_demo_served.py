"""`sfumato demo --serve`: a vault to walk through, whose passwords are good."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.end.console.visitors import Visitor

from sfumato.cli.main import run
from sfumato.demo.guided_tour import ACCOUNTS, VAULT, password
from sfumato.testing.servers import Client

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = "from sfumato.cli import main; main()"


def test_a_vault_that_is_there_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / VAULT).mkdir()
    assert run(["demo", "--serve", "--out", str(tmp_path), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "output_exists"
    assert [one.name for one in tmp_path.iterdir()] == [VAULT]
    assert len({password() for _ in range(100)}) == 100


@pytest.mark.slow
def test_everybody_signs_in_and_the_public_reads(tmp_path: Path) -> None:
    words = ["demo", "--serve", "--out", str(tmp_path), "--port", "0", "--json"]
    command = [sys.executable, "-c", COMMAND, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            told = json.loads(server.stdout.readline())
            assert told["passwords"].keys() == ACCOUNTS.keys()
            nobody = Visitor(Client(told["url"]))
            shelf = nobody.get("/console/open").body.decode()
            assert "/console/open/feeds/departments" in shelf
            assert "/console/open/releases/" in shelf
            assert nobody.client.ask("GET", "/v1/feeds/departments.atom").status == 200
            for name, secret in told["passwords"].items():
                visitor = Visitor(Client(told["url"]))
                assert visitor.send("/console/sign-in", name=name, password=secret).status == 303
                assert f"Welcome, {name}" in visitor.get("/console").body.decode()
        finally:
            server.send_signal(signal.SIGINT)
    assert server.returncode in {0, 130}
