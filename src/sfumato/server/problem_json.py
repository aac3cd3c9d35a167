"""Errors as problem+json (RFC 9457), with the same codes as in the command and in Python.

The HTTP status follows from the class of the error; a few codes have a status of their own. Nothing
here may reveal more than the public message of the error. Decision `operations`.
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
    # Owners name these in paths. To others a hidden feed does not exist.
    "principal_unknown": 404,
    "token_unknown": 404,
    "registry_unknown": 404,
    "program_unknown": 404,
    "feed_unknown": 404,
    "job_unknown": 404,
    "release_unknown": 404,
}
_BY_KIND: tuple[tuple[type[SfumatoError], int], ...] = (
    (BudgetError, 402),
    (RefusedError, 403),
    (SourceError, 503),  # callers of HTTP name no files, so the server lacks one
    (CallerError, 422),
    (LedgerError, 503),
    (EngineError, 503),
)

# A sandbox or a lock is soon free again; trials are limited by the hour.
_RETRY_SECONDS = {
    "ledger_busy": "1",
    "heavy_work_busy": "2",
    "store_unavailable": "10",
    "rehearsals_too_many": "600",
}
_REPAIR_SECONDS = "60"
"""The Retry-After of errors that somebody must mend first."""
_MAYBE_CHARGED = (
    "It may have been charged before the failure. Send it again with the same Idempotency-Key: "
    "it is not charged twice."
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
        # Survey reports are accepted or rejected one by one.
        "accepted": {"type": "integer"},
        "rejected": {"type": "array"},
    },
    "required": ["type", "title", "status", "code", "detail", "kind"],
    "additionalProperties": False,
}
"""The JSON Schema of every error."""


class RequestError(CallerError):
    """A request that is refused for the way it was sent; it has its own status and headers."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(code, message)
        self.status = status
        self.headers = {**(headers or {})}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.status, self.code, self.sentence), self.__dict__


class UnreadyError(InternalError):
    """A server that cannot answer any request now; `seconds` says when to try again."""

    def __init__(self, code: str, message: str, *, seconds: int = 1) -> None:
        super().__init__(code, message)
        self.headers = {"Retry-After": str(seconds)}


def status_of(error: SfumatoError) -> int:
    """The HTTP status of an error."""
    # An error may have a status of its own: a file that an owner names is the caller's mistake.
    own: int | None = getattr(error, "status", None)
    if own is not None:
        return own
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    if isinstance(error, UnreadyError):
        return 503
    return next((status for kind, status in _BY_KIND if isinstance(error, kind)), 500)


def headers_of(error: SfumatoError) -> dict[str, str]:
    """The headers of an error; a temporary one says when to try again."""
    headers: dict[str, str] = {**getattr(error, "headers", {})}
    temporary = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
    # A charged answer that failed is stored as failed: another attempt gives the same error.
    if status_of(error) in temporary and error.code != "answer_failed":
        headers.setdefault("Retry-After", _RETRY_SECONDS.get(error.code, _REPAIR_SECONDS))
    return headers


def problem_of(
    error: SfumatoError, *, charging: bool = False, status: int | None = None
) -> dict[str, Any]:
    """Make the JSON of an error; its sentence names parameters as fields.

    Parameters
    ----------
    error
        The error.
    charging
        Whether the request may have charged a budget before it failed.
    status
        The HTTP status, if it is not that of the error's class.
    """
    status, message = status or status_of(error), in_fields(error)
    options = options_in(error.sentence)
    if status == HTTPStatus.SERVICE_UNAVAILABLE and "charge" not in message:
        # Sources and engines fail before the charge; the ledger may fail before or after it.
        unknown = charging and isinstance(error, LedgerError)
        message = f"{message} {_MAYBE_CHARGED if unknown else 'Nothing was charged.'}"
    return {
        "type": f"urn:sfumato:{error.code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": error.code,
        # The operator may see paths of this machine; callers may not.
        "detail": scrubbed(message),
        "kind": kind_of(error),
        # With these `sf.connect` spells the parameters of the message as Python does.
        **({"options": scrubbed([list(option) for option in options])} if options else {}),
        **scrubbed(error.fields(as_field)),
    }


def scrubbed(data: Any) -> Any:
    """Hide passwords and paths of this machine in all texts of JSON data."""
    if isinstance(data, str):
        return without_places(without_passwords(data) if holds_password(data) else data)
    if isinstance(data, list | tuple):
        return [scrubbed(entry) for entry in data]
    return (
        {name: scrubbed(entry) for name, entry in data.items()} if isinstance(data, dict) else data
    )


def kind_of(error: SfumatoError) -> str:
    """The class of an error in the public tree; `sf.connect` raises the same class."""
    return next(
        base.__name__ for base in type(error).__mro__ if base.__module__ == SfumatoError.__module__
    )


def not_found() -> RequestError:
    """The error for a name that does not exist, or whose existence must not be revealed."""
    return RequestError(404, "not_found", "There is nothing here by this name that you may see.")


def failed_inside() -> SfumatoError:
    """The error for an unexpected failure; its cause is only in the operator's log."""
    return SfumatoError("internal", "Sfumato failed. This is a bug: please report it.")
