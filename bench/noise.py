"""Nanoseconds of CPU for one draw of exact noise: ours, OpenDP's, and NumPy's insecure one."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.noise import discrete_gaussian, discrete_laplace

if TYPE_CHECKING:
    from collections.abc import Callable

DRAWS = 1_000_000
PEER_DRAWS = 20_000
SCALES = {"1": 1, "10": 10, "1000": 1000, "2^40": 2**40, "2^60": 2**60}


def rows() -> list[dict[str, object]]:
    """Each sampler at each scale; the peers in turn with ours, so that load hits both alike."""
    found = []
    for law, draw in (("laplace", discrete_laplace), ("gaussian", discrete_gaussian)):
        for name, scale in SCALES.items():
            ours = _nanoseconds(lambda draw=draw, scale=scale: draw(scale, DRAWS), DRAWS)  # type: ignore[misc]
            small = scale <= 1000
            theirs = _nanoseconds(_opendp(law, scale), PEER_DRAWS, tries=2) if small else None
            wanted = "at least 50 x, aim 100 x" if small else "within 5 x of scale 1000"
            found.append(_row(f"discrete {law}, scale {name}", ours, "OpenDP", theirs, wanted))
    generator = np.random.default_rng()
    insecure = _nanoseconds(lambda: generator.laplace(0.0, 10.0, DRAWS), DRAWS)
    ours = _nanoseconds(lambda: discrete_laplace(10, DRAWS), DRAWS)
    found.append(
        _row("discrete laplace, scale 10", ours, "NumPy (insecure)", insecure, "at least 0.25 x")
    )
    found.append(
        {
            "name": "noise: peak memory of a draw, scale 2^60",
            "unit": "bytes",
            "value": _peak_bytes(),
            "wanted": "under 100",
        }
    )
    return found


def _row(name: str, ours: float, peer: str, theirs: float | None, wanted: str) -> dict[str, object]:
    return {
        "name": f"noise: {name}",
        "unit": "ns a draw",
        "value": ours,
        "peer": peer if theirs is not None else None,
        "peer_value": theirs,
        "wanted": wanted,
    }


def _nanoseconds(work: Callable[[], object], draws: int, tries: int = 5) -> float:
    best = float("inf")
    for _ in range(tries):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best / draws * 1e9


def _opendp(law: str, scale: int) -> Callable[[], object]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if law == "laplace":
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=float(scale))
    else:
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=float(scale))
    zeros = [0] * PEER_DRAWS
    return lambda: measurement(zeros)


def _peak_bytes() -> float:
    tracemalloc.start()
    discrete_laplace(2**60, DRAWS)  # Python integers, the widest there are
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / DRAWS
