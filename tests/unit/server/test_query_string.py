"""Query strings: read strictly, as texts."""

from __future__ import annotations

import pytest

from sfumato.errors import ParameterError
from sfumato.server.query_string import check_no_query, read_query


def test_values_are_texts_by_name() -> None:
    assert read_query(b"limit=5&open=true") == {"limit": "5", "open": "true"}
    assert read_query(b"") == {}


@pytest.mark.parametrize("raw", [b"limit=1&limit=2", b"limit", b"%ff=1", b"a=1&" * 100, b"\xff=1"])
def test_an_ambiguous_query_string_is_refused(raw: bytes) -> None:
    with pytest.raises(ParameterError):
        read_query(raw)


def test_a_query_string_is_refused_where_none_is_read() -> None:
    check_no_query(b"")
    with pytest.raises(ParameterError) as refusal:
        check_no_query(b"token=sfu_x")
    assert refusal.value.code == "option_unknown"
