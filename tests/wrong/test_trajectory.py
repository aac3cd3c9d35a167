"""Models of paths with one mistake each, which the same brute force finds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.trajectory import loss

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.schema.unit import Entity
from sfumato.methods.trajectory import dpt, measurement
from sfumato.methods.trajectory.cells import Box, ReferenceSystems
from sfumato.methods.trajectory.measurement import PathCost
from sfumato.methods.trajectory.paths import Paths
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.privacy.noise.entropy import Entropy

BOX = Box(0, 0, 8, 8)
METHOD = dpt.DPT(
    systems=ReferenceSystems.squares(BOX, 8),
    cost=PathCost(price(epsilon=1), Entity("trip", 48)),
    most=48,
    every=60.0,
    first_time=0.0,
    last_time=86_400.0,
)


def paths() -> Paths:
    drawn = np.random.default_rng(2)
    lengths = np.array([12, 3, 4, 5])
    x, y = drawn.uniform(0, 4, (2, 24))
    x[:12] *= 2  # one person goes farther than the others
    return Paths(np.arange(4), lengths, np.arange(24, dtype=np.float64) * 60, x, y)


def test_the_right_one_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loss(METHOD.learn, paths(), monkeypatch) <= 1


def test_a_cap_after_counting_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step counts in full, and only what is drawn is cut to a length."""
    monkeypatch.setattr(
        measurement,
        "weights",
        lambda owners, _cap: np.full(len(owners), FULL_WEIGHT, dtype=np.int64),
    )
    assert loss(METHOD.learn, paths(), monkeypatch) > 1


def test_a_box_from_the_data_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Fitted:
        def learn(self, real: Paths, entropy: Entropy) -> Any:
            box = Box(real.x.min(), real.y.min(), real.x.max(), real.y.max())
            systems = ReferenceSystems.squares(box, 8)
            return replace(METHOD, systems=systems).learn(real, entropy)

    assert loss(Fitted().learn, paths(), monkeypatch) > 1


def test_a_selection_that_is_not_paid_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share is spent on the trees as well."""
    more = dpt.SHARES["trees"] + dpt.SHARES["selection"]
    monkeypatch.setitem(dpt.SHARES, "trees", more)
    with pytest.raises(AssertionError, match="more is measured than was paid for"):
        METHOD.learn(paths(), SeededEntropy(1))


def test_a_selection_by_exact_speeds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is free, and one person who goes fast decides which tables there are."""
    right = replace(
        METHOD, cost=PathCost(price(epsilon=10**6, maximum=Fraction(10**7)), Entity("trip", 48))
    )
    assert loss(right.learn, hurried(), monkeypatch) <= 1

    def exact(
        bench: Any, systems: Any, start: Any, end: Any, _owners: Any, share: Any, _cap: int
    ) -> Any:
        bench.spent += share
        told, _ = systems.assign(start, end, tuple(range(len(systems.systems))))
        return np.bincount(told, minlength=len(systems.systems)).astype(np.float64)

    monkeypatch.setattr(dpt, "measure_speeds", exact)
    assert loss(right.learn, hurried(), monkeypatch) > 1


def hurried() -> Paths:
    """Three people who walk from cell to cell, and one who drives through several at once."""
    x = np.concatenate([np.linspace(0.5, 4.5, 5)] * 3 + [np.array([0.2, 3.7, 7.2, 3.7, 0.2])])
    lengths = np.full(4, 5)
    return Paths(np.arange(4), lengths, np.arange(20, dtype=np.float64) * 60, x, np.full(20, 4.2))


def test_paces_by_path_instead_of_person_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's steps weigh one for each trip, not together."""
    right = measurement.weights

    def by_items(owners: Any, cap: int) -> Any:
        return right(np.arange(len(owners)), cap)

    mine = replace(paths(), owners=np.array([0, 0, 1, 2]))
    assert loss(METHOD.learn, mine, monkeypatch) <= 1
    monkeypatch.setattr(measurement, "weights", by_items)
    assert loss(METHOD.learn, mine, monkeypatch) > 1
