"""Fourier series: exact norms of the rounded matrix, exact noise, truth where nothing is cut off.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from tests.fixtures.counts import Silence, agrees, frequencies, request_for, whole_numbers

from sfumato.data.schema.unit import Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.publish.fourier import (
    DEFAULT_COEFFICIENTS,
    SCALE,
    Series,
    Waves,
    prepare_series,
)
from sfumato.methods.publish.request import PredictsVariance
from sfumato.privacy.accounting.events import GaussianNoise, LaplaceNoise
from sfumato.testing.entropy import SeededEntropy

SHAPES = [(1, 1), (2, 2), (3, 2), (8, 5), (8, 3), (9, 5), (100, 10)]


def matrix(waves: Waves) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The measured matrix, a column for each point, by measuring one row at each."""
    return waves.measured(np.eye(waves.points, dtype=np.int64)).T


@pytest.mark.parametrize(("points", "coefficients"), SHAPES)
def test_norms_are_those_of_the_columns_real_and_imaginary(points: int, coefficients: int) -> None:
    waves = Waves(points, coefficients)
    measured = matrix(waves)
    assert waves.columns.l1 == np.abs(measured).sum(axis=0).max()
    assert waves.columns.l2_squared == (measured**2).sum(axis=0).max()
    frequencies_ = np.fft.rfft(np.eye(points))[:, :coefficients].T * SCALE
    whole = np.abs(frequencies_.real).sum(axis=0) + np.abs(frequencies_.imag).sum(axis=0)
    assert waves.columns.l1 == pytest.approx(whole.max(), rel=1e-6)
    assert waves.columns.l2_squared == pytest.approx(coefficients * SCALE**2, rel=1e-6)


@pytest.mark.parametrize(("points", "coefficients"), SHAPES)
def test_without_noise_only_the_high_frequencies_are_lost(points: int, coefficients: int) -> None:
    waves = Waves(points, coefficients)
    counts = np.arange(points) * 7 % 5
    smooth = waves.inverse(waves.measured(counts).astype(np.float64))
    spectrum = np.fft.rfft(counts)
    spectrum[coefficients:] = 0
    np.testing.assert_allclose(smooth, np.fft.irfft(spectrum, points), atol=1e-5)


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": "0.1"}])
@pytest.mark.parametrize(("points", "coefficients"), [(8, 5), (9, 4), (31, 6)])
def test_noise_of_cells_and_ranges_is_as_stated(points: int, coefficients: int, cost: Any) -> None:
    made = prepare_series(request_for(whole_numbers(points), **cost), coefficients=coefficients)
    errors = made.smooth(np.zeros((20_000, points), dtype=np.int64), SeededEntropy(1))
    some = [0, 1, points // 2, points - 1]
    assert agrees(errors[:, some], made.error["cell"]["sd"] ** 2)
    boxes = np.array([[0, points - 1], [1, 3], [2, points - 2], [5, 4], [points, -1]])
    sums = np.pad(errors.cumsum(axis=1), [(0, 0), (1, 0)])
    ranges = sums[:, np.maximum(boxes[:, 1] + 1, boxes[:, 0])] - sums[:, boxes[:, 0]]
    assert agrees(ranges, made.ranges_variance(boxes[:, None]))


def test_opposite_columns_double_what_a_replaced_row_can_do() -> None:
    """With two points the coefficients of a row are (1, 1) or (1, -1): columns may be opposite."""
    replaced = Rows(relation=Neighbours.REPLACE_ONE)
    gaussian = prepare_series(request_for(whole_numbers(2), unit=replaced, rho=1)).event
    assert isinstance(gaussian, GaussianNoise)
    assert gaussian.l2_sensitivity_squared == 4 * 2 * SCALE**2
    laplace = prepare_series(request_for(whole_numbers(2), unit=replaced, epsilon=1)).event
    assert isinstance(laplace, LaplaceNoise)
    assert laplace.l1_sensitivity == 2 * 2 * SCALE


def test_release_has_every_cell_and_missing_values_apart() -> None:
    axes = whole_numbers(50, nullable=True)
    made = prepare_series(request_for(axes, rho=50), coefficients=26)
    assert isinstance(made, PredictsVariance)
    truth = np.append(np.arange(50) % 3 * 1_000, 5)
    tables = made.release(frequencies(axes, truth), SeededEntropy(2))
    table = tables["fourier"]
    assert table.column_names == ["a", "count"]
    assert table["a"].to_pylist() == [*range(50), None]
    errors = np.array(table["count"].to_pylist()) - truth
    sd = np.append(np.full(50, made.error["cell"]["sd"]), made.error["missing"]["sd"])
    assert (np.abs(errors) < 6 * sd).all()
    total = made.ranges(tables, np.array([[[0, 49]]]))[0]
    assert total == pytest.approx(sum(table["count"].to_pylist()[:50]))


def test_missing_values_are_counted_as_often_as_it_costs_nothing() -> None:
    made = prepare_series(request_for(whole_numbers(9, nullable=True), epsilon=1), coefficients=3)
    assert made.missing_weight == made.waves.columns.l1
    plain = prepare_series(request_for(whole_numbers(9, nullable=True), epsilon=1), coefficients=1)
    assert made.error["missing"]["sd"] == pytest.approx(plain.error["missing"]["sd"], rel=1e-6)


def test_postprocessing_keeps_the_total_and_says_so() -> None:
    axes = whole_numbers(20)
    made = prepare_series(request_for(axes, postprocess=("nonnegative",)))
    table = made.release(frequencies(axes, [9] + [0] * 19), SeededEntropy(3))["fourier"]
    assert min(table["count"].to_pylist()) >= 0
    assert "before post-processing" in made.error["note"]


def test_coefficients_are_ten_or_as_many_as_there_are() -> None:
    assert (
        prepare_series(request_for(whole_numbers(1000))).parameters["coefficients"]
        == DEFAULT_COEFFICIENTS
    )
    assert prepare_series(request_for(whole_numbers(5))).parameters["coefficients"] == 3
    with pytest.raises(ParameterError, match="coefficients must be a whole number from 1 to 3"):
        prepare_series(request_for(whole_numbers(5)), coefficients=4)


def test_a_silent_series_is_smooth() -> None:
    made = prepare_series(request_for(whole_numbers(64)), coefficients=1)
    silent = Series(made.domain, made.waves, cast("Any", Silence()), made.missing_weight)
    table = silent.release(frequencies(made.domain.axes, np.arange(64)), SeededEntropy(1))
    np.testing.assert_allclose(table["fourier"]["count"].to_pylist(), 31.5)
