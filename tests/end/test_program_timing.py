"""How long programs take: no time tells of Bob, and a million rows have half a minute.

Both are slow, and both run the real sandbox.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp
from tests.end.test_programs import ASKED, BOB, has_chamber, private, written

import sfumato as sf
from sfumato.methods.programs import request, sandbox
from sfumato.methods.programs.sandbox import base, launcher, workers
from sfumato.methods.programs.templates import template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sfumato.methods.programs.sandbox.workers import ForkingChamber

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_chamber(), reason="no sandbox holds on this machine"),
]
LOOP = f"def f(rows):\n    while {BOB} in rows['who'].to_pylist():\n        pass\n    return 1\n"
RUNS, CONTROLS, TOLD_APART = 500, 60, 1e-6


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkingChamber]:
    """A chamber whose two workers wait from one job to the next, and shorter ticks."""
    room: Any = sandbox.chamber()
    with ExitStack() as stack:
        kept: list[Any] = []
        team = type(room).team

        def waiting(self: Any, setup: int, size: int, _stack: ExitStack) -> list[Any]:
            if not kept:
                kept.extend(team(self, setup, size, stack))
            return kept

        monkeypatch.setattr(type(room), "team", waiting)
        monkeypatch.setattr(launcher.Worker, "forget", lambda _self: None)
        monkeypatch.setattr(request, "chamber", lambda _choice: room)
        monkeypatch.setattr(request, "TICK_SECONDS", 0.1)
        # Rehearsals saw nobody, and would take most of the time of this test.
        monkeypatch.setattr(request.ProgramRun, "rehearse", lambda _self: ())
        for home in (base, workers):
            monkeypatch.setattr(home, "SPARE_SECONDS", 0.2)
        yield room


def times(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    runs: int,
    seconds: float,
) -> tuple[list[float], list[float]]:
    """How long answers took with Bob and without, in turns, so that the machine is the same."""
    path = written(tmp_path, LOOP)
    asked = [private(tmp_path, bob=bob) for bob in (True, False)]
    found: tuple[list[float], list[float]] = ([], [])
    records = _watched(monkeypatch)
    for number in range(runs):
        for took, one in zip(found, asked, strict=True):
            begun = time.monotonic()
            # Each a question of its own: what was asked before comes from store, at once.
            cost = f"0.00{number + 1000}"
            one.run(path, **{**ASKED, "blocks": 2, "seconds": seconds}, epsilon=cost)
            took.append(time.monotonic() - begun)
    failed = np.isnan(np.concatenate(records)).reshape(runs, 2, 2).sum(axis=(0, 2)) / runs
    record_property("failed", f"{failed[0]} of 2 blocks with Bob, {failed[1]} without")
    record_property("p", ks_2samp(*found).pvalue)
    assert failed == pytest.approx([1, 0], abs=0.1)  # with Bob one of two blocks, else none
    return found


def _watched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What all blocks will have given."""
    seen: list[Any] = []
    outputs = request.ProgramRun._outputs

    def watched(self: request.ProgramRun, *given: Any) -> Any:
        seen.append(outputs(self, *given))
        return seen[-1]

    monkeypatch.setattr(request.ProgramRun, "_outputs", watched)
    return seen


@pytest.mark.usefixtures("ready")
def test_times_do_not_tell_of_bob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """GUPT's timing attack: who meets Bob loops until the quota ends it."""
    with_bob, without = times(tmp_path, monkeypatch, record_property, RUNS, 0.1)
    found = ks_2samp(with_bob, without)
    assert found.pvalue > TOLD_APART


def test_times_would_tell_without_the_tick(
    tmp_path: Path,
    ready: ForkingChamber,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """The control: with answers as soon as they are there Bob is seen, so the test above can."""
    run = type(ready).run
    monkeypatch.setattr(type(ready), "run", lambda self, *asked: run(self, *asked, on_time=False))
    monkeypatch.setattr(request, "_wait_until", lambda _moment: None)
    with_bob, without = times(tmp_path, monkeypatch, record_property, CONTROLS, 0.3)
    found = ks_2samp(with_bob, without)
    assert found.pvalue < TOLD_APART


def test_a_million_rows_in_half_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """A regression of 100 blocks, quotas included; no block is late, and the answer is right."""
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 10, (1_000_000, 2))
    y = np.clip(1 + x @ [2.0, -1.0] + rng.normal(0, 1, 1_000_000), -20, 30)
    path = tmp_path / "r.toml"
    path.write_text(
        "table = 'r'\nunit = 'row'\n"
        + "".join(
            f"[columns.{name}]\nkind = 'real'\nbounds = [{low}, {high}]\n"
            for name, low, high in (("a", 0, 10), ("b", 0, 10), ("y", -20, 30))
        )
    )
    asked = sf.protect(
        sf.read(pa.table({"a": x[:, 0], "b": x[:, 1], "y": y}), schema=path), epsilon=9
    )
    seen = _watched(monkeypatch)
    begun, spent = time.monotonic(), time.process_time()
    answer = asked.run(
        template("regression"),
        function="regression",
        output=[(-5, 5)] * 3,
        epsilon=8,
        blocks=100,
        seconds=0.1,
    )
    took, cpu = time.monotonic() - begun, time.process_time() - spent
    late = int(np.isnan(seen[0]).any(axis=1).sum())
    record_property("figures", f"{took:.1f} s, {cpu:.1f} s of this process, {late} blocks late")
    assert late == 0
    # Three outputs share the price; 0.04 is the scale of their noise.
    assert answer.values == pytest.approx([1, 2, -1], abs=0.7)
    assert took < 30
