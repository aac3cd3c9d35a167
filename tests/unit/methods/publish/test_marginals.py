"""Marginals: what is measured, how far it is off, and that the tables agree.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
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
from sfumato.methods.publish.marginals import prepare
from sfumato.methods.publish.publication import prepare as publication
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.events import Composed, GaussianNoise, LaplaceNoise
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.publish.marginals import MarginalStrategy

BOTH: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": 1}]
REPLACED = Rows(relation=Neighbours.REPLACE_ONE)


def columns(*sizes: int) -> tuple[Axis, ...]:
    """Columns a, b, c, ... of so many values."""
    return tuple(
        Grid(chr(97 + place), Kind.INTEGER, Bounds(0, size - 1), nullable=False)
        for place, size in enumerate(sizes)
    )


def request(axes: tuple[Axis, ...], unit: Unit | None = None, **given: Any) -> Request:
    postprocess = given.pop("postprocess", ())
    return Request(
        dataset="d",
        axes=axes,
        unit=unit or Rows(),
        price=price(**given),
        postprocess=postprocess,
    )


def filled(axes: tuple[Axis, ...], seed: int = 1) -> Frequencies:
    """Some rows in most cells."""
    sizes = [axis.size for axis in axes]
    table = np.random.default_rng(seed).poisson(3, sizes)
    return Frequencies(axes, np.nonzero(table), table[np.nonzero(table)])


def dense(axes: tuple[Axis, ...], table: pa.Table) -> NDArray[np.float64]:
    return np.asarray(table["count"]).reshape([axis.size for axis in axes])


def test_every_cell_of_every_set_is_released_in_order_with_missing_values() -> None:
    city = Listed("city", pa.array(["Rome", "Pisa", None]), declared=True)
    age = Grid("age", Kind.INTEGER, Bounds(10, 20, 10), nullable=True)
    sex = Listed("sex", pa.array(["f", "m"]), declared=True)
    counts = Frequencies(
        (city, age, sex), (np.array([0, 2]), np.array([1, 2]), np.array([1, 0])), np.array([900, 7])
    )
    released = prepare(request(counts.axes, epsilon=10)).release(counts, SeededEntropy(1))
    assert list(released) == ["city,age", "city,sex", "age,sex"]
    table = released["city,age"]
    assert table.column_names == ["city", "age", "count"]
    assert table["city"].to_pylist() == ["Rome"] * 3 + ["Pisa"] * 3 + [None] * 3
    assert table["age"].to_pylist() == [10, 20, None] * 3
    assert np.abs(np.asarray(table["count"]) - [0, 900, 0, 0, 0, 0, 0, 0, 7]).max() < 20


COSTS: dict[str, tuple[Unit, dict[str, Any]]] = {
    "laplace": (Rows(), {"epsilon": 1}),
    "gaussian": (Rows(), {"rho": "1/2"}),
    "gaussian-replaced": (REPLACED, {"rho": "1/2"}),
    "person": (Entity("p", max_rows=3), {"rho": 2}),
}
SETS = {
    "pairs": "a*b,a*c,b*c",
    "chain": "a*b,b*c,c*d",
    "nested": "a*b*c,a*b,d",
    "one": "a*c",
    "loose": "a,b,c,d",
}


@dataclass
class Recorded:
    """Noise of a known variance that is drawn beforehand, and what came out."""

    variance: float
    generator: np.random.Generator
    seen: list[NDArray[np.int64]] = field(default_factory=list)

    def steps(self, values: NDArray[np.int64], entropy: object) -> NDArray[np.int64]:
        del entropy
        self.seen.append(values + self.generator.integers(-50, 50, values.shape))
        return self.seen[-1]


def adding(sizes: list[int], places: tuple[int, ...]) -> NDArray[np.float64]:
    """The matrix that adds all cells up to a marginal."""
    matrix: NDArray[Any] = np.ones((1, 1))
    for place, size in enumerate(sizes):
        matrix = np.kron(matrix, np.eye(size) if place in places else np.ones((1, size)))
    return matrix


def measuring(strategy: MarginalStrategy, sizes: list[int]) -> NDArray[np.float64]:
    """The matrix of all measurements, each divided by its noise's standard deviation."""
    rows = []
    for places, noise in zip(strategy.measured, strategy.noises, strict=True):
        matrix = adding(sizes, places)
        if strategy.centred:
            centre: NDArray[Any] = np.ones((1, 1))
            for place in places:
                centre = np.kron(centre, sizes[place] * np.eye(sizes[place]) - 1)
            matrix = centre @ matrix
        rows.append(matrix / math.sqrt(noise.variance))
    return np.vstack(rows)


