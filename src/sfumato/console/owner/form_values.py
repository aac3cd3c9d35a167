"""Forms that were sent: what was said where it is right, and what is wrong beside its field."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from sfumato.errors import SourceError, options_in
from sfumato.server.problem_json import status_of, told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.errors import SfumatoError

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
