"""The body of a request: one unambiguous JSON object, read within limits.

It must come uncompressed and with its length: the size of a chunked or compressed body is known
only after it was read.
"""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from sfumato.errors import ParameterError
from sfumato.server.problem_json import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

LARGEST = 1024 * 1024
"""The largest body in bytes; it is held in memory."""
DEEPEST = 32
"""The deepest nesting of a body."""
_JSON = "application/json"
_READ = "sfumato.body_read"


async def read_json(request: Request, *, seconds: float) -> dict[str, Any]:
    """Read the JSON object of a body."""
    return parsed(await read_bytes(request, _JSON, seconds=seconds))


async def read_bytes(request: Request, media: str, *, seconds: float) -> bytes:
    """Read a body, which must be of this media type."""
    _check_head(request, media)
    try:
        async with asyncio.timeout(seconds):
            raw = await _read(request)
            note_read(request)
    except TimeoutError:
        raise RequestError(
            408,
            "request_slow",
            f"The body did not arrive within {seconds:g} seconds. Send it again.",
        ) from None
    return raw


def note_read(request: Request) -> None:
    """Note that the body was read."""
    request.scope[_READ] = True


def parsed(raw: bytes) -> dict[str, Any]:
    """Parse one JSON object, in which every name is unique and every text is valid Unicode."""
    # Decimal, not float: a cost such as 0.1 must stay exact.
    try:
        data = json.loads(
            raw.decode("utf-8"),
            parse_float=Decimal,
            parse_constant=_not_json,
            object_pairs_hook=_unique,
        )
    except UnicodeDecodeError as error:
        raise RequestError(
            400, "request_malformed", f"The body is not UTF-8 from byte {error.start} on."
        ) from None
    except json.JSONDecodeError as error:
        raise RequestError(
            400, "request_malformed", f"The body is not JSON: {error.msg.lower()}, at {error.pos}."
        ) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # a whole number of thousands of digits
        raise RequestError(
            400, "request_malformed", "The body has a number that is too long."
        ) from None
    _check_inside(data)
    if not isinstance(data, dict):
        raise ParameterError("request_malformed", "The body must be one JSON object, as {...}.")
    return data


def is_unread(request: Request) -> bool:
    """Whether a body was sent and not read. It would be taken for the next request."""
    if _is_chunked(request):
        return True
    return request.headers.get("content-length", "0") != "0" and _READ not in request.scope


def check_no_body(request: Request) -> None:
    """Refuse a body where none is read: it would be read as the next request."""
    if request.headers.get("content-length", "0") != "0" or _is_chunked(request):
        raise RequestError(
            400, "request_malformed", "This request takes no body. Send it without one."
        )


def _check_head(request: Request, media: str) -> None:
    if _is_chunked(request) or "content-length" not in request.headers:
        raise RequestError(
            411, "request_malformed", "Send the body in one piece, with its Content-Length."
        )
    if int(request.headers["content-length"]) > LARGEST:
        raise _too_large()
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise RequestError(
            415, "request_malformed", "Send the body as it is, without Content-Encoding."
        )
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if kind.strip().lower() != media or charset not in {"", "charset=utf-8"}:
        raise RequestError(415, "request_malformed", f"Send the body with Content-Type: {media}.")


def _is_chunked(request: Request) -> bool:
    return "transfer-encoding" in request.headers


async def _read(request: Request) -> bytes:
    chunks, length = [], 0
    async for chunk in request.stream():
        length += len(chunk)
        if length > LARGEST:  # the stated length may be wrong
            raise _too_large()
        chunks.append(chunk)
    return b"".join(chunks)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; refused if a name occurs twice, because parsers differ in which value counts."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise RequestError(400, "request_malformed", "An object in the body has one name twice.")
    return values


def _not_json(_word: str) -> NoReturn:
    raise RequestError(400, "request_malformed", "NaN and Infinity are no JSON. Send a number.")


def _check_inside(data: object) -> None:
    """Refuse deep nesting, and texts with a NUL or half a character."""
    level = [data]
    for _ in range(DEEPEST):
        level = [value for outer in level for value in _values_inside(outer)]
        if not level:
            return
    raise _too_deep()


def _values_inside(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list):
        yield from value
    elif isinstance(value, str) and not _is_text(value):
        raise RequestError(
            400, "request_malformed", "A text in the body has a NUL or half a character."
        )


def _is_text(value: str) -> bool:
    """Whether a text is valid Unicode without NUL, which databases and C libraries misread."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def _too_deep() -> RequestError:
    return RequestError(
        400, "request_malformed", f"The body is nested deeper than {DEEPEST} levels."
    )


def _too_large() -> RequestError:
    return RequestError(413, "request_too_large", f"The body may have {LARGEST:,} bytes at most.")
