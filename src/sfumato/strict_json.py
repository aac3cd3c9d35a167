"""JSON as every reader takes it: it has no NaN and no infinity, and neither has what we write."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any


def dumps(
    value: object, *, indent: int | None = None, sort_keys: bool = False, ensure_ascii: bool = True
) -> str:
    """Write a value as JSON; a number that is not finite is null."""
    options: dict[str, Any] = {
        "indent": indent,
        "sort_keys": sort_keys,
        "ensure_ascii": ensure_ascii,
        "allow_nan": False,
    }
    try:
        return json.dumps(value, **options)
    except ValueError:
        return json.dumps(_finite(value), **options)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
