"""Many processes race for one budget; some of them are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sfumato.privacy.accounting.filters import Budget

RACER = Path(__file__).with_name("racer.py")
LIMIT = 10**9
TEAM_LIMIT = 300_000_000


def costs(worker: int, count: int) -> list[int]:
    """Between 1 and 2 % of the limit, the same in every run."""
    digests = [sha256(f"{worker}/{number}".encode()).digest() for number in range(count)]
    return [10_000_000 + int.from_bytes(digest[:4]) % 10_000_000 for digest in digests]


Attempt = tuple[int, str, int]
"""Which team tried, what came of it, and what it would cost."""


def race(place: Any, workers: int, count: int, *, kill: int) -> list[Attempt]:
    """Let processes spend at the same time; return every attempt that was heard of."""
    ledger = place.open()
    ledger.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    for team in range(4):
        budget = Budget.for_epsilon_delta(epsilon="3/10")
        ledger.open_account(f"visits/{team}", budget=budget, parent="visits")
    racers = []
    for worker in range(workers):
        command = [sys.executable, str(RACER), place.kind, place.address, str(place.head)]
        # Those to be killed have so much to do that they never finish before.
        tries = 50 * count if worker < kill else count
        command += [str(worker), *map(str, costs(worker, tries))]
        racers.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers[:kill]:
        assert racer.stdout is not None
        racer.stdout.readline()
        os.kill(racer.pid, signal.SIGKILL)
    attempts = []
    for number, racer in enumerate(racers):
        out, _ = racer.communicate()
        assert racer.returncode == (-signal.SIGKILL if number < kill else 0)
        for line in out.splitlines():
            outcome, cost = line.split()
            attempts.append((number % 4, outcome, int(cost)))
    return attempts


def check(place: Any, attempts: list[Attempt], *, kill: int) -> None:
    ledger = place.open()
    ledger.verify()
    ((total,),) = ledger.spent("visits")
    teams = [ledger.spent(f"visits/{team}")[0][0] for team in range(4)]
    assert total == sum(teams) <= LIMIT
    assert max(teams) <= TEAM_LIMIT
    granted = sum(cost for _, outcome, cost in attempts if outcome == "granted")
    if kill == 0:
        assert total == granted
    else:  # the killed were charged for what they could not tell any more
        assert total >= granted
    # Balances only grow, so whoever was refused would be refused now.
    for team, outcome, cost in attempts:
        if outcome == "refused":
            assert total + cost > LIMIT or teams[team] + cost > TEAM_LIMIT
    assert any(outcome == "refused" for _, outcome, _ in attempts)


@pytest.mark.timeout(250)
def test_L3_processes_race(durable_place: Any) -> None:
    attempts = race(durable_place, 4, 25, kill=0)
    check(durable_place, attempts, kill=0)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kill", [0, 8])
def test_L3_thirty_two_processes_race(durable_place: Any, kill: int) -> None:
    attempts = race(durable_place, 32, 20, kill=kill)
    check(durable_place, attempts, kill=kill)
