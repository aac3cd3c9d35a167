"""Range queries: expected errors of each method for one workload, and the time of planning and use.

The workload is that of the reference figures: 10,000 random ranges of 4,096 values, and as many
random rectangles of 256 x 256. Errors are mean squared, times epsilon squared, at epsilon 0.1.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows
from sfumato.methods.publish import auto, quadtree, wavelet
from sfumato.methods.publish import tree as kind
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.price import price
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.publish.auto import WorkloadAnswers
    from sfumato.methods.publish.strategy import StrategyMethod


def rows() -> list[dict[str, object]]:
    """Errors in one and two dimensions beside the published optima; then times."""
    line, plane = request((4096,)), request((256, 256))
    return [
        error("4,096 values, cells alone", flat(line)),
        error("4,096 values, halves, equal shares", kind.prepare(line, fanout=2, budget="uniform")),
        error("4,096 values, sixteenths, no root", sixteenths(line)),
        error("4,096 values, wavelet", wavelet.prepare(line)),
        error("4,096 values, auto", auto.prepare(line), "at most 263"),
        error("256 x 256, cells alone", flat(plane)),
        error("256 x 256, quadtree, equal shares", quadtree.of_cells(plane, budget="uniform")),
        error("256 x 256, quadtree, geometric", quadtree.of_cells(plane, budget="geometric")),
        error("256 x 256, quadtree, optimised", quadtree.of_cells(plane)),
        error("256 x 256, wavelet", wavelet.prepare(plane)),
        error("256 x 256, auto", auto.prepare(plane), "at most 3,320"),
        *growth(),
        timed("auto, planned for 10,000 rectangles of 256 x 256", plane, plan_only=True),
        timed(
            "quadtree of 1,024 x 1,024, released",
            request((1024, 1024), all_ranges=True),
            plan_only=False,
        ),
    ]


def growth() -> list[dict[str, object]]:
    """All ranges of ever more values: the wavelet's error grows with the cube of the logarithm."""
    found = []
    for power in (8, 16, 24):
        plan = wavelet.prepare(request((1 << power,), all_ranges=True))
        scaled = plan.workload_mse / 100 / power**3
        name = f"ranges: all of 2^{power} values, wavelet, by the cube of {power}"
        found.append({"name": name, "unit": "/ eps^2", "value": scaled, "wanted": "about the same"})
    return found


def flat(asked: Request) -> StrategyMethod:
    """Every cell by itself."""
    return kind.prepare(asked, fanout=4096, budget="uniform", root="no")


def sixteenths(asked: Request) -> StrategyMethod:
    """The best fan-out for equal shares, of a tree whose root is not counted."""
    return kind.prepare(asked, fanout=16, budget="uniform", root="no")


def request(shape: tuple[int, ...], *, all_ranges: bool = False) -> Request:
    """A request for the workload of the reference, or for all ranges."""
    axes = tuple(
        Grid(f"column_{place}", Kind.INTEGER, Bounds(0, size - 1), nullable=False)
        for place, size in enumerate(shape)
    )
    return Request(
        dataset="bench",
        axes=axes,
        unit=Rows(),
        price=price(epsilon="1/10"),
        boxes=None if all_ranges else workload(shape),
    )


def workload(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Ranges between two uniform values in every column."""
    generator = np.random.RandomState(12345)
    sides = [generator.randint(0, size, (10_000, 2)) for size in shape]
    return np.sort(np.stack(sides, axis=1), axis=2).astype(np.int64)


def error(name: str, plan: StrategyMethod | WorkloadAnswers, wanted: str = "") -> dict[str, object]:
    """One line of errors."""
    return {
        "name": f"ranges: {name}",
        "unit": "/ eps^2",
        "value": plan.workload_mse / 100,
        "wanted": wanted,
    }


def timed(name: str, asked: Request, *, plan_only: bool) -> dict[str, object]:
    """Seconds of CPU for one plan, or for one release from counts to table."""
    empty = tuple(np.zeros(0, dtype=np.int64) for _ in asked.axes)
    counts = Frequencies(asked.axes, empty, np.zeros(0, dtype=np.int64))
    plan = None if plan_only else quadtree.of_cells(asked)
    entropy = SystemEntropy()
    started = time.process_time()
    if plan is None:
        auto.prepare(asked)
    else:
        plan.release(counts, entropy)
    return {
        "name": f"ranges: {name}",
        "unit": "s",
        "value": time.process_time() - started,
        "wanted": "under 2",
    }
