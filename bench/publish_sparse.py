"""Sparse releases of huge domains: seconds and memory."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows
from sfumato.methods.publish.request import Request
from sfumato.methods.publish.sparse import METHODS, prepare
from sfumato.privacy.accounting.price import price
from sfumato.privacy.noise.entropy import SystemEntropy

USED = 100_000


def rows() -> list[dict[str, object]]:
    """Each method over 2^40 and 2^60 cells, of which 100,000 are in use."""
    found = []
    for bits in (40, 60):
        for method in METHODS:
            seconds, mebibytes, released = _release(bits // 2, method)
            found += [
                {
                    "name": f"publish: sparse by {method}, 2^{bits} cells, {released:,} released",
                    "unit": "s",
                    "value": seconds,
                    "wanted": "under 2" if bits == 40 else "as for 2^40",
                },
                {
                    "name": f"publish: sparse by {method}, 2^{bits} cells, peak of memory",
                    "unit": "MiB",
                    "value": mebibytes,
                    "wanted": "under 1024" if bits == 40 else "as for 2^40",
                },
            ]
    return found


def _release(side_bits: int, method: str) -> tuple[float, float, int]:
    """The best wall time of three, the peak of memory of one more, and the cells released."""
    side = 1 << side_bits
    axes = tuple(
        Grid(name, Kind.INTEGER, Bounds(0, side - 1, 1), nullable=False) for name in ("x", "y")
    )
    # Scattered in both directions; x rises, so the order is that of the cells.
    x = np.arange(USED, dtype=np.int64) * (side // USED)
    y = np.arange(USED, dtype=np.int64) * 7919 % side
    counts = Frequencies(axes, (x, y), 1 + 500_000 // (1 + np.arange(USED)))
    asked = Request(dataset="d", axes=axes, unit=Rows(), price=price(epsilon="0.1"))
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        prepare(asked, method=method, size=10_000).release(counts, SystemEntropy())
        best = min(best, time.perf_counter() - started)
    tracemalloc.start()
    table = prepare(asked, method=method, size=10_000).release(counts, SystemEntropy())["sparse"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return best, (peak + table.nbytes) / 2**20, len(table)
