"""Shares of ranges: by a tree of blocks, and by Haar wavelets."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.local.frequency_oracles import walsh_hadamard
from sfumato.methods.local.range_trees import Haar, Hierarchical
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(("fanout", "told"), [(2, 29.917), (4, 14.958), (8, 11.967), (16, 8.975)])
def test_the_published_variance_of_a_block(fanout: int, told: float) -> None:
    oracle = Hierarchical(1024, epsilon="1.1", fanout=fanout, oracle="oue")
    assert len(oracle.oracles) == math.ceil(math.log(1024, fanout) - 1e-9)
    # One value is one block of the lowest level.
    assert oracle.variance(1, 1) == pytest.approx(told, rel=5e-5)


def skewed(size: int, count: int) -> np.ndarray:
    """Values of which the low ones are common, without any chance."""
    return (np.arange(count) * 7919 % 997 / 997) ** 3 * size // 1


ORACLES: dict[str, Callable[[int], Any]] = {
    "haar": lambda size: Haar(size, epsilon=2),
    "k-ary": lambda size: Hierarchical(size, epsilon=2, fanout=3, oracle="k-ary"),
    "olh": lambda size: Hierarchical(size, epsilon=2, fanout=4),
    "oue": lambda size: Hierarchical(size, epsilon=2, fanout=2, oracle="oue"),
}


@pytest.mark.parametrize("size", [16, 13])
@pytest.mark.parametrize("name", ORACLES)
def test_all_ranges_come_out_within_their_sd(name: str, size: int) -> None:
    oracle = ORACLES[name](size)
    values = skewed(size, 60_000).astype(np.int64)
    sketch = oracle.sketch(oracle.randomize(values, SeededEntropy(11)))
    pairs = list(combinations_with_replacement(range(size), 2))
    found = oracle.ranges(sketch, pairs)
    shares, spread = found["share"].to_numpy(), found["sd"].to_numpy()
    true = np.array([((values >= low) & (values <= high)).mean() for low, high in pairs])
    whole = pairs.index((0, size - 1))
    off = np.delete((shares - true) / np.where(spread > 0, spread, 1), whole)
    assert np.abs(off).max() < 5
    assert 0.4 < np.sqrt(np.mean(off**2)) < 1.5
    assert found["first"].to_pylist()[1:3] == [0, 0]
    alone = oracle.estimate(sketch)
    assert alone["share"].to_numpy() == pytest.approx(
        [shares[pairs.index((code, code))] for code in range(size)]
    )


@pytest.mark.parametrize("size", [2, 5, 16, 37])
def test_a_range_is_made_of_whole_blocks_that_do_not_overlap(size: int) -> None:
    oracle = Hierarchical(size, epsilon=1, fanout=2 if size < 37 else 3, oracle="k-ary")
    pairs = np.array(list(combinations_with_replacement(range(size), 2)))
    covered = np.zeros((len(pairs), size), dtype=int)
    for depth, begin, end in oracle._blocks(pairs):
        length = oracle.lengths[depth]
        for row, (first, last) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            covered[row, first * length : last * length] += 1
    inside = (np.arange(size) >= pairs[:, :1]) & (np.arange(size) <= pairs[:, 1:])
    assert (covered == inside).all()


def test_consistent_shares_add_up_and_are_better() -> None:
    oracle = Hierarchical(64, epsilon=1, fanout=4, oracle="k-ary")
    values = skewed(64, 30_000).astype(np.int64)
    true = np.bincount(values, minlength=64) / len(values)
    entropy = SeededEntropy(21)
    before, after = [], []
    for _ in range(20):
        sketch = oracle.sketch(oracle.randomize(values, entropy))
        fitted = oracle.consistent(sketch)
        assert fitted["share"].to_numpy().sum() == pytest.approx(1)
        before.append((oracle.estimate(sketch)["share"].to_numpy() - true) ** 2)
        after.append((fitted["share"].to_numpy() - true) ** 2)
    assert np.mean(after) < np.mean(before)
    assert math.sqrt(np.mean(after)) == pytest.approx(
        math.sqrt(np.mean(fitted["sd"].to_numpy() ** 2)), rel=0.2
    )


@pytest.mark.parametrize("name", ORACLES)
def test_sketches_merge_and_engines_count_the_same(name: str) -> None:
    oracle = ORACLES[name](13)
    reports = oracle.randomize(skewed(13, 3_000).astype(np.int64), SeededEntropy(1))
    whole = oracle.sketch(reports)
    assert whole == oracle.sum_rows(reports.rows[:700]) + oracle.sum_rows(reports.rows[700:])
    assert whole == oracle.sketch(reports.to_arrow())
    assert sf.local.from_json(oracle.to_json()) == oracle


def test_reports_that_their_level_cannot_send_are_rejected() -> None:
    oracle = Hierarchical(16, epsilon=1, fanout=4, oracle="k-ary")
    rows = oracle.layout.empty(4)
    rows["level"], rows["report"] = [0, 0, 1, 1], [3, 4, 15, 0]
    assert oracle.sum_rows(rows).rejected == 1
    wide = Hierarchical(1024, epsilon=1, fanout=4, oracle="k-ary")
    rows = wide.layout.empty(1)
    rows["report"] = 257  # 1, where the level's own reports have a byte
    assert wide.sum_rows(rows).rejected == 1
    wavelet = Haar(16, epsilon=1)
    rows = wavelet.layout.empty(2)
    rows["row"] = [0, 1]
    assert wavelet.sum_rows(rows).rejected == 1
    assert wavelet.sketch(wavelet.layout.table(rows)).n == 1


def test_bars_hold_that_those_on_a_level_are_some_of_all_people() -> None:
    oracle = Hierarchical(4, epsilon=8, fanout=2, oracle="k-ary")
    values = np.arange(2_000) % 2
    entropy = SeededEntropy(31)
    off = []
    for _ in range(100):
        sketch = oracle.sketch(oracle.randomize(values, entropy))
        one = oracle.ranges(sketch, [(1, 1)]).to_pylist()[0]
        off.append((one["share"] - 0.5) / one["sd"])
    # Half of all people are on a level, none of them twice: sqrt(1/2) of the bar that is told.
    assert 0.5 < np.std(off) < 1


def test_the_variance_of_a_range_by_wavelets_is_within_the_published_bound() -> None:
    oracle = Haar(1024, epsilon="1.1")
    factor = (math.exp(1.1) + 1) / (math.exp(1.1) - 1)
    for length in (1, 10, 511, 1000):
        assert oracle.variance(1000, length) <= 10**2 * factor**2 / 2 / 1000


def test_the_transform_is_that_of_the_matrix() -> None:
    rows = np.arange(16)
    matrix = 1 - 2.0 * (np.bitwise_count(rows[:, None] & rows) & 1)
    values = np.arange(16.0) ** 2
    assert walsh_hadamard(values) == pytest.approx(matrix @ values)


def test_values_may_have_names() -> None:
    oracle = sf.local.ranges(domain=["low", "middle", "high"], epsilon=8, fanout=2)
    sketch = oracle.sketch(oracle.randomize(["low", "high"] * 500))
    found = oracle.ranges(sketch, [("low", "middle")]).to_pylist()[0]
    assert (found["first"], found["last"]) == ("low", "middle")
    assert found["share"] == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize(
    ("ranges", "code"),
    [
        ([(3, 1)], "bounds_invalid"),
        ([(0, 99)], "value_outside_domain"),
        ([(0, 1, 2)], "parameter_type_wrong"),
        ([], "parameter_type_wrong"),
        ("01", "parameter_type_wrong"),
        ([4], "parameter_type_wrong"),
    ],
)
def test_what_is_no_range_is_refused(ranges: object, code: str) -> None:
    oracle = Haar(8, epsilon=1)
    sketch = oracle.sketch(oracle.randomize(np.arange(800) % 8))
    with pytest.raises(ParameterError) as raised:
        oracle.ranges(sketch, ranges)
    assert raised.value.code == code


def test_a_level_on_which_nobody_reported_is_told() -> None:
    for oracle in (Haar(1024, epsilon=1), Hierarchical(1024, epsilon=1, fanout=2)):
        with pytest.raises(SourceError) as raised:
            oracle.estimate(oracle.sketch(oracle.randomize([5])))
        assert raised.value.code == "estimate_not_possible"


def test_a_fanout_beyond_the_values_is_refused() -> None:
    for fanout in (1, 9):
        with pytest.raises(ParameterError):
            Hierarchical(8, epsilon=1, fanout=fanout)
