"""Streams: what one person costs over all steps, by brute force; and wrong twins that are caught.

The loss is added up, exactly, from what each draw of noise was put on: |difference| / scale for
Laplace noise, difference^2 / (2 variance) for Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.slices import few_fast

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.stream.catalogue import prepare
from sfumato.methods.stream.factorization import DyadicTree, HonakerTree, SquareRoot, level_norms
from sfumato.methods.stream.request import StreamRequest
from sfumato.methods.stream.running_counts import RunningCounts, UnendingCounts
from sfumato.privacy.accounting.price import price
from sfumato.privacy.estimation.trees import BoxTree, LeastSquares
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.methods.stream.method import StreamMethod
    from sfumato.methods.stream.request import Norms

Measured = list[tuple[Any, list[int]]]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[StreamMethod, Any], Measured]:
    """All that a stream puts noise on, with the noise that it puts there."""
    log: Measured = []

    def kept(self: Any, values: Any, _entropy: Any) -> Any:
        log.append((self, [int(one) for one in np.asarray(values).ravel()]))
        return np.asarray(values)

    for kind in (Geometric, Gaussian):
        monkeypatch.setattr(kind, "steps", kept)

    def found(method: StreamMethod, series: Any) -> Measured:
        log.clear()
        state = method.begin(SeededEntropy(1))
        for counts in np.asarray(series, dtype=np.int64):
            state, _ = method.step(state, counts, SeededEntropy(1))
        return [*log]

    return found


def loss(one: Measured, other: Measured) -> Fraction:
    total = Fraction(0)
    for (noise, left), (_, right) in zip(one, other, strict=True):
        for a, b in zip(left, right, strict=True):
            total += (
                abs(a - b) / noise.scale
                if isinstance(noise, Geometric)
                else Fraction((a - b) ** 2) / (2 * noise.steps_variance)
            )
    return total


def request(unit: Any, cost: dict[str, Any], cells: int = 1, **asked: Any) -> StreamRequest:
    return StreamRequest(unit=unit, price=price(**cost), cells=cells, **asked)


def persons(steps: int, cells: int, unit: Any, days: int | None) -> Iterator[np.ndarray[Any, Any]]:
    """All that one person may add to the counts, at its extremes: as many rows as are allowed."""
    places = list(product(range(steps), range(cells)))
    for chosen in combinations(range(steps), min(days or 1, steps)):
        for within in product(range(cells), repeat=len(chosen)):
            rows = np.zeros((steps, cells), dtype=np.int64)
            for step, cell in zip(chosen, within, strict=True):
                rows[step, cell] += unit.max_rows
            yield rows
    if days is None and unit.max_rows > 1:
        for one, other in combinations(places, 2):
            rows = np.zeros((steps, cells), dtype=np.int64)
            rows[one] += unit.max_rows - 1
            rows[other] += 1
            yield rows


PERSON = Entity("who", max_rows=2)
REPLACED = Entity("who", max_rows=2, relation=Neighbours.REPLACE_ONE)
ASKED: list[dict[str, Any]] = [
    *({"method": one, "periods": steps} for one in ("tree", "honaker", "root") for steps in (5, 8)),
    *({"method": one} for one in ("tree", "honaker", "root")),
    *({"method": one, "window": window} for one in ("tree", "honaker") for window in (3, 4)),
    {"method": "root", "periods": 8, "window": 3},
]
COSTS: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": "1/2"}]


@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize(
    ("unit", "days"),
    few_fast([(PERSON, 3), (Rows(), None), (PERSON, None), (REPLACED, None), (REPLACED, 2)], 2),
    ids=str,
)
def test_no_person_costs_more_than_was_charged(
    measured: Any, asked: dict[str, Any], cost: dict[str, Any], unit: Any, days: int | None
) -> None:
    steps, cells = asked.get("periods", 8), 1
    told = {name: one for name, one in asked.items() if name != "method"}
    method = prepare(request(unit, cost, cells, days=days, **told), asked["method"])
    charged = getattr(method.event, "epsilon", None) or method.event.rho  # type: ignore[union-attr]
    assert charged == Fraction(next(iter(cost.values())))
    ones = [measured(method, one) for one in persons(steps, cells, unit, days)]
    nobody = measured(method, np.zeros((steps, cells)))
    if unit.relation is Neighbours.ADD_REMOVE:
        worst = max(loss(one, nobody) for one in ones)
        if days is None:
            assert worst > charged * Fraction(99, 100), "the bound is not tight"
    else:
        some = ones[:: max(1, len(ones) // 7)]
        worst = max(loss(one, other) for one in [*some, nobody] for other in some)
    assert worst <= charged


def test_cells_share_one_price(measured: Any) -> None:
    for cost in COSTS:
        method = prepare(request(PERSON, cost, 2, periods=4), "honaker")
        nobody = measured(method, np.zeros((4, 2)))
        losses = [loss(measured(method, one), nobody) for one in persons(4, 2, PERSON, None)]
        assert max(losses) == Fraction(next(iter(cost.values())))


# Wrong twins.


class TenLevels(DyadicTree):
    """A tree over 1024 periods for whose noise ten levels are taken."""

    def norms(self, periods: int = 1) -> Norms:
        """Without the block of all periods."""
        return level_norms(self.levels - 1, periods)


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_a_tree_over_1024_periods_with_ten_levels_is_caught(
    measured: Any, cost: dict[str, Any]
) -> None:
    asked, first = request(Rows(), cost, periods=1024), np.zeros((1024, 1))
    nobody = first.copy()
    first[0] = 1
    charged = Fraction(next(iter(cost.values())))
    for factor, is_right in ((DyadicTree(1024), True), (TenLevels(1024), False)):
        noise = asked.noise(factor.norms(), asked.spendings[0])
        method = RunningCounts(asked, factor, noise)
        found = loss(measured(method, first), measured(method, nobody))
        assert (found <= charged) is is_right


class Forgetful(UnendingCounts):
    """A stream without end whose segments, begun anew, take the levels of the one before."""

    def noise(self, segment: int) -> Any:
        """One level too few from the second segment on."""
        return super().noise(max(0, segment - 1))


@pytest.mark.parametrize("kind", [DyadicTree, HonakerTree, SquareRoot])
def test_a_restart_that_forgets_a_level_is_caught(measured: Any, kind: Any) -> None:
    asked = request(Rows(), {"epsilon": 1})
    for twin, is_right in ((UnendingCounts, True), (Forgetful, False)):
        method = twin(asked, kind, asked.spendings[0])
        nobody = measured(method, np.zeros((8, 1)))
        ones = [measured(method, one) for one in persons(8, 1, Rows(), None)]
        assert (max(loss(one, nobody) for one in ones) <= 1) is is_right


@dataclass
class Once:
    """A twin that takes a person of several days for one of one day."""

    unit: Any

    def noise(self, asked: StreamRequest, factor: Any) -> Any:
        return asked.noise(factor.norms(1), asked.spendings[0])


@pytest.mark.parametrize("factor", [DyadicTree(8), HonakerTree(8), SquareRoot(8)], ids=str)
@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_days_that_the_noise_was_not_made_for_are_caught(
    measured: Any, factor: Any, cost: dict[str, Any]
) -> None:
    asked = request(PERSON, cost, periods=8, days=3)
    method = RunningCounts(asked, factor, Once(PERSON).noise(asked, factor))
    nobody = measured(method, np.zeros((8, 1)))
    ones = [measured(method, one) for one in persons(8, 1, PERSON, 3)]
    charged = Fraction(next(iter(cost.values())))
    assert max(loss(one, nobody) for one in ones) > 2 * charged


def past_alone(noise: np.ndarray[Any, Any]) -> list[float]:
    """What Honaker's stream tells of no rows, with the noise of each block by its end and level."""
    places: list[tuple[int, int]] = []

    class Given:
        variance = 1.0

        def steps(self, values: Any, _entropy: Any) -> Any:
            found = [noise[places[-1][0] - 1, level] for level in range(len(values))]
            return np.asarray(values) + np.array(found)[:, None]

    tree, told = HonakerTree(len(noise)), list[float]()
    state: dict[str, Any] = tree.begin(1)
    for step in range(1, len(noise) + 1):
        places.append((step, 0))
        state, estimates = tree.advance(state, np.array([0]), Given(), SeededEntropy(1))  # type: ignore[arg-type]
        told.append(round(float(estimates[0]) / (1 << 20), 3))
    return told


