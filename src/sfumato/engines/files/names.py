"""Column names as they arrive: how many there may be, and which cannot be told apart or shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import SourceError
from sfumato.schema import names as declared

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_COLUMNS = 10_000
"""More columns than this are refused before anything is allocated for them."""


def check_count(count: int) -> None:
    """Refuse a table with too many columns."""
    if count > MOST_COLUMNS:
        raise SourceError(
            "too_many_columns",
            f"The table has {count:,} columns; at most {MOST_COLUMNS:,} are allowed. "
            "Leave out columns first.",
        )


def check_names(names: Sequence[str]) -> None:
    """Refuse too many names, and those that no schema could declare."""
    check_count(len(names))
    declared.check_names(list(names))
