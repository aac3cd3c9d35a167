"""What a job may be asked, whichever door it comes by: a family, and what its method takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.privacy.ledger.rules import check_name
from sfumato.vault.jobs.anonymize_job import ANONYMIZE, check_wish_names
from sfumato.vault.jobs.job import COMPARE
from sfumato.vault.jobs.job_json import plain_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.vault.family import Family


def families() -> dict[str, Family]:
    """What a job may be of: every family of one data set, besides anonymizing."""
    from sfumato.vault.families import FAMILIES

    return {name: one for name, one in FAMILIES.items() if one.of_dataset}


def family_named(name: str) -> Family:
    """A family that a job may be of, by its name."""
    known = families()
    if name not in known:
        raise ParameterError(
            "job_family_unknown",
            f"A job cannot be of {quoted(name)}; {suggestion(name, [*known, ANONYMIZE, COMPARE])}",
        )
    return known[name]


def check_request(request_id: str) -> None:
    """Refuse what a request cannot be called."""
    check_name(request_id, "request id")


def asked_plainly(family: str, asked: Mapping[str, object]) -> dict[str, Any]:
    """What a job is asked in plain values; refused where its method would not take it."""
    if family == ANONYMIZE:
        wishes = plain_values(asked, ("population",))
        check_wish_names(wishes)
        return wishes
    if family == COMPARE:
        return plain_values(asked, ())
    known = family_named(family)
    plain = plain_values(asked, [one.name for one in known.fields if one.type is Path])
    try:
        known.signature.bind(**plain)
    except TypeError as error:
        takes = ", ".join(one.name for one in (*known.fields, *known.cost))
        raise ParameterError(
            "job_call_wrong",
            f"A job of {known.name!r} cannot be asked so: {error}. It takes {takes}.",
        ) from None
    return plain
