"""Refusals as they are sent: one form for all, with the codes that every door has.

Which status a refusal gets follows from its kind in the tree of errors; a few codes have their own.
Nothing here may tell more than the error's public message does. Decision `operations`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sfumato.errors import (
    BudgetError,
    CallerError,
    EngineError,
    InternalError,
    LedgerError,
    RefusedError,
    SfumatoError,
    SourceError,
    as_field,
    in_fields,
    options_in,
)
from sfumato.text import holds_password, without_passwords, without_places

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA = "application/problem+json"

_BY_CODE = {
    "answer_lost": 409,
    "request_reused": 409,
    "token_refused": 401,
    "not_found": 404,
    "sandbox_busy": 503,
    "sandbox_unavailable": 503,
    "rehearsals_too_many": 429,
    # Told to owners, whose paths name these. A hidden feed is unknown like one that never was.
    **dict.fromkeys(
        (
            *("principal_unknown", "principal_unknown", "token_unknown"),
            *(
                "registry_unknown",
                "program_unknown",
                "feed_unknown",
                "job_unknown",
                "release_unknown",
            ),
        ),
        404,
    ),
}
_BY_KIND: tuple[tuple[type[SfumatoError], int], ...] = (
    (BudgetError, 402),
    (RefusedError, 403),
    (SourceError, 503),  # no caller of ours has named a file
    (CallerError, 422),
    (LedgerError, 503),
    (EngineError, 503),
)

_BUSY_SECONDS = {
    "ledger_busy": "1",
    "heavy_work_busy": "2",
    "store_unavailable": "10",
    "rehearsals_too_many": "600",
}
_MENDED_SECONDS = "60"
"""When to come back where somebody must mend something first."""
_MAYBE_CHARGED = (
    "It may have been charged before that; sent again with the same Idempotency-Key it is not "
    "charged twice."
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "kind": {"type": "string"},
        "options": {"type": "array"},
        "parameter": {"type": "string"},
        "given": {},
        "allowed": {},
        "hint": {"type": "string"},
        # Of reports that came together each may be rejected by itself.
        "accepted": {"type": "integer"},
        "rejected": {"type": "array"},
    },
    "required": ["type", "title", "status", "code", "detail", "kind"],
    "additionalProperties": False,
}
"""What every refusal is, as JSON Schema."""


class RequestError(CallerError):
    """A request that is refused for how it was sent; it has its own status."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(code, message)
        self.status = status
        self.headers = {**(headers or {})}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.status, self.code, self.sentence), self.__dict__


class UnreadyError(InternalError):
    """A server that cannot answer now, whoever asks whatever; when to come back is told."""

    def __init__(self, code: str, message: str, *, seconds: int = 1) -> None:
        super().__init__(code, message)
        self.headers = {"Retry-After": str(seconds)}


def status_of(error: SfumatoError) -> int:
    """The status with which a refusal is sent."""
    own: int | None = getattr(error, "status", None)
    if own is not None:
        return own
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    if isinstance(error, UnreadyError):
        return 503
    return next((status for kind, status in _BY_KIND if isinstance(error, kind)), 500)


def headers_of(error: SfumatoError) -> dict[str, str]:
    """The headers with which a refusal is sent; what may pass says when to come back."""
    found: dict[str, str] = {**getattr(error, "headers", {})}
    passing = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
    # What was charged and failed is not helped by asking again.
    if status_of(error) in passing and error.code != "answer_failed":
        found.setdefault("Retry-After", _BUSY_SECONDS.get(error.code, _MENDED_SECONDS))
    return found


def told(error: SfumatoError, *, charging: bool = False) -> dict[str, Any]:
    """A refusal as JSON-able data: its sentence names fields.

    `charging` says that the request was one for which something is charged.
    """
    status, message = status_of(error), in_fields(error)
    options = options_in(error.sentence)
    if status == HTTPStatus.SERVICE_UNAVAILABLE and "charge" not in message:
        # Data is looked at before the charge; the ledger may fail on either side of it.
        unknown = charging and isinstance(error, LedgerError)
        message = f"{message} {_MAYBE_CHARGED if unknown else 'Nothing was charged.'}"
    return {
        "type": f"urn:sfumato:{error.code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": error.code,
        "detail": scrubbed(message),
        "kind": kind_of(error),
        # From these a client spells the parameters in the detail as its own door does.
        **({"options": scrubbed([list(option) for option in options])} if options else {}),
        **scrubbed(error.fields(as_field)),
    }


def scrubbed(data: Any) -> Any:
    """JSON-able data whose texts show no password and no place of this machine."""
    if isinstance(data, str):
        return without_places(without_passwords(data) if holds_password(data) else data)
    if isinstance(data, list | tuple):
        return [scrubbed(each) for each in data]
    return {name: scrubbed(each) for name, each in data.items()} if isinstance(data, dict) else data


def kind_of(error: SfumatoError) -> str:
    """The class of an error in the public tree, by which `sf.connect` raises the same."""
    return next(
        one.__name__ for one in type(error).__mro__ if one.__module__ == SfumatoError.__module__
    )


def not_found() -> RequestError:
    """What is not there, or must not be known to be."""
    return RequestError(404, "not_found", "There is nothing here by this name that you may see.")


def failed_inside() -> SfumatoError:
    """What is said of a failure that nobody foresaw; its cause is the operator's alone."""
    return SfumatoError("internal", "Sfumato failed inside. This is a bug: please report it.")
