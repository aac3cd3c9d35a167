"""Data-dependent methods and transforms: MWEM against its rounds, errors of the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.fixtures.counts import request_for, whole_numbers

from sfumato.methods.publish import continual, dawa, fourier, histogram, mwem, quantiles
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

CELLS, ROWS, RUNS = 256, 10_000, 8
ROUNDS = (1, 2, 4, 8, 16, 32, 64)


def rows() -> list[dict[str, object]]:
    """The curve at two epsilons; the last table and the average; then the other methods."""
    return [
        *_curve(epsilon=1),
        *_curve(epsilon=0.1),
        *_iterates(),
        *_buckets(),
        *_running(),
        _smooth(),
        _ranks(),
        *_speed(),
    ]


def _two_hills() -> NDArray[np.int64]:
    """Rows on two hills over 256 cells, always the same."""
    cells = np.arange(CELLS)
    chances = np.exp(-(((cells - 80) / 20) ** 2)) + 0.3 * np.exp(-(((cells - 180) / 8) ** 2))
    return np.random.default_rng(1).multinomial(ROWS, chances / chances.sum())


def _largest(**options: object) -> float:
    """The largest error of a dyadic range, averaged over runs."""
    epsilon = options.pop("epsilon")
    made = mwem.prepare(request_for(whole_numbers(CELLS), epsilon=epsilon), **options)
    truth = np.broadcast_to(_two_hills(), (RUNS, CELLS))
    learnt = made.learn(truth, SystemEntropy())
    errors = made.queries.answers(learnt) - made.queries.answers(truth[:1])
    return float(np.abs(errors).max(axis=1).mean())


def _curve(*, epsilon: float) -> list[dict[str, object]]:
    return [
        {
            "name": f"mwem: {ROWS:,} rows, {CELLS} cells, epsilon {epsilon}, {rounds} rounds",
            "unit": "rows, worst range",
            "value": _largest(epsilon=epsilon, iterations=rounds),
            "peer": "chosen by sparse vector",
            "peer_value": _largest(epsilon=epsilon, iterations=rounds, selection="sparse-vector"),
            "wanted": "falls, then rises",
        }
        for rounds in ROUNDS
    ]


def _iterates() -> list[dict[str, object]]:
    return [
        {
            "name": f"mwem: last table, epsilon 1, {rounds} rounds",
            "unit": "rows, worst range",
            "value": _largest(epsilon=1, iterations=rounds),
            "peer": "average of tables",
            "peer_value": _largest(epsilon=1, iterations=rounds, iterate="average"),
        }
        for rounds in (8, 32)
    ]


def _buckets() -> list[dict[str, object]]:
    """Random ranges over counts that are even in stretches, and over counts that are not."""
    generator = np.random.default_rng(2)
    ends = np.sort(generator.integers(0, 1024, (500, 2)), axis=1)
    tables = {
        "even in 8 stretches": np.repeat([0, 50, 5, 200, 0, 0, 20, 1000], 128),
        "no two alike": generator.integers(0, 1000, 1024),
    }
    request = request_for(whole_numbers(1024), epsilon=0.1)
    plain = histogram.unbiased(request).ranges_variance(ends[:, None])
    return [
        {
            "name": f"dawa: 1,024 counts, {name}, epsilon 0.1, random ranges",
            "unit": "rows",
            "value": _range_error(dawa.prepare(request), counts, ends),
            "peer": "histogram",
            "peer_value": float(np.sqrt(plain.mean())),
        }
        for name, counts in tables.items()
    ]


def _range_error(made: dawa.Dawa, counts: NDArray[np.int64], ends: NDArray[Any]) -> float:
    cells = made.even(np.broadcast_to(counts, (RUNS, len(counts))), SystemEntropy())
    sums = np.pad((cells - counts).cumsum(axis=1), [(0, 0), (1, 0)])
    return float(np.sqrt(((sums[:, ends[:, 1] + 1] - sums[:, ends[:, 0]]) ** 2).mean()))


def _running() -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for cost in ({"rho": "1/2"}, {"epsilon": 1}):
        request = request_for(whole_numbers(4096), **cost)
        root, tree = (continual.prepare(request, method=name) for name in ("root", "tree"))
        found.append(
            {
                "name": "continual: 4,096 running counts by square root, "
                + request.price.sentence(),
                "unit": "rows, sd",
                "value": root.error["running"]["sd"],
                "peer": "binary tree",
                "peer_value": tree.error["running"]["sd"],
            }
        )
    return found


def _smooth() -> dict[str, object]:
    request = request_for(whole_numbers(365), epsilon=0.1)
    return {
        "name": "fourier: 365 days, 10 coefficients, epsilon 0.1, noise in a day",
        "unit": "rows, sd",
        "value": fourier.prepare_series(request).error["cell"]["sd"],
        "peer": "histogram",
        "peer_value": histogram.unbiased(request).error["cell"]["sd"],
    }


def _ranks() -> dict[str, object]:
    """Fifteen quantiles of one hill: four depths, against a share for each rank."""
    points = 1000
    heights = 200 * np.exp(-(((np.arange(points) - 400) / 200) ** 2))
    counts = heights.astype(np.int64)
    up_to = counts.cumsum()
    wanted = np.arange(1, 16) / 16
    request = request_for(whole_numbers(points), epsilon=0.1)
    together = quantiles.by_choices(request, ranks=wanted.tolist())
    alone = [
        quantiles.by_choices(request_for(whole_numbers(points), epsilon=0.1 / 15), ranks=[one])
        for one in wanted.tolist()
    ]

    def error(codes: NDArray[np.int64]) -> float:
        ranks = wanted * up_to[-1]
        below = up_to - counts
        off = np.maximum(0, np.maximum(below[codes] - ranks, ranks - up_to[codes]))
        return float(off.mean())

    places, entropy = np.arange(points), SystemEntropy()
    runs = range(RUNS)
    ours = [error(together.choose(places, counts, entropy)) for _ in runs]
    theirs = [
        error(np.array([one.choose(places, counts, entropy)[0] for one in alone])) for _ in runs
    ]
    return {
        "name": f"quantiles: 15 ranks of {int(up_to[-1]):,} rows, epsilon 0.1, by halves",
        "unit": "rows off, mean",
        "value": float(np.mean(ours)),
        "peer": "each with its own share",
        "peer_value": float(np.mean(theirs)),
    }


def _speed() -> list[dict[str, object]]:
    points = 1_000_000
    made = quantiles.by_choices(request_for(whole_numbers(points)), ranks="0.1,0.25,0.5,0.75,0.9")
    started = time.process_time()
    made.choose(np.arange(points), np.arange(points) % 3, SystemEntropy())
    five = time.process_time() - started
    table = mwem.prepare(request_for(whole_numbers(256, 256)))
    started = time.process_time()
    table.learn(np.ones((1, 256, 256), dtype=np.int64), SystemEntropy())
    return [
        {"name": "quantiles: 5 of a million points", "unit": "s CPU", "value": five},
        {
            "name": "mwem: 65,536 cells, 10 rounds, all dyadic rectangles",
            "unit": "s CPU",
            "value": time.process_time() - started,
        },
    ]
