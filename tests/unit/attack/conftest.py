"""Planted tables, weak and strong, and a short way to attack them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.attack.finding import Finding
from sfumato.attack.options import attack_options
from sfumato.attack.runner import attack

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.schema.schema import Schema

Rows = dict[str, list[Any]]


@pytest.fixture
def found() -> Callable[..., Finding]:
    def run(name: str, release: Any, schema: Schema, **more: Any) -> Finding:
        names = ("known", "original", "other", "other_original", "control", "synthetic")
        tables = {one: more.pop(one) for one in names if one in more}
        result = attack(name, release, schema, **tables, options=attack_options(**more))
        assert isinstance(result, Finding)
        assert result.success.low <= result.success.value <= result.success.high
        return result

    return run


@pytest.fixture
def draws() -> np.random.Generator:
    return np.random.default_rng(6)
