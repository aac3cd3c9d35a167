"""The recipes to run a server by name what there is: files, flags and settings."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from sfumato.cli.main import build

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "deploy" / "Containerfile"
UNIT = ROOT / "deploy" / "sfumato.service"


def flags(command: str) -> set[str]:
    root: Any = typer.main.get_command(build())
    return {flag for one in root.commands[command].params for flag in one.opts}


def words(text: str, command: str) -> set[str]:
    """The flags that a text gives to a command, on its line and on those that continue it."""
    joined = re.sub(r"\\\n#? *", " ", text)
    spoken = re.compile(rf"(sfumato\S*\s+|\"){command}\b")
    lines = [line for line in joined.splitlines() if spoken.search(line)]
    return {flag for line in lines for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)}


@pytest.mark.parametrize("recipe", [CONTAINER, UNIT])
def test_a_recipe_starts_the_server_with_flags_that_exist(recipe: Path) -> None:
    text = recipe.read_text()
    given = words(text, "serve")
    assert "--vault" in given
    assert given <= flags("serve")
    assert "--head" in words(text, "init") & flags("init")


def test_the_container_copies_what_there_is() -> None:
    for line in CONTAINER.read_text().splitlines():
        if line.startswith("COPY "):
            sources = line.split()[1:-1]
            assert sources
            assert all((ROOT / one).exists() for one in sources)
            assert not any(one.startswith(("/", "..")) for one in sources)


def test_neither_recipe_runs_as_root() -> None:
    assert re.search(r"^USER sfumato$", CONTAINER.read_text(), re.MULTILINE)
    assert re.search(r"^User=sfumato$", UNIT.read_text(), re.MULTILINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/sfumato", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert str(unit.name) not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
