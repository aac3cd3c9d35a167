"""The log tells the number of rows, one table of several, and how far any table is off."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.fixtures.counts import agrees

from sfumato.methods.synth.measurement_log import MeasuredTable, MeasurementLog, TableShape
from sfumato.privacy.accounting.events import GaussianNoise

SHAPE = TableShape(("a", "b", "c"), (2, 3, 2))
EVENT = GaussianNoise(variance=Fraction(9), l2_sensitivity_squared=Fraction(1))
TRUTH = np.random.default_rng(1).integers(0, 50, (2, 3, 2)).astype(float)
MEASURED = [((0,), 9.0), ((1,), 4.0), ((0, 1), 25.0), ((0, 1), 16.0), ((1, 2), 4.0)]


def noisy_log(seed: int) -> MeasurementLog:
    draws = np.random.default_rng(seed)
    log = MeasurementLog(SHAPE)
    for places, variance in MEASURED:
        exact = TRUTH.sum(axis=tuple(axis for axis in range(3) if axis not in places))
        noise = draws.normal(0, variance**0.5, exact.shape)
        log.add(MeasuredTable(places, exact + noise, variance, EVENT))
    return log


def test_errors_are_as_stated() -> None:
    runs = [noisy_log(seed) for seed in range(500)]
    for places in [(), (0,), (1,), (2,), (0, 1), (1, 2)]:
        exact = TRUTH.sum(axis=tuple(axis for axis in range(3) if axis not in places))
        estimates = [log.estimate([places]) for log in runs]
        errors = np.stack([one.table(places) - exact for one in estimates]).reshape(500, -1)
        assert agrees(errors, estimates[0].variance(places)), places
    assert not noisy_log(1).estimate([(0, 1)]).known((0, 2))


def test_several_measurements_of_a_set_are_one() -> None:
    log = noisy_log(3)
    merged = log.merged()
    assert set(merged) == log.measured == {(0,), (1,), (0, 1), (1, 2)}
    both = merged[(0, 1)]
    assert both.variance == pytest.approx(1 / (1 / 25 + 1 / 16))
    expected = (log.tables[2].counts / 25 + log.tables[3].counts / 16) * both.variance
    np.testing.assert_allclose(both.counts, expected)


def test_the_number_of_rows_is_never_below_one() -> None:
    assert noisy_log(4).total() == pytest.approx(TRUTH.sum(), abs=30)
    log = MeasurementLog(SHAPE)
    log.add(MeasuredTable((0,), np.array([-5.0, 2.0]), 1.0, EVENT))
    assert log.total() == 1
