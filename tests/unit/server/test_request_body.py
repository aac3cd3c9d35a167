"""Bodies that can be read in one way only."""

from __future__ import annotations

from decimal import Decimal

import pytest

from sfumato.server.problem_json import RequestError
from sfumato.server.request_body import DEEPEST, parsed


def test_numbers_keep_their_digits() -> None:
    found = parsed(b'{"epsilon": 0.1000000000000000055, "rows": 5}')
    assert found == {"epsilon": Decimal("0.1000000000000000055"), "rows": 5}


def test_nesting_is_taken_up_to_its_limit() -> None:
    nested = b'{"a": ' + b"[" * (DEEPEST - 2) + b"]" * (DEEPEST - 2) + b"}"
    assert "a" in parsed(nested)
    with pytest.raises(RequestError) as refusal:
        parsed(b'{"a": ' + b"[" * DEEPEST + b"]" * DEEPEST + b"}")
    assert refusal.value.code == "request_malformed"


def test_texts_that_are_none_are_refused_wherever_they_stand() -> None:
    for raw in (b'{"\\ud800": 1}', b'{"a": [{"b": "\\udfff"}]}', b'{"a\\u0000": 1}'):
        with pytest.raises(RequestError) as refusal:
            parsed(raw)
        assert refusal.value.code == "request_malformed"
    assert parsed(b'{"a": "\\ud83d\\ude00"}') == {"a": "😀"}