@pytest.mark.parametrize("of", SETS)
@pytest.mark.parametrize("cost", COSTS)
def test_estimates_and_variances_are_those_of_dense_least_squares(cost: str, of: str) -> None:
    axes = columns(2, 3, 4, 2)
    sizes = [axis.size for axis in axes]
    unit, paid = COSTS[cost]
    method = prepare(request(axes, unit, **paid), of=SETS[of])
    generator = np.random.default_rng(5)
    noises = [Recorded(noise.variance, generator) for noise in method.strategy.noises]
    strategy = replace(method.strategy, noises=tuple(noises))  # type: ignore[arg-type]
    residuals = strategy.measure(filled(axes), "abcd", SeededEntropy(1))
    matrix = measuring(strategy, sizes)
    answers = np.concatenate(
        [noise.seen[0].ravel() / math.sqrt(noise.variance) for noise in noises]
    )
    inverse = np.linalg.pinv(matrix.T @ matrix)
    for places in method.sets:
        wanted = adding(sizes, places)
        expected = wanted @ inverse @ matrix.T @ answers
        found = strategy.fitted.marginal(residuals, places).ravel()
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
        variances = np.diag(wanted @ inverse @ wanted.T)
        stated = method.strategy.fitted.cell_variance(places)
        np.testing.assert_allclose(variances, stated, rtol=1e-8)


@pytest.mark.parametrize("cost", COSTS)
def test_the_stated_errors_are_those_of_many_releases(cost: str) -> None:
    """All cells of a table have the same variance; a release gives one mean of their squares."""
    axes, releases = columns(12, 15, 20), 60
    counts = filled(axes)
    unit, paid = COSTS[cost]
    method = prepare(request(axes, unit, **paid), of="a*b,b*c,a")
    entropy = SeededEntropy(3)
    truth = {name: counts.marginal(name.split(",")).dense() for name in method.error["tables"]}
    squares: dict[str, list[float]] = {name: [] for name in truth}
    for _ in range(releases):
        for name, table in method.release(counts, entropy).items():
            off = np.asarray(table["count"]) - truth[name].ravel()
            squares[name].append(float(np.mean(off**2)))
    for name, stated in method.error["tables"].items():
        mean, spread = np.mean(squares[name]), np.std(squares[name], ddof=1)
        # Student's t with 59 degrees of freedom passes 5.5 with probability 1e-6.
        assert abs(mean - stated["sd"] ** 2) < 5.5 * spread / math.sqrt(releases)


@pytest.mark.parametrize("cost", COSTS)
def test_tables_agree_where_they_share_columns(cost: str) -> None:
    axes = columns(3, 2, 5, 4)
    unit, paid = COSTS[cost]
    method = prepare(request(axes, unit, **paid), of="a*b*c,b*c*d,a*d,c")
    released = method.release(filled(axes), SeededEntropy(2))
    tables = {
        places: dense(tuple(axes[place] for place in places), table)
        for places, table in zip(method.sets, released.values(), strict=True)
    }
    for (first, one), (second, other) in combinations(tables.items(), 2):
        shared = set(first) & set(second)
        sums = [
            table.sum(axis=tuple(at for at, place in enumerate(places) if place not in shared))
            for places, table in ((first, one), (second, other))
        ]
        np.testing.assert_allclose(sums[0], sums[1], rtol=0, atol=1e-9)


def test_what_is_measured_costs_the_price_and_no_more() -> None:
    axes = columns(3, 4, 5)
    laplace = prepare(request(axes, epsilon="3/8")).event
    assert isinstance(laplace, Composed)
    losses = [one.epsilon for one in laplace.events if isinstance(one, LaplaceNoise)]
    assert len(losses) == len(laplace.events)
    assert sum(losses) == Fraction(3, 8)
    gaussian = prepare(request(axes, REPLACED, rho="1/8")).event
    assert isinstance(gaussian, Composed)
    rhos = [one.rho for one in gaussian.events if isinstance(one, GaussianNoise)]
    assert len(rhos) == len(gaussian.events)
    assert sum(rhos) == Fraction(1, 8)


