"""Sample and aggregate: one person in one block, failures unseen, a public number of blocks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mechanisms.sample_aggregate import SampleAggregate
from sfumato.privacy.units import Neighbours
from sfumato.testing.audit import fit_uniform
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


def test_people_are_spread_uniformly_and_whole() -> None:
    mechanism = made(epsilon=Fraction(10**6))
    assert fit_uniform(mechanism.assign(50_000, SeededEntropy(1)), 10).p_value > 1e-6
    people = np.repeat(np.arange(500), 7)
    seen: list[set[int]] = []

    def program(rows: NDArray[np.int64]) -> float:
        seen.append(set(people[rows].tolist()))
        return float(len(rows))

    mechanism.run(program, people, SeededEntropy(2))
    assert len(seen) == 10
    assert sum(len(block) for block in seen) == len(set().union(*seen)) == 500


def test_mean_of_the_blocks_is_released() -> None:
    mechanism = made(epsilon=Fraction(10**6))
    values = np.random.default_rng(1).integers(0, 100, 1_000)
    answer = mechanism.run(
        lambda rows: float(values[rows].mean()), np.arange(1_000), SeededEntropy(3)
    )
    assert answer == pytest.approx(values.mean(), abs=2)


def test_failures_count_as_the_middle_and_are_not_told() -> None:
    mechanism = made(epsilon=Fraction(10**6))

    def fails(rows: NDArray[np.int64]) -> float:
        raise RuntimeError(f"row {rows[0]} is Bob's")

    def odd(rows: NDArray[np.int64]) -> Any:
        return "text" if len(rows) % 2 else None

    people = np.arange(1_000)
    for program in (fails, odd, lambda _: math.nan, lambda _: math.inf):
        assert mechanism.run(program, people, SeededEntropy(4)) == pytest.approx(50, abs=0.01)


def test_outputs_are_kept_within_the_range_and_on_the_grid() -> None:
    mechanism = made(blocks=2, epsilon=Fraction(10**6))
    released = mechanism.sample([[1e300, -1e300], [100.0, 0.1], [0.2, 0.2]], SeededEntropy(5))
    assert released == pytest.approx([50, 50, 0.25], abs=0.01)


def test_empty_table_is_no_special_case() -> None:
    released = made(epsilon=Fraction(10**6)).run(
        lambda rows: float(len(rows)), [], SeededEntropy(6)
    )
    assert released == pytest.approx(0, abs=0.01)


def test_refusals() -> None:
    for changes, code in (
        ({"blocks": 1}, "parameter_out_of_range"),
        ({"low": Fraction(100)}, "bounds_equal"),
        ({"low": Fraction(200)}, "bounds_reversed"),
        ({"granule": Fraction(7)}, "granule_uneven"),
        ({"granule": Fraction(1, 2**60)}, "granule_too_fine"),
        ({"granule": Fraction(0)}, "parameter_not_positive"),
        ({"epsilon": Fraction(0)}, "epsilon_not_positive"),
    ):
        with pytest.raises(ParameterError) as caught:
            made(**changes)
        assert caught.value.code == code
    with pytest.raises(ParameterError) as caught:
        made().sample([1.0], SeededEntropy(7))
    assert caught.value.code == "outputs_wrong_shape"
