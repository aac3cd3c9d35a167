"""Counters of a continual feed: what one person moves over all steps, and the scale of the noise.

The noise is compared with its claimed variance at a false-alarm rate of 1e-6; a scale that is 30 %
off is told.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.engines.sources import open_source
from sfumato.methods.method import Dataset
from sfumato.methods.publish.counters import Counters
from sfumato.methods.stream.sensitivity import Participation
from sfumato.privacy.accounting.price import price
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.vault.feeds.period_answers import StreamCells, arrived

STEPS, MOST = 8, 2
DAYS = tuple((date(2024, 1, 1) + timedelta(days=at),) * 2 for at in range(STEPS))
UNIT = sf.Entity("patient", max_rows=MOST)
SCHEMA = sf.Schema(
    "visits", (sf.Column("patient", sf.Kind.INTEGER), sf.Column("day", sf.Kind.DATE))
)


def counters(**costs: Any) -> Counters:
    return Counters("feed", "visits", "day", DAYS, UNIT, price(**costs))


def in_blocks(rows: list[tuple[int, int]], *, apart: bool) -> dict[int, int]:
    """By level, in how many rows one person is counted, who has rows of (day, day it came).

    Each step sees what had come by then. The wrong twin bounds the rows of each block `apart`.
    """
    found: dict[int, int] = {}
    used = Counter[int]()
    made = counters(epsilon=1)
    for step in range(1, STEPS + 1):
        size = step & -step
        seen = [day for day, came in rows if max(day, came) < step]
        if apart:
            counted = min(MOST, sum(step - size <= day for day in seen))
        else:
            table = pa.table(
                {"patient": pa.array([1] * len(seen), pa.int64()),
                 "day": pa.array([DAYS[day][0] for day in seen], pa.date32())}
            )  # fmt: skip
            engine = open_source(table)
            data = Dataset("visits", engine, engine.table, SCHEMA, UNIT)
            arrival = arrived(data, "day", made.block(step), UNIT, StreamCells())
            before = np.array([used[made.level(step)]] * len(arrival.people))
            counts, after = arrival.bounded(before, Participation(UNIT))
            used[made.level(step)] += int((after - before).sum())
            counted = int(counts[0])
            engine.close()
        found[size] = found.get(size, 0) + counted
    return found


def test_a_person_is_counted_no_more_than_the_unit_says_on_any_level() -> None:
    chance, caught = random.Random(7), 0
    for late in (0, 0, 2, 4):
        days = [0, 2, 4, 6, *(chance.randrange(STEPS) for _ in range(3))]
        rows = [(day, day + chance.randint(0, late)) for day in days]
        assert max(in_blocks(rows, apart=False).values()) <= MOST, rows
        caught += max(in_blocks(rows, apart=True).values()) > MOST
    assert caught > 1, "the wrong twin went unnoticed"


@pytest.mark.parametrize("costs", [{"epsilon": 1}, {"rho": "0.5", "delta": "1e-6"}])
def test_the_noise_has_the_scale_that_is_charged(costs: dict[str, Any]) -> None:
    made = replace(counters(**costs), days=DAYS * 2000)
    drawn = made.run({}, SystemEntropy()).table.column("noise").to_numpy().astype(np.float64)
    claimed = made.noise.variance
    spread = math.sqrt(6 / len(drawn)) * 4.9  # of a variance with kurtosis up to Laplace's
    assert abs(drawn.var() / claimed - 1) < spread
    assert abs(drawn.var() / (claimed * 1.3**2) - 1) > spread
    levels = made._tree.levels
    if "epsilon" in costs:
        assert made.noise.stddev == pytest.approx(math.sqrt(2) * MOST * levels, rel=0.01)