@pytest.mark.parametrize(
    ("cost", "noise"),
    [
        ({"epsilon": 1}, Geometric(epsilon=Fraction(1))),
        ({"rho": "3/8"}, Gaussian(rho=Fraction(3, 8))),
    ],
)
def test_one_table_is_a_histogram(cost: dict[str, Any], noise: Geometric | Gaussian) -> None:
    method = prepare(request(columns(3, 4), **cost))
    assert method.strategy.measured == ((0, 1),)
    assert method.strategy.noises == (noise,)
    assert method.error["all"]["sd"] == pytest.approx(noise.stddev)


def test_noise_is_that_of_least_error() -> None:
    few = prepare(request(columns(40, 40), epsilon=1, delta="1e-9"))
    assert few.parameters["noise"] == "geometric"
    many = prepare(request(columns(*[6] * 10), epsilon=1, delta="1e-6"))
    assert many.parameters["noise"] == "gaussian"
    assert many.parameters["measured"] == "residuals"
    pure = prepare(request(columns(*[6] * 10), epsilon=1))
    assert many.strategy.total_variance < pure.strategy.total_variance
    assert isinstance(prepare(request(columns(9), rho=1)).strategy.noises[0], Gaussian)


def test_residuals_are_measured_only_where_people_are_added() -> None:
    axes = columns(2, 3, 4)
    added, replaced = (prepare(request(axes, unit, rho=1)) for unit in (Rows(), REPLACED))
    assert added.parameters["measured"] == "residuals"
    assert replaced.parameters["measured"] == "tables"


def test_small_tables_are_merged_for_a_pure_epsilon() -> None:
    """All 56 triples of 8 bits come from all 256 cells: a twentieth of the noise of 56 tables."""
    method = prepare(request(columns(*[2] * 8), epsilon=1), way=3)
    assert method.strategy.measured == (tuple(range(8)),)
    wide = prepare(request(columns(*[10] * 4), epsilon=1))
    assert wide.strategy.measured == wide.sets


def test_weights_move_the_error_to_where_it_matters_less() -> None:
    axes = columns(5, 6, 7)
    for paid in BOTH:
        equal = prepare(request(axes, **paid)).error["tables"]
        uneven = prepare(request(axes, **paid), weights="100,1,1").error["tables"]
        assert uneven["a,b"]["sd"] < equal["a,b"]["sd"]
        assert uneven["b,c"]["sd"] > equal["b,c"]["sd"]
    tiny = prepare(request(axes, epsilon=1), weights=["1e6", "1e-6", "1e-6"]).error["tables"]
    assert all(math.isfinite(one["sd"]) for one in tiny.values())


def test_noise_grows_with_the_rows_of_a_person() -> None:
    axes = columns(5, 6, 7)
    one, three = (
        prepare(request(axes, Entity("p", max_rows=rows), rho=1)).error["all"]["sd"]
        for rows in (1, 3)
    )
    assert three == pytest.approx(3 * one, rel=1e-6)


def test_a_column_of_one_value_changes_nothing() -> None:
    axes = (*columns(3, 4), Grid("c", Kind.INTEGER, Bounds(7, 7), nullable=False))
    method = prepare(request(axes, rho=1))
    assert method.strategy.lattice.sizes == (3, 4)
    released = method.release(filled(axes), SeededEntropy(1))
    assert released["a,c"]["c"].to_pylist() == [7, 7, 7]
    sums = dense(axes[:2], released["a,b"]).sum(axis=1)
    np.testing.assert_allclose(np.asarray(released["a,c"]["count"]), sums)
    lone = prepare(request(axes[2:], epsilon=1)).release(filled(axes[2:]), SeededEntropy(1))
    assert len(lone["c"]) == 1


def test_no_rows_give_noise_alone() -> None:
    axes = columns(3, 4, 5)
    none = Frequencies(axes, (np.empty(0, np.int64),) * 3, np.empty(0, np.int64))
    for paid in BOTH:
        released = prepare(request(axes, **paid)).release(none, SeededEntropy(1))
        figures = np.concatenate([np.asarray(one["count"]) for one in released.values()])
        assert 0 < np.abs(figures).max() < 100


