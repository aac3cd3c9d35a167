"""w-event streams on real series: how far a period's counts are off, beside two plain ways.

Uniform gives every period the same part of a window's epsilon and tells all anew; sample tells one
period of each window with all of it, and repeats that. Units: one row, in any window of periods.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv as csv

from sfumato.data.schema.unit import Rows
from sfumato.exact_numbers import exact
from sfumato.methods.stream.w_event import PLANS, Presence, WEvent
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.noise.entropy import SystemEntropy

SHARED = Path(__file__).parents[2] / "shared" / "data" / "series"
SERIES = {"bike_hourly": 24, "traffic_hourly": 24, "ili_weekly": 13}
"""Each with the periods of its window: a day, a day, a quarter of a year."""
EPSILONS = ("0.01", "0.1", "1")
MOST = 4000

Counts = np.ndarray[Any, np.dtype[np.int64]]


@cache
def series(name: str) -> Counts:
    """The first periods of a series, with a column for each cell."""
    table = csv.read_csv(SHARED / f"{name}.csv.gz")
    if name == "bike_hourly":
        return np.stack([np.asarray(table[one]) for one in ("casual", "registered")], axis=1)[:MOST]
    if name == "traffic_hourly":  # an hour stands there once for each of its kinds of weather
        hours = table.group_by("date_time").aggregate([("traffic_volume", "max")])
        ordered = hours.sort_by("date_time")["traffic_volume_max"]
        return np.asarray(ordered).reshape(-1, 1)[:MOST]
    regions = table.filter(pc.starts_with(table["region"], "HHS"))
    weeks = np.asarray(regions["year"]) * 100 + np.asarray(regions["week"])
    _, at = np.unique(weeks, return_inverse=True)
    _, cell = np.unique(np.asarray(regions["region"]).astype(str), return_inverse=True)
    counts = np.zeros((at.max() + 1, cell.max() + 1), dtype=np.int64)
    counts[at, cell] = np.asarray(regions["ili_total"])
    return counts[:MOST]


def told(way: str, counts: Counts, window: int, epsilon: str, entropy: Any = None) -> Any:
    """What every period tells, and in how many of them it was told anew."""
    entropy = entropy or SystemEntropy()
    level = exact(epsilon, "epsilon")
    if way == "uniform":
        return Geometric(epsilon=level / window).steps(counts, entropy), len(counts)
    if way == "sample":
        picked = Geometric(epsilon=level).steps(counts[::window], entropy)
        return np.repeat(picked, window, axis=0)[: len(counts)], len(picked)
    made = WEvent(
        plan=PLANS[way](window), epsilon=level, cells=counts.shape[1], unit=Rows(),
        presence=Presence(periods=window, in_a_row=True),
    )  # fmt: skip
    state, found, fresh = made.begin(entropy), [], 0
    for period in counts:
        state, answer = made.step(state, period, entropy)
        found.append(answer.values)
        fresh += not answer.note
    return np.stack(found), fresh


def mean_error(way: str, name: str, epsilon: str) -> tuple[float, float]:
    """The mean absolute error of a count, in percent of the mean count, and how many are anew."""
    counts = series(name)
    found, fresh = told(way, counts, SERIES[name], epsilon)
    off = np.abs(found.astype(np.float64) - counts).mean()
    return 100 * float(off) / float(counts.mean()), 100 * fresh / len(counts)


def rows() -> list[dict[str, object]]:
    """Each plan beside the better one of the two plain ways."""
    found: list[dict[str, object]] = []
    for name in SERIES if SHARED.exists() else ():
        for epsilon in EPSILONS:
            plain = {way: mean_error(way, name, epsilon)[0] for way in ("uniform", "sample")}
            for way in PLANS:
                value, fresh = mean_error(way, name, epsilon)
                for peer, theirs in plain.items():
                    found.append(
                        {
                            "name": f"w-event: {name}, epsilon {epsilon}, {way}, "
                            f"{fresh:.0f} % told anew",
                            "unit": "% off",
                            "value": value,
                            "peer": peer,
                            "peer_value": theirs,
                        }
                    )
    return found
