from __future__ import annotations

import pytest
from starlette.requests import Request

from sfumato.console.forms import check_site, check_word
from sfumato.server.problem_json import RequestError


def request(*headers: tuple[str, str]) -> Request:
    raw = [(name.encode(), value.encode()) for name, value in (("host", "here:1"), *headers)]
    return Request({"type": "http", "method": "POST", "headers": raw})


@pytest.mark.parametrize(
    "headers",
    [
        [("sec-fetch-site", "same-origin")],
        [("sec-fetch-site", "same-origin"), ("origin", "null")],
        [("sec-fetch-site", "same-origin"), ("origin", "https://here:1")],
        [("origin", "http://here:1")],
    ],
)
def test_our_own_pages_may_send_forms(headers: list[tuple[str, str]]) -> None:
    check_site(request(*headers))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("origin", "null")],
        [("origin", "http://here:2")],
        [("origin", "http://here:1.evil.example")],
        [("origin", "http://here:1"), ("origin", "http://evil")],
        [("sec-fetch-site", "same-site")],
        [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "same-origin")],
        [("sec-fetch-site", "cross-site"), ("origin", "http://here:1")],
    ],
)
def test_others_may_not(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(RequestError) as refused:
        check_site(request(*headers))
    assert refused.value.code == "form_foreign"


def test_a_word_is_compared_whole() -> None:
    check_word("abc", "abc")
    for said in ("", "ab", "abcd", "ABC", "\ud800"):
        with pytest.raises(RequestError) as refused:
            check_word("abc", said)
        assert refused.value.code == "form_foreign"