def with_the_future(noise: np.ndarray[Any, Any]) -> list[float]:
    """The wrong twin: least squares over the whole tree, blocks included that end later."""
    size, depth = len(noise), len(noise).bit_length()
    lows = np.concatenate([np.arange(0, size, size >> one) for one in range(depth)])
    lengths = np.repeat([size >> one for one in range(depth)], [1 << one for one in range(depth)])
    parents = np.concatenate([[-1], np.repeat(np.arange(size - 1), 2)])
    tree = BoxTree(lows[:, None], (lows + lengths - 1)[:, None], parents)
    ends, levels = lows + lengths, [int(one).bit_length() - 1 for one in lengths]
    measured = np.array([noise[end - 1, level] for end, level in zip(ends, levels, strict=True)])
    found = LeastSquares(tree, np.ones(len(tree))).solve(measured.astype(np.float64))
    return [round(one, 3) for one in found[tree.leaves].cumsum().tolist()]


def test_an_estimate_from_blocks_that_end_later_is_caught() -> None:
    chance = np.random.default_rng(3)
    for told, is_right in ((past_alone, True), (with_the_future, False)):
        one = chance.integers(-20, 20, size=(16, 5))
        other = one.copy()
        other[9:] += 7  # the noise of all blocks that end behind the ninth period
        same = told(one)[:9] == told(other)[:9]
        assert same is is_right
