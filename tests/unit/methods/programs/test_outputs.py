"""Declared outputs: pairs, mappings or JSON; ranges are needed, and lie on a public grid."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.errors import ParameterError
from sfumato.methods.programs.outputs import read_outputs


def test_all_ways_to_say_it_mean_the_same() -> None:
    said = [(0, 100), [[0, 100]], {"low": 0, "high": 100}, '[{"low": 0, "high": 100}]', "[0, 100]"]
    assert {read_outputs(one) for one in said} == {read_outputs([(0, 100)])}
    two = read_outputs(
        '[{"low": "0.1", "high": 1, "name": "rate", "share": 3}, {"low": 0, "high": 9}]'
    )
    assert [one.name for one in two] == ["rate", "output 2"]
    assert [one.low for one in two] == [Fraction(1, 10), Fraction(0)]
    assert [one.share for one in two] == [3, 1]


@pytest.mark.parametrize("ends", [(0, 100), ("0.1", "0.3"), (-1e9, 1e-9), (5, 6), (0, 1e17)])
def test_the_grid_covers_the_range_finely(ends: tuple[float, float]) -> None:
    [output] = read_outputs([ends])
    low, high = output.ends
    span = output.high - output.low
    assert low <= output.low < output.high <= high
    assert (low / output.granule).denominator == (high / output.granule).denominator == 1
    assert high - low <= span + 2 * output.granule
    assert 2**19 <= span / output.granule <= 2**23


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ([], "range_missing"),
        (None, "range_missing"),
        (7, "range_missing"),
        ([{"low": 0}], "range_missing"),
        ([(1, 2, 3)], "range_missing"),
        ("{", "output_not_json"),
        ([(5, 5)], "bounds_equal"),
        ([(6, 5)], "bounds_reversed"),
        ([(0, "nan")], "bound_not_number"),
        ([(0, 1e300)], "bounds_too_wide"),
        ([{"low": 0, "high": 1, "hgih": 2}], "output_key_unknown"),
        ([{"low": 0, "high": 1, "name": "a"}] * 2, "output_named_twice"),
        ([{"low": 0, "high": 1, "share": 0}], "share_not_positive"),
        ([(0, 1)] * 1001, "outputs_too_many"),
    ],
)
def test_refusals_are_one_line(said: object, code: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read_outputs(said)
    assert "\n" not in caught.value.message
    assert caught.value.code in (code, "parameter_not_positive", "bound_not_finite"), caught.value
