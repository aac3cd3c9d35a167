"""Methods that publish transforms and data-dependent tables, before the auditor.

Each is run as it is released, many times on two neighbouring tables. Entropy is seeded; for a fresh
seed each audit would accuse a sound method with probability at most 1e-6. There are no retries.
The same methods with one mistake each are in tests/wrong.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.counts import request_for, whole_numbers

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.publish import continual, dawa, fourier, mwem, quantiles, sketch, sparse_vector
from sfumato.methods.stream.factorization import DyadicTree, SquareRoot
from sfumato.privacy.accounting.losses import Approx, Pure
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import Spending
from sfumato.testing.audit import Curve, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.testing.audit import Audit

ONE = Pure(epsilon=Fraction(1))
REPLACED = Rows(relation=Neighbours.REPLACE_ONE)


def many(counts: Any, runs: int) -> NDArray[np.int64]:
    table = np.asarray(counts, dtype=np.int64)
    return np.broadcast_to(table, (runs, *table.shape))


@pytest.mark.parametrize("method", ["tree", "root"])
def test_running_counts_keep_their_epsilon(method: str) -> None:
    made = continual.prepare(request_for(whole_numbers(4), epsilon=1), method=method)

    def run(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        return np.round(made.factor.running(many(counts, runs), made.noise, entropy), 6)

    found = audit(run, ([5, 5, 5, 5], [6, 5, 5, 5]), ONE, entropy=SeededEntropy(1), draws=20_000)
    assert not found.violated, found.sentence()
    assert found.power > 0.2, found.sentence()


def test_running_counts_keep_their_curve() -> None:
    """The measured square root, seen along what the first row does to it."""
    made = continual.prepare(request_for(whole_numbers(4), rho="1/2"), method="root")
    assert isinstance(made.factor, SquareRoot)
    entries = made.factor.entries

    def run(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        measured = np.convolve(counts, entries)[:4]
        noisy = made.noise.steps(many(measured, runs), entropy)
        return np.asarray(noisy @ entries >> 36, dtype=np.int64)

    pair = ([5, 5, 5, 5], [6, 5, 5, 5])
    found = audit(run, pair, Curve(mu=1.0), entropy=SeededEntropy(2))
    assert not found.violated, found.sentence()
    assert found.power > 0.85, found.sentence()


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": "1/2"}], ids=["laplace", "gaussian"])
def test_series_keeps_its_claim_where_rows_are_replaced(cost: Any) -> None:
    """A row goes from the first of four points to the third, to the opposite of its wave."""
    axes = whole_numbers(4)
    made = fourier.prepare_series(request_for(axes, unit=REPLACED, **cost), coefficients=2)

    def run(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        noisy = made.noise.steps(made.waves.measured(many(counts, runs)), entropy)
        return np.asarray(noisy >> 18, dtype=np.int64)

    claim = ONE if "epsilon" in cost else Curve(mu=1.0)
    pair = ([1, 0, 0, 0], [0, 0, 1, 0])
    found = audit(run, pair, claim, entropy=SeededEntropy(3), draws=50_000)
    assert not found.violated, found.sentence()
    assert found.power > 0.4, found.sentence()


def test_sketch_keeps_its_claim() -> None:
    """The whole sketch, of one row more: all lines move."""
    made = sketch.prepare(request_for(whole_numbers(100), epsilon=1), depth=3, width=2)

    def run(cells: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        summary = made.hashing.summary(np.array(cells), np.ones(len(cells), dtype=np.int64))
        return made.noise.steps(many(summary.ravel(), runs), entropy)

    signs = made.hashing.hash_cells(np.array([7]))[1][:, 0]

    def towards(cells: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        """The buckets that the row moves, each seen on its own side of 0."""
        buckets = made.hashing.hash_cells(np.array([7]))[0][:, 0] + 2 * np.arange(3)
        return np.asarray(signs * run(cells, runs, entropy)[:, buckets] > 0, dtype=np.int64)

    for shown in (run, towards):
        found = audit(shown, ([7], []), ONE, entropy=SeededEntropy(4))
        assert not found.violated, found.sentence()
    assert found.power > 0.8, found.sentence()


@pytest.mark.parametrize("queries", ["parities", "marginals"])
@pytest.mark.parametrize("selection", ["exponential", "sparse-vector"])
def test_multiplicative_weights_keep_their_epsilon(queries: str, selection: str) -> None:
    """One row replaced by its opposite: a parity moves by 2, and so do scores of both kinds."""
    made = mwem.prepare(
        request_for(whole_numbers(2), unit=REPLACED, epsilon=2),
        queries=queries,
        selection=selection,
        iterations=1,
        iterate="average",
    )

    def run(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        return np.round(made.learn(many(counts, runs), entropy), 6)

    claim = Pure(epsilon=Fraction(2))
    found = audit(run, ([3, 0], [2, 1]), claim, entropy=SeededEntropy(5), draws=30_000)
    assert not found.violated, found.sentence()
    assert found.power > 0.1, found.sentence()


@pytest.mark.parametrize(
    ("unit", "pair"),
    [
        (Rows(), ([2, 0], [3, 0])),
        (Rows(), ([20, 0], [21, 0])),
        (Rows(), ([9, 0, 4, 3], [9, 0, 4, 4])),
        (REPLACED, ([9, 0, 4, 3], [10, 0, 4, 2])),
        (Entity("who", max_rows=3), ([9, 0, 4, 3], [10, 0, 5, 4])),
    ],
)
def test_a_partition_keeps_its_epsilon(unit: Any, pair: Any) -> None:
    """Which blocks are buckets, seen without any count."""
    made = dawa.prepare(request_for(whole_numbers(len(pair[0])), unit=unit, epsilon=4))

    def run(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        chosen = made.partition(many(counts, runs), entropy)
        return np.concatenate(chosen, axis=1).astype(np.int64)

    found = audit(run, pair, ONE, entropy=SeededEntropy(6), draws=50_000)
    assert not found.violated, found.sentence()


def test_buckets_and_their_counts_keep_the_whole_epsilon() -> None:
    made = dawa.prepare(request_for(whole_numbers(2), epsilon=1))

    def run(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        return made.even(many(counts, runs), entropy)

    found = audit(run, ([2, 0], [3, 0]), ONE, entropy=SeededEntropy(7))
    assert not found.violated, found.sentence()
    assert found.power > 0.5, found.sentence()


QUANTILES = [
    (Rows(), ([1, 0, 0, 0], [1, 0, 1, 0])),
    (REPLACED, ([2, 0, 0, 0], [1, 0, 1, 0])),
]


def audit_quantiles(unit: Any, pair: Any, draws: int) -> Audit:
    """Two depths on four points; each run is a release of its own, so there are few of them.

    What these few cannot see, the exact losses of `test_exact_losses` do.
    """
    made = quantiles.by_choices(request_for(whole_numbers(4), unit=unit, epsilon=4))

    def run(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        table, codes = np.array(counts), np.arange(4)
        return np.stack([made.choose(codes, table, entropy) for _ in range(runs)])

    claim = Pure(epsilon=Fraction(4))
    return audit(run, pair, claim, entropy=SeededEntropy(8), draws=draws)


@pytest.mark.parametrize(("unit", "pair"), QUANTILES, ids=["added", "replaced"])
def test_quantiles_keep_their_epsilon(unit: Any, pair: Any) -> None:
    found = audit_quantiles(unit, pair, 200)
    assert not found.violated, found.sentence()


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 100)], ids=["cauchy", "laplace"])
@pytest.mark.parametrize(
    ("unit", "pair"),
    [
        (REPLACED, ([5, 4], [4, 5])),
        (Rows(), ([4, 4], [5, 4])),
        (Rows(), ([6, 7], [7, 7])),
        (Rows(), ([2, 1], [2, 2])),
    ],
    ids=["replaced", "fewer", "more", "far fewer"],
)
def test_smooth_medians_keep_their_claim(unit: Any, pair: Any, delta: Fraction) -> None:
    """Of nine rows in public, whatever the table has: missing ones stand at both ends."""
    asked = request_for(whole_numbers(2), unit=unit, epsilon=1, delta=delta)
    made = quantiles.prepare(asked, mechanism="smooth", rows=9)
    assert isinstance(made, quantiles.SmoothQuantile)
    fine = replace(made.noise, resolution=100)

    def run(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        table = made.table(np.arange(2), np.array(counts))
        return fine.sample(np.broadcast_to(table, (runs, 9)), entropy)

    claim = Approx(epsilon=Fraction(1), delta=delta) if delta else ONE
    found = audit(run, pair, claim, entropy=SeededEntropy(9), draws=50_000)
    assert not found.violated, found.sentence()
    assert found.lower_bound > 0.2  # the tables do differ, in the row at the median


@pytest.mark.parametrize(
    ("unit", "pair"),
    [
        (Rows(), ([5, 5, 5], [6, 6, 6])),
        (REPLACED, ([5, 6, 5], [6, 5, 6])),
        (Entity("who", max_rows=2), ([4, 5, 4], [6, 7, 6])),
    ],
    ids=["added", "replaced", "people"],
)
def test_ranges_above_a_threshold_keep_their_epsilon(unit: Any, pair: Any) -> None:
    """Three ranges that one person moves at once, of which two hits are paid for."""
    asked = request_for(whole_numbers(4), unit=unit, epsilon=2, boxes=[(0, 1), (1, 2), (1, 3)])
    made = sparse_vector.prepare(asked, threshold=5, at_most=2)

    def run(sums: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        return made.judge(many(sums, runs), entropy)

    claim = Pure(epsilon=Fraction(2))
    found = audit(run, pair, claim, entropy=SeededEntropy(10), draws=50_000)
    assert not found.violated, found.sentence()
    assert found.power > 0.2, found.sentence()


def test_noise_for_one_level_one_line_or_one_wave_is_caught() -> None:
    """Our own methods with the sensitivity of a histogram: the auditor sees it."""
    cheap = Geometric(epsilon=Fraction(1))
    tree = DyadicTree(4)

    def levels(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        return tree.running(many(counts, runs), cheap, entropy)

    waves = fourier.Waves(4, 2)
    wave = Geometric(epsilon=Fraction(1), l1_sensitivity=Fraction(fourier.SCALE))

    def parts(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        return np.asarray(wave.steps(waves.measured(many(counts, runs)), entropy) >> 20)

    hashing = sketch.Hashing(3, 2, 0)

    def lines(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
        summary = hashing.summary(np.arange(4), np.array(counts))
        return cheap.steps(many(summary.ravel(), runs), entropy)

    for wrong in (levels, parts, lines):
        pair = ([5, 5, 5, 5], [6, 5, 5, 5])
        found = audit(wrong, pair, ONE, entropy=SeededEntropy(9), draws=50_000)
        assert found.violated, found.sentence()


def test_a_price_spent_on_the_choice_and_again_on_the_answer_is_caught() -> None:
    """Of two large cells one gets a row of the other: it is chosen more often, with more rows."""
    request = request_for(whole_numbers(8), unit=REPLACED, epsilon=2)
    options = {"queries": "marginals", "iterations": 1, "iterate": "average"}
    right = mwem.prepare(request, **options)
    wrong = replace(right, spending=Spending(epsilon=Fraction(4)))

    def run(made: Any) -> Any:
        def read(counts: Any, runs: int, entropy: Entropy) -> NDArray[Any]:
            """What was heard about the first cell, read off the learnt table."""
            learnt = made.learn(many(counts, runs), entropy)
            totals = learnt.sum(axis=1)
            heard = 2 * totals * np.log(learnt[:, 0] / learnt[:, 2]) + totals / 8
            return np.asarray(np.round(heard))

        return read

    pair = ([14, 17, *[5] * 6], [15, 16, *[5] * 6])
    claim = Pure(epsilon=Fraction(2))
    for made, violated in ((right, False), (wrong, True)):
        found = audit(run(made), pair, claim, entropy=SeededEntropy(10), draws=50_000)
        assert found.violated is violated, found.sentence()