def test_counts_too_large_to_centre_in_64_bits_are_cut_not_wrapped() -> None:
    axes = columns(100, 100)
    huge = Frequencies(axes, (np.array([0, 1]), np.array([0, 1])), np.array([1 << 61, 5]))
    released = prepare(request(axes, rho=1)).release(huge, SeededEntropy(1))
    assert dense(axes, released["a,b"])[0, 0] > 1e14


def test_postprocessing_is_done_when_named() -> None:
    axes = columns(4, 5, 3)
    plain = prepare(request(axes, epsilon="0.2"))
    assert "note" not in plain.error
    named = prepare(request(axes, epsilon="0.2", postprocess=("nonnegative", "integer")))
    assert "before post-processing" in named.error["note"]
    released = named.release(filled(axes), SeededEntropy(1))
    assert {table["count"].type for table in released.values()} == {pa.int64()}
    totals = {np.asarray(table["count"]).sum() for table in released.values()}
    assert len(totals) == 1
    assert min(np.asarray(table["count"]).min() for table in released.values()) >= 0
    public = request(axes, epsilon="0.2", postprocess=("total",))
    fixed = prepare(public, total=181).release(filled(axes), SeededEntropy(1))
    assert np.asarray(fixed["a,b"]["count"]).sum() == pytest.approx(181)


def test_parameters_are_json_and_name_every_measurement() -> None:
    made = publication("marginals", request(columns(2, 3, 4), rho=1), {"way": "2"})
    chosen = json.loads(json.dumps(made.parameters["method"]))
    assert chosen["marginals"] == ["a,b", "a,c", "b,c"]
    assert sum(map(Fraction, chosen["shares"].values())) == 1
    assert {"a,b", "a", ""} < set(chosen["shares"])
    json.dumps(made.error)


@pytest.mark.parametrize(
    ("given", "sets"),
    [
        ({}, ["a,b", "a,c", "b,c"]),
        ({"way": 1}, ["a", "b", "c"]),
        ({"way": "3"}, ["a,b,c"]),
        ({"of": "b*a, c"}, ["a,b", "c"]),
        ({"of": ["a*b", "b * c"]}, ["a,b", "b,c"]),
        ({"of": [["c", "a"], ("b",)]}, ["a,c", "b"]),
    ],
)
def test_sets_are_read_as_texts_or_lists(given: dict[str, Any], sets: list[str]) -> None:
    assert prepare(request(columns(2, 3, 4), rho=1), **given).parameters["marginals"] == sets


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"way": 4}, "parameter_out_of_range"),
        ({"way": 0}, "parameter_out_of_range"),
        ({"way": 1, "of": "a"}, "options_conflict"),
        ({"of": []}, "workload_invalid"),
        ({"of": 3}, "workload_invalid"),
        ({"of": [3]}, "workload_invalid"),
        ({"of": [[]]}, "workload_invalid"),
        ({"of": "a*e"}, "column_unknown"),
        ({"of": "a*b,"}, "column_unknown"),
        ({"of": "a*b,b*a"}, "workload_invalid"),
        ({"weights": "1,2"}, "array_invalid"),
        ({"weights": 3}, "array_invalid"),
        ({"weights": "1,2,0"}, "parameter_out_of_range"),
        ({"total": 5}, "parameter_missing"),
    ],
)
def test_other_options_are_refused(given: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        prepare(request(columns(2, 3, 4), rho=1), **given)
    assert refused.value.code == code


def test_too_many_marginals_or_cells_or_too_wide_ones_are_refused() -> None:
    with pytest.raises(ParameterError) as refused:
        prepare(request(columns(*[2] * 20), rho=1), way=10)
    assert refused.value.code == "problem_too_large"
    with pytest.raises(ParameterError) as refused:
        prepare(request(columns(*[2] * 20), rho=1), way=20)
    assert refused.value.code == "problem_too_large"
    with pytest.raises(ParameterError, match="1,000,000,000 cells") as refused:
        prepare(request(columns(1000, 1000, 1000), rho=1), way=3)
    assert refused.value.code == "problem_too_large"
