"""Marginals and parities before the auditor: the noisy whole numbers that all else comes from.

What is counted and centred, and which noise is added, is the method's own; tables are put together
from the noisy numbers alone. The auditor sees what tells most: the logarithm of the likelihood
ratio of the two sides if the noise were as claimed. Entropy is seeded; over seeds each audit
accuses a sound method with probability at most 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit
from sfumato.methods.publish import fourier
from sfumato.methods.publish.marginals import prepare
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import Claim, Curve, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.publish.marginals import MarginalStrategy
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy

SIZES = [6, 6, 5]
ONE = Pure(epsilon=Fraction(1))
GAUSSIAN = Curve(mu=1.0)
Row = tuple[int, int, int]
Pair = tuple[list[Row], list[Row]]
SOME: list[Row] = [(0, 0, 2), (3, 2, 2), (5, 5, 1)]
REPLACE = Rows(relation=Neighbours.REPLACE_ONE)
Break = Callable[["MarginalStrategy"], "MarginalStrategy"]


def request(sizes: list[int], unit: Unit, cost: dict[str, Any]) -> Request:
    axes = tuple(
        Grid(name, Kind.INTEGER, Bounds(0, size - 1), nullable=False)
        for name, size in zip("abc", sizes, strict=True)
    )
    return Request(dataset="d", axes=axes, unit=unit, price=price(**cost))


@dataclass
class Silent:
    """No noise, and what was measured."""

    seen: list[NDArray[np.int64]] = field(default_factory=list)
    variance: float = 1.0

    def steps(self, values: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
        del entropy
        self.seen.append(values.ravel())
        return values


def measured(
    strategy: MarginalStrategy, asked: Request, rows: list[Row]
) -> list[NDArray[np.int64]]:
    codes = np.array(rows, dtype=np.int64).reshape(-1, len(SIZES))
    counts = Frequencies(asked.axes, tuple(codes.T), np.ones(len(rows), dtype=np.int64))
    silent = tuple(Silent() for _ in strategy.noises)
    watched = replace(strategy, noises=silent)  # type: ignore[arg-type]
    watched.measure(counts, asked.columns, SeededEntropy(1))
    return [noise.seen[0] for noise in silent]


def evidence(
    noise: Noise, noisy: NDArray[Any], first: NDArray[Any], second: NDArray[Any]
) -> NDArray[np.float64]:
    """How much likelier noisy numbers are from the first numbers than from the second."""
    power = 1 if isinstance(noise, Geometric) else 2
    scale = float(noise.scale) if isinstance(noise, Geometric) else 2 * noise.variance
    far, near = (np.abs(noisy - one).astype(np.float64) ** power for one in (second, first))
    return np.asarray((far - near).sum(axis=1) / scale)


def marginals(
    unit: Unit, pair: Pair, cost: dict[str, Any], of: str, broken: Break | None = None
) -> Any:
    """What the measurements of marginals tell about which side of the pair they are of."""
    asked = request(SIZES, unit, cost)
    claimed = prepare(asked, of=of).strategy
    spent = claimed if broken is None else broken(claimed)
    sides = [measured(claimed, asked, rows) for rows in pair]

    def run(rows: list[Row], count: int, entropy: Entropy) -> NDArray[Any]:
        found = np.zeros(count)
        for place, numbers in enumerate(measured(claimed, asked, rows)):
            moved = sides[0][place] != sides[1][place]
            many = np.broadcast_to(numbers[moved], (count, int(moved.sum())))
            noisy = spent.noises[place].steps(many, entropy)
            first, second = (side[place][moved] for side in sides)
            found += evidence(claimed.noises[place], noisy, first, second)
        return np.round(found, 6)

    return run


PERSON: Pair = (SOME, [*SOME, (1, 1, 1)])
PEOPLE: Pair = (SOME, [*SOME, (1, 1, 1), (1, 1, 1)])
OTHER: Pair = ([*SOME, (0, 0, 0)], [*SOME, (1, 1, 1)])
TWO = Entity("p", max_rows=2)
SOUND = [
    pytest.param(Rows(), PERSON, {"epsilon": 1}, ONE, 0.8, id="laplace"),
    pytest.param(TWO, PEOPLE, {"epsilon": 1}, ONE, 0.8, id="laplace-people"),
    pytest.param(REPLACE, OTHER, {"epsilon": 1}, ONE, 0.55, id="laplace-replaced"),
    pytest.param(Rows(), PERSON, {"rho": "1/2"}, GAUSSIAN, 0.85, id="gaussian"),
    pytest.param(TWO, PEOPLE, {"rho": "1/2"}, GAUSSIAN, 0.85, id="gaussian-people"),
    pytest.param(REPLACE, OTHER, {"rho": "1/2"}, GAUSSIAN, 0.85, id="gaussian-replaced"),
]


@pytest.mark.parametrize("of", ["a*b,b*c", "a,b,c"])
@pytest.mark.parametrize(("unit", "pair", "cost", "claim", "power"), SOUND)
def test_marginals_keep_their_claim(
    unit: Unit, pair: Pair, cost: dict[str, Any], claim: Claim, power: float, of: str
) -> None:
    run = marginals(unit, pair, cost, of)
    found = audit(run, pair, claim, entropy=SeededEntropy(11), draws=30_000)
    assert not found.violated, found.sentence()
    assert found.power >= power, found.sentence()


def spending(strategy: MarginalStrategy, factors: Sequence[Fraction]) -> MarginalStrategy:
    """The same measurements, with so many times the budget spent on each."""
    noises = tuple(map(_louder, strategy.noises, factors))
    return replace(strategy, noises=noises)


def _louder(noise: Noise, factor: Fraction) -> Noise:
    if isinstance(noise, Geometric):
        return replace(noise, epsilon=noise.epsilon * factor)
    return replace(noise, rho=noise.rho * factor)


def whole_budget_for_every_table(strategy: MarginalStrategy) -> MarginalStrategy:
    return spending(strategy, [1 / share for share in strategy.shares])


def last_table_not_counted(strategy: MarginalStrategy) -> MarginalStrategy:
    """The shares of all tables but the last sum to 1; the last is measured all the same."""
    rest = sum(strategy.shares[:-1], Fraction(0))
    return spending(strategy, [1 / rest] * len(strategy.shares))


def centred_tables_taken_for_counts(strategy: MarginalStrategy) -> MarginalStrategy:
    """The sensitivity of a histogram, of a table that was multiplied by its cells."""
    noises = [one for one in strategy.noises if isinstance(one, Gaussian)]
    wrong = tuple(replace(one, l2_sensitivity_squared=Fraction(1)) for one in noises)
    return replace(strategy, noises=wrong)


WRONG: list[tuple[Break, dict[str, Any], Claim]] = [
    (whole_budget_for_every_table, {"epsilon": 1}, ONE),
    (last_table_not_counted, {"epsilon": 1}, ONE),
    (whole_budget_for_every_table, {"rho": "1/2"}, GAUSSIAN),
    (last_table_not_counted, {"rho": "1/2"}, GAUSSIAN),
    (centred_tables_taken_for_counts, {"rho": "1/2"}, GAUSSIAN),
]


@pytest.mark.parametrize(("broken", "cost", "claim"), WRONG)
def test_wrong_marginals_are_caught(broken: Break, cost: dict[str, Any], claim: Claim) -> None:
    run = marginals(Rows(), PERSON, cost, "a,b,c", broken)
    found = audit(run, PERSON, claim, entropy=SeededEntropy(12), draws=30_000)
    assert found.violated, found.sentence()


Cells = tuple[list[int], list[int]]


def coefficients(unit: Unit, pair: Cells, cost: dict[str, Any], wrong: Noise | None = None) -> Any:
    """What the noisy parities of three bits tell about which side of the pair they are of."""
    method = fourier.prepare_parities(request([2, 2, 2], unit, cost))
    first, second = (method.matrix[:, cells].sum(axis=1) for cells in pair)

    def run(cells: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        sums = method.matrix[:, cells].sum(axis=1)
        noise = method.noise if wrong is None else wrong
        noisy = noise.steps(np.broadcast_to(sums, (count, len(sums))), entropy)
        return np.round(evidence(method.noise, noisy, first, second), 6)

    return run


ADDED: Cells = ([1, 2], [1, 2, 7])
PARITIES = [
    pytest.param(Rows(), ADDED, {"epsilon": 1}, ONE, 0.5, id="laplace"),
    pytest.param(REPLACE, ([1, 2, 0], [1, 2, 7]), {"epsilon": 1}, ONE, 0.2, id="replaced"),
    pytest.param(Rows(), ADDED, {"rho": "1/2"}, GAUSSIAN, 0.85, id="gaussian"),
]


@pytest.mark.parametrize(("unit", "pair", "cost", "claim", "power"), PARITIES)
def test_parities_keep_their_claim(
    unit: Unit, pair: Cells, cost: dict[str, Any], claim: Claim, power: float
) -> None:
    run = coefficients(unit, pair, cost)
    found = audit(run, pair, claim, entropy=SeededEntropy(13), draws=50_000)
    assert not found.violated, found.sentence()
    assert found.power >= power, found.sentence()


@pytest.mark.parametrize(
    ("wrong", "cost", "claim"),
    [
        (Geometric(epsilon=Fraction(1)), {"epsilon": 1}, ONE),
        (Gaussian(rho=Fraction(1, 2)), {"rho": "1/2"}, GAUSSIAN),
    ],
)
def test_parities_with_the_sensitivity_of_one_of_them_are_caught(
    wrong: Noise, cost: dict[str, Any], claim: Claim
) -> None:
    """A row moves each coefficient by one, and there are seven."""
    run = coefficients(Rows(), ADDED, cost, wrong)
    found = audit(run, ADDED, claim, entropy=SeededEntropy(14), draws=50_000)
    assert found.violated, found.sentence()
