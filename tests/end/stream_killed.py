"""Works on a vault's feeds in forked children that kill themselves (-9) at each point of each step.

Arguments: the vault, a log, how many steps, and "twin" for a tape that draws anew. Each child logs
what it came to before it dies; the last one works to the end.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.vault.feeds import period_answers
from sfumato.vault.feeds.step_store import StepStore

POINTS = ("reserved", "drawn", "settled", "told")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def armed(point: str, log: Path) -> None:
    """Have this process die when it comes to a point of the first step that it does."""
    reserve, settle, amend = StepStore.reserve, StepStore.settle, Ledger.amend

    def reserving(self: StepStore, *said: Any, **more: Any) -> Any:
        found = reserve(self, *said, **more)
        if point == "reserved":
            log.with_suffix(".modules").write_text("\n".join(sys.modules))
            die()
        return found

    def settling(self: StepStore, stream: str, reached: Any) -> Any:
        with log.open("a") as file:
            file.write(json.dumps([reached.step, reached.figures["values"]]) + "\n")
        if point == "drawn":
            die()
        return settle(self, stream, reached)

    def amending(self: Ledger, decide: Any, *, operator: str) -> Any:
        if operator == period_answers.BY and point == "settled":
            die()
        found = amend(self, decide, operator=operator)
        if operator == period_answers.BY and point == "told":
            die()
        return found

    StepStore.reserve = reserving  # type: ignore[method-assign]
    StepStore.settle, Ledger.amend = settling, amending  # type: ignore[method-assign]


def worked(vault: Path, point: str, log: Path) -> int:
    """Fork a child that works, armed; how it ended."""
    child = os.fork()
    if child == 0:
        armed(point, log)
        with sf.open(vault) as opened:
            opened.feed_registry.work()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def main() -> None:
    vault, log, steps = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    if sys.argv[4:] == ["twin"]:
        StepStore.tape = lambda *_: SystemEntropy()  # type: ignore[assignment,method-assign]
    killed = [worked(vault, POINTS[0], log)]
    for name in log.with_suffix(".modules").read_text().split():
        # What all children would load one by one.
        if name.partition(".")[0] in {"duckdb", "pyarrow", "sfumato", "sqlalchemy", "sqlglot"}:
            importlib.import_module(name)
    killed += [worked(vault, one, log) for one in [*POINTS[1:], *POINTS * (steps - 1)]]
    assert set(killed) == {signal.SIGKILL}, killed
    # What is left, if anything, by two at once.
    both = [os.fork() for _ in range(1)]
    with sf.open(vault) as opened:
        opened.feed_registry.work()
    if both == [0]:
        os._exit(0)
    assert os.waitpid(both[0], 0)[1] == 0


if __name__ == "__main__":
    main()
