"""A vault with 30 visits on each of 200 days; a person has three or four, weeks apart."""

from __future__ import annotations

import shutil
from contextlib import chdir
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sfumato as sf

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = """\
table = "visits"
unit = { column = "patient", max_rows = 4 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.day]
kind = "date"
bounds = [2024-01-01, 2024-07-18]
nullable = false
[columns.city]
kind = "text"
values = ["north", "south"]
nullable = false
"""


def rows(days: int = 200) -> str:
    first = date(2024, 1, 1)
    told = [
        f"{place % 1950},{first + timedelta(days=place % days)},{'north' if place % 3 else 'south'}"
        for place in range(6000)
    ]
    return "\n".join(["patient,day,city", *told]) + "\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place, kept = tmp_path_factory.mktemp("made") / "own", tmp_path_factory.mktemp("kept") / "own"
    place.mkdir()
    with chdir(place):
        Path("visits.csv").write_text(rows())
        Path("visits.toml").write_text(SCHEMA)
        with sf.init("clinic") as vault:
            vault.add("visits", "visits.csv", "visits.toml", epsilon=10, delta="1e-6")
            vault.people.add("eve", "public", operator="me")
            vault.people.add("ann", "permanent-staff", epsilon=2, operator="me")
    shutil.copytree(place, kept)
    return place, kept


@pytest.fixture
def vault(made: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[sf.Vault]:
    place, kept = made
    shutil.rmtree(place)
    shutil.copytree(kept, place)
    monkeypatch.chdir(place)
    with sf.open("clinic") as opened:
        yield opened
