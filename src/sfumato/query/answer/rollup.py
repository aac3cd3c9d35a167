"""Figures of several levels made consistent: totals equal the sums of their parts.

The figures of a level are a marginal of one table over all declared keys, each with independent
noise of that level's variance. Weighted least squares falls apart by the analysis of variance: for
each set T of keys take from every level S that contains T the sum over S \\ T, and from that the
part which varies with every key of T and with no other,

    z_T = (product over a in T of (1 - mean over a)) (sum over S \\ T of the figures of S).

All levels estimate the same z_T; their noise has variance proportional to v_S prod_{a in S\\T} n_a,
so the best estimate weighs them by its inverse. The figures of a level are then the sum over T
within S of z_T / prod_{a in S\\T} n_a.
"""

from __future__ import annotations

from functools import reduce
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    Keys = tuple[int, ...]
    Figures = NDArray[np.float64]


def consistent(
    figures: Mapping[Keys, Figures], variances: Mapping[Keys, float], sizes: Mapping[int, int]
) -> dict[Keys, Figures]:
    """Give each level's figures by weighted least squares.

    A level is named by its keys, in order; its figures are an array with one axis for each.
    *Error*: the least variance among linear unbiased estimates; `variances_after` says which.
    *Reference*: Hay, Rastogi, Miklau & Suciu 2010 for trees; Gauss and Markov for the optimum.
    """
    parts = {
        part: _total(
            weight * _component(figures[level], level, part)
            for level, weight in _weights(part, variances, sizes).items()
        )
        for part in _parts(variances)
    }
    return {
        level: _total(
            _spread(parts[part], level, part) / _others(level, part, sizes)
            for part in _subsets(level)
        )
        for level in figures
    }


def variances_after(variances: Mapping[Keys, float], sizes: Mapping[int, int]) -> dict[Keys, float]:
    """The variance of every figure of each level after `consistent`, from public facts."""
    precision = {
        part: sum(
            1 / (variances[level] * _others(level, part, sizes))
            for level in _above(part, variances)
        )
        for part in _parts(variances)
    }
    return {
        level: sum(
            prod(1 - 1 / sizes[key] for key in part)
            / precision[part]
            / _others(level, part, sizes) ** 2
            for part in _subsets(level)
        )
        for level in variances
    }


def _weights(
    part: Keys, variances: Mapping[Keys, float], sizes: Mapping[int, int]
) -> dict[Keys, float]:
    """What each level's estimate of a part counts; together 1."""
    precision = {
        level: 1 / (variances[level] * _others(level, part, sizes))
        for level in _above(part, variances)
    }
    whole = sum(precision.values())
    return {level: one / whole for level, one in precision.items()}


def _component(figures: Figures, level: Keys, part: Keys) -> Figures:
    """Sum over the keys that are not in the part, and centre along those that are."""
    outside = tuple(axis for axis, key in enumerate(level) if key not in part)
    component = figures.sum(axis=outside)
    for axis in range(len(part)):
        component = component - component.mean(axis=axis, keepdims=True)
    return np.asarray(component, dtype=np.float64)


def _spread(component: Figures, level: Keys, part: Keys) -> Figures:
    """Lay a part along a level's axes."""
    missing = [axis for axis, key in enumerate(level) if key not in part]
    return np.expand_dims(component, missing)


def _total(terms: Iterable[Figures]) -> Figures:
    return reduce(np.add, terms)


def _others(level: Keys, part: Keys, sizes: Mapping[int, int]) -> int:
    return prod(sizes[key] for key in level if key not in part)


def _above(part: Keys, levels: Iterable[Keys]) -> list[Keys]:
    return [level for level in levels if set(part) <= set(level)]


def _parts(levels: Iterable[Keys]) -> set[Keys]:
    return {part for level in levels for part in _subsets(level)}


def _subsets(level: Keys) -> list[Keys]:
    return [part for size in range(len(level) + 1) for part in combinations(level, size)]
