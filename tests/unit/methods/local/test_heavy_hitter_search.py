"""Frequent values of a domain that nobody lists."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.local.heavy_hitter_search import PRIME, HeavyHitters
from sfumato.testing.entropy import SeededEntropy


def planted(oracle: HeavyHitters, count: int, sds: float, entropy: SeededEntropy) -> list[bool]:
    """Whether five values of so many sd each are found among people who are all different."""
    words = (entropy.words(count + 5) >> np.uint64(64 - oracle.bits)).astype(np.int64)
    hot, people = words[:5], words[5:]
    each = math.ceil(sds * math.sqrt(oracle.variance(count)) * count)
    for place, value in enumerate(hot):
        people[place * each : (place + 1) * each] = value
    found = set(oracle.find(oracle.randomize(people, entropy))["value"].to_pylist())
    return [int(value) in found for value in hot]


def test_planted_values_of_three_sd_are_found() -> None:
    oracle = HeavyHitters(bits=20, epsilon=2)
    entropy = SeededEntropy(12)
    found = [one for _ in range(2) for one in planted(oracle, 20_000, 3.2, entropy)]
    assert sum(found) >= 9


@pytest.mark.slow
def test_ninety_nine_of_a_hundred_planted_values_are_found() -> None:
    oracle = HeavyHitters(bits=32, epsilon=2)
    entropy = SeededEntropy(13)
    found = [one for _ in range(20) for one in planted(oracle, 50_000, 3.2, entropy)]
    assert sum(found) >= 99


def test_shares_and_their_sd() -> None:
    oracle = HeavyHitters(bits=12, epsilon=3)
    people = np.where(np.arange(30_000) % 10 < 3, 2749, np.arange(30_000) % 4096)
    found = oracle.find(oracle.randomize(people, SeededEntropy(2))).to_pylist()
    assert found[0]["value"] == 2749
    assert abs(found[0]["share"] - 0.3) < 5 * found[0]["sd"]
    assert found[-1]["sd"] == pytest.approx(math.sqrt(oracle.variance(30_000)), rel=0.05)
    assert len(found) == 32


def test_the_sd_of_a_large_share_holds_that_a_group_is_some_of_all_people() -> None:
    oracle = HeavyHitters(bits=4, start=2, step=2, epsilon=4)
    people = np.where(np.arange(1_000) % 2 == 0, 9, 4)
    entropy = SeededEntropy(5)
    off = []
    for _ in range(60):
        found = oracle.find(oracle.randomize(people, entropy), most=2).to_pylist()
        off.append(next((one["share"] - 0.5) / one["sd"] for one in found if one["value"] == 9))
    assert 0.7 < np.std(off) < 1.3


def test_words_are_found() -> None:
    oracle = sf.local.heavy_hitters(bits=48, epsilon=4, text=True)
    people = ["apple", "Äpfel", "pear"] * 2_500 + [f"w{n}" for n in range(4_500)]
    reports = oracle.randomize(people, SeededEntropy(4))
    found = oracle.find(oracle.randomize([]) + reports, most=3)["value"].to_pylist()
    assert set(found) == {"apple", "Äpfel", "pear"}


@pytest.mark.parametrize(
    ("bits", "kind"),
    [(63, pa.int64()), (64, pa.uint64()), (65, pa.string()), (80, pa.string())],
)
def test_long_numbers_are_found(bits: int, kind: pa.DataType) -> None:
    oracle = HeavyHitters(bits=bits, epsilon=6)
    largest = (1 << bits) - 1
    found = oracle.find(oracle.randomize([largest] * 3_000, SeededEntropy(4)), most=1)
    assert found["value"].type == kind
    assert int(found["value"][0].as_py()) == largest


def test_an_empty_text_is_a_value_and_no_character_is_cut() -> None:
    oracle = HeavyHitters(bits=24, epsilon=5, text=True)
    people = ["", "éé", "toolong"] * 3_000
    reports = oracle.randomize(people, SeededEntropy(4))
    assert set(oracle.find(reports, most=3)["value"].to_pylist()) == {"", "é", "too"}


def test_bytes_that_are_no_text_are_told_apart() -> None:
    oracle = HeavyHitters(bits=8, epsilon=1, text=True)
    assert len({oracle._value(code) for code in range(256)}) == 256


@pytest.mark.parametrize("most", [0, -1, 4097, 10**12])
def test_so_many_values_are_not_looked_for(most: int) -> None:
    oracle = HeavyHitters(bits=8, epsilon=1)
    with pytest.raises(ParameterError) as raised:
        oracle.find(oracle.randomize([1] * 10), most=most)
    assert raised.value.code == "parameter_out_of_range"


def test_the_hash_collides_as_often_as_is_taken_off() -> None:
    oracle = HeavyHitters(bits=40, epsilon=1)
    assert oracle.chunks == 2
    full, rest = divmod(PRIME, oracle.buckets)
    sizes = [full + (residue < rest) for residue in range(oracle.buckets)]
    assert oracle.collision == sum(size * size for size in sizes) / oracle.collision.__class__(
        PRIME**2
    )
    rows = oracle.randomize([5] * 10_000, SeededEntropy(3))
    other = oracle.find(rows, most=4).to_pylist()
    assert other[0]["value"] == 5
    assert all(abs(one["share"]) < 5 * one["sd"] for one in other[1:])


def test_reports_are_kept_and_added_not_sketched() -> None:
    oracle = HeavyHitters(bits=8, epsilon=2)
    with pytest.raises(ParameterError) as raised:
        oracle.sketch(oracle.randomize([1, 2]))
    assert raised.value.code == "estimate_not_possible"
    first, second = oracle.randomize([7] * 2_000), oracle.randomize([7] * 2_000)
    again = oracle.read((first + second).to_bytes())
    assert oracle.find(again)["value"][0].as_py() == 7
    assert sf.local.from_json(oracle.to_json()) == oracle


def test_a_group_without_reports_is_told() -> None:
    oracle = HeavyHitters(bits=32, epsilon=1)
    with pytest.raises(SourceError) as raised:
        oracle.find(oracle.randomize([1]))
    assert raised.value.code == "estimate_not_possible"


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"bits": 8}, [256]),
        ({"bits": 8}, [-1]),
        ({"bits": 8}, [True]),
        ({"bits": 8}, ["a"]),
        ({"bits": 8, "text": True}, [1]),
        ({"bits": 8}, {"a": 1}),
        ({"bits": 16, "text": True}, ["\0"]),
        ({"bits": 16, "text": True}, ["a\0"]),
        ({"bits": 16, "text": True}, [b"a\0"]),
        ({"bits": 16, "text": True}, [b"\xff"]),
        ({"bits": 16, "text": True}, ["\ud800"]),
    ],
)
def test_other_values_are_refused(options: dict[str, int], values: object) -> None:
    with pytest.raises(ParameterError) as raised:
        HeavyHitters(epsilon=1, **options).randomize(values)  # type: ignore[arg-type]
    assert raised.value.code == "parameter_type_wrong"


@pytest.mark.parametrize(
    "options",
    [{"bits": 0}, {"bits": 241}, {"bits": 9, "text": True}, {"bits": 8, "start": 9},
     {"bits": 8, "step": 9}],
)  # fmt: skip
def test_other_lengths_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ParameterError) as raised:
        HeavyHitters(epsilon=1, **options)  # type: ignore[arg-type]
    assert raised.value.code == "parameter_out_of_range"
