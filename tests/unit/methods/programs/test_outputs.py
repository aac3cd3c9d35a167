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
        ([], "program_output_invalid"),
        (None, "program_output_invalid"),
        (7, "program_output_invalid"),
        ([{"low": 0}], "program_output_invalid"),
        ([(1, 2, 3)], "program_output_invalid"),
        ("{", "program_output_invalid"),
        ([(5, 5)], "bounds_invalid"),
        ([(6, 5)], "bounds_invalid"),
        ([(0, "nan")], "parameter_type_wrong"),
        ([(0, 1e300)], "bounds_invalid"),
        ([{"low": 0, "high": 1, "hgih": 2}], "program_output_invalid"),
        ([{"low": 0, "high": 1, "name": "a"}] * 2, "program_output_invalid"),
        ([{"low": 0, "high": 1, "share": 0}], "share_not_positive"),
        ([(0, 1)] * 1001, "program_output_invalid"),
    ],
)
def test_refusals_are_one_line(said: object, code: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read_outputs(said)
    assert "\n" not in caught.value.message
    assert caught.value.code in (code, "parameter_out_of_range", "parameter_out_of_range"), (
        caught.value
    )
