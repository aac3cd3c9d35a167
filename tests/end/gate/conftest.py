"""People, and a vault of them, for tests of the gate before release."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.vault.vault import create_vault

SCHEMA = """\
table = "people"
[columns.name]
role = "identifier"
kind = "text"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
hierarchy = { widths = [10, 50] }
[columns.town]
role = "quasi"
kind = "text"
values = ["north", "south"]
hierarchy = { tree = "*" }
[columns.ill]
role = "sensitive"
kind = "text"
values = ["flu", "gout", "none"]
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """People of whom everybody in the north has the flu, and each age occurs twice in a town."""
    monkeypatch.chdir(tmp_path)
    ills = ("gout", "none", "flu")
    rows = [
        f"p{n},{n % 50},{('north', 'south')[n % 2]},{'flu' if n % 2 == 0 else ills[n % 3]}"
        for n in range(200)
    ]
    Path("people.csv").write_text("\n".join(["name,age,town,ill", *rows]) + "\n")
    Path("people.toml").write_text(SCHEMA)
    return tmp_path


@pytest.fixture
def vault(home: Path) -> Path:
    with create_vault(home / "clinic") as made:
        made.add("people", home / "people.csv", home / "people.toml", epsilon=8)
    folder = home / "clinic"
    config = folder / "vault.toml"
    config.write_text(config.read_text() + '[principals.alice.budgets.people]\nepsilon = "1"\n')
    return folder
