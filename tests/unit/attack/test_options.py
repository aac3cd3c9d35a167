"""What is supposed of an attacker is checked where it is said."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sfumato.attack.options import attack_options
from sfumato.errors import ParameterError, SfumatoError


def test_what_is_asked_for_is_read() -> None:
    read = attack_options(epsilon="0.5", first="age", columns=["person=user"], knows=None)
    assert (read.epsilon, read.first, read.columns) == (
        Fraction(1, 2),
        ("age",),
        {"person": "user"},
    )
    assert attack_options(columns={"item": "film"}).columns == {"item": "film"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"guesses": 0}, "guesses= must be at least 1"),
        ({"knows": 0}, "knows= must be at least 1"),
        ({"hops": 0}, "hops= must be at least 1"),
        ({"together": 0}, "together= must be at least 1"),
        ({"cell": 0}, "cell= must be above 0, not 0"),
        ({"minutes": -1}, "minutes= must be above 0"),
        ({"columns": ["user"]}, "columns?= must be a pair like person=user"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words) as refused:
        attack_options(**asked)
    assert refused.value.code == "parameter_out_of_range"


def test_a_price_is_above_nothing() -> None:
    with pytest.raises(SfumatoError, match="epsilon must be above 0"):
        attack_options(epsilon=0)
