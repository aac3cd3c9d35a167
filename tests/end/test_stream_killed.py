"""A stream that is killed (-9) four times at each step: one noise and one figure a step."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf

SCRIPT = Path(__file__).with_name("stream_killed.py")
SCHEMA = """\
table = "visits"
unit = {{ column = "patient", max_rows = 2 }}
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.day]
kind = "date"
bounds = [2024-01-01, {last}]
nullable = false
"""


def tried(tmp_path: Path, days: int, kills: int, *more: str, **asked: Any) -> bool:
    """Whether all attempts at a step came to one figure, which was told; the rest is asserted."""
    last = date(2024, 1, 1) + timedelta(days=days - 1)
    # Three rows of each person, of which two count.
    rows = [
        f"{place // 3},{date(2024, 1, 1) + timedelta(days=place % days)}"
        for place in range(10 * days)
    ]
    (tmp_path / "visits.csv").write_text("\n".join(["patient,day", *rows]) + "\n")
    (tmp_path / "visits.toml").write_text(SCHEMA.format(last=last))
    clinic, log = tmp_path / "clinic", tmp_path / "log"
    with sf.init(clinic) as vault:
        vault.add("visits", tmp_path / "visits.csv", tmp_path / "visits.toml", epsilon=4)
        told = {"column": "day", "every": "day", "epsilon": "0.01", "operator": "Ann", **asked}
        vault.feed_registry.add("days", None, family="continual", dataset="visits", **told)
    command = [sys.executable, str(SCRIPT), str(clinic), str(log), str(kills), *more]
    subprocess.run(command, check=True, timeout=1200)
    attempts: dict[int, list[Any]] = defaultdict(list)
    for line in log.read_text().splitlines():
        step, values = json.loads(line)
        attempts[step].append(values)
    with sf.open(clinic) as vault:
        feed = vault.feed_registry.get("days")
        state = vault.feed_registry.state(feed)
        assert (state["answered"], state["lost"], state["trouble"]) == (days, [], None)
        figures = [one.table.column("rows").to_pylist() for one in vault.feed_registry.read("days")]
        entries = [json.loads(one.body) for one in vault.ledger.entries()]
        [account] = vault.accounts()
        assert vault.verify()["entries"] > 0
    with closing(sqlite3.connect(clinic / "streams.sqlite")) as store:
        used = store.execute(
            "SELECT used, COUNT(*) FROM sfumato_stream_people GROUP BY used"
        ).fetchall()
    people = Counter(place // 3 for place in range(10 * days))
    assert dict(used) == Counter(min(2, many) for many in people.values()), (
        "used up once, all of it"
    )
    charges = [one["request"] for one in entries if one["kind"] == "charge"]
    assert charges == ["feed/days"], "charged once"
    assert account["remaining"]["epsilon"] == pytest.approx(3.99)
    names = Counter(one["name"] for one in entries if one.get("topic") == "feed-step")
    assert set(names.values()) == {1}, "told once"
    assert len(names) == days
    assert all(len(attempts[step]) == 2 for step in range(1, kills + 1)), "it was not killed"
    return all(values == figures[step - 1] for step, each in attempts.items() for values in each)


def test_a_step_has_one_noise_however_often_it_is_killed(tmp_path: Path) -> None:
    assert tried(tmp_path, 14, 12, method="honaker")


@pytest.mark.slow
def test_a_tape_that_draws_anew_is_caught(tmp_path: Path) -> None:
    assert not tried(tmp_path, 3, 2, "twin", method="tree")


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_two_hundred_steps_that_are_killed(tmp_path: Path) -> None:
    assert tried(tmp_path, 202, 200, method="honaker")
