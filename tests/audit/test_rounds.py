"""What rounds tell keeps its epsilon, within 1e-6 of a false alarm; wrong twins are caught.

Sums are made once for each of two neighbours, by the engine; noise is drawn again and again.
"""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.methods.learn.learnt import dataset, features, people, planned

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.unit import Rows
from sfumato.methods.learn.features import GRID, FeatureSpace
from sfumato.methods.learn.kmeans import count_weight, update_centres
from sfumato.methods.learn.rounds import (
    GriddedRows,
    OffsetRound,
    best_spending,
    nearest_layers,
    reach_of,
)
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

    Outputs = Callable[[Any, int, Entropy], NDArray[Any]]

EPSILON = Fraction(2)
DRAWS = 20_000
WIDTH = 2
REACH = reach_of(Fraction(3, 10), WIDTH)
CENTRES = np.array([[-512, -512], [512, 512]])
NEAR = np.full((6, WIDTH), -0.5)


def _told(more: Any) -> Any:
    """Exact counts and sums around two centres; all rows but those of one person are near one."""
    learning = planned("kmeans", WIDTH, clusters=2)
    cells = np.concatenate([NEAR, np.asarray(more, dtype=np.float64).reshape(-1, WIDTH)])
    layers, group = nearest_layers(CENTRES)
    with closing(open_duckdb(people(cells))) as engine:
        expressions = FeatureSpace(features(WIDTH)).expressions()
        rows = GriddedRows(dataset(learning, engine), expressions, WIDTH)
        return rows.group_sums(CENTRES, REACH, group, layers)


ALONE, WITHOUT = _told([[1.0, 1.0]]), _told([])
"""A person who is all of the second cluster, as far from its centre as a row counts; and nobody."""


def _round(counts: Fraction, sums: Fraction) -> OffsetRound:
    """A round with these parts of epsilon."""
    spending = best_spending(price(epsilon=EPSILON), Rows(), REACH)
    right = OffsetRound.of(spending, Rows(), REACH, weight=count_weight(REACH), share=Fraction(1))
    return OffsetRound(
        counts=Geometric(epsilon=counts, l1_sensitivity=right.counts.l1_sensitivity),  # type: ignore[union-attr]
        sums=Geometric(epsilon=sums, l1_sensitivity=right.sums.l1_sensitivity),  # type: ignore[union-attr]
        reach=REACH,
        row=1,
    )


def _shares() -> tuple[Fraction, Fraction]:
    weight = count_weight(REACH)
    part = Fraction(weight, REACH + weight)
    return EPSILON * part, EPSILON * (1 - part)


def _noisy(one: OffsetRound) -> Outputs:
    """How many of a round's figures lie on the side of the person who is alone."""
    middle, moves = (ALONE + WITHOUT) / 2, np.sign((ALONE - WITHOUT).astype(np.int64))

    def outputs(told: Any, draws: int, entropy: Entropy) -> NDArray[Any]:
        counts = one.counts.steps(np.tile(told[:, 0], (draws, 1)), entropy)
        sums = one.sums.steps(np.tile(told[:, 1:].ravel(), (draws, 1)), entropy)
        there = (counts - middle[:, 0]) * moves[:, 0] > 0
        aside = (sums - middle[:, 1:].ravel()) * moves[:, 1:].ravel() > 0
        return np.asarray(there.sum(axis=1) * 8 + aside.sum(axis=1))

    return outputs


def _violated(outputs: Outputs, pair: tuple[Any, Any], seed: int, draws: int = DRAWS) -> bool:
    claim = Pure(epsilon=EPSILON)
    return audit(outputs, pair, claim, entropy=SeededEntropy(seed), draws=draws).violated


def test_a_round_keeps_what_it_claims_and_swapped_shares_do_not() -> None:
    """Twin: each sum of a coordinate at the share of counts, and counts at that of a sum.

    At 64 coordinates this spends 2.28 times the price, which is what the twin has here.
    """
    counts, sums = _shares()
    assert not _violated(_noisy(_round(counts, sums)), (ALONE, WITHOUT), 1)
    width = 64
    weight = Fraction(round(1000 * float(np.cbrt(4 * width * 0.225**2))), 1000)
    spent = (1 + width * weight) / (width + weight)
    part = 1 / (width + weight)
    swapped = _round(EPSILON * part, EPSILON * (spent - part))
    assert _violated(_noisy(swapped), (ALONE, WITHOUT), 2)


@pytest.mark.parametrize("twin", [False, True])
def test_no_case_asks_whether_a_cluster_is_empty(*, twin: bool) -> None:
    """Twin: a cluster that has no rows keeps its centre as it is."""
    one = _round(*_shares())

    def outputs(told: Any, draws: int, entropy: Entropy) -> NDArray[Any]:
        counts = one.counts.steps(np.tile(told[:, 0], (draws, 1)), entropy).astype(float)
        sums = one.sums.steps(np.tile(told[1, 1:], (draws, 1)), entropy) / GRID
        places = CENTRES / GRID
        stays = []
        for many, offsets in zip(counts, sums, strict=True):
            if twin and told[1, 0] == 0:
                stays.append(1)
                continue
            both = np.array([np.zeros(WIDTH), offsets])
            after = update_centres(places, many, both, one.sum_sd)
            stays.append(int((after[1] == places[1]).all()))
        return np.array(stays)

    assert _violated(outputs, (ALONE, WITHOUT), 3, 2000) == twin


@pytest.mark.parametrize("twin", [False, True])
def test_how_far_rows_count_does_not_follow_from_them(*, twin: bool) -> None:
    """Twin: noise as large as the farthest offset that there is, which a person can be."""

    def outputs(told: Any, draws: int, entropy: Entropy) -> NDArray[Any]:
        farthest = int(np.abs(told[:, 1:]).sum(axis=1).max())
        scale = Fraction(max(farthest, 1) if twin else REACH)
        noise = Geometric(epsilon=EPSILON, l1_sensitivity=scale)
        return np.asarray(noise.steps(np.full(draws, int(told[1, 1])), entropy) // 64)

    assert _violated(outputs, (ALONE, WITHOUT), 4) == twin
