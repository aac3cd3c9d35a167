"""A vault with people who may do different things."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLINIC = Path("clinic")


def make_clinic() -> None:
    create(CLINIC)
    given = {"schema": Path("visits.toml"), "epsilon": "8", "delta": "1e-6"}
    Registration(name="visits", source="visits.csv", **given).add_to(CLINIC)  # type: ignore[arg-type]
    with sf.open(CLINIC) as opened:
        for name in ("ann", "bob"):
            opened.people.add(name, "permanent-staff", epsilon=2, delta="1e-7", operator="me")
        opened.people.add("eve", "public", operator="me")


@pytest.fixture
def vault(
    as_made: Callable[[Callable[[], None]], Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[sf.Vault]:
    """Data set 'visits' of epsilon 8; ann and bob may publish, eve may download alone."""
    monkeypatch.chdir(as_made(make_clinic))
    with sf.open(CLINIC) as opened:
        yield opened
