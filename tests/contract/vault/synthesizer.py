"""A process that synthesizes and kills itself half-way, as a machine does that loses its power."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import Any

import sfumato as sf
from sfumato.methods.synth import request
from sfumato.methods.synth.workbench import Workbench


def killed_at(owner: Any, name: str, when: int) -> None:
    """Die when something has been done so many times, just after it."""
    real, times = getattr(owner, name), count(1)

    def fatal(*arguments: Any, **options: Any) -> Any:
        done = real(*arguments, **options)
        if next(times) == when:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, name, fatal)


STAGES = {
    "first table": (Workbench, "measure", 1),
    "late round": (Workbench, "measure", 8),
    "rows drawn": (request, "drawn", 1),
}

if __name__ == "__main__":
    killed_at(*STAGES[sys.argv[2]])
    with sf.open(sys.argv[1]) as opened:
        opened.synthesize("t", epsilon="1/2", method="aim")
