"""Questions about boxes: the words say what was counted."""

from __future__ import annotations

import numpy as np
import pytest
from sqlglot import exp

from sfumato.attack.evaluation.cells import Cells
from sfumato.attack.evaluation.coding import Coding
from sfumato.attack.evaluation.ranges import ask

LABELS = tuple(map(str, range(10)))
COLUMN = Coding("x", exp.Null(), LABELS, ordered=True, declared=True, nullable=True)
CELLS = Cells((np.arange(12),), np.arange(12), np.arange(12)[::-1].copy())


@pytest.mark.parametrize("number", range(25))
def test_a_range_holds_both_of_its_ends_and_nothing_missing(number: int) -> None:
    found = ask(number, CELLS, [COLUMN])
    assert found is not None
    ends = [int(one) for one in found.words.removeprefix("x ").split(" … ")]
    inside = range(ends[0], ends[-1] + 1)
    assert found.original == pytest.approx(sum(inside) / 66)
    assert found.synthetic == pytest.approx(sum(11 - one for one in inside) / 66)


def test_questions_differ_and_a_column_without_values_has_none() -> None:
    asked = {one.words for number in range(25) if (one := ask(number, CELLS, [COLUMN]))}
    assert len(asked) > 15
    empty = Coding("x", exp.Null(), (), ordered=True, declared=True, nullable=True)
    assert ask(0, CELLS, [empty]) is None
