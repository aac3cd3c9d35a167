"""Sparse releases: the same law as noise on every cell, in time of the cells in use.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

import math
import time
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.counts import frequencies
from tests.fixtures.publications import ABSENT, line, release_copies

from sfumato.data.counting.axes import Axis, Grid, Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit
from sfumato.errors import ParameterError
from sfumato.methods.publish.publication import prepare as publication
from sfumato.methods.publish.request import AnswersRanges, Request
from sfumato.methods.publish.sparse import METHODS, PrioritySample, ThresholdFilter, prepare
from sfumato.privacy.accounting.events import LaplaceNoise
from sfumato.privacy.accounting.price import price
from sfumato.testing.audit import fit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALPHA = 1e-6


def request(axes: tuple[Axis, ...], unit: Unit = Rows(), **cost: Any) -> Request:  # noqa: B008
    return Request(dataset="d", axes=axes, unit=unit, price=price(**(cost or {"epsilon": 1})))


def repeated(
    method: str, epsilon: str, threshold: int, truth: NDArray[np.int64], copies: int
) -> NDArray[np.int64]:
    """The releases of many copies of a table, one a row; ABSENT for a cell that is not there."""

    def make(axes: tuple[Axis, ...]) -> ThresholdFilter | PrioritySample:
        return prepare(request(axes, epsilon=epsilon), method=method, threshold=threshold)

    return release_copies(make, truth.tolist(), copies, SeededEntropy(3))


def mass(noise: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """The law of discrete Laplace noise."""
    return np.asarray(np.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(noise)))


@pytest.mark.parametrize("method", ["threshold", "filter"])
@pytest.mark.parametrize("epsilon", ["1", "1/5"])
def test_each_cell_has_the_law_of_noise_on_every_cell(method: str, epsilon: str) -> None:
    truth = np.array([0, 2, 0, 0, 9, 1, 0])
    outputs = repeated(method, epsilon, 4, truth, 40_000)
    for cell, count in enumerate(truth):

        def law(values: NDArray[np.int64], count: int = count) -> NDArray[np.float64]:
            far = np.abs(values) if method == "filter" else values
            return np.where(far >= 4, mass(values - count, float(Fraction(epsilon))), 0.0)

        released = outputs[:, cell][outputs[:, cell] != ABSENT]
        far = np.abs(released) if method == "filter" else released
        assert far.min() == 4
        # Whatever is not released is one more value, 0, which no released cell has.
        values = np.arange(-3000, 3000)
        left_out = 1 - law(values).sum()
        shown = np.where(outputs[:, cell] == ABSENT, 0, outputs[:, cell])
        found = fit(shown, lambda at: np.where(at == 0, left_out, law(at)))  # noqa: B023
        assert found.p_value > ALPHA, (cell, found)


@pytest.mark.parametrize("method", ["threshold", "filter"])
def test_cells_together_have_the_law_of_noise_on_every_cell(method: str) -> None:
    """Chi-square of which of the cells are released, over all 2^6 sets of them."""
    truth = np.array([0, 3, 0, 1, 0, 0])
    outputs = repeated(method, "1/2", 3, truth, 60_000)
    noise = np.arange(-200, 200)
    values = noise[:, None] + truth
    passes = (np.abs(values) if method == "filter" else values) >= 3
    chances = (mass(noise, 0.5)[:, None] * passes).sum(axis=0)
    bits = 1 << np.arange(len(truth))
    sets = np.arange(64)
    inside = (sets[:, None] & bits) > 0
    law = np.where(inside, chances, 1 - chances).prod(axis=1)
    found = fit((outputs != ABSENT) @ bits, lambda at: law[at])
    assert found.p_value > ALPHA, found


def test_a_priority_sample_has_the_law_of_one_from_noise_on_every_cell() -> None:
    """Two samples, of our releases and of naive ones: which cells, and coarsely what estimates."""
    truth, size, epsilon = np.zeros(60, dtype=np.int64), 3, 0.25
    truth[[7, 40]] = [15, 60]
    axes = (line("x", len(truth)),)
    made = prepare(request(axes, epsilon=epsilon), method="priority", size=size)
    assert isinstance(made, PrioritySample)
    assert made.level > 3
    counts, entropy = frequencies(axes, truth), SeededEntropy(5)
    ours = np.zeros((1_000, len(truth)))
    for row in ours:
        table = made.release(counts, entropy)["sparse"]
        row[table["x"].to_numpy()] = table["count"].to_numpy()
    assert (np.count_nonzero(ours, axis=1) == size).all()
    both = [ours, naive_priority(truth, size, epsilon, 40_000, made.level)]
    highest = [np.abs(one).max(axis=1) for one in both]
    edges = np.quantile(highest[1], [0.2, 0.4, 0.6, 0.8])
    keys = [
        np.searchsorted(edges, high)
        + 5 * (one[:, 7] > 0)
        + 10 * (one[:, 40] > 0)
        + 20 * (one[:, :7] != 0).sum(axis=1)
        + 80 * (one < 0).sum(axis=1)
        for one, high in zip(both, highest, strict=True)
    ]
    assert len(np.unique(keys[1])) > 60
    assert two_samples(keys[0], keys[1]) > ALPHA


def naive_priority(
    truth: NDArray[np.int64], size: int, epsilon: float, releases: int, level: int
) -> NDArray[np.float64]:
    """Noise on every cell, then the `size` highest priorities, with the next as least estimate."""
    generator = np.random.default_rng(17)
    shape = (releases, len(truth))
    steps = generator.geometric(1 - math.exp(-epsilon), (2, *shape))
    noisy = truth + steps[0] - steps[1]
    priorities = np.abs(noisy) / generator.random(shape)
    ranked = np.sort(priorities, axis=1)
    least = np.maximum(ranked[:, -size - 1 : -size], level)
    return np.where(priorities > least, np.sign(noisy) * np.maximum(np.abs(noisy), least), 0)


def two_samples(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """The p-value of Pearson's chi-square that two samples have one law; rare values pooled."""
    from scipy.stats import chi2_contingency

    values = np.unique(np.concatenate([first, second]))
    table = np.stack([(one[:, None] == values).sum(axis=0) for one in (first, second)])
    rare = table.sum(axis=0) * len(first) / (len(first) + len(second)) < 20
    pooled = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    return float(chi2_contingency(pooled[:, pooled.sum(axis=0) > 0]).pvalue)


