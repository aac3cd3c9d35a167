"""What we write as JSON every reader takes."""

from __future__ import annotations

import json
from math import inf, nan

from sfumato.text import dumps


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


def test_numbers_that_are_not_finite_are_null() -> None:
    text = dumps({"a": nan, "b": [1.5, inf, (-inf, "NaN")], "c": {"d": None}}, sort_keys=True)
    document = json.loads(text, parse_constant=_refuse)
    assert document == {"a": None, "b": [1.5, None, [None, "NaN"]], "c": {"d": None}}


def test_all_else_is_as_ever() -> None:
    value = {"b": [1, 2.5, "\u00e9"], "a": {"c": True}}
    assert dumps(value) == json.dumps(value)
    assert dumps(value, indent=2, sort_keys=True, ensure_ascii=False) == json.dumps(
        value, indent=2, sort_keys=True, ensure_ascii=False
    )
