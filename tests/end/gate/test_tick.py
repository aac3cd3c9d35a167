"""Answers on a tick: how long one takes does not tell whose rows it is about."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from scipy.stats import ks_2samp
from tests.end.gate.people_served import ROWS, people_vault
from tests.fixtures.statistics import FALSE_ALARM

from sfumato.testing.servers import Client, served
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from pathlib import Path

MANY = ("m,41,gout",) * 1_500_000
"""One side has what makes work in every question that it fits, so that the test has power."""
TICK = 0.05


def client(stack: ExitStack, home: Path, rows: tuple[str, ...], tick: float) -> Client:
    """The owner of a vault of people, at its server."""
    with people_vault(home, rows) as made:
        folder = made.config.folder
    written = (folder / "vault.toml").read_text()
    said = f"tick_milliseconds = {round(tick * 1000)}"
    (folder / "vault.toml").write_text(written.replace("tick_milliseconds = 0", said))
    vault = stack.enter_context(open_vault(folder))
    server = stack.enter_context(served(vault))
    return Client(server.url, vault.tokens.new("owner", operator="Ann"))


def latencies(tmp_path: Path, questions: int, tick: float) -> list[list[float]]:
    """How long answers take on two tables, of which one has many rows more, asked in turn."""
    with ExitStack() as stack:
        sides = [
            client(stack, tmp_path / name, rows, tick)
            for name, rows in (("one", ROWS), ("two", (*ROWS, *MANY)))
        ]
        found: list[list[float]] = [[], []]
        for number in range(questions):
            sql = f"SELECT COUNT(*) FROM people WHERE age > 40 AND age < {42 + number % 50}"
            body = {"sql": sql, "epsilon": f"0.{number + 1:09d}"}
            for side, times in zip(sides, found, strict=True):
                begun = time.monotonic()
                assert side.ask("POST", "/v1/query", body).status == 200
                times.append(time.monotonic() - begun)
        return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_tick_hides_how_long_an_answer_took(tmp_path: Path) -> None:
    one, two = latencies(tmp_path, 1000, TICK)
    assert ks_2samp(one, two).pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_a_tick_the_same_test_tells_them_apart(tmp_path: Path) -> None:
    one, two = latencies(tmp_path, 1000, 0)
    assert ks_2samp(one, two).pvalue < FALSE_ALARM
