"""What may be done to estimates afterwards, and what is told of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.local.postprocess import adjust, climb
from sfumato.testing.entropy import SeededEntropy


def estimate(shares: list[float], sd: float = 0.1) -> pa.Table:
    return pa.table({"value": list(range(len(shares))), "share": shares, "sd": [sd] * len(shares)})


def adjusted(how: str, shares: list[float]) -> list[float]:
    return [float(one) for one in adjust(estimate(shares), how).table["share"].to_numpy()]


def test_each_way_does_what_it_says() -> None:
    shares = [0.9, 0.3, -0.2, 0.05]
    assert adjusted("nonnegative", shares) == [0.9, 0.3, 0.0, 0.05]
    assert adjusted("scaled", shares) == pytest.approx([0.72, 0.24, 0, 0.04])
    # The nearest point: 0.1 off the two that stay, after the fourth has fallen to 0.
    assert adjusted("simplex", shares) == pytest.approx([0.8, 0.2, 0, 0])


@pytest.mark.parametrize("how", ["scaled", "simplex"])
def test_shares_sum_to_one_and_are_possible(how: str) -> None:
    words = SeededEntropy(8).words(400).astype(float).reshape(40, 10) / 2**63 - 1
    for shares in [*words.tolist(), [-1.0] * 10, [0.0] * 10, [5.0] + [0.0] * 9]:
        found = np.array(adjusted(how, shares))
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)


def test_the_simplex_is_the_nearest_point() -> None:
    shares = np.array([0.5, 0.4, 0.35, -0.1])
    found = np.array(adjusted("simplex", shares.tolist()))
    for other in ([0.4, 0.3, 0.3, 0], [0.42, 0.31, 0.27, 0], [0.25] * 4, [0.45, 0.3, 0.25, 0]):
        assert np.sum((found - shares) ** 2) <= np.sum((np.array(other) - shares) ** 2) + 1e-12


def test_nothing_is_adjusted_unasked() -> None:
    oracle = sf.local.oracle("k-ary", 50, epsilon="0.5")
    found = oracle.estimate(oracle.sketch(oracle.randomize(np.zeros(2_000, dtype=int))))
    assert found["share"].to_numpy().min() < 0


def test_what_it_does_to_the_error_is_told() -> None:
    empty = adjust(estimate([1.0] + [0.0] * 99, sd=0.05), "simplex")
    assert empty.effect["adjusted"] < 0.7 * empty.effect["unbiased"]
    assert "less error than unbiased" in repr(empty)
    # Clipping alone lets what is moved add up over many rare values.
    clipped = adjust(estimate([1.0] + [0.0] * 99, sd=0.05), "nonnegative")
    assert clipped.effect["adjusted_half"] > 1.5 * clipped.effect["unbiased_half"]
    assert clipped.table.column_names == ["value", "share", "unbiased", "sd"]
    assert clipped._repr_html_()


def test_the_effect_is_that_of_real_runs() -> None:
    oracle = sf.local.oracle("k-ary", 20, epsilon=1)
    values = np.arange(4_000) % 4
    true = np.bincount(values, minlength=20) / 4_000
    entropy = SeededEntropy(6)
    real, told = [], []
    for _ in range(30):
        found = oracle.estimate(oracle.sketch(oracle.randomize(values, entropy)))
        moved = adjust(found, "simplex")
        real.append((moved.table["share"].to_numpy() - true) ** 2)
        told.append(moved.effect["adjusted"] ** 2)
    assert np.sqrt(np.mean(told)) == pytest.approx(np.sqrt(np.mean(real)), rel=0.35)


def test_most_likely_shares() -> None:
    oracle = sf.local.oracle("k-ary", ["a", "b", "c"], epsilon=2)
    sketch = oracle.sketch(oracle.randomize(["a"] * 3_000 + ["b"] * 1_000, SeededEntropy(1)))
    found = sf.local.most_likely(oracle, sketch)
    shares = found["share"].to_numpy()
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    assert shares == pytest.approx([0.75, 0.25, 0], abs=0.06)


def test_no_step_up_from_the_most_likely_shares() -> None:
    channel = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    counts = np.array([500.0, 300.0, 100.0])
    best = climb(channel, counts)
    height = counts @ np.log(best @ channel)
    for other in np.array([[0.7, 0.2, 0.1], [1, 0, 0], [0.9, 0.1, 0], [0.8, 0.15, 0.05]]):
        assert counts @ np.log(other @ channel) <= height + 1e-6


def test_sketches_without_a_likelihood_are_refused() -> None:
    oracle = sf.local.oracle("olh", 4, epsilon=1)
    with pytest.raises(ParameterError) as raised:
        sf.local.most_likely(oracle, oracle.sketch(oracle.randomize([1, 2, 3])))
    assert raised.value.code == "estimate_not_possible"
    small = sf.local.oracle("k-ary", 4, epsilon=1)
    with pytest.raises(SourceError):
        sf.local.most_likely(small, small.empty())


def test_other_tables_and_other_words_are_refused() -> None:
    with pytest.raises(ParameterError) as raised:
        adjust(pa.table({"share": [1.0]}), "simplex")
    assert raised.value.code == "parameter_type_wrong"
    with pytest.raises(ParameterError):
        adjust(estimate([1.0]), "positive")
