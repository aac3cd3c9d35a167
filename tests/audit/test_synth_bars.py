"""Bars of counts on synthetic rows hold the true ones, also where most combinations are empty.

Noise in different cells is independent, so that of 500 counts at most 0.1 lie outside of 1.96 bars
but with probability below 1e-6 for a fresh seed, if 0.05 of them do each by itself.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Rows
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.methods.synth.error_bars import _best_table, answered
from sfumato.methods.synth.synthesis import Synthesis
from sfumato.methods.synth.synthesis_model import SynthesisModel, drawn
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy
from sfumato.vault.syntheses import _ask

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = dict[str, NDArray[np.int64]]

WITHIN = 1.96
SIZES = {"a": 64, "b": 60, "c": 16}


def crowded(rows: int, seed: int) -> Codes:
    """Few of many values occur, and the first tells the second."""
    draws = np.random.default_rng(seed)
    first = draws.choice([3, 4, 5, 40], rows, p=[0.5, 0.3, 0.15, 0.05])
    third = np.where(draws.random(rows) < 0.8, first % 16, draws.integers(0, 16, rows))
    return {"a": first, "b": first // 2 + draws.integers(0, 2, rows) + 20, "c": third}


def spread(rows: int, seed: int) -> Codes:
    """Most values occur, some of them seldom."""
    draws = np.random.default_rng(seed)
    first = np.minimum(draws.geometric(0.08, rows), 63)
    second = np.minimum(first // 2 + draws.geometric(0.3, rows), 59)
    return {"a": first, "b": second, "c": draws.integers(0, 9, rows)}


TABLES: dict[str, Codes] = {
    "few people": crowded(1_000, 1),
    "many people": crowded(40_000, 2),
    "spread out": spread(5_000, 3),
}
PAIRS = [(0, 1), (0, 2)]


@cache
def twin(name: str, method: str) -> tuple[SynthesisModel, Any]:
    table = TABLES[name]
    columns = tuple(
        Column(one, Kind.INTEGER, domain=Bounds(0, size - 1), nullable=False)
        for one, size in SIZES.items()
    )
    encoding = Encoding(Schema("people", columns))
    codes = tuple(one.astype(np.int32) for one in table.values())
    counts = Frequencies(encoding.axes, codes, np.ones(len(codes[0]), dtype=np.int64))
    options = {"sets": PAIRS} if method == "workload" else {}
    cost = price(epsilon=1, delta="1e-9")
    made = Synthesis(axes=encoding.axes, unit=Rows(), price=cost, method=method, options=options)
    entropy = SeededEntropy(11)
    log = made.measure(counts, entropy)
    model = SynthesisModel(encoding, made.fit(log), log)
    return model, drawn(model, model.rows, entropy)


def of_values(name: str, method: str) -> list[tuple[float, float, float]]:
    """Of every value that rows have: how far its count is off, its bar, and its noise alone."""
    model, rows = twin(name, method)
    table, found = TABLES[name], []
    for keys in (["a"], ["b"], ["c"], ["a", "b"]):
        named = ", ".join(keys)
        asked = f"SELECT {named}, COUNT(*) AS n FROM people GROUP BY {named}"
        places = tuple(map([*SIZES].index, keys))
        best = _best_table(model, places)
        for row in answered(asked, rows, model, _ask).to_pylist():
            true = np.all([table[key] == row[key] for key in keys], axis=0).sum()
            if best is None:
                assert row["n_sd"] is None
            elif true or method == "aim":
                found.append((row["n"] - true, row["n_sd"], best[1] ** 0.5))
    return found


def of_ranges(name: str, method: str) -> list[tuple[float, float]]:
    """Of some ranges, most of them empty: how far their counts are off, and their bars."""
    model, rows = twin(name, method)
    table, draws = TABLES[name], np.random.default_rng(4)
    found = []
    for _ in range(6):
        ends = {one: np.sort(draws.integers(0, SIZES[one], 2)) for one in ("a", "b")}
        where = " AND ".join(f"{one} BETWEEN {low} AND {high}" for one, (low, high) in ends.items())
        sql = f"SELECT COUNT(*) AS n FROM people WHERE {where}"
        [row] = answered(sql, rows, model, _ask).to_pylist()
        there = [(table[one] >= low) & (table[one] <= high) for one, (low, high) in ends.items()]
        if row["n_sd"] is not None:
            found.append((row["n"] - np.all(there, axis=0).sum(), row["n_sd"]))
    return found


@pytest.mark.parametrize("method", ["workload", "aim"])
@pytest.mark.parametrize("name", TABLES)
def test_bars_hold_true_counts(name: str, method: str) -> None:
    values = [(off, bar) for off, bar, _ in of_values(name, method)]
    off, bars = np.array([*values, *of_ranges(name, method)]).T
    assert len(off) > 20
    assert (np.abs(off) <= WITHIN * bars).mean() >= 0.9
    # And they are of use: no more than some times as wide as counts are off.
    assert np.sqrt((bars**2).mean()) < 4 * np.sqrt((off**2).mean())


def test_bars_of_noise_alone_are_caught() -> None:
    """Where most values are empty, rows move there, away from others, further than noise goes."""
    found = [one for name in TABLES for one in of_values(name, "workload")]
    off, bars, noise = np.array(found).T
    assert (np.abs(off) <= WITHIN * noise).mean() < 0.9
    assert (np.abs(off) <= WITHIN * bars).mean() > 0.9
