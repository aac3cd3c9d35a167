"""What a browser sends with a form: read within limits, as text, each file on its own."""

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
from sfumato.server.problem_json import RequestError, status_of, told
from sfumato.server.request_body import LARGEST, note_read, read_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from starlette.requests import Request

    from sfumato.errors import SfumatoError


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


# Requests that another site makes a browser send: refused before anything of them is read.
#
# A form is taken only from a page of ours: the browser says so itself (Sec-Fetch-Site, or Origin
# where it knows no better), and the form carries a word that only our pages could know.


def check_site(request: Request) -> None:
    """Refuse a form that did not come from a page of this very server."""
    site = request.headers.getlist("sec-fetch-site")
    origin = request.headers.getlist("origin")
    # Our pages send no referrer, and browsers then tell their origin as null.
    told = [one for one in origin if one != "null"]
    ours = urlsplit(told[0]).netloc == request.headers["host"].lower() if told else None
    if len(site) > 1 or len(origin) > 1 or ours is False or site not in ([], ["same-origin"]):
        raise _foreign()
    if not site and ours is None:
        raise _foreign()


def check_word(expected: str, said: str) -> None:
    """Refuse a form that lacks the word of the visitor's own pages."""
    if not hmac.compare_digest(expected.encode(), said.encode("utf-8", "surrogatepass")):
        raise RequestError(
            403,
            "form_foreign",
            "This form is not from a page of your session, or that session is over. Nothing was "
            "done. Go back, load the page again and send it from there.",
        )


def _foreign() -> RequestError:
    return RequestError(
        403,
        "form_foreign",
        "This form did not come from a page of this server, so nothing was done. Open the console "
        "itself and send it from there.",
    )


# Forms that were sent: what was said where it is right, and what is wrong beside its field.


_FIELD_OF = {
    "name_invalid": "name",
    **dict.fromkeys(("principal_unknown_here", "move_to_self"), "to"),
    **dict.fromkeys(
        ("budget_missing", "budget_changed", "budget_out_of_range", "budget_not_held"), "epsilon"
    ),
    "bounds_missing": "schema",
    "dataset_attached": "population",
}
"""The field that a refusal is about, where neither its parameter nor its sentence names one."""


class Filled(dict[str, str]):
    """Fields by name; one that is not there is empty."""

    def __missing__(self, name: str) -> str:
        return ""


def wrong(error: SfumatoError, fields: Iterable[str]) -> dict[str, str]:
    """What a refusal says, under the field that it is about, or under none.

    What is not for who sent the form to mend is raised again.
    """
    if status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, SourceError):
        raise error
    names = sorted(fields, key=len, reverse=True)
    candidates = (
        error.parameter,
        _FIELD_OF.get(error.code),
        *(option.name for option in options_in(error.sentence)),
        *(name for name in names if error.code.startswith(f"{name}_")),
    )
    field = next((name for name in candidates if name in names), None)
    return {field or "": told(error)["detail"]}


def words(text: str) -> list[str]:
    """What stands in a field between commas or on lines."""
    return [one.strip() for one in text.replace("\n", ",").split(",") if one.strip()]
