"""A quantile of outputs of blocks: its sensitivity counts blocks, its answer keeps to the range."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.privacy.mechanisms.block_quantile import BlockQuantile
from sfumato.testing.entropy import SeededEntropy


def made(**changes: Any) -> BlockQuantile:
    facts: dict[str, Any] = {
        "epsilon": Fraction(50),
        "blocks": 40,
        "low": Fraction(0),
        "high": Fraction(8),
        "granule": Fraction(1, 4),
    }
    return BlockQuantile(**(facts | changes))


def test_the_middle_block_is_found_and_wild_ones_move_nothing() -> None:
    values = np.concatenate((np.full(30, 3.0), np.full(10, 1e300)))
    found = made().sample(np.stack([values, np.full(40, np.nan)]), SeededEntropy(1))
    assert found.tolist() == [3.0, 4.0]
    upper = made(rank=Fraction(3, 4)).sample(np.linspace(0, 8, 40), SeededEntropy(2))
    assert float(upper) == pytest.approx(6, abs=0.5)


def test_one_person_moves_their_blocks_whatever_the_relation() -> None:
    assert made().choice.sensitivity == 1
    assert made(repeats=4).choice.sensitivity == 4
    assert made(relation=Neighbours.REPLACE_ONE).choice.sensitivity == 2
    assert made().event.epsilon == 50
    assert made(repeats=4).bound(0.05) == pytest.approx(4 * made().bound(0.05))


def test_refusals() -> None:
    for changes, code in (
        ({"blocks": 1}, "parameter_out_of_range"),
        ({"repeats": 7}, "parameter_out_of_range"),
    ):
        with pytest.raises(ParameterError) as caught:
            made(**changes)
        assert caught.value.code == code
