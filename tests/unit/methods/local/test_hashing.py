"""Hashes for local hashing: collisions exactly as often as told, supports as one by one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.methods.local.hashing import AffineHashes, next_prime
from sfumato.testing.entropy import SeededEntropy


@pytest.mark.parametrize(("size", "buckets"), [(2, 3), (5, 2), (7, 4), (10, 56), (13, 13), (12, 8)])
def test_any_two_values_collide_with_exactly_one_in_g(size: int, buckets: int) -> None:
    """Counted over the whole family, for every pair of values."""
    hashes = AffineHashes.to(size, buckets)
    prime, constant = hashes.prime, hashes.constant
    factors, shifts = (one.ravel() for one in np.indices((prime, prime)))
    table = hashes.of(np.arange(size)[:, None], factors, shifts)
    moving = factors > 0
    for first in range(size):
        for second in range(first):
            same = table[first] == table[second]
            usual = Fraction(int(same[moving].sum()), int(moving.sum()))
            assert constant + (1 - constant) * usual == Fraction(1, buckets)
            assert same[~moving].all()


@pytest.mark.parametrize(
    ("size", "buckets"), [(2, 3), (3, 2), (7, 4), (10, 56), (100, 8), (11, 11), (50, 7)]
)
def test_supports_are_those_of_each_report_and_value(size: int, buckets: int) -> None:
    hashes = AffineHashes.to(size, buckets)
    draw = np.random.default_rng(size)
    factors, shifts = draw.integers(0, hashes.prime, (2, 700))
    outputs = draw.integers(0, buckets, 700)
    expected = (hashes.of(np.arange(size)[:, None], factors, shifts) == outputs).sum(axis=1)
    assert np.array_equal(hashes.supports(factors, shifts, outputs), expected)


def test_supports_in_several_parts_are_those_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = AffineHashes.to(97, 5)
    factors, shifts = hashes.draw(400, SeededEntropy(1))
    outputs = shifts % 5
    whole = hashes.supports(factors, shifts, outputs)
    monkeypatch.setattr("sfumato.methods.local.hashing._CELLS", 1)
    assert np.array_equal(hashes.supports(factors, shifts, outputs), whole)
    nothing = np.zeros(0, dtype=np.int64)
    assert not hashes.supports(nothing, nothing, nothing).any()


def test_a_constant_hash_is_drawn_as_often_as_it_should() -> None:
    hashes = AffineHashes.to(10, 4)
    factors, shifts = hashes.draw(200_000, SeededEntropy(2))
    share = float(hashes.constant)
    assert abs((factors == 0).mean() - share) < 6 * (share / 200_000) ** 0.5
    assert shifts.max() == hashes.prime - 1


def test_primes() -> None:
    assert [next_prime(one) for one in (0, 2, 4, 1024, 1 << 26)] == [2, 2, 5, 1031, 67108879]