def test_priority_estimates_are_unbiased_and_vary_as_stated() -> None:
    axes = (line("x", 3000),)
    dense = np.zeros(3000, dtype=np.int64)
    made = prepare(request(axes), method="priority", size=60)
    assert isinstance(made, AnswersRanges)
    boxes = np.array([[[0, 2999]], [[0, 99]]])
    sums = []
    for seed in range(800):
        tables = made.release(frequencies(axes, dense), SeededEntropy(seed))
        assert len(tables["sparse"]) == 60
        sums.append(made.ranges(tables, boxes)[0])
    stated = made.ranges_variance(boxes)
    assert stated[0] == pytest.approx(30 * stated[1])
    assert abs(np.mean(sums)) < 5 * (stated[0] / len(sums)) ** 0.5
    # The level varies by 1 / sqrt(60); 5 deviations of a variance of 800 draws are 25 %.
    assert np.var(sums) == pytest.approx(stated[0], rel=0.28)


def test_priority_estimates_of_cells_in_use_are_unbiased() -> None:
    axes = (line("x", 40),)
    dense = np.zeros(40, dtype=np.int64)
    dense[[3, 20, 21]] = [2, 50, 5]
    made = prepare(request(axes), method="priority", size=5)
    boxes = np.array([[[at, at]] for at in (3, 20, 21, 30)])
    found = np.array(
        [
            made.ranges(made.release(frequencies(axes, dense), SeededEntropy(seed)), boxes)
            for seed in range(700)
        ]
    )
    errors = found.std(axis=0) / len(found) ** 0.5
    assert (np.abs(found.mean(axis=0) - [2, 50, 5, 0]) < 5.2 * errors).all()


def test_the_variance_of_ranges_where_no_one_is() -> None:
    axes = (line("x", 100_000),)
    starts = np.arange(0, 100_000, 100)
    boxes = np.stack([starts, starts + 99], axis=1)[:, None, :]
    empty = frequencies(axes, np.zeros(100_000, dtype=np.int64))
    for method in ("threshold", "filter"):
        made = prepare(request(axes), method=method, threshold=3)
        sums = made.ranges(made.release(empty, SeededEntropy(1)), boxes)
        stated = made.ranges_variance(boxes)
        mean = 100 * made.error["empty_mean"]
        assert abs(sums.mean() - mean) < 5 * (stated[0] / len(sums)) ** 0.5
        # 5.5 deviations; 100 cells of which 4 pass make a kurtosis of about 4.
        assert np.var(sums) == pytest.approx(stated[0], rel=5.5 * (3.2 / len(sums)) ** 0.5)


