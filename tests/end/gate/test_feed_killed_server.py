"""A feed of 200 periods whose server is killed 20 times: each answered once, charged once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.vault.vault import Vault

SCHEMA = """\
table = "visits"
[columns.day]
kind = "date"
bounds = [2024-01-01, 2024-07-18]
nullable = false
"""
SERVE = "from sfumato.cli import main; main()"
KILLS, MOST_BETWEEN, PATIENCE_SECONDS = 20, 5, 60


def answered(vault: Vault) -> int:
    found: int = vault.feed_registry.state(vault.feed_registry.get("days"))["answered"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("continual", [False, True])
def test_every_period_is_answered_once_and_charged_once(tmp_path: Path, continual: bool) -> None:
    days = [date(2024, 1, 1) + timedelta(days=place % 200) for place in range(2000)]
    (tmp_path / "visits.csv").write_text("\n".join(["day", *map(str, days)]) + "\n")
    (tmp_path / "visits.toml").write_text(SCHEMA)
    clinic = tmp_path / "clinic"
    told = {"family": "continual", "dataset": "visits"} if continual else {}
    with sf.init(clinic) as vault:
        vault.add("visits", tmp_path / "visits.csv", tmp_path / "visits.toml", epsilon=4)
        question = None if continual else "SELECT COUNT(*) AS n FROM visits"
        vault.feed_registry.add(
            "days", question, column="day", every="day", epsilon="0.01", operator="Ann", **told
        )
    command = [
        sys.executable,
        "-c",
        SERVE,
        "serve",
        "--vault",
        str(clinic),
        "--port",
        "0",
        "--json",
    ]
    chance = random.SystemRandom()
    with open_vault(clinic) as vault:
        for _ in range(KILLS):
            # By what was answered and not by a clock: a quick machine would be done too early.
            enough = answered(vault) + chance.randint(1, MOST_BETWEEN)
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout is not None
                try:
                    assert json.loads(server.stdout.readline())["url"]
                    end = time.monotonic() + PATIENCE_SECONDS
                    while answered(vault) < enough and time.monotonic() < end:
                        time.sleep(chance.uniform(0, 0.03))
                finally:
                    server.send_signal(signal.SIGKILL)
            assert answered(vault) >= enough, "the server answers no more"
        before = answered(vault)
        assert KILLS <= before < 200, f"{before} answered: it was not killed on the way"
        vault.feed_registry.work()
        state = vault.feed_registry.state(vault.feed_registry.get("days"))
        assert (state["answered"], state["lost"], state["trouble"]) == (200, [], None)
        assert len(vault.feed_registry.read("days")) == 200
        found = Counter(
            entry["request"]
            for entry in (json.loads(one.body) for one in vault.ledger.entries())
            if entry["kind"] == "charge"
        )
        assert len(found) == (1 if continual else 200)
        assert set(found.values()) == {1}
        [account] = vault.accounts()
        spent = 4 - account["remaining"]["epsilon"]
        assert spent == pytest.approx(0.01 if continual else 2)
        assert vault.verify()["entries"] > 0
