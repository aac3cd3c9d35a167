"""Wrong handling of tables: keys, bounds, sizes and contributions taken from the data."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Approx, Pure

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator

    from sfumato.testing.audit import Audit

ONE = Pure(epsilon=Fraction(1))
NEARLY_ONE = Approx(epsilon=Fraction(1), delta=Fraction(1, 1000))
ABSENT = -1_000_000


def laplace(generator: Generator, scale: float, size: Any) -> Any:
    return np.round(generator.laplace(0, scale, size))


def noisy_sum_over_true_size(values: tuple[int, ...], size: int, generator: Generator) -> Any:
    """Values 0 or 1; the sum is noisy, the divisor is not."""
    return (sum(values) + laplace(generator, 1, size)) / len(values)


def keys_from_the_data(table: dict[str, int], size: int, generator: Generator) -> Any:
    counts = [table[key] + laplace(generator, 1, size) for key in sorted(table)]
    missing = [np.full(size, ABSENT)] * (2 - len(counts))
    return np.stack((*counts, *missing), axis=1)


def keys_above_zero(counts: tuple[int, int], size: int, generator: Generator) -> Any:
    """Release observed keys whose noisy count is positive: a threshold that knows no delta."""
    noisy = np.array(counts) + laplace(generator, 1, (size, 2))
    return np.where((np.array(counts) > 0) & (noisy > 0), noisy, ABSENT)


def threshold_of_the_other_noise(counts: tuple[int, int], size: int, generator: Generator) -> Any:
    """Gaussian noise under a threshold derived for Laplace noise."""
    noisy = np.array(counts) + np.round(generator.normal(0, 4, (size, 2)))
    threshold = 1 + math.log(1 / (2 * 1e-3))
    return np.where((np.array(counts) > 0) & (noisy >= threshold), noisy, ABSENT)


def threshold_for_one_group(counts: tuple[int, ...], size: int, generator: Generator) -> Any:
    """One person reaches 20 groups; delta is spent on each of them."""
    noisy = np.array(counts) + laplace(generator, 20, (size, len(counts)))
    threshold = 1 + 20 * math.log(1 / (2 * 1e-3))
    released = (np.array(counts) > 0) & (noisy >= threshold)
    return np.count_nonzero(released, axis=1)


def clamped_to_the_data(values: tuple[int, ...], size: int, generator: Generator) -> Any:
    """Clamp the noisy mean into the range that the data show."""
    mean = sum(values) / len(values) + generator.laplace(0, 1000 / len(values), size)
    return np.clip(np.round(mean, 1), min(values), max(values))


def contributions_not_bounded(
    table: tuple[tuple[str, int], ...], size: int, generator: Generator
) -> Any:
    """Charged for one row a person, whatever the person's rows."""
    return len(table) + laplace(generator, 1, size)


def bounded_in_each_group_only(
    table: tuple[tuple[str, int], ...], size: int, generator: Generator
) -> Any:
    """One row a person and group, but any number of groups a person."""
    kept = set(table)
    counts = np.array([sum(group == at for _, group in kept) for at in range(4)])
    return counts + laplace(generator, 1, (size, 4))


def empty_table_is_special(values: tuple[int, ...], size: int, generator: Generator) -> Any:
    if not values:
        return np.full(size, np.nan)
    return len(values) + laplace(generator, 1, size)


def blocks_by_table_size(values: tuple[int, ...], size: int, generator: Generator) -> Any:
    """Sample and aggregate with as many blocks as rows: noise of range / m with a private m."""
    blocks = len(values)
    return np.round(np.mean(values) + generator.laplace(0, 1 / blocks, size), 3)


def blocks_clamped_to_their_outputs(
    outputs: tuple[float, ...], size: int, generator: Generator
) -> Any:
    spread = max(outputs) - min(outputs)
    return np.mean(outputs) + np.round(generator.laplace(0, max(spread, 1e-9) / 4, size), 3)


def person_in_every_block(outputs: tuple[float, ...], size: int, generator: Generator) -> Any:
    """Blocks overlap: one person changes all of them, the noise is for one."""
    return np.round(np.mean(outputs) + generator.laplace(0, 1 / len(outputs), size), 3)


def failed_block_dropped(outputs: tuple[float, ...], size: int, generator: Generator) -> Any:
    """A block whose program failed is left out, and how many were left is told."""
    kept = [output for output in outputs if not math.isnan(output)]
    noisy = np.round(np.mean(kept) + generator.laplace(0, 1 / len(kept), size), 3)
    return np.stack((noisy, np.full(size, len(kept))), axis=1)


ALICE = tuple(("alice", group) for group in range(4))
WRONG: list[tuple[Callable[..., Any], Any, Pure | Approx]] = [
    (noisy_sum_over_true_size, ((1, 0, 1), (1, 0)), ONE),
    (keys_from_the_data, ({"a": 3}, {"a": 3, "b": 1}), ONE),
    (keys_above_zero, ((3, 1), (3, 0)), NEARLY_ONE),
    (threshold_of_the_other_noise, ((3, 1), (3, 0)), NEARLY_ONE),
    (threshold_for_one_group, ((1,) * 20, (0,) * 20), NEARLY_ONE),
    (clamped_to_the_data, ((10, 10, 1000), (10, 10, 10)), ONE),
    (contributions_not_bounded, ((("bob", 0), *ALICE), (("bob", 0),)), ONE),
    (bounded_in_each_group_only, ((("bob", 0), *ALICE), (("bob", 0),)), ONE),
    (empty_table_is_special, ((), (1,)), ONE),
    (blocks_by_table_size, ((1, 1), (1,)), ONE),
    (blocks_clamped_to_their_outputs, ((5.0, 5.0, 5.0), (5.0, 5.0, 6.0)), ONE),
    (person_in_every_block, ((0.0,) * 4, (1.0,) * 4), ONE),
    (failed_block_dropped, ((0.5, 0.5), (0.5, math.nan)), ONE),
]


@pytest.mark.parametrize(("wrong", "pair", "claim"), WRONG, ids=[row[0].__name__ for row in WRONG])
def test_wrong_table_handling_is_caught(
    accuse: Callable[..., Audit], wrong: Callable[..., Any], pair: Any, claim: Pure | Approx
) -> None:
    found = accuse(wrong, pair, claim)
    assert found.violated, found.sentence()
