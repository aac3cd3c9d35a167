"""Local collection: a million people, 1,024 values, epsilon 1; CPU seconds of client and collector.

The peers randomize one value at a time, so that their seconds grow with people alone; they are
given a part of them, and what that took is multiplied. SFUMATO_BENCH_ALL=1 gives them all.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench._peers import asked
from sfumato.methods import local

PEOPLE, SIZE, EPSILON = 1_000_000, 1024, 1
PEER_PEOPLE = PEOPLE if os.environ.get("SFUMATO_BENCH_ALL") else 10_000
PEER_SECONDS = 3600
WANTED = {"client": "at most 0.3", "olh server": "at most 2", "server": "at most 0.2"}
ORACLES: dict[str, dict[str, Any]] = {
    "k-ary": {},
    "oue": {},
    "sue": {},
    "olh": {},
    "subset": {},
    "hadamard": {},
    "apple-cms": {"rows": 128},
    "apple-hcms": {"rows": 128},
    "rappor": {},
}


def rows() -> list[dict[str, object]]:
    """Each oracle's client and collector, beside the quicker peer that has it."""
    values = np.random.default_rng(1).zipf(1.5, PEOPLE) % SIZE
    with TemporaryDirectory() as folder:
        path = Path(folder) / "values.npy"
        np.save(path, values[:PEER_PEOPLE])
        peers = asked("ldp", path, deadline=PEER_SECONDS)
    found = []
    for name, options in ORACLES.items():
        for side, seconds in _ours(name, options, values).items():
            found.append(_row(name, side, seconds, peers))
    return found


def _ours(name: str, options: dict[str, Any], values: Any) -> dict[str, float]:
    oracle = local.oracle(name, SIZE, epsilon=EPSILON, **options)
    oracle.estimate(oracle.sketch(oracle.randomize(values[:1000])))
    best = {"client": float("inf"), "server": float("inf")}
    for _ in range(3):
        began = time.process_time()
        reports = oracle.randomize(values)
        sent = time.process_time()
        oracle.estimate(oracle.sketch(reports))
        ended = time.process_time()
        best["client"] = min(best["client"], sent - began)
        best["server"] = min(best["server"], ended - sent)
    return best


def _row(name: str, side: str, seconds: float, peers: dict[str, Any]) -> dict[str, object]:
    theirs = {
        library: peers[f"{library} {name} {side}"] * PEOPLE / PEER_PEOPLE
        for library in ("pure-ldp", "multi-freq-ldpy")
        if isinstance(peers.get(f"{library} {name} {side}"), float)
    }
    peer = min(theirs, key=lambda one: theirs[one]) if theirs else None
    part = (
        "" if PEER_PEOPLE == PEOPLE else f", {PEER_PEOPLE:,} people, times {PEOPLE // PEER_PEOPLE}"
    )
    return {
        "name": f"local: {name}, {side}",
        "unit": "CPU s",
        "value": seconds,
        "peer": f"{peer}{part}" if peer else None,
        "peer_value": theirs[peer] if peer else None,
        "wanted": WANTED.get(f"{name} {side}", WANTED[side]),
    }
