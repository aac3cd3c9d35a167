"""Words and paths of a command line, taken as they are written.

Typer has pydantic check every parameter, and loading that takes longer than most answers. A word
needs no check, and a path only one. Parameters of other kinds stay with Typer, as do all of them in
a Typer that does not ask its parameters this way.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer


def taken_as_written(parameters: list[Any]) -> list[Any]:
    """Have parameters that are flags, words, lists of words or paths taken as here."""
    for one in parameters:
        kind = getattr(getattr(one, "type_descriptor", None), "annotation", None)
        if kind in _TAKEN:
            one.get_runtime_param = _TAKEN[kind]
    return parameters


class _Word:
    """One word, or a flag, which is given or not."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002  Typer's names
        return value


class _Words:
    """Words of an option that is repeated, or all that are left."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002
        return () if value is None else list(value)


class _Path:
    """A path; what is there must be readable, and who calls for it sees to all else."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return None
        if os.access(value, os.F_OK) and not os.access(value, os.R_OK):
            raise typer.BadParameter(f"path {str(value)!r} is not readable.", ctx=ctx, param=param)
        return Path(value)


_TAKEN: dict[Any, Any] = {bool: _Word, str: _Word, list[str]: _Words, Path: _Path}
