"""Refusals of a server as the exceptions that they were there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sfumato import errors
from sfumato.errors import InternalError, SfumatoError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.gate.client.reading import Received


def refusal(received: Received) -> SfumatoError:
    """What a server refused a request by."""
    try:
        told = json.loads(received.body)
        return refused({"message": told["detail"], **told})
    except (ValueError, KeyError, TypeError, RecursionError):
        return unexpected(f"status {received.status} and no reason")


def refused(told: Mapping[str, Any]) -> SfumatoError:
    """A refusal in the class that it has at hand, by its code and in its words."""
    kind = getattr(errors, str(told.get("kind")), None)
    if not (isinstance(kind, type) and issubclass(kind, SfumatoError)):
        kind = InternalError
    if "code" not in told or "message" not in told:
        return unexpected("a failure without a reason")
    return kind(str(told["code"]), str(told["message"]))


def unexpected(what: str) -> InternalError:
    """What is said where a server is none of ours, or of a version that is not understood."""
    return InternalError(
        "server_unexpected",
        f"The server answered with {what}, which no Sfumato of this version sends. Look whether "
        "the address is that of 'sfumato serve', and whether a proxy stands before it.",
    )
