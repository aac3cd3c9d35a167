"""A request id as a header carries it."""

from __future__ import annotations

import pytest

from sfumato.server.idempotency_key import key_of, request_id_of


@pytest.mark.parametrize("name", ["a b", "größe 😀", " a", "utf-8''a", "%41", "a\r\nX: y", "'"])
def test_a_request_id_comes_as_it_was_sent_in_what_a_header_takes(name: str) -> None:
    key = key_of(name)
    assert key.isascii()
    assert key.isprintable()
    assert key == key.strip()
    assert request_id_of(key) == name


def test_a_key_is_written_in_one_way() -> None:
    assert key_of("größe") == "utf-8''gr%C3%B6%C3%9Fe"
    for other in ("utf-8''gr%c3%b6%c3%9fe", "utf-8''%ff", "utf-8''%41", "utf-8''a b"):
        assert request_id_of(other) is None
