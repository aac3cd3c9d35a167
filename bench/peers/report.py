"""What every peer's script shares: the table, its bounds, and one line of JSON for each question.

These scripts run in environments of their own, where nothing of ours is installed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAME = sys.argv[1]
CITIES = [f"city{number:02d}" for number in range(50)]
SPEND = (0.0, 1_000.0)
TIMES, ENOUGH = 3, 20.0
"""Ask three times, unless that takes more than so many seconds."""


def report(questions: Mapping[str, Callable[[], object] | str]) -> None:
    """Ask each question and print its best time, or why it cannot be asked."""
    for name, ask in questions.items():
        found = ask if isinstance(ask, str) else _best(ask)
        print(json.dumps({"question": name, "found": found}), flush=True)


def _best(ask: Callable[[], object]) -> float | str:
    times: list[float] = []
    while len(times) < TIMES and sum(times) < ENOUGH:
        started = time.perf_counter()
        try:
            ask()
        except Exception as error:  # noqa: BLE001  # whatever a peer raises is its answer
            return f"failed: {type(error).__name__}"
        times.append(time.perf_counter() - started)
    return min(times)
