"""Query strings are read as strictly as bodies."""

from __future__ import annotations

import pytest

from sfumato.errors import ParameterError
from sfumato.server.query_string import read_query
from sfumato.server.request_schemas import FLAG, WHOLE, Input

FORM = (Input("limit", "How many.", WHOLE), Input("open", "Whether.", FLAG))


def test_values_are_read_as_the_form_has_them() -> None:
    assert read_query(FORM, b"limit=5&open=true") == {"limit": 5, "open": True}
    assert read_query(FORM, b"limit=-1") == {"limit": -1}
    assert read_query(FORM, b"limit=1e20&open=yes") == {"limit": "1e20", "open": "yes"}
    assert read_query((), b"") == {}


@pytest.mark.parametrize("raw", [b"limit=1&limit=2", b"limit", b"%ff=1", b"a=1&" * 100, b"\xff=1"])
def test_what_can_be_read_in_two_ways_is_refused(raw: bytes) -> None:
    with pytest.raises(ParameterError):
        read_query(FORM, raw)


def test_nothing_may_stand_there_where_nothing_is_read() -> None:
    with pytest.raises(ParameterError) as refusal:
        read_query((), b"token=sfu_x")
    assert refusal.value.code == "option_unknown"
