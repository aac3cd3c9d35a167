"""Forms that browsers send: where they come from, their fields and files, and errors per field.

A form is accepted only from a page of this server. The browser says so itself (Sec-Fetch-Site, or
Origin in older browsers), and the form carries a token that only pages of the same session have.
"""

from __future__ import annotations

import asyncio
import hmac
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException

from sfumato.console.page_request import Upload
from sfumato.errors import SourceError, options_in
from sfumato.server.problem_json import RequestError, problem_of, status_of
from sfumato.server.request_body import LARGEST, note_read, read_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from starlette.requests import Request

    from sfumato.errors import SfumatoError


MOST_FIELDS = 25_000
"""The schema form of a table with 1,000 columns has about 20 fields per column."""
YES = "yes"
"""The value of a ticked box."""
_MOST_FILES = 4
# A gigabyte then takes at most three hours; a slower sender is disconnected.
_SLOWEST_BYTES_PER_SECOND = 1e5
_URLENCODED = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"


@dataclass(frozen=True)
class SentForm:
    """The fields and files of a form."""

    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, Upload] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, str]:
        """The last value of each field."""
        return {name: values[-1] for name, values in self.fields.items()}


def check_site(request: Request) -> None:
    """Refuse a form that another site made the browser send (CSRF)."""
    site = request.headers.getlist("sec-fetch-site")
    origin = request.headers.getlist("origin")
    # Our pages send no referrer, and then browsers send "null" as their origin.
    origins = [value for value in origin if value != "null"]
    is_ours = urlsplit(origins[0]).netloc == request.headers["host"].lower() if origins else None
    if (
        len(site) > 1
        or len(origin) > 1
        or is_ours is False
        or site not in ([], ["same-origin"])
        or (not site and is_ours is None)
    ):
        raise RequestError(
            403,
            "form_foreign",
            "This form did not come from a page of this server, so nothing was done. Open the "
            "console and send the form from there.",
        )


def check_token(expected: str, token: str) -> None:
    """Refuse a form without the token of the visitor's session, compared in constant time."""
    if not hmac.compare_digest(expected.encode(), token.encode("utf-8", "surrogatepass")):
        raise RequestError(
            403,
            "form_foreign",
            "This form is not from a page of your session, or the session has ended. Nothing was "
            "done. Go back, load the page again and send the form from there.",
        )


def read_query(request: Request) -> SentForm:
    """The fields of a query string."""
    return SentForm(_parse_fields(request.scope["query_string"]))


@asynccontextmanager
async def read_form(request: Request, *, uploads: int, seconds: float) -> AsyncIterator[SentForm]:
    """The form of a request. Its files exist only inside the context."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == _MULTIPART and uploads:
        async with _read_multipart(request, uploads, seconds) as form:
            yield form
    elif kind == _URLENCODED:
        yield SentForm(_parse_fields(await read_bytes(request, _URLENCODED, seconds=seconds)))
    else:
        raise RequestError(
            415, "request_malformed", "Send the form of the page, as a browser does."
        )


@asynccontextmanager
async def _read_multipart(
    request: Request, uploads: int, seconds: float
) -> AsyncIterator[SentForm]:
    length = request.headers.get("content-length", "")
    # 18 digits: a longer number would be slow to convert and exceeds any limit.
    if not length.isdigit() or len(length) > 18 or "transfer-encoding" in request.headers:
        raise RequestError(
            411, "request_malformed", "Send the body in one piece, with its Content-Length."
        )
    if int(length) > uploads + LARGEST:
        raise RequestError(
            413, "request_too_large", f"Files here may have at most {uploads:,} bytes."
        )
    try:
        # A gigabyte takes time, but a sender may not hold the connection forever (slow loris).
        async with asyncio.timeout(seconds + int(length) / _SLOWEST_BYTES_PER_SECOND):
            parts = await request.form(
                max_files=_MOST_FILES, max_fields=MOST_FIELDS, max_part_size=LARGEST
            )
    except TimeoutError:
        raise RequestError(
            408, "request_slow", "The file did not arrive in time. Send it again."
        ) from None
    except (MultiPartException, KeyError, ValueError):
        raise _unreadable() from None
    note_read(request)
    try:
        texts: list[tuple[str, str]] = []
        files: dict[str, Upload] = {}
        for name, value in parts.multi_items():
            if isinstance(value, UploadFile):
                files[name] = Upload(value.filename or "", value.file, value.size or 0)
            else:
                texts.append((name, value))
        yield SentForm(_group_fields(texts), files)
    finally:
        await parts.close()


def _parse_fields(encoded: bytes) -> dict[str, tuple[str, ...]]:
    try:
        pairs = parse_qsl(
            encoded.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=MOST_FIELDS,
            errors="strict",
        )
    except ValueError:
        raise _unreadable() from None
    return _group_fields(pairs)


def _group_fields(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """All values of each field, with line ends as Python has them and without NUL bytes."""
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if "\0" in value:  # databases and C libraries would cut the text there
            raise RequestError(400, "request_malformed", "A field of the form has a NUL.")
        fields.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return {name: tuple(values) for name, values in fields.items()}


def _unreadable() -> RequestError:
    return RequestError(
        400, "request_malformed", "The form cannot be read. Send it as a browser does."
    )


_FIELD_OF = {
    "name_invalid": "name",
    **dict.fromkeys(("principal_unknown", "options_conflict"), "to"),
    **dict.fromkeys(
        ("budget_missing", "budget_changed", "budget_out_of_range", "budget_not_held"), "epsilon"
    ),
    "bounds_missing": "schema",
    "dataset_attached": "population",
}
"""The field that an error is about, where neither its parameter nor its text names one."""


class FormValues(dict[str, str]):
    """Texts by field name. A missing field is empty, so that templates need no test."""

    def __missing__(self, name: str) -> str:
        return ""


def field_errors(error: SfumatoError, fields: Iterable[str] = (), form: str = "") -> dict[str, str]:
    """The message of an error under the field that it is about, or under "" for the whole form.

    On a page with several forms the names begin with that of the `form`, such as "grant.epsilon".

    Raises
    ------
    SfumatoError
        The error itself, if the visitor cannot mend it: one of the server, ledger or an engine.
    """
    if status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, SourceError):
        raise error
    # Longest first: the code "epsilon_missing" is about "epsilon", not about a field "e".
    names = sorted(fields, key=len, reverse=True)
    candidates = (
        error.parameter,
        _FIELD_OF.get(error.code),
        *(option.name for option in options_in(error.sentence)),
        *(name for name in names if error.code.startswith(f"{name}_")),
    )
    field = next((name for name in candidates if name in names), None)
    return {f"{form}.{field or ''}" if form else field or "": problem_of(error)["detail"]}


def split_list(text: str) -> list[str]:
    """The items of a field, separated by commas or lines."""
    return [item.strip() for item in text.replace("\n", ",").split(",") if item.strip()]
