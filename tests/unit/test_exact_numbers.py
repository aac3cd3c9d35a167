"""Bad parameters are refused with their code; good ones keep exactly what was written."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato import exact_numbers
from sfumato.errors import ParameterError
from sfumato.privacy.accounting.composition import basic_guarantee
from sfumato.privacy.accounting.events import GaussianNoise
from sfumato.privacy.accounting.filters import Budget, PureFilter
from sfumato.privacy.accounting.losses import Zcdp, zcdp_to_approx

GAUSSIAN = GaussianNoise(variance=Fraction(4), l2_sensitivity_squared=Fraction(1))


def _label(value: object) -> str:
    # Python refuses to print the largest integers.
    return str(value)[:20] if not isinstance(value, int) or value < 10**9 else "huge"


BAD_EPSILONS = [
    *((value, "parameter_out_of_range") for value in (0, 0.0, "0", -1, "-0.5", Fraction(-1, 3))),
    *(
        (value, "parameter_type_wrong")
        for value in (math.nan, "nan", None, True, False, "", "a", "0x1", "1/0", "1_0", "٣", [1])
    ),
    *(
        (value, "parameter_out_of_range")
        for value in (math.inf, "inf", "-Infinity", float("1e999"))
    ),
    *(
        (value, "parameter_out_of_range")
        for value in (Decimal("1e999999"), "1e999999999", 10**9999)
    ),
    *((value, "parameter_out_of_range") for value in (1e-320, 1e-12, "0.00000000099999")),
    *((value, "parameter_out_of_range") for value in (1e6, 51, "1e999", "10.0000000001")),
]


@pytest.mark.parametrize(("value", "code"), BAD_EPSILONS, ids=_label)
def test_bad_epsilon_is_refused_with_its_code(value: object, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        exact_numbers.epsilon(value)
    assert refused.value.code == code
    assert "epsilon" in refused.value.message
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(("value", "code"), BAD_EPSILONS, ids=_label)
def test_bad_epsilon_never_becomes_a_budget(value: object, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Budget.for_epsilon_delta(epsilon=value, delta="1e-6")
    assert refused.value.code == code


def test_a_policy_may_raise_the_maximum() -> None:
    assert exact_numbers.epsilon(51, maximum=Fraction(100)) == 51


@pytest.mark.parametrize(
    "value",
    [
        "0.1",
        " 0.1 ",
        "1/10",
        0.1,
        np.float64(0.1),
        Decimal("0.10"),
        ".1",
        "1e-1",
    ],
)
def test_a_tenth_is_a_tenth(value: object) -> None:
    assert exact_numbers.epsilon(value) == Fraction(1, 10)


def test_numpy_integers_become_plain_ones() -> None:
    number = exact_numbers.exact(np.int64(2**62), "scale")
    assert number * 4 == 2**64
    assert type(number.numerator) is int


def test_a_longer_decimal_text_is_kept_and_rounded_up_to_the_next_unit() -> None:
    value = exact_numbers.epsilon("0.1000000000000000055")
    assert value == Fraction(1000000000000000055, 10**19)
    assert exact_numbers.ceil_units(value, exact_numbers.EPSILON_UNIT) == 100_000_001
    assert exact_numbers.floor_units(value, exact_numbers.EPSILON_UNIT) == 100_000_000


@pytest.mark.parametrize(
    ("value", "size", "code"),
    [
        (1, None, "parameter_out_of_range"),
        (1.5, None, "parameter_out_of_range"),
        (-1e-9, None, "parameter_out_of_range"),
        ("1e-400", None, "parameter_out_of_range"),
        (1e-19, None, "parameter_out_of_range"),
        (0.001, 1001, "parameter_out_of_range"),
        ("nan", None, "parameter_type_wrong"),
        (True, None, "parameter_type_wrong"),
        (math.inf, None, "parameter_out_of_range"),
    ],
)
def test_bad_delta_is_refused_with_its_code(value: object, size: int | None, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        exact_numbers.delta(value, size=size)
    assert refused.value.code == code


def test_delta_zero_is_pure_and_the_size_bound_is_met_exactly() -> None:
    assert exact_numbers.delta(0, size=10) == 0
    assert exact_numbers.delta(0.001, size=1000) == Fraction(1, 1000)


@pytest.mark.parametrize("value", [0, True, 1.0, "2"])
def test_a_count_below_the_least_or_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(
        ParameterError, match="rows must be a whole number of at least 1"
    ) as refusal:
        exact_numbers.integer_at_least(value, "rows", least=1)
    assert (refusal.value.code, refusal.value.parameter) == ("parameter_out_of_range", "rows")
    assert exact_numbers.integer_at_least(1, "rows", least=1) == 1


def test_delta_zero_is_refused_with_gaussian_noise() -> None:
    with pytest.raises(ParameterError) as refused:
        zcdp_to_approx(Zcdp(rho=GAUSSIAN.rho), delta=Fraction(0))
    assert refused.value.code == "parameter_out_of_range"
    with pytest.raises(ParameterError) as refused:
        basic_guarantee(GAUSSIAN)
    assert refused.value.code == "event_unsupported"
    pure = Budget((PureFilter(epsilon=Fraction(10)),))
    assert not pure.admits(pure.zero(), pure.charge(GAUSSIAN))


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0, "parameter_out_of_range"),
        ("x", "parameter_type_wrong"),
        (1e-19, "parameter_out_of_range"),
        (51, "parameter_out_of_range"),
        (math.inf, "parameter_out_of_range"),
    ],
)
def test_bad_rho_is_refused_with_its_code(value: object, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        exact_numbers.rho(value)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("lower", "upper", "code"),
    [
        (1, 0, "bounds_invalid"),
        (1, 1, "bounds_invalid"),
        (math.nan, 1, "parameter_type_wrong"),
        (0, math.inf, "parameter_out_of_range"),
        (-1e308, 1e308, "bounds_invalid"),
        (0, "a", "parameter_type_wrong"),
    ],
)
def test_bad_bounds_are_refused_with_their_code(lower: object, upper: object, code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        exact_numbers.bounds(lower, upper)
    assert refused.value.code == code


def test_equal_bounds_are_a_constant_where_one_is_meant() -> None:
    assert exact_numbers.bounds("1.5", 1.5, constant=True) == (Fraction(3, 2), Fraction(3, 2))


def test_other_parameters_share_their_codes() -> None:
    for value, code in ((0, "parameter_out_of_range"), (None, "parameter_type_wrong")):
        with pytest.raises(ParameterError) as refused:
            exact_numbers.positive(value, "scale")
        assert refused.value.code == code
        assert refused.value.message.startswith("scale must be")


@pytest.mark.parametrize(
    ("number", "text"),
    [("3/10", "0.3"), ("1e-6", "1e-6"), ("2.5", "2.5"), ("0", "0"), ("1200", "1200"),
     ("0.00025", "2.5e-4"), ("1e12", "1e12"), ("1/3", "0.333333"), ("-1/2", "-0.5")],
)  # fmt: skip
def test_amounts_are_written_as_people_do(number: str, text: str) -> None:
    assert exact_numbers.plain(exact_numbers.exact(number, "x"), digits=6) == text


def test_a_cost_is_rounded_up_and_what_is_left_is_cut_off() -> None:
    third = Fraction(1, 3)
    assert exact_numbers.plain(third, digits=3, up=True) == "0.334"
    assert exact_numbers.plain(third, digits=3) == "0.333"


@given(st.integers(0, 10**12), st.sampled_from([9, 12, 18]))
def test_no_float_says_more_than_there_is(units: int, decimals: int) -> None:
    amount = Fraction(units, 10**decimals)
    rounded = exact_numbers.float_below(amount)
    assert exact_numbers.exact(rounded, "epsilon") <= amount
    assert rounded == pytest.approx(float(amount))


def test_sums_of_tenths_are_what_their_writer_meant() -> None:
    assert exact_numbers.exact(0.1 + 0.2, "epsilon") == Fraction(3, 10)
    assert exact_numbers.exact(np.float64(0.7) + np.float64(0.1), "epsilon") == Fraction(8, 10)
    assert exact_numbers.exact("0.30000000000000004", "epsilon") > Fraction(3, 10)
    assert exact_numbers.exact(123456789.123456, "scale") == Fraction("123456789.123456")


def test_tenths_stay_tenths() -> None:
    assert exact_numbers.float_below(Fraction(1, 10) + Fraction(2, 10)) == 0.3


@pytest.mark.parametrize(
    ("written", "means"),
    [("2%", "1/50"), (" 0.5 %", "1/200"), ("33.3%", "333/1000"), ("0%", "0"), (0.02, "1/50")],
)
def test_a_share_may_be_written_as_a_percentage_and_stays_exact(
    written: object, means: str
) -> None:
    assert exact_numbers.probability(written, "suppress") == Fraction(means)
    assert exact_numbers.share(written, "t") == Fraction(means)


@pytest.mark.parametrize("written", ["100%", "-1%", "2%%", "%", "two %"])
def test_a_percentage_that_is_no_share_is_refused(written: str) -> None:
    with pytest.raises(ParameterError):
        exact_numbers.probability(written, "suppress")


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("1/2", "0.5"),
        ("1/50", "0.02"),
        ("3", "3"),
        ("0", "0"),
        ("-5/4", "-1.25"),
        ("1/3", "1/3"),
        ("1/1024", "0.0009765625"),
        (f"1/{10**30}", f"0.{'0' * 29}1"),
    ],
)
def test_an_exact_number_is_written_as_people_do(number: str, written: str) -> None:
    assert exact_numbers.decimal_of(Fraction(number)) == written
