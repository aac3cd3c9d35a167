"""Parse plain parameters without pydantic, which Typer uses to validate every parameter.

Loading pydantic takes longer than most answers. A text or a flag needs no validation, and a path
only one check. Parameters of other types stay with Typer, and so do all of them in a version of
Typer that does not have the method replaced here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer


def skip_validation(parameters: list[Any]) -> list[Any]:
    """Have flags, texts, lists of texts and paths parsed by this module."""
    # The method is set on the instance, so that parameters of other types keep Typer's own.
    for parameter in parameters:
        kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
        if kind in _TYPES:
            parameter.get_runtime_param = _TYPES[kind]
    return parameters


class _Text:
    """One text, or a flag."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002  Typer's names
        return value


class _TextList:
    """The texts of a repeated option, or all remaining arguments."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002
        return () if value is None else list(value)


class _Path:
    """A path. If a file is there, it must be readable; the command checks all else."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return None
        # As Typer checks it; here the command itself says more about a file that is not there.
        if os.access(value, os.F_OK) and not os.access(value, os.R_OK):
            raise typer.BadParameter(f"path {str(value)!r} is not readable.", ctx=ctx, param=param)
        return Path(value)


_TYPES: dict[Any, Any] = {bool: _Text, str: _Text, list[str]: _TextList, Path: _Path}
