"""Trees and wavelets gone wrong: each must be caught by what it measures and its noise alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.counts import request_for, whole_numbers
from tests.fixtures.publications import MeasuredPair, measured_by_answers, measured_by_plan

from sfumato.data.schema.unit import Neighbours, Rows
from sfumato.methods.publish import auto, quadtree, wavelet
from sfumato.methods.publish import tree as kind
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import Curve, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

ONE = Pure(epsilon=Fraction(1))
REPLACED = Rows(relation=Neighbours.REPLACE_ONE)


def changed(shape: tuple[int, ...], place: tuple[int, ...], count: int = 1) -> Any:
    dense = np.full(shape, 5, dtype=np.int64)
    dense[place] += count
    return dense


def scaled(levels: MeasuredPair, factor: Fraction) -> MeasuredPair:
    """The same numbers with noise of another scale."""
    noises = [
        (replace(noise, epsilon=noise.epsilon * factor), places)
        for noise, places in levels.noises
        if isinstance(noise, Geometric)
    ]
    return replace(levels, noises=noises)


def every_level_spends_it_all() -> MeasuredPair:
    """Three levels, each with the noise of the whole epsilon."""
    plan = kind.prepare(request_for(whole_numbers(4)), fanout=2, budget="uniform")
    return scaled(measured_by_plan(plan, changed((4,), (0,)), changed((4,), (0,), 0)), Fraction(3))


def the_root_is_not_paid_for() -> MeasuredPair:
    """The shares of a tree without its root, while the root is counted too."""
    plan = kind.prepare(request_for(whole_numbers(4)), fanout=2, budget="uniform")
    return scaled(
        measured_by_plan(plan, changed((4,), (0,)), changed((4,), (0,), 0)), Fraction(3, 2)
    )


def leaves_take_what_all_levels_should_share() -> MeasuredPair:
    """Geometric shares by the height of a level, but none of them divided by their sum."""
    plan = quadtree.of_cells(request_for(whole_numbers(4, 4)))
    levels = measured_by_plan(plan, changed((4, 4), (1, 2)), changed((4, 4), (1, 2), 0))
    largest = max(noise.epsilon for noise, _ in levels.noises if isinstance(noise, Geometric))
    return scaled(levels, 1 / largest)


def the_wavelet_forgets_its_total() -> MeasuredPair:
    """A generalised sensitivity of log2 n, where it is 1 + log2 n."""
    plan = wavelet.prepare(request_for(whole_numbers(2)))
    return scaled(measured_by_plan(plan, changed((2,), (0,)), changed((2,), (0,), 0)), Fraction(2))


def sensitivities_of_two_columns_are_added() -> MeasuredPair:
    """(1 + log2 n) + (1 + log2 n) for the wavelet of two columns, where it is their product."""
    plan = wavelet.prepare(request_for(whole_numbers(4, 4)))
    levels = measured_by_plan(plan, changed((4, 4), (0, 0)), changed((4, 4), (0, 0), 0))
    return scaled(levels, Fraction(9, 6))


def a_replaced_row_is_an_added_one() -> MeasuredPair:
    """One row leaves a cell and another enters one: two blocks change."""
    plan = kind.prepare(
        request_for(whole_numbers(4), unit=REPLACED), fanout=4, budget="uniform", root="no"
    )
    return scaled(measured_by_plan(plan, changed((4,), (0,)), changed((4,), (3,))), Fraction(2))


def a_row_is_in_one_query_only() -> MeasuredPair:
    """Two queries hold the first cell, whose noise is that of one count."""
    boxes = np.array([[[0, 1]], [[0, 3]]])
    plan = auto.noise_on_queries(request_for(whole_numbers(4), boxes=boxes), [np.array([0, 2, 4])])
    return scaled(
        measured_by_answers(plan, changed((4,), (0,)), changed((4,), (0,), 0)), Fraction(2)
    )


@pytest.mark.parametrize(
    "wrong",
    [
        every_level_spends_it_all,
        the_root_is_not_paid_for,
        leaves_take_what_all_levels_should_share,
        the_wavelet_forgets_its_total,
        sensitivities_of_two_columns_are_added,
        a_replaced_row_is_an_added_one,
        a_row_is_in_one_query_only,
    ],
)
def test_less_noise_than_the_levels_need_is_caught(wrong: Callable[[], MeasuredPair]) -> None:
    levels = wrong()
    assert levels.loss > 1
    found = audit(
        levels.draw, (0, 1), ONE, entropy=SeededEntropy(9), draws=200_000, extra=[levels.evidence]
    )
    assert found.violated, found.sentence()


def test_a_gaussian_wavelet_that_forgets_signs_is_caught() -> None:
    """A row that goes from left to right moves a difference by 2, whose square is 4 and not 1."""
    plan = wavelet.prepare(request_for(whole_numbers(2), unit=REPLACED, rho="1/2"))
    levels = measured_by_plan(plan, changed((2,), (0,)), changed((2,), (1,)))
    noises = [
        (replace(noise, l2_sensitivity_squared=Fraction(1)), places)
        for noise, places in levels.noises
        if isinstance(noise, Gaussian)
    ]
    wrong = replace(levels, noises=noises)
    found = audit(wrong.draw, (0, 1), Curve(mu=1.0), entropy=SeededEntropy(9))
    assert found.violated, found.sentence()


@dataclass(frozen=True, eq=False)
class Reused(MeasuredPair):
    """The noise of the first level is put on all of them."""

    def draw(self, side: int, count: int, entropy: Entropy) -> NDArray[np.int64]:
        noise, _ = self.noises[0]
        drawn = noise.steps(np.zeros((count, 1), dtype=np.int64), entropy)
        return np.asarray(self.sides[side] + drawn)


def test_noise_that_is_used_at_two_levels_is_caught() -> None:
    plan = kind.prepare(request_for(whole_numbers(4)), fanout=2, budget="uniform")
    levels = measured_by_plan(plan, changed((4,), (0,)), changed((4,), (0,), 0))
    # A block that did not change has the same noise: the difference tells the count itself.
    first, second = (np.append(side, 7) for side in levels.sides)
    wrong = Reused((first, second), levels.noises)
    found = audit(wrong.draw, (0, 1), ONE, entropy=SeededEntropy(9), draws=20_000)
    assert found.violated, found.sentence()
