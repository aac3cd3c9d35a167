"""Mistakes that others have made in synthesis, planted one by one: the auditor sees each."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.audit.test_synth import GRID
from tests.fixtures.atoms import released_copies
from tests.wrong.test_publish_sparse import NoneOfTheEmpty

from sfumato.data.schema.unit import Rows, count_sensitivity
from sfumato.methods.synth.encode import atoms as searched
from sfumato.methods.synth.encode.discovery import BINS, starts_of
from sfumato.methods.synth.privbayes import Dependence
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.selection import Exponential
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.testing.audit import Audit

ONE = Pure(epsilon=Fraction(1))
TABLES = (np.array([[3, 1], [1, 2]]), np.array([[3, 2], [1, 2]]))


def accused(run: Any, pair: Any, draws: int = 50_000) -> Audit:
    return audit(run, pair, ONE, entropy=SeededEntropy(5), draws=draws)


def twice(share: Fraction) -> Any:
    """The columns and the pair of a table, each measured by a share of the epsilon."""
    noise = Geometric(epsilon=share)

    def run(table: NDArray[Any], count: int, entropy: Entropy) -> NDArray[Any]:
        found = np.zeros(count)
        for place in range(2):
            # What a log tells of the one cell that moves, in the first column and in the pair.
            exact = table.sum(axis=1)[0] if place == 0 else table[0, 1]
            noisy = noise.steps(np.full(count, exact), entropy)
            low = 4 if place == 0 else 1
            found += (np.abs(noisy - low - 1) - np.abs(noisy - low)) * float(share)
        return np.round(found, 6)

    return run


def test_an_epsilon_for_columns_and_another_for_pairs_is_caught() -> None:
    assert accused(twice(Fraction(1)), TABLES).violated
    assert not accused(twice(Fraction(1, 2)), TABLES).violated


def misfits(*, monotone: bool) -> Any:
    """A choice between a guess of nothing, which a new row worsens, and one of too much."""
    made = Exponential(epsilon=Fraction(1), candidates=2, monotone=monotone)

    def run(table: NDArray[Any], count: int, entropy: Entropy) -> NDArray[Any]:
        scores = np.array([table.sum(), np.abs(9 - table).sum() - 22])
        return made.sample(np.broadcast_to(scores, (count, 2)), entropy)[:, None]

    return run


def test_scores_taken_for_monotone_are_caught() -> None:
    assert accused(misfits(monotone=True), TABLES).violated
    assert not accused(misfits(monotone=False), TABLES).violated


# A thousand rows of which one tells both columns; without it they are constant.
ROWS = (np.array([[999, 0], [0, 0]]), np.array([[999, 0], [0, 1]]))


def normalised(table: NDArray[Any]) -> int:
    """Mutual information over the root of both entropies, on the grid of mutual information."""
    shares = table / table.sum()
    sides = [shares.sum(axis=axis) for axis in (0, 1)]
    entropies = [-(side[side > 0] * np.log2(side[side > 0])).sum() for side in sides]
    if min(entropies) <= 0:
        return 0
    scoring = Dependence("I", [(1, (0,))], 999)
    information = scoring.score(table) / scoring.grid
    return round(scoring.grid * information / float(np.sqrt(entropies[0] * entropies[1])))


def dependences(*, wrong: bool) -> Any:
    scoring = Dependence("I", [(1, (0,))], 999)
    made = Exponential(
        epsilon=Fraction(1),
        candidates=2,
        sensitivity=scoring.sensitivity(count_sensitivity(Rows(), grouped=True)),
    )

    def run(table: NDArray[Any], count: int, entropy: Entropy) -> NDArray[Any]:
        score = normalised(table) if wrong else scoring.score(table)
        other = scoring.grid // 30
        return made.sample(np.broadcast_to([score, other], (count, 2)), entropy)[:, None]

    return run


def test_information_that_was_normalised_is_caught() -> None:
    assert accused(dependences(wrong=True), ROWS).violated
    assert not accused(dependences(wrong=False), ROWS).violated


def test_categories_taken_from_the_data_are_caught() -> None:
    """One noisy count for each value that occurs: how many there are tells who is alone."""
    noise = Geometric(epsilon=Fraction(1))

    def observed(column: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        counts = np.bincount(column)
        present = counts[counts > 0]
        noisy = noise.steps(np.broadcast_to(present, (count, len(present))), entropy)
        return np.stack([noisy[:, 0], np.full(count, len(present))], axis=1)

    def declared(column: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        counts = np.bincount(column, minlength=4)
        return noise.steps(np.broadcast_to(counts, (count, 4)), entropy)

    pair = ([0, 0, 1], [0, 0, 1, 3])
    assert accused(observed, pair, 2_000).violated
    assert not accused(declared, pair, 20_000).violated


def test_as_many_rows_as_the_table_has_are_caught() -> None:
    """The number of drawn rows is the noisy total; the true one tells whether a row is there."""
    noise = Geometric(epsilon=Fraction(1))

    def known(table: NDArray[Any], count: int, entropy: Entropy) -> NDArray[Any]:
        del entropy
        return np.full((count, 1), table.sum())

    def noisy(table: NDArray[Any], count: int, entropy: Entropy) -> NDArray[Any]:
        counts = noise.steps(np.broadcast_to(table.ravel(), (count, 4)), entropy)
        return np.asarray(counts.sum(axis=1, keepdims=True))

    assert accused(known, TABLES, 2_000).violated
    assert not accused(noisy, TABLES).violated


def test_bins_at_the_quantiles_of_the_data_are_caught() -> None:
    """Bins that nobody paid for: where they begin tells which side of the middle a row is on.

    Those that are paid for pass in tests/audit.
    """

    def observed(codes: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        del entropy
        exact = np.quantile(codes, np.arange(1, BINS) / BINS, method="lower")
        starts = starts_of(exact.astype(np.int64), GRID)
        return np.full((count, 1), sum(1 << start for start in starts))

    pair = ([1] * 6 + [6] * 6, [1] * 6 + [6] * 6 + [3])
    assert accused(observed, pair, 2_000).violated


def atoms(*, noise: Geometric, choose: Any) -> Any:
    """Which points of two columns pass, of which a row has one each."""

    def run(table: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        exact = np.tile(table, (count, 1))
        return np.asarray(choose(exact, noise.steps(exact, entropy)), dtype=np.int64)

    return run


# The new row is one point of the first column, and one of the second.
POINTS = ([0, 3, 0, 3], [1, 3, 1, 3])


def passing(exact: NDArray[Any], noisy: NDArray[Any]) -> NDArray[Any]:
    del exact
    return np.where(noisy >= 2, noisy, -99)


def test_atoms_with_the_sensitivity_of_one_column_are_caught() -> None:
    one, two = Geometric(epsilon=Fraction(1)), Geometric(epsilon=Fraction(1, 2))
    assert accused(atoms(noise=one, choose=passing), POINTS).violated
    assert not accused(atoms(noise=two, choose=passing), POINTS).violated


def test_a_threshold_without_noise_is_caught() -> None:
    """Noisy counts of the points whose exact count passes: who they are tells that."""

    def exact_choice(exact: NDArray[Any], noisy: NDArray[Any]) -> NDArray[Any]:
        return np.where(exact >= 1, noisy, -99)

    noise = Geometric(epsilon=Fraction(1, 2))
    assert accused(atoms(noise=noise, choose=exact_choice), POINTS, 2_000).violated


def test_atoms_of_nobody_that_are_forgotten_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points without rows that never pass: a released one tells that somebody is there."""

    def run(table: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        return released_copies(table, Geometric(epsilon=Fraction(1)), 2, count, entropy)

    assert not accused(run, ([0, 0, 0], [1, 0, 0])).violated
    monkeypatch.setattr(searched, "Passing", NoneOfTheEmpty)
    assert accused(run, ([0, 0, 0], [1, 0, 0])).violated


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_counts_that_passed_and_are_used_again_are_caught(beyond: int) -> None:
    """They are too high: by .80 standard deviations where the truth is at the threshold.

    What is measured again, as every synthesis does, is right in the mean.
    """
    noise = Gaussian(rho=Fraction(1, 800))  # a standard deviation of 20
    copies, threshold = 40_000, 60
    truth = threshold + 20 * beyond
    counts = released_copies([truth], noise, threshold, copies, SeededEntropy(1))[:, 0]
    passed = counts[counts >= threshold]
    used_again = (passed.mean() - truth) / noise.stddev
    again = noise.steps(np.full(len(passed), truth), SeededEntropy(2))
    measured_again = (again.mean() - truth) / noise.stddev
    tolerated = 5 / len(passed) ** 0.5
    assert used_again == pytest.approx({-1: 1.53, 0: 0.80, 1: 0.29}[beyond], abs=0.05)
    assert used_again > tolerated  # what accuses it
    assert abs(measured_again) < tolerated
