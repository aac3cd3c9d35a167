"""What moments tell of a person is no more than was paid for; wrong twins are caught.

The exact sums of two neighbours come from the real query. The row that they differ by is as far out
as rows get: every declared sensitivity is reached. Noise is drawn many times, and what is audited
is the likelihood ratio of all figures together, which tells the two tables apart best.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Rows
from sfumato.methods.learn.features import GRID
from sfumato.methods.learn.noisy_moments import SQUARES, plan
from sfumato.methods.learn.request import LearningRequest
from sfumato.methods.method import Dataset
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import Price
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import Curve, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.data.schema.unit import Unit
    from sfumato.methods.learn.noisy_moments import MomentPlan
    from sfumato.privacy.noise.entropy import Entropy

EPSILON = Fraction(2)
DRAWS = 20_000
FEATURES = tuple(
    Column(name, Kind.REAL, domain=Bounds(Decimal(0), Decimal(100))) for name in ("a", "b")
)
TARGET = Column("y", Kind.REAL, domain=Bounds(Decimal(0), Decimal(100)))
SCHEMA = Schema("t", (Column("p", Kind.INTEGER), *FEATURES, TARGET))


def _planned(unit: Unit, price: Price) -> MomentPlan:
    request = LearningRequest(
        dataset="t", schema=SCHEMA, features=FEATURES, target=TARGET, unit=unit, price=price
    )
    return plan(request, norm=2)


def _table(farthest: int) -> pa.Table:
    """Five people in the middle, and one with so many rows in the corner of all bounds."""
    people = [*range(5), *[9] * farthest]
    values = [*[50.0] * 5, *[100.0] * farthest]
    return pa.table({"p": people, "a": values, "b": values, "y": values})


def _sums(one: MomentPlan, unit: Unit, rows: int) -> NDArray[Any]:
    engine = open_duckdb(_table(rows))
    found = one.exact(Dataset("t", engine, engine.table, SCHEMA, unit))
    engine.close()
    return found


def _ratio(
    one: MomentPlan, pair: tuple[NDArray[Any], NDArray[Any]], *, bare: str = ""
) -> Callable[[NDArray[Any], int, Entropy], NDArray[Any]]:
    """Draws of what all noisy figures say for the second table; `bare` names an exact block."""

    def outputs(exact: NDArray[Any], draws: int, entropy: Entropy) -> NDArray[Any]:
        told, start = np.zeros(draws), 0
        for block in one.blocks:
            part = slice(start, start + len(block.pairs))
            start += len(block.pairs)
            before, after = (np.array(two[part], dtype=float) for two in pair)
            noise = one.noises[block.name]
            tiled = np.tile(exact[part].astype(np.int64), (draws, 1))
            noisy = (tiled if block.name == bare else noise.steps(tiled, entropy)).astype(float)
            if isinstance(noise, Geometric):
                off = (np.abs(noisy - before) - np.abs(noisy - after)) / float(noise.scale)
            else:
                off = ((noisy - before) ** 2 - (noisy - after) ** 2) / (2 * noise.variance)
            told += off.sum(axis=1)
        return np.round(told * 4).astype(np.int64)

    return outputs


@pytest.mark.parametrize("by", ["rows", "people"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_moments_tell_no_more_than_was_paid_for(by: str, noise: str) -> None:
    unit: Unit = Rows() if by == "rows" else Entity("p", 2)
    price = Price(epsilon=EPSILON) if noise == "laplace" else Price(rho=Fraction(1))
    claim = Pure(epsilon=EPSILON) if noise == "laplace" else Curve(mu=sqrt(2))
    one = _planned(unit, price)
    rows = 1 if by == "rows" else 5
    pair = (_sums(one, unit, 0), _sums(one, unit, rows))
    found = audit(_ratio(one, pair), pair, claim, entropy=SeededEntropy(1), draws=DRAWS)
    assert not found.violated, found.sentence()
    # Twin: noise for a third of what a person can do.
    cheap = _planned(unit, _thrice(price))
    caught = audit(_ratio(cheap, pair), pair, claim, entropy=SeededEntropy(2), draws=DRAWS)
    assert caught.violated, caught.sentence()


def _thrice(price: Price) -> Price:
    if price.epsilon is not None:
        return replace(price, epsilon=3 * price.epsilon)
    assert price.rho is not None
    return replace(price, rho=9 * price.rho)


def test_a_square_without_noise_is_caught() -> None:
    """Twin: bounds (0, 100) taken for a sensitivity of max(0, 0)^2, which leaves squares bare."""
    one = _planned(Rows(), Price(epsilon=EPSILON))
    pair = (_sums(one, Rows(), 0), _sums(one, Rows(), 1))
    caught = audit(
        _ratio(one, pair, bare=SQUARES),
        pair,
        Pure(epsilon=EPSILON),
        entropy=SeededEntropy(3),
        draws=DRAWS,
    )
    assert caught.violated, caught.sentence()


@cache
def _wishart(draws: int) -> NDArray[np.float64]:
    """Noise of Wishart's kind for one column: the square of two normal numbers, never negative."""
    normal = np.random.default_rng(4).normal(size=(draws, 2))
    return np.asarray((normal**2).sum(axis=1))


def test_noise_whose_support_moves_is_caught() -> None:
    """Twin: second moments plus a Wishart matrix of d + 1 degrees, of scale 3 / (2 epsilon)."""
    scale = 3 / (2 * float(EPSILON))

    def outputs(square: int, draws: int, _entropy: Entropy) -> NDArray[Any]:
        start = draws if square else 0
        noise = _wishart(2 * DRAWS)[start : start + draws]
        return np.floor((square + scale * np.resize(noise, draws)) * 8).astype(np.int64)

    claim = Pure(epsilon=EPSILON)
    caught = audit(outputs, (0, 1), claim, entropy=SeededEntropy(5), draws=DRAWS)
    assert caught.violated, caught.sentence()


def test_bounds_from_the_data_are_caught() -> None:
    """Twin: coordinates by the largest value that there is, so that all others move with it."""

    def scaled(rows: int) -> NDArray[Any]:
        values = np.array([*[50.0] * 5, *[100.0] * rows])
        places = np.floor(values / values.max() * GRID).astype(int)
        return np.array([(places**2).sum()], dtype=object)

    pair = (scaled(0), scaled(1))
    # The whole price on the square of one column alone.
    whole = Geometric(epsilon=EPSILON, l1_sensitivity=Fraction(GRID**2))

    def outputs(exact: NDArray[Any], draws: int, entropy: Entropy) -> NDArray[Any]:
        noisy = whole.steps(np.full(draws, int(exact[0])), entropy)
        return np.asarray(noisy // (GRID**2 // 8))

    claim = Pure(epsilon=EPSILON)
    caught = audit(outputs, pair, claim, entropy=SeededEntropy(6), draws=DRAWS)
    assert caught.violated, caught.sentence()
