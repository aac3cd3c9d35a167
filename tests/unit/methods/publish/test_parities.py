"""Marginals by parities: which are needed, and the whole counts that come nearest to them.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.counting.axes import Axis, Grid, Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit
from sfumato.errors import ParameterError
from sfumato.methods.publish.fourier import Series, prepare_parities
from sfumato.methods.publish.fourier import prepare as fourier
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.events import GaussianNoise, LaplaceNoise
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray


def columns(*sizes: int) -> tuple[Axis, ...]:
    return tuple(
        Grid(chr(97 + place), Kind.INTEGER, Bounds(0, size - 1), nullable=False)
        for place, size in enumerate(sizes)
    )


def request(axes: tuple[Axis, ...], unit: Unit | None = None, **given: Any) -> Request:
    postprocess = given.pop("postprocess", ())
    cost = price(**(given or {"epsilon": 1}))
    return Request(dataset="d", axes=axes, unit=unit or Rows(), price=cost, postprocess=postprocess)


def filled(axes: tuple[Axis, ...], mean: float = 20) -> Frequencies:
    sizes = [axis.size for axis in axes]
    table = np.random.default_rng(1).poisson(mean, sizes)
    return Frequencies(axes, np.nonzero(table), table[np.nonzero(table)])


def test_all_pairs_of_bits_need_the_parities_of_at_most_two() -> None:
    method = prepare_parities(request(columns(2, 2, 2, 2)))
    assert len(method.coefficients) == 1 + 4 + 6
    assert max(int(one).bit_count() for one in method.coefficients) == 2
    assert len(prepare_parities(request(columns(2, 2, 2, 2)), way=4).coefficients) == 16


def test_a_column_of_three_values_takes_two_bits() -> None:
    method = prepare_parities(request(columns(3, 2, 2)), of="a*b,c")
    assert sorted(method.coefficients.tolist()) == [0, 1, 2, 4, 6, 8, 10, 12, 14]
    assert method.matrix.shape == (9, 12)


def test_parities_are_orthogonal_and_tell_their_marginals() -> None:
    axes = columns(4, 2, 2)
    method = prepare_parities(request(axes), of="a*b,b*c")
    matrix = method.matrix
    np.testing.assert_array_equal(matrix @ matrix.T, 16 * np.eye(len(matrix)))
    truth = filled(axes).dense()
    back = (matrix.T @ (matrix @ truth.ravel()) / 16).reshape(truth.shape)
    np.testing.assert_allclose(back.sum(axis=2), truth.sum(axis=2))
    np.testing.assert_allclose(back.sum(axis=0), truth.sum(axis=0))


@pytest.mark.parametrize(
    ("unit", "l1", "l2_squared"),
    [
        (Rows(), 11, 11),
        (Rows(relation=Neighbours.REPLACE_ONE), 22, 44),
        (Entity("p", max_rows=3), 33, 99),
        (Entity("p", max_rows=3, relation=Neighbours.REPLACE_ONE), 66, 396),
    ],
)
def test_a_row_moves_every_coefficient_by_one_and_a_replaced_one_by_two(
    unit: Unit, l1: int, l2_squared: int
) -> None:
    axes = columns(2, 2, 2, 2)
    laplace = prepare_parities(request(axes, unit, epsilon=2)).event
    assert laplace == LaplaceNoise(scale=Fraction(l1, 2), l1_sensitivity=Fraction(l1))
    gaussian = prepare_parities(request(axes, unit, rho=2)).event
    assert gaussian == GaussianNoise(
        variance=Fraction(l2_squared, 4), l2_sensitivity_squared=Fraction(l2_squared)
    )


def released(
    axes: tuple[Axis, ...], seed: int, of: str, **cost: Any
) -> dict[tuple[int, ...], NDArray[np.int64]]:
    method = prepare_parities(request(axes, **cost), of=of)
    tables = method.release(filled(axes), SeededEntropy(seed))
    return {
        places: np.asarray(table["count"]).reshape([axes[place].size for place in places])
        for places, table in zip(method.sets, tables.values(), strict=True)
    }


@pytest.mark.parametrize("seed", range(5))
def test_tables_are_whole_not_negative_and_agree(seed: int) -> None:
    tables = released(columns(3, 2, 4, 2), seed, "a*b,b*c,a*c*d", epsilon="0.1")
    for table in tables.values():
        assert table.dtype == np.int64
        assert table.min() >= 0
    for (first, one), (second, other) in combinations(tables.items(), 2):
        shared = set(first) & set(second)
        sums = [
            table.sum(axis=tuple(at for at, place in enumerate(places) if place not in shared))
            for places, table in ((first, one), (second, other))
        ]
        np.testing.assert_array_equal(sums[0], sums[1])


def test_the_nearest_counts_are_no_further_than_the_truth_and_few() -> None:
    axes = columns(3, 2, 4, 2)
    method = prepare_parities(request(axes))
    truth = filled(axes).dense().ravel()
    noise = np.random.default_rng(2).integers(-40, 41, len(method.coefficients))
    counts = method.nearest((method.matrix @ truth + noise).astype(np.float64))
    assert np.count_nonzero(counts) <= len(method.coefficients)
    # Rounding moves a coefficient by at most half a row for each count above 0.
    off = np.abs(method.matrix @ (counts - truth))
    assert off.max() <= 2 * 40 + len(method.coefficients) / 2


def test_without_noise_the_marginals_are_exact_where_counts_are_whole() -> None:
    axes = columns(2, 2, 2)
    method = prepare_parities(request(axes), way=3)
    truth = filled(axes).dense().ravel()
    np.testing.assert_array_equal(method.nearest((method.matrix @ truth).astype(np.float64)), truth)


def test_all_cells_are_within_the_stated_bound_as_often_as_stated() -> None:
    axes, releases = columns(2, 2, 2, 2, 2), 200
    counts = filled(axes)
    method = prepare_parities(request(axes))
    entropy = SeededEntropy(4)
    misses = 0
    for _ in range(releases):
        misses += any(
            np.abs(
                np.asarray(table["count"]) - counts.marginal(name.split(",")).dense().ravel()
            ).max()
            > method.error["tables"][name]["largest95"]
            for name, table in method.release(counts, entropy).items()
        )
    # 200 trials at 5 % give 28 or more misses with probability below 1e-6.
    assert misses < 28


def test_errors_and_parameters_are_json() -> None:
    method = prepare_parities(request(columns(3, 2, 2), epsilon=1, delta="1e-6"))
    stated = json.loads(json.dumps(method.error))
    assert set(stated["tables"]) == {"a,b", "a,c", "b,c"}
    assert stated["coefficient"]["sd"] == method.noise.stddev
    assert stated["tables"]["b,c"]["largest95"] - stated["tables"]["a,b"]["largest95"] == 0.5
    assert json.loads(json.dumps(method.parameters))["coefficients"] == 13


def test_missing_values_have_cells() -> None:
    sex = Listed("sex", pa.array(["f", "m", None]), declared=True)
    axes = (sex, *columns(2))
    table = prepare_parities(request(axes)).release(filled(axes), SeededEntropy(1))["sex,a"]
    assert table["sex"].to_pylist() == ["f", "f", "m", "m", None, None]


def test_noise_is_that_of_least_variance() -> None:
    method = prepare_parities(request(columns(*[2] * 8), epsilon=1, delta="1e-6"))
    assert isinstance(method.noise, Gaussian)


@pytest.mark.parametrize(
    ("axes", "given", "code"),
    [
        (columns(300, 300), {}, "problem_too_large"),
        (columns(*[2] * 12), {"way": 3}, "problem_too_large"),
        (columns(*[2] * 20), {"way": 1}, "problem_too_large"),
        (columns(2, 2), {"way": 3}, "parameter_out_of_range"),
    ],
)
def test_what_is_too_large_is_refused(
    axes: tuple[Axis, ...], given: dict[str, Any], code: str
) -> None:
    with pytest.raises(ParameterError) as refused:
        prepare_parities(request(axes), **given)
    assert refused.value.code == code


def test_postprocessing_is_refused_as_there_is_nothing_left_to_do() -> None:
    with pytest.raises(ParameterError) as refused:
        prepare_parities(request(columns(2, 2), epsilon=1, postprocess=("integer",)))
    assert refused.value.code == "option_not_applicable"


def test_one_column_is_a_series_and_several_are_parities() -> None:
    assert isinstance(fourier(request(columns(16)), coefficients=3), Series)
    several = fourier(request(columns(2, 2, 2)), of="a*b")
    assert several.parameters["marginals"] == ["a,b"]
    for axes, given in ((columns(16), {"way": 1}), (columns(2, 2), {"coefficients": 3})):
        with pytest.raises(ParameterError) as refused:
            fourier(request(axes), **given)
        assert refused.value.code == "option_not_applicable"


def test_the_unitary_scaling_is_the_papers() -> None:
    """|B| coefficients of a row have an L1 norm of |B| 2^(-d/2) once the matrix is unitary."""
    method = prepare_parities(request(columns(*[2] * 6)), way=6)
    unitary = method.matrix / math.sqrt(2**6)
    np.testing.assert_allclose(unitary @ unitary.T, np.eye(64), atol=1e-12)
    np.testing.assert_allclose(np.abs(unitary).sum(axis=0), 64 * 2**-3)
