"""What a browser sends with a form: read within limits, as text, each file on its own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException

from sfumato.console.page_request import Upload
from sfumato.server.problem_json import RequestError
from sfumato.server.request_body import LARGEST, note_read, read_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

MOST_FIELDS = 25_000
"""A schema of a thousand columns, as a form, has about twenty for each."""
_FILES = 4
_PLAIN = "application/x-www-form-urlencoded"
_PARTS = "multipart/form-data"


@dataclass(frozen=True)
class Sent:
    """The fields and files of a form."""

    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, Upload] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, str]:
        """The last value of each field."""
        return {name: values[-1] for name, values in self.fields.items()}


def asked(request: Request) -> Sent:
    """What stands behind the '?' of an address."""
    return Sent(_fields(request.scope["query_string"]))


@asynccontextmanager
async def form(request: Request, *, uploads: int, seconds: float) -> AsyncIterator[Sent]:
    """The form of a request; its files are there until it was answered."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == _PARTS and uploads:
        async with _parts(request, uploads, seconds) as sent:
            yield sent
    elif kind == _PLAIN:
        yield Sent(_fields(await read_bytes(request, _PLAIN, seconds=seconds)))
    else:
        raise RequestError(
            415, "request_malformed", "Send the form of the page, as a browser does."
        )


@asynccontextmanager
async def _parts(request: Request, uploads: int, seconds: float) -> AsyncIterator[Sent]:
    most = uploads + LARGEST
    length = request.headers.get("content-length", "")
    if not length.isdigit() or len(length) > 18 or "transfer-encoding" in request.headers:
        raise RequestError(
            411, "request_malformed", "Send the body in one piece, with its Content-Length."
        )
    if int(length) > most:
        raise _too_large(uploads)
    try:
        # A file of a gigabyte takes its time; what must not happen is that it takes for ever.
        async with asyncio.timeout(seconds + int(length) / 1e5):
            found = await request.form(
                max_files=_FILES, max_fields=MOST_FIELDS, max_part_size=LARGEST
            )
    except TimeoutError:
        raise RequestError(
            408, "request_slow", "The file did not arrive in time. Send it again."
        ) from None
    except (MultiPartException, KeyError, ValueError):
        raise RequestError(
            400, "request_malformed", "The form cannot be read. Send it as a browser does."
        ) from None
    note_read(request)
    try:
        fields: dict[str, list[str]] = {}
        files: dict[str, Upload] = {}
        for name, value in found.multi_items():
            if isinstance(value, UploadFile):
                files[name] = Upload(value.filename or "", value.file, value.size or 0)
            else:
                fields.setdefault(name, []).append(_text(value))
        yield Sent({name: tuple(values) for name, values in fields.items()}, files)
    finally:
        await found.close()


def _fields(raw: bytes) -> dict[str, tuple[str, ...]]:
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise RequestError(
            400, "request_malformed", "The form cannot be read. Send it as a browser does."
        ) from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(_text(value))
    return {name: tuple(values) for name, values in found.items()}


def _text(value: str) -> str:
    """A text as people type it: lines end as ours do, and nothing steers a machine."""
    if "\0" in value:
        raise RequestError(400, "request_malformed", "A text in the form has a NUL.")
    return value.replace("\r\n", "\n")


def _too_large(uploads: int) -> RequestError:
    return RequestError(
        413, "request_too_large", f"A file of {uploads:,} bytes at most may be sent here."
    )
