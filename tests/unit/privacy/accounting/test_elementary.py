"""The bounds enclose the truth, whatever the precision, and are as close as promised."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.privacy.accounting import elementary

if TYPE_CHECKING:
    from collections.abc import Callable

# Exact arithmetic on a busy machine has no time limit per example.
unhurried = settings(deadline=None)

bits = st.sampled_from([1, 8, 53, 128, 300])
positives = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30) | st.fractions(
    min_value=Fraction(1, 2), max_value=2
)


# Far beyond every bound under test; its functions are correctly rounded.
REFERENCE = Context(prec=400)


def _decimal(value: Fraction) -> Decimal:
    return REFERENCE.divide(Decimal(value.numerator), Decimal(value.denominator))


@unhurried
@given(value=st.fractions(min_value=-2000, max_value=2000), bits=bits)
def test_exp_is_enclosed_relatively(value: Fraction, bits: int) -> None:
    low, high = elementary.exp_down(value, bits), elementary.exp_up(value, bits)
    truth = Fraction(REFERENCE.exp(_decimal(value)))
    slack = truth / 2**1200
    assert low - slack <= truth <= high + slack
    assert high - low <= truth / Fraction(2) ** (bits - 4)


@unhurried
@given(value=positives, bits=bits)
def test_log_is_enclosed_absolutely(value: Fraction, bits: int) -> None:
    low, high = elementary.log_down(value, bits), elementary.log_up(value, bits)
    truth = Fraction(REFERENCE.ln(_decimal(value)))
    slack = Fraction(1, 2**1200)
    assert low - slack <= truth <= high + slack
    assert high - low <= 1 / Fraction(2) ** bits


@unhurried
@given(value=positives, bits=bits)
def test_sqrt_is_enclosed_relatively(value: Fraction, bits: int) -> None:
    low = elementary.sqrt_down(value, bits)
    assert low**2 <= value <= (low * (1 + 1 / Fraction(2) ** (bits - 2))) ** 2


@unhurried
@given(value=st.fractions(), bits=bits)
def test_rounding_keeps_its_side(value: Fraction, bits: int) -> None:
    low, high = elementary.round_down(value, bits), elementary.round_up(value, bits)
    assert low <= value <= high
    assert high - low <= abs(value) / Fraction(2) ** (bits - 2)


@pytest.mark.parametrize(
    ("bound", "value", "truth"),
    [
        (elementary.exp_down, 0, 1),
        (elementary.exp_up, 0, 1),
        (elementary.log_down, 1, 0),
        (elementary.log_up, 1, 0),
        (elementary.sqrt_down, 0, 0),
        (elementary.sqrt_down, Fraction(9, 4), Fraction(3, 2)),
    ],
)
def test_exact_values_stay_exact(
    bound: Callable[[Fraction], Fraction], value: Fraction, truth: Fraction
) -> None:
    assert bound(Fraction(value)) == truth


def _reference_turn(turns: Fraction) -> tuple[Fraction, Fraction]:
    """Cosine and sine by their series in 400 digits, pi by the formula of Gauss and Legendre."""
    context = REFERENCE
    a, b, t, p = (
        Decimal(1),
        context.divide(Decimal(1), context.sqrt(Decimal(2))),
        Decimal("0.25"),
        1,
    )
    for _ in range(10):
        middle = context.divide(context.add(a, b), Decimal(2))
        b = context.sqrt(context.multiply(a, b))
        gap = context.subtract(a, middle)
        t = context.subtract(t, context.multiply(Decimal(p), context.multiply(gap, gap)))
        a, p = middle, 2 * p
    total = context.add(a, b)
    pi = context.divide(context.multiply(total, total), context.multiply(Decimal(4), t))
    x = Fraction(context.multiply(_decimal(2 * turns), pi))
    term, sums = Fraction(1), [Fraction(0), Fraction(0)]
    for order in range(1, 300):
        sums[1 - order % 2] += term * (1 if order % 4 in (1, 2) else -1)
        term = Fraction(context.divide(*map(_decimal, (term * x, Fraction(order)))))
    return sums[0], sums[1]


@settings(deadline=None, max_examples=30)
@given(turns=st.fractions(min_value=0, max_value=Fraction(1, 4)), bits=bits)
def test_cosine_and_sine_are_enclosed(turns: Fraction, bits: int) -> None:
    found = elementary.cos_sin(turns, bits)
    for (low, high), truth in zip(found, _reference_turn(turns), strict=True):
        slack = Fraction(1, 10**380)
        assert low <= truth + slack
        assert high >= truth - slack
        assert high - low <= Fraction(1, 2**bits)
