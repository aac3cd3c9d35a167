"""The slide's grid at four epsilons, and a histogram of a million cells from rows to release."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from tests.fixtures.counts import (
    SLIDE_AVERAGES,
    SLIDE_LARGEST,
    largest_at,
    mean_and_deviation,
    slide_grid,
    slide_request,
)

from sfumato.methods.publish.histogram import prepare
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray


def rows() -> list[dict[str, object]]:
    """Average and largest error of the grid, raw and without negative counts; then the time."""
    found = []
    for epsilon in SLIDE_AVERAGES:
        raw, kept = _errors(epsilon), _errors(epsilon, "nonnegative")
        mean, deviation = mean_and_deviation(float(epsilon))
        lowest, highest = (largest_at(share, float(epsilon)) for share in (0.001, 0.999))
        wanted = f"{mean - 4 * deviation:,.5g} to {mean + 4 * deviation:,.5g}"
        what = f"64,909 cells, epsilon {epsilon}"
        found += [
            _row(f"{what}, raw: average error", raw.mean(), SLIDE_AVERAGES[epsilon], wanted),
            _row(
                f"{what}, raw: largest",
                raw.max(),
                SLIDE_LARGEST[epsilon],
                f"{lowest:,} to {highest:,}",
            ),
            _row(
                f"{what}, nonnegative: average error",
                kept.mean(),
                SLIDE_AVERAGES[epsilon],
                f"below {SLIDE_AVERAGES[epsilon]:,}",
            ),
            _row(f"{what}, nonnegative: largest", kept.max(), SLIDE_LARGEST[epsilon], "printed"),
        ]
    name = "publish: histogram of 1,000,000 cells, end to end"
    wall, processor = _million()
    return [
        *found,
        {"name": name, "unit": "s", "value": wall, "wanted": "under 1"},
        {"name": name, "unit": "s of CPU", "value": processor, "wanted": "under 1"},
    ]


def _row(name: str, ours: float, slide: float, wanted: str) -> dict[str, object]:
    return {
        "name": f"publish: {name}",
        "unit": "rows",
        "value": float(ours),
        "peer": "the slide",
        "peer_value": slide,
        "wanted": wanted,
    }


def _errors(epsilon: str, *steps: str) -> NDArray[np.float64]:
    truth = slide_grid()
    released = prepare(slide_request(epsilon, *steps)).release(truth, SystemEntropy())
    counts: NDArray[np.float64] = np.asarray(released["histogram"]["count"], dtype=np.float64)
    return np.abs(counts - truth.dense().ravel())


def _million() -> tuple[float, float]:
    """From a table of 200,000 rows to the stored release, the best of three: wall and CPU."""
    import pyarrow as pa

    import sfumato as sf

    places = np.arange(200_000)
    table = pa.table({"row": places % 997, "column": places * 31 % 1000})
    columns = tuple(
        sf.Column(name, sf.Kind.INTEGER, sf.Role.OTHER, sf.Bounds(0, 999), nullable=False)
        for name in ("row", "column")
    )
    private = sf.protect(sf.read(table, sf.Schema("million", columns)), epsilon=9)
    wall, processor = [], []
    for epsilon in (1, 2, 3):
        started, used = time.perf_counter(), time.process_time()
        private.publish("histogram", columns=["row", "column"], epsilon=epsilon)
        wall.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
    return min(wall), min(processor)
