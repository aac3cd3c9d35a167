"""What every peer's synthesis shares: a coded table in, a coded table out, and what it took.

These scripts run in environments of their own, where nothing of ours is installed.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable

DELTA = 1e-9


def report(make: Callable[[pd.DataFrame, dict[str, int], str, float], pd.DataFrame]) -> None:
    """Synthesize the table that is named, write the result and print one line of JSON."""
    table, domain, method, epsilon, out = sys.argv[1:]
    frame = pd.read_csv(table)
    sizes = json.loads(Path(domain).read_text(encoding="utf-8"))
    before, started = _seconds(), time.perf_counter()
    made = make(frame, sizes, method, float(epsilon))
    found = {"wall": time.perf_counter() - started, "cpu": _seconds() - before, "peak": _peak()}
    made[list(frame.columns)].to_csv(out, index=False)
    print(json.dumps({"synthetic": found}), flush=True)


def _usages() -> list[resource.struct_rusage]:
    return [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def _seconds() -> float:
    return sum(one.ru_utime + one.ru_stime for one in _usages())


def _peak() -> float:
    """Megabytes, of the largest process."""
    return max(one.ru_maxrss for one in _usages()) / 1000