@pytest.mark.parametrize("method", METHODS)
def test_a_domain_of_2_to_the_40_takes_the_time_of_its_non_zeros(method: str) -> None:
    axes = (line("x", 2**20), line("y", 2**20))
    codes = (np.arange(10_000) * 101, np.arange(10_000)[::-1].copy() * 103)
    counts = Frequencies(axes, codes, np.full(10_000, 400, dtype=np.int64))
    made = prepare(request(axes, epsilon="1/10"), method=method, size=500)
    # The best of three: one of them may meet the garbage of all other tests.
    times = []
    for _ in range(3):
        started = time.process_time()
        table = made.release(counts, SeededEntropy(1))["sparse"]
        times.append(time.process_time() - started)
    assert min(times) < 2
    if method == "priority":
        assert len(table) == 500
        return
    cells = list(zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True))
    found = dict(zip(cells, table["count"].to_pylist(), strict=True))
    used = zip(codes[0].tolist(), codes[1].tolist(), strict=True)
    # Noise at epsilon 1/10 is below -200 once in 1e9.
    assert all(abs(found[cell] - 400) < 300 for cell in used)
    assert abs(len(table) - 10_000 - made.error["empty_released"]) < 6 * 500**0.5


def test_domains_up_to_2_to_the_60_and_no_further() -> None:
    axes = tuple(line(name, 2**20) for name in "xyz")
    empty = tuple(np.empty(0, dtype=np.int64) for _ in axes)
    made = prepare(request(axes), size=2000)
    table = made.release(Frequencies(axes, empty, np.empty(0, dtype=np.int64)), SeededEntropy(2))[
        "sparse"
    ]
    first, third = table["x"].to_numpy() >> 18, table["z"].to_numpy() & 3
    # Three degrees of freedom: chi-square is above 31 with probability 1e-6.
    for part in (first, third):
        seen = np.bincount(part, minlength=4)
        assert ((seen - len(table) / 4) ** 2).sum() / (len(table) / 4) < 31
    with pytest.raises(ParameterError, match="1,152,921,504,606,846,976") as refused:
        prepare(request((*axes, line("w", 2))))
    assert refused.value.code == "problem_too_large"


def test_cells_are_decoded_and_come_in_order() -> None:
    city = Listed("city", pa.array(["Rome", "Pisa", None]), declared=True)
    day = Grid("day", Kind.DATE, Bounds(date(2024, 1, 1), date(2024, 1, 9), 4), nullable=True)
    price_of = Grid("price", Kind.REAL, Bounds(Decimal("0.5"), Decimal(2), Decimal("0.5")), True)
    axes = (city, day, price_of)
    dense = np.zeros([axis.size for axis in axes], dtype=np.int64)
    dense[1, 2, 3] = dense[0, 0, 0] = dense[2, 3, 4] = dense[1, 1, 5] = 1000
    made = prepare(request(axes, epsilon=10), threshold=500)
    tables = made.release(frequencies(axes, dense), SeededEntropy(2))
    rows = [tuple(row.values())[:3] for row in tables["sparse"].to_pylist()]
    assert rows[0] == ("Rome", date(2024, 1, 1), 0.5)
    assert rows[1][:2] == ("Pisa", date(2024, 1, 5))
    assert math.isnan(rows[1][2])
    assert rows[2:] == [("Pisa", date(2024, 1, 9), 2.0), (None, None, None)]
    boxes = np.array([[[0, 1], [0, 2], [0, 3]], [[1, 1], [2, 2], [3, 3]], [[0, 0], [1, 2], [0, 3]]])
    exact = tables["sparse"]["count"].to_pylist()
    assert made.ranges(tables, boxes).tolist() == [exact[0] + exact[2], exact[2], 0.0]


def test_ranges_keep_apart_integers_that_floats_cannot() -> None:
    low = 2**62
    axes = (Grid("x", Kind.INTEGER, Bounds(low, low + 2**59 - 1, 1), nullable=True),)
    counts = Frequencies(axes, (np.array([2**58, 2**58 + 1]),), np.array([900, 800]))
    made = prepare(request(axes, epsilon=10), threshold=500)
    tables = made.release(counts, SeededEntropy(2))
    boxes = np.array([[[2**58, 2**58]], [[2**58 + 1, 2**58 + 1]]])
    assert made.ranges(tables, boxes).tolist() == tables["sparse"]["count"].to_pylist()


