"""Outputs of blocks: on the grid, within the range, and how many of them one person moves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.privacy.mechanisms.block_outputs import BlockOutputs

FACTS = {"epsilon": Fraction(1), "low": Fraction(0), "high": Fraction(2), "granule": Fraction(1, 2)}


def test_what_is_no_number_is_the_middle_and_what_is_outside_the_end() -> None:
    outputs = BlockOutputs(**FACTS, blocks=6)  # type: ignore[arg-type]
    given = [np.nan, np.inf, -5, 1e300, 0.7, 0.2]
    assert outputs.steps(given).tolist() == [2, 2, 0, 4, 1, 0]


def test_one_person_moves_as_many_as_blocks_hold_them() -> None:
    for repeats, relation, moved in (
        (1, Neighbours.ADD_REMOVE, 1),
        (3, Neighbours.ADD_REMOVE, 3),
        (3, Neighbours.REPLACE_ONE, 6),
    ):
        made = BlockOutputs(**FACTS, blocks=12, repeats=repeats, relation=relation)
        assert made.changed_outputs == moved
    with pytest.raises(ParameterError):
        BlockOutputs(**FACTS, blocks=3, repeats=3)  # type: ignore[arg-type]
