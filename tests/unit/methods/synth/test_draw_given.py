"""Rows drawn given what is known of each have the chances that the model gives them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.methods.synth import row_sampling
from sfumato.methods.synth.fitted_model import Conditional, FittedModel
from sfumato.methods.synth.measurement_log import TableShape
from sfumato.methods.synth.row_sampling import draw_given
from sfumato.testing.entropy import SeededEntropy

SIZES = (2, 3, 2, 4, 3)


def model() -> FittedModel:
    """Columns in another order than they are drawn, one with two parents."""
    draws = np.random.default_rng(1)

    def given(column: int, *parents: int) -> Conditional:
        counts = draws.random([SIZES[one] for one in (*parents, column)])
        return Conditional.from_counts(column, parents, counts + 0.2)

    conditionals = (given(3), given(0, 3), given(1, 0, 3), given(4, 1), given(2, 4, 3))
    return FittedModel(TableShape(tuple("abcde"), SIZES), conditionals, 100.0)


@pytest.mark.parametrize("at_once", [1 << 22, 1])
@pytest.mark.parametrize("known", [(0, 1), (2,), (), (0, 1, 2, 3, 4)])
def test_chances_are_those_of_the_model(
    known: tuple[int, ...], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sampling, "_CELLS", at_once)
    rows, fitted = 60_000, model()
    draws = np.random.default_rng(2)
    fixed = {one: draws.integers(0, SIZES[one], rows).astype(np.int32) for one in known}
    drawn = draw_given(fitted, fixed, rows, SeededEntropy(3))
    for one, codes in fixed.items():
        assert np.array_equal(drawn[one], codes)
    counts = np.zeros(SIZES)
    np.add.at(counts, tuple(drawn), 1)
    joint = fitted.probabilities((0, 1, 2, 3, 4))
    free = tuple(one for one in range(5) if one not in known)
    expected = joint / joint.sum(axis=free, keepdims=True) * counts.sum(axis=free, keepdims=True)
    distance = ((counts - expected) ** 2 / np.maximum(expected, 1e-9)).sum()
    # A chi-square variable of at most 144 degrees is above 250 once in a million times.
    assert distance < 250


def test_what_is_impossible_leaves_columns_even() -> None:
    shape = TableShape(("a", "b"), (2, 3))
    never = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    known_last = (Conditional(1, (), np.array([1.0, 0.0, 0.0])), Conditional(0, (1,), never))
    fitted = FittedModel(shape, known_last, 1.0)
    drawn = draw_given(fitted, {0: np.ones(3000, dtype=np.int32)}, 3000, SeededEntropy(1))
    assert np.bincount(drawn[1], minlength=3).min() > 3000 * float(Fraction(3, 10))


def test_no_rows_are_none() -> None:
    nothing = np.zeros(0, dtype=np.int32)
    drawn = draw_given(model(), {0: nothing, 1: nothing}, 0, SeededEntropy(1))
    assert [len(one) for one in drawn] == [0] * 5
