"""Forms: read within limits, accepted from our own pages only, with errors beside fields."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.requests import Request

from sfumato.console.forms import (
    MOST_FIELDS,
    FormValues,
    SentForm,
    check_site,
    check_token,
    field_errors,
    read_form,
    read_query,
    split_list,
)
from sfumato.errors import LedgerError, ParameterError, SourceError
from sfumato.server.problem_json import RequestError

PLAIN = "application/x-www-form-urlencoded"


def read(body: bytes, kind: str, *, uploads: int = 0, length: int | None = None) -> SentForm:
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body) if length is None else length).encode()),
    ]

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def reading() -> SentForm:
        request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
        async with read_form(request, uploads=uploads, seconds=5) as sent:
            files = {name: file.file.read() for name, file in sent.files.items()}
            assert all(len(files[name]) == file.size for name, file in sent.files.items())
            return sent

    # In a thread of its own: tests of pages leave a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(reading())).result()


def test_fields_are_texts_and_boxes_may_all_be_ticked() -> None:
    sent = read(b"a=1&b=x+y%C3%A9&a=2&c=", PLAIN)
    assert sent.fields == {"a": ("1", "2"), "b": ("x yé",), "c": ("",)}
    assert sent.values == {"a": "2", "b": "x yé", "c": ""}


def test_a_file_comes_with_its_form_where_one_may() -> None:
    body = (
        b'--B\r\nContent-Disposition: form-data; name="form"\r\n\r\nword\r\n'
        b'--B\r\nContent-Disposition: form-data; name="file"; filename="p.csv"\r\n\r\na\n1\n\r\n'
        b"--B--\r\n"
    )
    sent = read(body, "multipart/form-data; boundary=B", uploads=100)
    assert sent.values == {"form": "word"}
    assert (sent.files["file"].name, sent.files["file"].size) == ("p.csv", 4)
    with pytest.raises(RequestError, match="as a browser does"):
        read(body, "multipart/form-data; boundary=B")


@pytest.mark.parametrize(
    ("body", "kind", "length", "code"),
    [
        (b"a=%FF", PLAIN, None, "request_malformed"),
        (b"a=\xff", PLAIN, None, "request_malformed"),
        (b"&".join([b"a=1"] * (MOST_FIELDS + 1)), PLAIN, None, "request_malformed"),
        (b"a=%00", PLAIN, None, "request_malformed"),
        (b"{}", "application/json", None, "request_malformed"),
        (b"x", "multipart/form-data", None, "request_malformed"),
        (b"x", "multipart/form-data; boundary=B", 10**9, "request_too_large"),
        (b"a=1", PLAIN, 10**9, "request_too_large"),
    ],
)
def test_what_is_no_form_is_refused(body: bytes, kind: str, length: int | None, code: str) -> None:
    with pytest.raises(RequestError) as refused:
        read(body, kind, uploads=100, length=length)
    assert refused.value.code == code


def test_what_stands_behind_the_question_mark_is_read_alike() -> None:
    request = Request({"type": "http", "headers": [], "query_string": b"sql=SELECT+1&x=%41"})
    assert read_query(request).values == {"sql": "SELECT 1", "x": "A"}


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
    check_token("abc", "abc")
    for token in ("", "ab", "abcd", "ABC", "\ud800"):
        with pytest.raises(RequestError) as refused:
            check_token("abc", token)
        assert refused.value.code == "form_foreign"


FIELDS = ("name", "epsilon", "max_epsilon", "to")


@pytest.mark.parametrize(
    ("code", "field"),
    [
        ("name_taken", "name"),
        ("max_epsilon_wrong", "max_epsilon"),
        ("budget_out_of_range", "epsilon"),
        ("principal_unknown", "to"),
        ("parameter_type_wrong", ""),
        ("something_else", ""),
    ],
)
def test_a_refusal_finds_its_field(code: str, field: str) -> None:
    assert field_errors(ParameterError(code, "No."), FIELDS) == {field: "No."}


def test_a_refusal_names_its_field_itself() -> None:
    error = ParameterError("parameter_out_of_range", "No.", parameter="epsilon")
    assert field_errors(error, FIELDS) == {"epsilon": "No."}


def test_a_table_that_cannot_be_read_is_told_to_who_named_it() -> None:
    [token] = field_errors(SourceError("file_unreadable", "It cannot be read."), FIELDS).values()
    assert token.startswith("It cannot be read.")


def test_a_ledger_that_is_away_is_not_the_senders_to_mend() -> None:
    with pytest.raises(LedgerError):
        field_errors(LedgerError("ledger_failed", "It is away."), FIELDS)


def test_a_field_that_is_not_there_is_empty() -> None:
    assert FormValues({"a": "b"})["c"] == ""
    assert split_list("a, b\n c,,") == ["a", "b", "c"]
