"""What the command line tells a steward, whose data it is, and would tell nobody else."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def values_named() -> Iterator[None]:
    """Name the values that have no place in a hierarchy."""
    try:
        yield
    except SchemaError as error:
        if error.detail is None:
            raise
        raise SchemaError(error.code, f"{error.message} {error.detail}.") from None
