"""Naive Bayes of noisy counts: what is counted, what is believed, and what it costs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.fixtures.class_learning import AGE, STAGE, learnt, planned, spread, table

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.learn.naive_bayes import NaiveBayes, log_chances
from sfumato.privacy.accounting.composition import basic_price, total

WIDE = tuple(Column(f"f{place}", Kind.INTEGER, domain=Bounds(0, 99)) for place in range(12))


def learner(**facts: object) -> NaiveBayes:
    found = planned("naive-bayes", **facts).method  # type: ignore[arg-type]
    assert isinstance(found, NaiveBayes)
    return found


@pytest.mark.parametrize(
    ("rows", "epsilon", "kept", "bins"),
    [
        (400, "0.1", 2, 4),
        (400, 1, 12, 4),
        (400, 10, 12, 8),
        (100_000, 1, 12, 16),
        (40, "0.1", 1, 4),
        (None, 1, 12, 8),  # as if 1,000
    ],
)
def test_bins_and_features_follow_from_public_facts(
    rows: int | None, epsilon: object, kept: int, bins: int
) -> None:
    found = learner(features=WIDE, rows=rows, cost={"epsilon": epsilon})
    assert (found.feature_count, found.space.sizes[0]) == (kept, bins)
    assert found.error["features"] == kept


@pytest.mark.parametrize("most", [1, 3, 12])
@pytest.mark.parametrize("unit", [Rows(), Entity("person", 3, relation=Neighbours.REPLACE_ONE)])
def test_the_whole_price_is_spent_and_no_more(most: int, unit: Rows | Entity) -> None:
    spent = total(learner(features=WIDE, unit=unit, most=most).event, basic_price)
    assert spent == (Fraction(1), Fraction(0))


def test_a_rho_pays_for_gaussian_noise() -> None:
    found = learner(features=WIDE, cost={"rho": "1/2"}, most=3)
    assert found.sd == pytest.approx((3 / (2 * 0.5 * 0.6)) ** 0.5, rel=0.01)


def test_the_old_are_told_from_the_young() -> None:
    plan = planned("naive-bayes", cost={"epsilon": 10}, rows=600)
    model = learnt(plan, table(spread(600)))
    held = table(spread(200))
    truth = np.array(held.column("ill").to_pylist())
    assert model.score(held, truth) > 0.9
    chances = model.predict_proba(held)  # type: ignore[attr-defined]
    assert chances.shape == (200, 2)
    assert chances.sum(axis=1) == pytest.approx(np.ones(200))


def test_of_many_features_the_one_that_tells_is_counted() -> None:
    rows = spread(2_000)
    plan = planned("naive-bayes", target=STAGE, cost={"epsilon": 1}, most=1)
    counts = learnt(plan, table(rows)).tables["counts"]
    assert set(counts.column("feature").to_pylist()) == {"age"}
    assert counts.num_rows == 3 * 4


def test_noise_alone_tells_little() -> None:
    generator = np.random.default_rng(5)
    noise = [generator.normal(0, 1_000, (3, 8)) for _ in range(20)]
    prior, logs = log_chances(noise, 1_000.0)
    assert np.ptp(prior) < 1.5
    apart = [np.ptp(one, axis=0).max() for one in logs]
    raw = [np.ptp(np.log(np.maximum(one, 1)), axis=0).max() for one in noise]
    assert np.mean(apart) < 1.5 < 5 < np.mean(raw)


def test_counts_without_noise_give_the_shares_of_classes() -> None:
    counts = np.array([[900.0, 100.0], [200.0, 800.0]])
    prior, logs = log_chances([counts], 1e-9)
    assert np.exp(prior) == pytest.approx([0.5, 0.5])
    assert np.exp(logs[0]) == pytest.approx(counts / 1_000, abs=0.002)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"bins": 1}, "parameter_out_of_range"),
        ({"bins": "many"}, "parameter_out_of_range"),
        ({"most": 13}, "parameter_out_of_range"),
        ({"depth": 3}, "option_unknown"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as caught:
        planned("naive-bayes", features=WIDE, **options)
    assert caught.value.code == code


def test_a_card_says_what_it_would_cost() -> None:
    plan = planned("naive-bayes", features=(AGE,))
    assert "naive-bayes" in repr(plan)
    assert "bound95" in str(plan.error)
