"""Request ids that Sfumato makes itself are nobody else's."""

from __future__ import annotations

import pytest
from tests.fixtures.ledgers import code_of

from sfumato.vault.session import OwnRequest, check_request_id


@pytest.mark.parametrize("start", ["feed/", "console/"])
def test_what_sfumato_makes_itself_is_taken_from_nobody_else(start: str) -> None:
    assert code_of(check_request_id, f"{start}x") == "name_invalid"
    found = check_request_id(OwnRequest(f"{start}x"))
    assert (found, type(found)) == (f"{start}x", str)


def test_any_other_text_is_a_request_id() -> None:
    for one in (None, "feed", "feeds/x", "a/feed/x", "console"):
        assert check_request_id(one) == one
    assert code_of(check_request_id, 5) == "parameter_type_wrong"
