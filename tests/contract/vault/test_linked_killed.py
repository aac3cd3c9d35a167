"""A parent and a child table, killed at any stage: no charge is lost or doubled, no half stands."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.contract.vault import linked_synthesizer
from tests.contract.vault.linked_synthesizer import STAGES, synthesize
from tests.fixtures.ledgers import opened_ledger
from tests.fixtures.slices import few_fast

import sfumato as sf

COLUMN = '[columns.{}]\nkind = "integer"\nbounds = [0, {}]\nnullable = false\n'
TABLES = {"people": ("sex", 1), "visits": ("ward", 4)}
WHOLE = {"vault", "vault.head", "twins", "twins.arrow", "twins.html"}


def vault_in(home: Path) -> None:
    """A vault with people and their visits, one population."""
    with sf.init(home / "vault") as vault:
        for name, (column, high) in TABLES.items():
            rows = [f"{row % 40},{row % (high + 1)}\n" for row in range(40 if high == 1 else 90)]
            (home / f"{name}.csv").write_text("".join([f"who,{column}\n", *rows]))
            most = 1 if name == "people" else 3
            unit = f'unit = {{ column = "who", max_rows = {most}, max_groups = {most} }}\n'
            key = '[columns.who]\nkind = "integer"\nrole = "identifier"\nnullable = false\n'
            (home / f"{name}.toml").write_text(
                f'table = "{name}"\n{unit}{key}{COLUMN.format(column, high)}'
            )
            budget = {"epsilon": 9} if name == "people" else {"population": "people"}
            vault.add(name, home / f"{name}.csv", home / f"{name}.toml", **budget)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each stage, in which a synthesis died there."""
    first, homes = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("homes")
    vault_in(first)
    for stage in STAGES:
        shutil.copytree(first, homes / stage)
    subprocess.run(
        [sys.executable, "-m", linked_synthesizer.__name__, homes],
        check=True,
        timeout=120,
        cwd=Path(__file__).parents[3],
    )
    return homes


def charged(home: Path) -> list[object]:
    """What every charge of the ledger took from the people."""
    with closing(opened_ledger(home / "vault")) as ledger:
        ledger.verify()
        records = [json.loads(entry.body) for entry in ledger.entries()]
    return [one["charges"] for one in records if one["kind"] == "charge"]


@pytest.mark.parametrize("stage", few_fast(STAGES, 3))
def test_L2_two_tables_that_are_killed_were_charged_once_and_stand_whole_or_not_at_all(
    killed: Path, stage: str
) -> None:
    home = killed / stage
    lost = charged(home)
    assert len(lost) == 1
    folder, there = home / "twins", stage == "all there"
    assert folder.exists() == there
    if there:
        assert set(sf.Release.load(folder).tables) == set(TABLES)
    # A charge from which nothing was drawn is used by the next one, a stored answer is given.
    paid = stage == "charged" or [*STAGES].index(stage) >= [*STAGES].index("stored")
    assert synthesize(home, overwrite=there) == (not paid)
    assert charged(home) == (lost if paid else 2 * lost)
    assert set(sf.Release.load(folder).tables) == set(TABLES)
    sf.SynthesisModel.load_linked(home / "twins.arrow")
    before = {f"{name}.{ending}" for name in TABLES for ending in ("csv", "toml")}
    assert {one.name for one in home.iterdir()} == {*before, *WHOLE}
