"""What is asked, as it is sent, and what is answered, as it comes back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.client.error_reader import unexpected
from sfumato.errors import ParameterError
from sfumato.exact_numbers import exact
from sfumato.operations.releases import ANSWER
from sfumato.release.codec import from_bytes
from sfumato.release.release import Release
from sfumato.server.request_schemas import family_told
from sfumato.vault.answer import Answer

if TYPE_CHECKING:
    from sfumato.client.response_reader import Received
    from sfumato.vault.family import Family
    from sfumato.vault.session import Facts


def told_of(family: Family, values: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """What is asked of a family, for JSON: without files of this machine, exact where it costs."""
    cost = {one.name: values[one.name] for one in family.cost}
    asked = {name: one for name, one in values.items() if name not in cost}
    spelled: dict[str, Any] = family.home().spelled(facts, **asked)
    amounts = {name: str(exact(one, name)) for name, one in cost.items() if one is not None}
    told = {name: jsonable(one, name) for name, one in spelled.items() if not _is_nothing(one)}
    return family_told(told | amounts)


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str | tuple | list) and not value)


def jsonable(value: object, name: str) -> Any:
    """A value as JSON has it: decimals and fractions as texts, days as YYYY-MM-DD."""
    match value:
        case np.generic() | np.ndarray():
            days = value.astype("datetime64[D]") if value.dtype.kind == "M" else value
            return jsonable(days.tolist(), name)
        case None | bool() | str() | int():
            return value
        case float() if isfinite(value):
            return value
        case Fraction() | Decimal():
            return str(value)
        case datetime():
            return value.date().isoformat()
        case date():
            return value.isoformat()
        case Mapping():
            return {str(key): jsonable(one, name) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [jsonable(one, name) for one in value]
    raise ParameterError(
        "request_malformed",
        f"{name} has a value of type {type(value).__name__}, which cannot be sent to a vault "
        "elsewhere. Give numbers, texts, dates, or lists of them.",
    )


def answer_of(received: Received, *, made: bool = False) -> Answer:
    """The answer that a server sent whole: a line of what was paid, and what the ledger keeps.

    Where the name of the request was `made` for this call alone, what was paid for under it was
    paid by this call, though it may have been by an attempt whose answer got lost.
    """
    line, _, stored = received.body.partition(b"\n")
    try:
        if received.media != ANSWER:
            raise ValueError(received.media)
        paid = json.loads(line)
        release = from_bytes(stored)
        given = {one.name: getattr(release, one.name) for one in fields(Release)}
        told = {name: paid[name] for name in _PAID}
        told["charged"] = bool(told["charged"] or (made and paid["paid"]))
        return Answer(**given, **told)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise unexpected("an answer that cannot be read") from error


_PAID = ("cost", "charged", "remaining", "balance")
