"""What callers give is read or refused in words, and messages speak the language of the door."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from sfumato import arguments
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (arguments.text, "a", "a"),
        (arguments.maybe_text, None, None),
        (arguments.path, "a/b.csv", Path("a/b.csv")),
        (arguments.path, Path("a"), Path("a")),
        (arguments.whole, 5, 5),
        (arguments.seconds, 5, 5.0),
        (arguments.flag, True, True),
        (arguments.names, "age", ("age",)),
        (arguments.names, ["age", "zip"], ("age", "zip")),
        (arguments.amounts, {"n": 2}, {"n": 2}),
    ],
)
def test_what_fits_is_read(read: Callable[[Any, str], Any], value: Any, expected: Any) -> None:
    assert read(value, "it") == expected


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (arguments.text, 5, "it must be a text, not 5."),
        (arguments.text, None, "it must be a text, not None."),
        (arguments.path, 5.5, "it must be a path, as text or pathlib.Path, not 5.5."),
        (arguments.whole, True, "it must be a whole number, not True."),
        (arguments.seconds, "5", "it must be a number of seconds, not '5'."),
        (arguments.seconds, float("nan"), "it must be a number of seconds from 0 on, not nan."),
        (arguments.flag, 1, "it must be True or False, not 1."),
        (arguments.names, ["a", 5], "it must be a list of names, each of them a text, but has 5."),
        (arguments.amounts, {5: 1}, "A name in it must be a text, not 5."),
        (arguments.text, b"x" * 99, "it must be a text, not a value of type bytes."),
    ],
)
def test_what_does_not_fit_is_refused(
    read: Callable[[Any, str], Any], value: Any, message: str
) -> None:
    with pytest.raises(ParameterError) as refusal:
        read(value, "it")
    assert refusal.value.message == message


def test_a_refusal_never_quotes_rows() -> None:
    with pytest.raises(ParameterError) as refusal:
        arguments.text(pd.DataFrame({"name": ["Ada"]}), "it")
    assert refusal.value.message == "it must be a text, not a value of type DataFrame."


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (0.1 + 0.2, 0.30000000000000004),
        (Fraction(1, 3), "1/3"),
        (Decimal("0.10"), "0.10"),
        (True, True),
        (2**70, 2**70),
        (date(2024, 2, 29), "2024-02-29"),
        (datetime(2024, 2, 29, 23, 59, tzinfo=UTC), "2024-02-29"),
        (np.float64(0.5), 0.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array(["2024-02-29T23:59:59.999999999"], "datetime64[ns]"), ["2024-02-29"]),
        (np.datetime64("1969-12-31T23:00"), "1969-12-31"),
        (np.array([True, "x", None], object), [True, "x", None]),
        (("a", ("b",)), ["a", ["b"]]),
        ({"n": Decimal(2)}, {"n": "2"}),
    ],
)
def test_values_as_json_has_them(value: object, sent: object) -> None:
    plain = arguments.plain(value, "x")
    assert plain == sent
    assert type(plain) is type(sent)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Path("x"), object(), [b"x"]])
def test_what_cannot_be_sent_is_refused(value: object) -> None:
    with pytest.raises(ParameterError) as refused:
        arguments.plain(value, "x")
    assert refused.value.code == "request_malformed"
