"""Forms as browsers send them, and as others do."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.requests import Request

from sfumato.console.forms import MOST_FIELDS, Sent, asked, form
from sfumato.server.problem_json import RequestError

PLAIN = "application/x-www-form-urlencoded"


def read(body: bytes, kind: str, *, uploads: int = 0, length: int | None = None) -> Sent:
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body) if length is None else length).encode()),
    ]

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def reading() -> Sent:
        request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
        async with form(request, uploads=uploads, seconds=5) as sent:
            files = {name: one.file.read() for name, one in sent.files.items()}
            assert all(len(files[name]) == one.size for name, one in sent.files.items())
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
    assert asked(request).values == {"sql": "SELECT 1", "x": "A"}
