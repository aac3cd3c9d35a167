"""w-event streams on real series, beside telling every period evenly and one of each window."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv as csv
import pytest

from sfumato.data.schema.unit import Rows
from sfumato.methods.stream.w_event import PLANS, Presence, WEvent
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

SHARED = Path(__file__).parents[3] / "shared/data/series"
PERIODS = 600

pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not here")

Counts = np.ndarray[Any, np.dtype[np.int64]]


def bikes() -> Counts:
    table = csv.read_csv(SHARED / "bike_hourly.csv.gz")
    return np.stack([np.asarray(table[one]) for one in ("casual", "registered")], axis=1)


def traffic() -> Counts:
    hours = csv.read_csv(SHARED / "traffic_hourly.csv.gz").group_by("date_time")
    volume = hours.aggregate([("traffic_volume", "max")]).sort_by("date_time")
    return np.asarray(volume["traffic_volume_max"]).reshape(-1, 1)


def illness() -> Counts:
    table = csv.read_csv(SHARED / "ili_weekly.csv.gz")
    table = table.filter(pc.starts_with(table["region"], "HHS"))
    weeks = np.asarray(table["year"]) * 100 + np.asarray(table["week"])
    at, cell = (
        np.unique(one, return_inverse=True)[1]
        for one in (weeks, np.asarray(table["region"]).astype(str))
    )
    counts = np.zeros((at.max() + 1, 10), dtype=np.int64)
    counts[at, cell] = np.asarray(table["ili_total"])
    return counts


def errors(counts: Counts, window: int, epsilon: Fraction) -> dict[str, float]:
    """The mean absolute error of a count, by each way."""
    entropy = SeededEntropy(11)
    told = {"uniform": Geometric(epsilon=epsilon / window).steps(counts, entropy)}
    sampled = Geometric(epsilon=epsilon).steps(counts[::window], entropy)
    told["sample"] = np.repeat(sampled, window, axis=0)[: len(counts)]
    for name, plan in PLANS.items():
        made = WEvent(plan=plan(window), epsilon=epsilon, cells=counts.shape[1], unit=Rows(),
                      presence=Presence(periods=window, in_a_row=True))  # fmt: skip
        state, found = made.begin(entropy), []
        for period in counts:
            state, answer = made.step(state, period, entropy)
            found.append(answer.values)
        told[name] = np.stack(found)
    return {way: float(np.abs(one - counts).mean()) for way, one in told.items()}


@pytest.mark.parametrize(
    ("series", "window", "steady", "noisy"),
    [(bikes, 24, "2", "0.02"), (traffic, 24, "0.5", "0.005"), (illness, 13, "0.5", "0.01")],
)
def test_both_plans_find_their_way_between_the_plain_ones(
    series: Any, window: int, steady: str, noisy: str
) -> None:
    """With much epsilon every period is worth telling, with little hardly any.

    One of the plain ways fails then, and nobody knows beforehand which; the plans beat that one.
    """
    counts = series()[:PERIODS]
    much, little = (errors(counts, window, Fraction(one)) for one in (steady, noisy))
    for plan in PLANS:
        assert much[plan] < much["sample"], much
        assert little[plan] < little["uniform"], little
