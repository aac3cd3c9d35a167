"""Refusals of a server, as the exceptions that the server raised."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from sfumato import errors
from sfumato.errors import InternalError, Option, SfumatoError, as_field, option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.client.response_reader import Received


_CODE = re.compile(r"[a-z0-9_]{1,80}")
_LONGEST = 4000
"""The largest number of characters of a refusal that is shown."""


def refusal(received: Received) -> SfumatoError:
    """The exception of a response that refuses a request."""
    try:
        problem = json.loads(received.body)
        return refused({"message": problem["detail"], **problem})
    except (ValueError, KeyError, TypeError, RecursionError):
        return unexpected(f"status {received.status} and no reason")


def refused(problem: Mapping[str, Any]) -> SfumatoError:
    """The exception of a refusal, in its class, with its code and message."""
    # Only our own errors: the name could be that of any object of the module.
    kind = getattr(errors, str(problem.get("kind")), None)
    if not (isinstance(kind, type) and issubclass(kind, SfumatoError)):
        kind = InternalError
    code, message = problem.get("code"), problem.get("message")
    if not (isinstance(code, str) and _CODE.fullmatch(code) and isinstance(message, str)):
        return unexpected("a failure without a reason")
    options = problem.get("options")
    error: SfumatoError = kind(code, _with_options(_cleaned(message), options))
    parameter, hint = problem.get("parameter"), problem.get("hint")
    error.parameter = _cleaned(parameter) if isinstance(parameter, str) else None
    error.given, error.allowed = _shown(problem.get("given")), _shown(problem.get("allowed"))
    spelled = _with_options(_cleaned(hint), options) if isinstance(hint, str) else None
    error._hint = spelled  # noqa: SLF001  `hint` would append it: the message ends with it already
    return error


def _with_options(message: str, options: object) -> str:
    """A message in which the server's names of fields are spelled as keywords of Python."""
    for written in options if isinstance(options, list) else []:
        if not (isinstance(written, list) and len(written) == 3):
            continue  # a foreign server may send anything
        # Fields as HTTP spells them become keywords as Python spells them.
        name, value, metavar = written
        named = Option(str(name), value, str(metavar))
        message = message.replace(as_field(named), option(*named[:2], metavar=named.metavar), 1)
    return message


def _shown(value: object) -> Any:
    """A number, a text or texts that were given or are allowed; checked, as the server may lie."""
    if isinstance(value, str):
        return _cleaned(value)
    if isinstance(value, list):
        return [_cleaned(str(entry)) for entry in value]
    return value if isinstance(value, int | float) else None


def _cleaned(message: str) -> str:
    """A text of a server without control characters, which could rewrite the terminal."""
    shown = "".join(
        letter if letter.isprintable() or letter == "\n" else " "
        for letter in message[: _LONGEST + 1]
    )
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ..."


def unexpected(what: str) -> InternalError:
    """The error for a response that no server of this version sends."""
    return InternalError(
        "server_unexpected",
        f"The server answered with {what}, which no Sfumato of this version sends. Look whether "
        "the address is that of 'sfumato serve', and whether a proxy stands before it.",
    )
