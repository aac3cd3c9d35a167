"""What a job is asked, as plain JSON: it is kept in a database and run on whichever server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Collection

MOST_BYTES = 1024 * 1024


def plain_values(asked: Mapping[str, object], files: Collection[str]) -> dict[str, Any]:
    """What was asked, such that it reads the same when it is taken up again.

    Of `files` the contents are given: a name would be that of a file on the server.
    """
    found = {}
    for name, value in asked.items():
        if name in files and isinstance(value, str | Path):
            raise ParameterError(
                "job_names_file",
                f"{name} of a job must be given as what it holds, not as {arguments.shown(value)}: "
                "the server that runs it may not have that file. Give the values as a list.",
            )
        if value is not None:
            found[name] = _plain(value, name)
    length = len(dumps(found))
    if length > MOST_BYTES:
        raise ParameterError(
            "job_too_long",
            f"What a job is asked may have {MOST_BYTES:,} bytes in JSON, not {length:,}. Ask for "
            "fewer ranges at a time.",
        )
    return found


def _plain(value: object, name: str) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, Decimal | Fraction):
        return str(value)  # digit for digit
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(one, name) for key, one in value.items()}
    listed = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(listed, list | tuple):
        return [_plain(one, name) for one in listed]
    if listed is not value:  # one number of NumPy
        return _plain(listed, name)
    raise ParameterError(
        "job_value_wrong",
        f"{name} of a job must be plain: numbers, texts, truth values, or lists of them, not "
        f"{arguments.shown(value)}.",
    )
