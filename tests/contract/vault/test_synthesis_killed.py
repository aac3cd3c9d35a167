"""Killed in the middle of many adaptive rounds: charged once and in full, and then as ever."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.fixtures.ledgers import opened_ledger
from tests.fixtures.synthesis import linked_rows

import sfumato as sf
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

SYNTHESIZER = Path(__file__).with_name("synthesizer.py")
COLUMN = '[columns.{}]\nkind = "integer"\nbounds = [0, {}]\nnullable = false\n'
SIZES = (3, 4, 3, 2)


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [",".join(map(str, row)) for row in linked_rows(SIZES, 2000, seed=1).tolist()]
    Path("t.csv").write_text("\n".join(["a,b,c,d", *rows]) + "\n")
    columns = [COLUMN.format(name, size - 1) for name, size in zip("abcd", SIZES, strict=True)]
    Path("t.toml").write_text('table = "t"\n' + "".join(columns))
    create(Path("vault"))
    Registration(name="t", source="t.csv", schema=Path("t.toml"), epsilon=9).add_to(Path("vault"))
    return Path("vault")


def charged(vault: Path) -> list[object]:
    """What every charge of the ledger took from the data set."""
    with closing(opened_ledger(vault)) as ledger:
        ledger.verify()
        records = [json.loads(entry.body) for entry in ledger.entries()]
    return [one["charges"]["t"] for one in records if one["kind"] == "charge"]


@pytest.mark.parametrize("stage", ["first table", "late round", "rows drawn"])
def test_L2_a_synthesis_that_is_killed_was_charged_once_and_in_full(
    vault: Path, stage: str
) -> None:
    command = [sys.executable, str(SYNTHESIZER), str(vault), stage]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    lost = charged(vault)
    assert len(lost) == 1
    with sf.open(vault) as opened:
        again = opened.synthesize("t", epsilon="1/2", method="aim")
        assert again.charged
        assert charged(vault) == 2 * lost  # whole charges, of the killed run and of this one
        assert not opened.synthesize("t", epsilon="1/2", method="aim").charged
    assert charged(vault) == 2 * lost
