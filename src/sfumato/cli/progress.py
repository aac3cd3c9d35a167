"""What a command tells while it works: progress, and values that only a steward may see."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.errors import SchemaError
from sfumato.report.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["progress", "values_named"]


@contextmanager
def values_named() -> Iterator[None]:
    """Name the values that have no place in a hierarchy."""
    try:
        yield
    except SchemaError as error:
        if error.detail is None:
            raise
        raise SchemaError(error.code, f"{error.sentence} {error.detail}.") from None
