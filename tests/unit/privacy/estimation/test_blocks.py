"""Nestings: energies by closed form and by matrices, fan-outs, cuts."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.privacy.estimation.blocks import Nesting, balanced, box_energies, spectrum, variances

if TYPE_CHECKING:
    from numpy.typing import NDArray

LADDERS = [(7, (3, 3)), (12, (2, 2, 3)), (30, (2, 1, 4, 4)), (5, (5,)), (1, (1,)), (9, (2, 5))]


def projections(nesting: Nesting) -> list[NDArray[np.float64]]:
    means = [
        np.kron(np.eye(nesting.size // width), np.full((width, width), 1 / width))
        for width in nesting.widths
    ]
    return [means[0], *(fine - coarse for coarse, fine in pairwise(means))]


def all_ranges(points: int) -> NDArray[np.int64]:
    return np.array(list(combinations_with_replacement(range(points), 2)))


@pytest.mark.parametrize(("points", "fanouts"), LADDERS)
def test_energies_are_squared_lengths_of_projections(points: int, fanouts: tuple[int, ...]) -> None:
    nesting = Nesting(points, fanouts)
    ranges = all_ranges(points)
    cells = np.arange(nesting.size)
    rows = ((ranges[:, :1] <= cells) & (cells <= ranges[:, 1:])).astype(np.float64)
    expected = np.stack([((rows @ one) ** 2).sum(axis=1) for one in projections(nesting)], axis=1)
    found = nesting.energies(ranges[:, 0], ranges[:, 1])
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert np.allclose(nesting.usual_energies(), expected.mean(axis=0), rtol=1e-12, atol=1e-12)


def test_energies_of_a_range_sum_to_its_length() -> None:
    nesting = Nesting(1 << 20, (2,) * 20)
    low, high = np.array([0, 5, 77]), np.array([(1 << 20) - 1, 5, 123_456])
    assert np.allclose(nesting.energies(low, high).sum(axis=1), high - low + 1, rtol=1e-12)
    assert math.isclose(nesting.usual_energies().sum(), ((1 << 20) + 2) / 3, rel_tol=1e-12)


def test_a_range_that_ends_before_it_begins_has_no_energy() -> None:
    nesting = Nesting(9, (3, 3))
    assert not nesting.energies(np.array([4]), np.array([3])).any()
    boxes = np.array([[[4, 3], [0, 8]], [[0, 8], [5, 2]]])
    assert not variances((nesting, nesting), boxes, np.ones((3, 3))).any()


def test_cells_of_several_codes_count_in_part() -> None:
    nesting = Nesting(10, (2, 2), np.array([0, 4, 6, 7, 10]))
    whole, part = nesting.energies(np.array([4, 0]), np.array([6, 0]))
    assert np.allclose(whole, Nesting(4, (2, 2)).energies(np.array([1]), np.array([2])))
    assert np.allclose(part, Nesting(4, (2, 2)).energies(np.array([0]), np.array([0])) / 16)
    counts = np.arange(10)
    assert nesting.merged(counts, 0).tolist() == [6, 9, 6, 24]
    assert np.allclose(
        nesting.spread(np.array([6.0, 9, 6, 24]), 0)[[0, 3, 4, 6, 9]], [1.5, 1.5, 4.5, 6, 8]
    )


def test_padding_is_put_behind_and_taken_off() -> None:
    nesting = Nesting(5, (2, 3))
    padded = nesting.merged(np.arange(10).reshape(2, 5), 1)
    assert padded.tolist() == [[0, 1, 2, 3, 4, 0], [5, 6, 7, 8, 9, 0]]
    assert nesting.without_padding(padded.astype(np.float64), 1).shape == (2, 5)


@pytest.mark.parametrize("cells", [1, 2, 3, 17, 100, 365, 4096, 4099, 1 << 26])
def test_balanced_fan_outs_hold_all_cells_with_few_more(cells: int) -> None:
    for depth in range(1, max((cells - 1).bit_length(), 1) + 1):
        fanouts = balanced(cells, depth)
        assert len(fanouts) == depth
        assert max(fanouts) - min(fanouts) <= 1
        largest, held = max(fanouts), math.prod(fanouts)
        assert held // largest * (largest - 1) < cells <= held


def test_a_spectrum_is_the_mean_of_products() -> None:
    nestings = (Nesting(6, (2, 3)), Nesting(4, (4,)), Nesting(5, (5,)))
    low = np.random.default_rng(1).integers(0, 4, (50, 3))
    boxes = np.stack([low, np.minimum(low + 2, [5, 3, 4])], axis=2)
    parts = box_energies(nestings, boxes)
    assert np.allclose(spectrum(nestings, boxes), np.einsum("qi,qj,qk->ijk", *parts) / 50)
    precisions = np.random.default_rng(2).uniform(1, 2, (3, 2, 2))
    expected = np.einsum("qi,qj,qk,ijk->q", *parts, 1 / precisions)
    assert np.allclose(variances(nestings, boxes, precisions), expected)
