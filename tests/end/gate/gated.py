"""What tests of the gate before release ask for, and what they look at."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.main import run
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    import pytest

FOUND = "People whose released row is found"
ANONYMIZE = ("anonymize", "people.csv", "--schema", "people.toml", "-o", "safe.csv", "--k")
HISTOGRAM = ("publish", "histogram", "people", "--columns", "town,ill", "-o", "safe.csv")
MARGINALS = ("publish", "marginals", "people", "--columns", "town,ill,age")
TWIN = ("synthesize", "people", "-o", "safe.csv")


def files() -> set[str]:
    return {one.name for one in Path().iterdir()} - {"clinic", "clinic.head"}


def spent(folder: Path) -> float:
    with open_vault(folder) as opened:
        [account] = [one for one in opened.accounts() if one["account"] == "people"]
    return 8 - float(account["remaining"]["epsilon"])


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 3) -> str:
    before = files()
    capsys.readouterr()
    assert run([*words]) == code
    assert files() == before
    told = capsys.readouterr()
    assert told.out == ""
    return told.err


def kept() -> dict[str, Any]:
    """What the holder keeps of attacks; what travels has not a word of it."""
    told = Path("safe.csv.json").read_text()
    assert not any(word in told for word in ('"attacks"', '"success"', "required"))
    path = Path("safe.csv.holder.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found: dict[str, Any] = json.loads(path.read_text())["attacks"]
    return found


def names(told: dict[str, Any]) -> list[str]:
    return [one["attack"] for one in told["findings"]]