def test_F10_declared_cells_only_and_no_one_tells_empty_from_absent() -> None:
    """A cell is released or not by its noisy count alone; a listed count of 0 changes nothing."""
    axes = (line("copy", 30_000), line("x", 2))
    made = prepare(request(axes), threshold=2)
    absent = Frequencies(axes, (np.empty(0, dtype=np.int64),) * 2, np.empty(0, dtype=np.int64))
    listed = Frequencies(
        axes,
        (np.arange(30_000), np.zeros(30_000, dtype=np.int64)),
        np.zeros(30_000, dtype=np.int64),
    )
    found = [made.release(counts, SeededEntropy(9))["sparse"] for counts in (absent, listed)]
    values = [table.filter(pa.compute.equal(table["x"], 0))["count"].to_numpy() for table in found]
    chance = math.exp(-2) / (1 + math.exp(-1))
    for one in values:
        assert abs(len(one) - 30_000 * chance) < 5 * (30_000 * chance) ** 0.5
    assert two_samples(*values) > ALPHA


def test_an_empty_table_is_nothing_special() -> None:
    axes = (line("x", 50), line("y", 50))
    empty = frequencies(axes, np.zeros((50, 50), dtype=np.int64))
    for method in METHODS:
        table = prepare(request(axes), method=method, size=20).release(empty, SeededEntropy(1))
        # At most 20 on average, and more than 20 / e.
        assert 0 < len(table["sparse"]) < 50
    table = prepare(request(axes), threshold=10_000).release(empty, SeededEntropy(1))["sparse"]
    assert len(table) == 0
    assert table.schema.types == [pa.int64()] * 3


@pytest.mark.parametrize(
    ("unit", "sensitivity"),
    [
        (Rows(), 1),
        (Entity("person", max_rows=4, max_groups=2), 4),
        (Entity("person", max_rows=4, relation=Neighbours.REPLACE_ONE), 8),
    ],
)
def test_the_noise_follows_the_privacy_unit(unit: Unit, sensitivity: int) -> None:
    made = prepare(request((line("x", 1000),), unit, epsilon="1/2"))
    assert made.event == LaplaceNoise(
        scale=Fraction(2 * sensitivity), l1_sensitivity=Fraction(sensitivity)
    )


def test_a_rho_buys_the_epsilon_that_it_covers() -> None:
    event = prepare(request((line("x", 1000),), rho="1/2")).event
    assert isinstance(event, LaplaceNoise)
    assert event.epsilon**2 / 2 <= Fraction(1, 2)
    assert float(event.epsilon) == pytest.approx(1)


def test_the_threshold_follows_from_public_facts() -> None:
    axes = (line("x", 2**20), line("y", 2**20))
    for method, sides in (("threshold", 1), ("filter", 2)):
        made = prepare(request(axes), method=method, size=100)
        assert isinstance(made, ThresholdFilter)

        def expected(threshold: int, sides: int = sides) -> float:
            return sides * 2**40 * math.exp(-threshold) / (1 + math.exp(-1))

        assert expected(made.threshold) <= 100 < expected(made.threshold - 1)
        assert made.error["empty_released"] == pytest.approx(expected(made.threshold))
        assert made.parameters == {"method": method, "threshold": made.threshold}


def test_what_is_kept_at_95_of_100_is_kept() -> None:
    made = prepare(request((line("x", 2),), epsilon="1/3"), threshold=40)
    enough = made.error["kept95"]
    outputs = repeated("threshold", "1/3", 40, np.array([enough, enough - 1]), 20_000)
    kept = (outputs != ABSENT).mean(axis=0)
    chance = math.exp(-1 / 3 * (enough - 39)) / (1 + math.exp(-1 / 3))
    assert chance <= 0.05 < chance * math.exp(1 / 3)
    assert abs(1 - kept[0] - chance) < 5 * (chance / 20_000) ** 0.5


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"method": "thresholds"}, "option_not_applicable"),
        ({"threshold": 5, "size": 5}, "options_conflict"),
        ({"threshold": 5, "method": "priority"}, "options_conflict"),
        ({"threshold": 0}, "parameter_out_of_range"),
        ({"size": 0}, "parameter_out_of_range"),
        ({"size": "many"}, "parameter_out_of_range"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        publication("sparse", request((line("x", 2**30),)), options)
    assert refused.value.code == code


def test_post_processing_is_refused() -> None:
    asked = Request(
        dataset="d",
        axes=(line("x", 9),),
        unit=Rows(),
        price=price(epsilon=1),
        postprocess=("integer",),
    )
    with pytest.raises(ParameterError, match="Leave it out"):
        prepare(asked)


def test_a_sample_too_thin_for_64_bits_is_refused() -> None:
    axes = tuple(line(name, 2**20) for name in "xyz")
    with pytest.raises(ParameterError, match="beyond 64 bits"):
        prepare(request(axes, epsilon="1e-9"), method="priority", size=1)
