"""Goodness of fit of integer outputs to an exact probability mass function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.testing.audit.special import special

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.arrays import FloatArray, IntArray

_LEAST_EXPECTED = 20.0


@dataclass(frozen=True)
class Fit:
    """Pearson's chi-square; a small `p_value` says that the law is another one."""

    statistic: float
    freedom: int
    p_value: float


def fit(outputs: IntArray, mass: Callable[[IntArray], FloatArray]) -> Fit:
    """Compare outputs with a law given by its mass at each integer.

    Integers whose expected count is below 20 are pooled, with all that was never seen, into one.
    """
    low, high = int(outputs.min()), int(outputs.max())
    expected = mass(np.arange(low, high + 1)) * len(outputs)
    observed = np.bincount(outputs - low, minlength=high - low + 1).astype(np.float64)
    large = expected >= _LEAST_EXPECTED
    rest = max(len(outputs) - float(expected[large].sum()), 0.0)
    if rest < _LEAST_EXPECTED:
        # Too little is left for a cell of its own: it joins the smallest cell.
        smallest = np.flatnonzero(large)[np.argmin(expected[large])]
        expected[smallest] += rest
        observed[smallest] += float(observed[~large].sum())
        return _pearson(observed[large], expected[large])
    return _pearson(
        np.append(observed[large], observed[~large].sum()), np.append(expected[large], rest)
    )


def fit_uniform(outputs: IntArray, size: int) -> Fit:
    """Compare outputs with the uniform law on 0, ..., size - 1."""
    return _pearson(
        np.bincount(outputs, minlength=size).astype(np.float64),
        np.full(size, len(outputs) / size),
    )


def _pearson(observed: FloatArray, expected: FloatArray) -> Fit:
    gammaincc = special("gammaincc")
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    freedom = len(expected) - 1
    return Fit(statistic, freedom, float(gammaincc(freedom / 2, statistic / 2)))
