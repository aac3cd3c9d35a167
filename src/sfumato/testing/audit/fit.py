"""Goodness of fit of integer outputs to an exact probability mass function."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.arrays import FloatArray, IntArray

_LEAST_EXPECTED = 20.0
"""The chi-square approximation is poor for small cells. The usual rule is 5, but audits use its far
tail."""


@dataclass(frozen=True)
class Fit:
    """Pearson's chi-square test; a small `p_value` rejects the distribution."""

    statistic: float
    freedom: int
    p_value: float


def fit(outputs: IntArray, mass: Callable[[IntArray], FloatArray]) -> Fit:
    """Test outputs against a distribution given by its mass at each integer.

    Integers whose expected count is below 20, and all integers outside the range of the outputs,
    are pooled into one cell.
    """
    low, high = int(outputs.min()), int(outputs.max())
    expected = mass(np.arange(low, high + 1)) * len(outputs)
    observed = np.bincount(outputs - low, minlength=high - low + 1).astype(np.float64)
    large = expected >= _LEAST_EXPECTED
    pooled_expected = max(len(outputs) - float(expected[large].sum()), 0.0)
    if pooled_expected < _LEAST_EXPECTED:
        # Too little for a cell of its own: pooled with the smallest cell.
        smallest = np.flatnonzero(large)[np.argmin(expected[large])]
        expected[smallest] += pooled_expected
        observed[smallest] += float(observed[~large].sum())
        return _pearson(observed[large], expected[large])
    return _pearson(
        np.append(observed[large], observed[~large].sum()),
        np.append(expected[large], pooled_expected),
    )


def fit_uniform(outputs: IntArray, size: int) -> Fit:
    """Test outputs against the uniform distribution on 0, ..., size - 1."""
    return _pearson(
        np.bincount(outputs, minlength=size).astype(np.float64),
        np.full(size, len(outputs) / size),
    )


def special(name: str) -> Any:
    """A function of `scipy.special`; without SciPy the error says what to install."""
    try:
        return getattr(import_module("scipy.special"), name)
    except ModuleNotFoundError:
        raise ImportError(
            "The auditor needs SciPy. Install it with: pip install 'sfumato[audit]'."
        ) from None


def _pearson(observed: FloatArray, expected: FloatArray) -> Fit:
    gammaincc = special("gammaincc")
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    freedom = len(expected) - 1
    return Fit(statistic, freedom, float(gammaincc(freedom / 2, statistic / 2)))
