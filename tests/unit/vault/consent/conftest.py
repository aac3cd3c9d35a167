"""A clinic whose patients are asked what their visits may be used for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sfumato as sf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = """\
table = "visits"
unit = { column = "patient", max_rows = 2, max_groups = 2 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.agreed]
kind = "boolean"
nullable = false
[columns.cost]
kind = "integer"
bounds = [0, 100]
nullable = false
"""
PEOPLE = 300


def make_clinic() -> None:
    rows = [f"{one},{str(one % 10 > 0).lower()},5\n" for one in range(PEOPLE) for _ in "12"]
    Path("visits.csv").write_text("patient,agreed,cost\n" + "".join(rows))
    Path("visits.toml").write_text(SCHEMA)
    with sf.init("clinic") as made:
        made.add("visits", "visits.csv", "visits.toml", epsilon=10, purposes=["care", "research"])


@pytest.fixture
def files(as_made: Callable[[Callable[[], None]], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, to stand in, with a vault of two rows of each of three hundred people.

    One in ten says no.
    """
    place = as_made(make_clinic)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def vault(files: Path) -> Iterator[sf.Vault]:
    with sf.open(files / "clinic") as opened:
        yield opened


@pytest.fixture
def agreeing(vault: sf.Vault) -> sf.Vault:
    """The first two hundred agree to care, the first hundred to research."""
    lines = [f"{one},care,yes\n" for one in range(200)]
    lines += [f"{one},research,yes\n" for one in range(100)]
    Path("agreed.csv").write_text("person,purpose,agreed\n" + "".join(lines))
    vault.consent("visits").import_file("agreed.csv")
    return vault
