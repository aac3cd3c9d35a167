"""A process that works on a vault's jobs and kills itself at some step of one."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import sfumato as sf
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.receipt import Receipt
from sfumato.vault.jobs.jobs import Jobs
from sfumato.vault.jobs.store import JobStore

STEPS: dict[str, tuple[type, str]] = {
    "taken up": (JobStore, "claim"),
    "charged": (Ledger, "reserve"),
    "drawn": (Receipt, "entropy"),
    "stored": (Ledger, "store"),
    "noted": (JobStore, "mark_done"),
}


def killed_after(owner: type, name: str) -> None:
    """Die just after something was done."""
    real = getattr(owner, name)

    def fatal(*given: Any, **named: Any) -> Any:
        real(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, fatal)


if __name__ == "__main__":
    killed_after(*STEPS[sys.argv[2]])
    with sf.open(sys.argv[1]) as opened:
        opened.__dict__["jobs"] = Jobs(opened, opened._store, lease_seconds=0.1)
        opened.jobs.work()
