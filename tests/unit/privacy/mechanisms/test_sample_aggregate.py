"""Sample and aggregate: one person in one block, failures unseen, a public number of blocks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.privacy.mechanisms.sample_aggregate import SampleAggregate
from sfumato.testing.entropy import SeededEntropy


def made(**changes: Any) -> SampleAggregate:
    parameters: dict[str, Any] = {
        "epsilon": Fraction(1),
        "blocks": 10,
        "low": Fraction(0),
        "high": Fraction(100),
        "granule": Fraction(1, 4),
    }
    return SampleAggregate(**(parameters | changes))


def test_sensitivity_is_the_range_over_the_blocks() -> None:
    mechanism = made()
    assert mechanism.on_sum.l1_sensitivity == 400
    assert mechanism.event.epsilon == 1
    assert mechanism.stddev == pytest.approx(math.sqrt(2) * 10, rel=0.01)
    assert mechanism.variance == pytest.approx(mechanism.stddev**2)
    assert mechanism.bound(0.05) == pytest.approx(10 * math.log(20), rel=0.01)
    replaced = made(relation=Neighbours.REPLACE_ONE)
    assert replaced.on_sum.l1_sensitivity == 800
    assert replaced.event.epsilon == 1
    repeated = made(repeats=5)
    assert repeated.on_sum.l1_sensitivity == 2000
    assert repeated.stddev == pytest.approx(5 * mechanism.stddev, rel=0.01)


def test_failures_count_as_the_middle() -> None:
    released = made(blocks=2, epsilon=Fraction(10**6)).sample([math.nan, 30.0], SeededEntropy(4))
    assert float(released) == pytest.approx(40, abs=0.01)


def test_outputs_are_kept_within_the_range_and_on_the_grid() -> None:
    mechanism = made(blocks=2, epsilon=Fraction(10**6))
    released = mechanism.sample([[1e300, -1e300], [100.0, 0.1], [0.2, 0.2]], SeededEntropy(5))
    assert released == pytest.approx([50, 50, 0.25], abs=0.01)


def test_refusals() -> None:
    for changes, code in (
        ({"blocks": 1}, "parameter_out_of_range"),
        ({"low": Fraction(100)}, "bounds_invalid"),
        ({"low": Fraction(200)}, "bounds_invalid"),
        ({"granule": Fraction(7)}, "bounds_invalid"),
        ({"granule": Fraction(1, 2**60)}, "bounds_invalid"),
        ({"granule": Fraction(0)}, "parameter_out_of_range"),
        ({"epsilon": Fraction(0)}, "parameter_out_of_range"),
    ):
        with pytest.raises(ParameterError) as caught:
            made(**changes)
        assert caught.value.code == code
    with pytest.raises(ParameterError) as caught:
        made().sample([1.0], SeededEntropy(7))
    assert caught.value.code == "array_invalid"
