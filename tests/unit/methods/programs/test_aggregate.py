"""Aggregates: the price is shared exactly, ranges are found privately, failures are constants."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.methods.programs.aggregate import Aggregate
from sfumato.methods.programs.outputs import read_outputs
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.testing.entropy import SeededEntropy

OUTPUTS = [{"low": 0, "high": 1000, "share": 3}, {"low": -1, "high": 1}]


def made(**changes: Any) -> Aggregate:
    facts: dict[str, Any] = {
        "outputs": read_outputs(OUTPUTS),
        "epsilon": Fraction(1),
        "blocks": 200,
        "repeats": 1,
        "relation": Neighbours.ADD_REMOVE,
    }
    return Aggregate(**(facts | changes))


WAYS: list[dict[str, Any]] = [
    {},
    {"ranges": "loose"},
    {"ranges": "helper"},
    {"how": "median"},
    {"repeats": 4},
]


@pytest.mark.parametrize("changes", WAYS)
def test_all_parts_together_cost_the_price(changes: dict[str, Any]) -> None:
    assert total(made(**changes).event, basic_price) == (Fraction(1), Fraction(0))


def test_noise_is_by_range_blocks_repeats_and_share() -> None:
    first, second = (one["sd"] for one in made().error.values())
    assert first == pytest.approx(2**0.5 * 1000 / (200 * 0.75), rel=0.01)
    assert second == pytest.approx(2**0.5 * 2 / (200 * 0.25), rel=0.01)
    repeated = made(repeats=4, blocks=800).error["output 1"]["sd"]
    assert repeated == pytest.approx(first, rel=0.01)  # noise does not grow by resampling


def values(blocks: int = 200) -> Any:
    rng = np.random.default_rng(1)
    return np.stack([rng.normal(40, 2, blocks), rng.normal(0.5, 0.01, blocks)], axis=1)


@pytest.mark.parametrize("changes", WAYS)
def test_what_leaves_is_near_what_the_blocks_gave(changes: dict[str, Any]) -> None:
    blocks = 200
    aggregate = made(**changes, epsilon=Fraction(8), blocks=blocks)
    helped = [(30.0, 50.0), (0.4, 0.6)]
    found = aggregate.release(values(blocks), SeededEntropy(3), helped)
    spread = 4 if "repeats" in changes else 1
    assert found[0].value == pytest.approx(40, abs=8 * spread)
    assert found[1].value == pytest.approx(0.5, abs=0.05 * spread)


def test_a_loose_range_is_narrowed_and_its_noise_with_it() -> None:
    aggregate = made(ranges="loose", epsilon=Fraction(8), blocks=400)
    found = aggregate.release(values(400), SeededEntropy(5))[0]
    assert 30 < found.low < 40 < found.high < 50
    assert found.error["sd"] < made(epsilon=Fraction(8), blocks=400).error["output 1"]["sd"] / 10


def test_a_helper_that_fails_leaves_the_declared_range_and_wild_ranges_stay_in_it() -> None:
    aggregate = made(ranges="helper", epsilon=Fraction(8))
    assert aggregate.release(values(), SeededEntropy(6), None)[0].high == 1000
    wild = aggregate.release(values(), SeededEntropy(7), [(1e300, -1e300), (7.0, 7.0)])
    assert (wild[0].low, wild[0].high) == (0, 1000)
    assert -1 <= wild[1].low < wild[1].high <= 1


def test_failures_are_the_middle_of_the_declared_range() -> None:
    failed = np.full((200, 2), np.nan)
    for changes in WAYS:
        found = made(**changes, epsilon=Fraction(10**6)).release(failed, SeededEntropy(8))
        assert [one.value for one in found] == pytest.approx([500, 0], abs=0.01)


def test_a_median_takes_no_range_of_its_own() -> None:
    with pytest.raises(ParameterError, match="Leave ranges= out"):
        made(how="median", ranges="loose")
