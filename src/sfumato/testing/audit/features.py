"""Features of outputs that an attacker might use: each maps outputs to discrete keys.

Every fixed map is valid, because it is post-processing; keys may collide. A map may be fitted to
outputs that the final test does not use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray

Keys = Callable[["NDArray[Any]"], "NDArray[np.uint64]"]

_BINS = 64
"""A compromise: narrow bins show small shifts, wide ones hold many outputs."""
_COARSE = 3
"""Bins for each part of an output: with k parts there are 3^k combinations."""
# The multiplier of SplitMix64. Keys may collide: a collision only weakens an audit.
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Feature:
    """A named map of outputs to keys."""

    name: str
    keys: Keys


def features(outputs: NDArray[Any]) -> list[Feature]:
    """The features for outputs of this type; bins are fitted to the given outputs."""
    if outputs.ndim == 1:
        return _number_features(outputs)
    feature_list = [
        Feature("whole", _hash_rows),
        Feature("whole, coarse", _coarse_rows(outputs)),
    ]
    for column in range(outputs.shape[1]):
        feature_list += _part_features(f"part {column}", _column(column), outputs)
    for column in range(1, outputs.shape[1]):
        # Noise used twice cancels in a difference.
        feature_list += _part_features(f"part {column} - part 0", _difference(column), outputs)
    return feature_list


def lowest_bit(outputs: NDArray[Any]) -> IntArray:
    """The exponent of the lowest set bit of each float (Haney et al. 2022).

    Adding floating-point noise to a large value clears low bits that noise on a small value has.
    A zero, which has no set bit, gives 4096.
    """
    # The 53 bits of the significand as a whole number; `digits & -digits` is its lowest set bit.
    mantissa, exponent = np.frexp(np.nan_to_num(outputs.astype(np.float64)))
    digits = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    return np.where(digits == 0, 4096, lowest + exponent - 53).astype(np.int64)


def on_grid(outputs: FloatArray, granule: float) -> BoolArray:
    """Which floats are exact multiples of a power-of-two granule."""
    # Dividing by a power of two is exact, so fmod sees every bit below the grid.
    return np.asarray(np.fmod(outputs / granule, 1.0) == 0.0)


def reachable(
    forward: Callable[[NDArray[Any]], FloatArray],
    inverse: Callable[[FloatArray], NDArray[Any]],
    *,
    spread: int = 3,
) -> Feature:
    """The feature: can a floating-point sampler produce this output at all? (Mironov 2012)

    `inverse` guesses the integer seed of an output; `forward` maps seeds to outputs. An output is
    reachable when a seed within `spread` of the guess gives it exactly.
    """

    def keys(outputs: NDArray[Any]) -> NDArray[np.uint64]:
        guess = inverse(outputs)
        hit = np.zeros(outputs.shape, dtype=np.bool_)
        for step in range(-spread, spread + 1):
            hit |= forward(guess + step) == outputs
        return hit.astype(np.uint64)

    return Feature("reachable", keys)


def _part_features(name: str, select: Keys, outputs: NDArray[Any]) -> list[Feature]:
    def after(inner: Keys) -> Keys:
        return lambda rows: inner(select(rows))

    return [
        Feature(f"{name}: {feature.name}", after(feature.keys))
        for feature in _number_features(select(outputs))
    ]


def _number_features(outputs: NDArray[Any]) -> list[Feature]:
    number_features = [Feature("value", _bits)]
    if outputs.dtype.kind not in "iuf":
        return number_features
    if len(np.unique(outputs[:: len(outputs) // 1024 + 1])) > _BINS:
        number_features.append(Feature("bins", _bins(_edges(outputs, _BINS))))
    if outputs.dtype.kind == "f":
        number_features += [
            Feature("lowest bit", lambda values: _bits(lowest_bit(values))),
            Feature("low byte", lambda values: _bits(values) & np.uint64(0xFF)),
            Feature("exponent", lambda values: _bits(values) >> np.uint64(52)),
        ]
    return number_features


def _edges(values: NDArray[Any], bins: int) -> NDArray[Any]:
    """The edges of bins with about equal numbers of values; NaN falls into the last bin."""
    finite = values[np.isfinite(values)]
    cuts = np.linspace(0, 1, bins + 1)[1:-1]
    return np.unique(np.quantile(finite, cuts)) if finite.size else finite


def _bins(edges: NDArray[Any]) -> Keys:
    return lambda values: np.searchsorted(edges, values, side="right").astype(np.uint64)


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Read a number as 64 bits: exact for integers and floats, a hash for anything else."""
    if values.dtype.kind == "f":
        return values.astype(np.float64).view(np.uint64)
    if values.dtype.kind in "iub":
        return values.astype(np.int64).view(np.uint64)
    hashes = [hash(value) for value in values.tolist()]
    return np.array(hashes, dtype=np.int64).view(np.uint64)


def _hash_rows(rows: NDArray[Any]) -> NDArray[np.uint64]:
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in range(rows.shape[1]):
        mixed = (mixed ^ _bits(rows[:, column])) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _coarse_rows(rows: NDArray[Any]) -> Keys:
    edges = [_edges(column, _COARSE) for column in rows.T]

    def keys(outputs: NDArray[Any]) -> NDArray[np.uint64]:
        codes = [
            np.searchsorted(edge, column, side="right")
            for edge, column in zip(edges, outputs.T, strict=True)
        ]
        return _hash_rows(np.stack(codes, axis=1))

    return keys


def _column(index: int) -> Keys:
    return lambda rows: rows[:, index]


def _difference(index: int) -> Keys:
    return lambda rows: rows[:, index] - rows[:, 0]
