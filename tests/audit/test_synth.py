"""Synthesis before the auditor: whole methods, and the choices they are made of.

The auditor sees all that a fit may see: which tables were measured, and how much likelier their
noisy counts are on one side of the pair than on the other. Entropy is seeded; for a fresh seed each
audit would accuse a sound method with probability at most 1e-6. The same with one mistake each are
in tests/wrong.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.atoms import released_copies
from tests.fixtures.synthesis import table_of

from sfumato.data.counting.axes import Grid, declared
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows, count_sensitivity
from sfumato.methods.synth.encode.atoms import AtomSearch
from sfumato.methods.synth.encode.discovery import QuantileBins
from sfumato.methods.synth.measurement_log import TableShape
from sfumato.methods.synth.privbayes import Dependence
from sfumato.methods.synth.synthesis import METHODS
from sfumato.methods.synth.workbench import ExactTables, Misfit, Workbench
from sfumato.privacy.accounting.events import LaplaceNoise
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import Noise, Spending
from sfumato.testing.audit import Curve, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.methods.synth.workbench import Scoring
    from sfumato.privacy.noise.entropy import Entropy

SIZES = (2, 2)
SOME = [(0, 0), (0, 0), (1, 1), (1, 0)]
PAIR = (table_of(SIZES, SOME), table_of(SIZES, [*SOME, (0, 1)]))
ONE = count_sensitivity(Rows(), grouped=True)
EPSILON = Fraction(2)
SETS = [(0,), (1,), (0, 1)]


def told(bench: Workbench) -> list[float]:
    """Which tables were measured, and how much likelier they are from the first of the pair."""
    first, second = (ExactTables(bench.shape, side) for side in PAIR)
    likelier = 0.0
    for one in bench.log.tables:
        assert isinstance(one.event, LaplaceNoise)
        far = np.abs(one.counts - second.of(one.columns)).sum()
        near = np.abs(one.counts - first.of(one.columns)).sum()
        likelier += float(far - near) / float(one.event.scale)
    measured = sum(1 << SETS.index(one.columns) for one in bench.log.tables)
    return [round(likelier, 6), float(measured)]


def whole(method: str) -> Any:
    """Everything that a method measures and chooses."""
    select = METHODS[method][0]
    options = {"sets": [(0, 1)]} if method == "workload" else {}

    def run(table: Frequencies, count: int, entropy: Entropy) -> NDArray[Any]:
        found = []
        for _ in range(count):
            shape = TableShape.of(table.axes)
            bench = Workbench(shape, table, Spending(epsilon=EPSILON), ONE, entropy)
            select(bench, **options)
            found.append(told(bench))
        return np.array(found)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_its_epsilon(method: str) -> None:
    """Sampled, end to end; the whole of the loss shows in test_synth_losses."""
    claim = Pure(epsilon=EPSILON)
    found = audit(whole(method), PAIR, claim, entropy=SeededEntropy(1), draws=1500)
    assert not found.violated, found.sentence()
    assert found.lower_bound > 0.3, found.sentence()  # the two sides are told apart


CANARIES = 64


def recognised(method: str, epsilon: Fraction, *, refill: bool = False) -> int:
    """How many of 64 possible people are rightly said to be there or not, after one synthesis.

    Each has a code of its own in the first column, and is there or not by the toss of a coin.
    """
    coins = np.random.default_rng(6).integers(0, 2, CANARIES)
    there = np.flatnonzero(coins)
    table = table_of((CANARIES, 2), np.stack([there, there % 2], axis=1))
    spending, entropy = Spending(epsilon=epsilon), SeededEntropy(7)
    bench = Workbench(TableShape.of(table.axes), table, spending, ONE, entropy)
    select, _ = METHODS[method]
    for _ in range(30 if refill else 1):
        select(bench, **({"sets": [(0, 1)]} if method == "workload" else {}))
        if refill:
            bench.charge.remaining = Fraction(1)
    likelier = np.zeros(CANARIES)
    for one in bench.log.tables:
        if 0 in one.columns:
            own = one.counts
            if len(one.columns) == 2:
                own = one.counts[np.arange(CANARIES), np.arange(CANARIES) % 2]
            assert isinstance(one.event, LaplaceNoise)
            likelier += (np.abs(own) - np.abs(own - 1)) / float(one.event.scale)
    return int(((likelier > 0) == coins).sum())


def chance(right: int, epsilon: float) -> float:
    """How likely so many right guesses are at most, if epsilon is kept.

    *Reference*: Steinke, Nasr & Jagielski 2023, Theorem 5.2, with a guess for everyone.
    """
    each = math.exp(epsilon) / (1 + math.exp(epsilon))
    return sum(
        math.comb(CANARIES, count) * each**count * (1 - each) ** (CANARIES - count)
        for count in range(right, CANARIES + 1)
    )


@pytest.mark.parametrize("method", METHODS)
def test_one_run_tells_of_no_more_people_than_epsilon_allows(method: str) -> None:
    assert chance(recognised(method, Fraction(1)), 1) > 1e-6
    assert recognised(method, Fraction(50)) >= 60  # the guesses are good where they may be


def test_a_charge_that_fills_up_again_is_caught() -> None:
    assert chance(recognised("independent", Fraction(1), refill=True), 1) < 1e-6


GRID = 8
COLUMN = [1] * 6 + [6] * 5
"""Codes of a column; a row more at 6 moves the middle."""


def ends(codes: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
    """Where bins of one column begin, each time as a number of which a bit is a start."""
    table = table_of((GRID,), codes)
    grid = declared(Column("c0", Kind.INTEGER, domain=Bounds(0, GRID - 1), nullable=False))
    assert isinstance(grid, Grid)
    bins = QuantileBins((grid,), Rows(), Spending(epsilon=EPSILON), bins=4)  # few, for speed
    counter = replace(table, axes=(grid,))
    found = (bins.find(counter, entropy)["c0"] for _ in range(count))
    return np.array([[sum(1 << start for start in starts)] for starts in found])


def test_bins_by_quantiles_keep_their_epsilon() -> None:
    claim, pair = Pure(epsilon=EPSILON), (COLUMN, [*COLUMN, 6])
    found = audit(ends, pair, claim, entropy=SeededEntropy(4), draws=200)
    assert not found.violated, found.sentence()


def choice(scoring: Scoring) -> Any:
    """Which candidate is chosen, many times."""

    def run(table: Frequencies, count: int, entropy: Entropy) -> NDArray[Any]:
        shape = TableShape.of(table.axes)
        bench = Workbench(shape, table, Spending(epsilon=EPSILON), ONE, entropy)
        made = bench.mechanism(scoring, Fraction(1))
        scores = scoring.scores(ExactTables(shape, table))
        return made.sample(np.broadcast_to(scores, (count, len(scores))), entropy)[:, None]

    return run


# The new row lies in a cell where the first guess is too low and the second too high.
MISFITS = Misfit(
    [(0, 1), (0, 1)],
    [np.zeros((2, 2), dtype=np.int64), np.full((2, 2), 5)],
    [0, 11],
    [1, 1],
)


def test_a_choice_by_misfit_keeps_its_epsilon() -> None:
    claim = Pure(epsilon=EPSILON)
    found = audit(choice(MISFITS), PAIR, claim, entropy=SeededEntropy(2), draws=30_000)
    assert not found.violated, found.sentence()
    assert found.lower_bound > 0.5, found.sentence()


@pytest.mark.parametrize("kind", ["R", "F", "I"])
@pytest.mark.parametrize("fixed", [3, 5, 20])
def test_a_choice_by_dependence_keeps_its_epsilon(kind: Any, fixed: int) -> None:
    """With as many rows fixed as there are, with fewer and with more."""
    three = (2, 2, 2)
    rows = [(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, 0)]
    pair = (table_of(three, rows), table_of(three, [*rows, (1, 1, 1)]))
    scoring = Dependence(kind, [(1, (0,)), (2, (0,))], fixed)
    claim = Pure(epsilon=EPSILON)
    found = audit(choice(scoring), pair, claim, entropy=SeededEntropy(3), draws=30_000)
    assert not found.violated, found.sentence()


def test_a_share_of_an_epsilon_is_laplace_noise() -> None:
    """What the auditor takes for granted above."""
    bench = Workbench(
        TableShape.of(PAIR[0].axes), PAIR[0], Spending(epsilon=EPSILON), ONE, SeededEntropy(4)
    )
    assert bench.noise(Fraction(1, 2)) == Geometric(epsilon=Fraction(1))


NOISES: dict[str, tuple[Noise, Pure | Curve]] = {
    "laplace": (Geometric(epsilon=Fraction(1)), Pure(epsilon=Fraction(1))),
    # Of a standard deviation of 3 the noise on integers is as good as a continuous one.
    "gaussian": (Gaussian(rho=Fraction(1, 18)), Curve(mu=1 / 3)),
}


@pytest.mark.parametrize("pair", [([0, 0, 0], [1, 0, 0]), ([0, 3, 0], [0, 4, 0])])
@pytest.mark.parametrize("kind", NOISES)
def test_points_that_pass_a_threshold_keep_their_claim(kind: str, pair: Any) -> None:
    noise, claim = NOISES[kind]

    def run(table: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        return released_copies(table, noise, 2, count, entropy)

    found = audit(run, pair, claim, entropy=SeededEntropy(8))
    assert not found.violated, found.sentence()
    assert found.power >= 0.5, found.sentence()


def starts_found(codes: list[tuple[int, int]], count: int, entropy: Entropy) -> NDArray[Any]:
    """Where bins of two columns begin, as a number for each of them."""
    grids = tuple(
        declared(Column(f"c{place}", Kind.INTEGER, domain=Bounds(0, GRID - 1), nullable=False))
        for place in range(2)
    )
    search = AtomSearch(grids, ((0, 4), (0, 4)), Rows(), Spending(epsilon=20 * EPSILON))  # type: ignore[arg-type]
    counter = replace(table_of((GRID, GRID), codes), axes=grids)
    found = (search.find(counter, entropy) for _ in range(count))
    return np.array([[sum(1 << at for at in starts[name]) for name in starts] for starts in found])


def test_bins_at_atoms_keep_their_epsilon() -> None:
    """The looks have a twentieth and a fortieth of the charge: 2 and 1."""
    rows = [(1, 6)] * 6 + [(6, 1)] * 4
    claim, pair = Pure(epsilon=EPSILON * Fraction(3, 2)), (rows, [*rows, (6, 6)])
    found = audit(starts_found, pair, claim, entropy=SeededEntropy(9), draws=600)
    assert not found.violated, found.sentence()
