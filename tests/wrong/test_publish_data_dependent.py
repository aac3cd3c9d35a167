"""Wrong ways to publish: shares spent twice, depths and lines not counted, costs that are exact."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Pure

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator

    from sfumato.testing.audit import Audit

ONE = Pure(epsilon=Fraction(1))


def weights_with_the_price_spent_twice(
    counts: tuple[int, int], size: int, generator: Generator
) -> Any:
    """One round over two cells of even guess 10: the choice and the answer have all of epsilon."""
    scores = np.abs(np.array(counts) - 10)
    chances = np.exp(scores / 2)
    chosen = generator.choice(2, size, p=chances / chances.sum())
    answers = np.array(counts)[chosen] + generator.laplace(0, 1, size)
    return np.stack((chosen, np.round(answers, 1)), axis=1)


def parity_of_single_sensitivity(counts: tuple[int, int], size: int, generator: Generator) -> Any:
    """A row replaced by its opposite moves a parity by 2; the noise is for 1."""
    return np.round(counts[0] - counts[1] + generator.laplace(0, 1, size), 1)


def series_of_unitary_noise(counts: tuple[int, ...], size: int, generator: Generator) -> Any:
    """Coefficients without 1/sqrt(n), noise for coefficients with it."""
    first = np.array([sum(counts)])
    return np.round(first + generator.laplace(0, 1 / math.sqrt(len(counts)), (size, 1)), 2)


def series_without_imaginary_parts(counts: tuple[int, ...], size: int, generator: Generator) -> Any:
    """Noise for the absolute value of one coefficient, on its real and its imaginary part."""
    coefficient = np.fft.fft(counts)[1]
    parts = np.array([coefficient.real, coefficient.imag])
    return np.round(parts + generator.laplace(0, 1, (size, 2)), 1)


def running_counts_of_unpaid_levels(
    counts: tuple[int, ...], size: int, generator: Generator
) -> Any:
    """A row is in a block of every length; the noise is for one of them."""
    row = np.array(counts)
    blocks = [row[:1].sum(), row[:2].sum(), row[:4].sum()]
    return np.round(blocks + generator.laplace(0, 1, (size, 3)), 1)


def quantiles_of_unpaid_depths(counts: tuple[int, ...], size: int, generator: Generator) -> Any:
    """The median and then both quartiles, each depth with all of epsilon."""
    middle = quantile(np.array(counts), 0.5, (-1, len(counts) - 1), size, generator)
    low, high = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for found in range(len(counts)):
        there = middle == found
        runs = int(there.sum())
        low[there] = quantile(np.array(counts), 0.5, (-1, found), runs, generator)
        high[there] = quantile(np.array(counts), 0.5, (found, len(counts) - 1), runs, generator)
    return np.stack((low, middle, high), axis=1)


def quantile(
    counts: Any, rank: float, within: tuple[int, int], size: int, generator: Generator
) -> Any:
    """The exponential mechanism at epsilon 1 among the rows above one end, up to the other."""
    places = np.arange(len(counts))
    own = np.where((places > within[0]) & (places <= within[1]), counts, 0)
    up_to = np.cumsum(own)
    wanted = rank * own.sum()
    score = -np.maximum(0, np.maximum(up_to - own - wanted, wanted - up_to))
    candidates = places[max(within[0], 0) : within[1] + 1]
    chances = np.exp(score[candidates])  # 1 / (2 * 1/2), the median's sensitivity
    return candidates[generator.choice(len(candidates), size, p=chances / chances.sum())]


def partition_by_exact_costs(counts: tuple[int, int], size: int, generator: Generator) -> Any:
    """Two cells are one bucket if they are alike; only their counts get noise."""
    noisy = np.array(counts) + generator.laplace(0, 1, (size, 2))
    together = noisy.sum(axis=1, keepdims=True) / 2
    return np.round(np.repeat(together, 2, axis=1) if abs(counts[0] - counts[1]) <= 3 else noisy, 1)


def sketch_of_unpaid_depth(cells: tuple[int, ...], size: int, generator: Generator) -> Any:
    """A row is in three lines; the noise is for one."""
    return np.round(len(cells) + generator.laplace(0, 1, (size, 3)), 1)


def sketch_of_equal_signs(cells: tuple[int, ...], size: int, generator: Generator) -> Any:
    """A row replaced by one of the other sign in the same bucket moves it by 2."""
    signed = sum(1 if cell % 2 else -1 for cell in cells)
    return np.round(signed + generator.laplace(0, 1, size), 1)


def median_of_local_sensitivity(rows: tuple[int, ...], size: int, generator: Generator) -> Any:
    """Noise scaled to what one row can do to this very table, which the noise then tells."""
    ordered = np.sort(rows)
    middle = (len(ordered) - 1) // 2
    local = max(np.diff(ordered[middle - 1 : middle + 2]))
    return np.round(ordered[middle] + local * generator.laplace(0, 1, size), 1)


def counts_cut_at_the_number_of_rows(
    counts: tuple[int, ...], size: int, generator: Generator
) -> Any:
    """Truncated noise whose upper end is the table's own number of rows."""
    noisy = np.round(np.array(counts) + generator.laplace(0, 1, (size, len(counts))))
    return np.clip(noisy, 0, sum(counts))


def ranges_above_of_one_noise(counts: tuple[int, ...], size: int, generator: Generator) -> Any:
    """The threshold gets noise and the counts get none."""
    line = 1 + generator.laplace(0, 1, (size, 1))
    return (np.array(counts) >= line).astype(int)


WRONG: list[tuple[Callable[..., Any], Any]] = [
    (weights_with_the_price_spent_twice, ((14, 19), (15, 18))),
    (parity_of_single_sensitivity, ((3, 0), (2, 1))),
    (series_of_unitary_noise, ((1,) * 9, (2,) + (1,) * 8)),
    (series_without_imaginary_parts, ((1,) * 8, (1, 2) + (1,) * 6)),
    (running_counts_of_unpaid_levels, ((5, 5, 5, 5), (6, 5, 5, 5))),
    (quantiles_of_unpaid_depths, ((1, 0, 0, 0), (1, 0, 1, 0))),
    (partition_by_exact_costs, ((3, 0), (4, 0))),
    (sketch_of_unpaid_depth, ((7,), ())),
    (sketch_of_equal_signs, ((7,), (8,))),
    (median_of_local_sensitivity, ((0, 0, 0, 10, 10), (0, 0, 0, 0, 10))),
    (counts_cut_at_the_number_of_rows, ((3, 0), (4, 0))),
    (ranges_above_of_one_noise, ((2, 0), (1, 1))),
]


@pytest.mark.parametrize(("wrong", "pair"), WRONG, ids=[row[0].__name__ for row in WRONG])
def test_wrong_publication_is_caught(
    accuse: Callable[..., Audit], wrong: Callable[..., Any], pair: Any
) -> None:
    found = accuse(wrong, pair, ONE)
    assert found.violated, found.sentence()
