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


def test_the_base_image_has_no_default_and_every_stage_begins_with_it() -> None:
    lines = CONTAINER.read_text().splitlines()
    assert [line for line in lines if line.startswith("FROM")] == ["FROM ${BASE}"]
    # An ARG above FROM is known to FROM alone; the one below brings it into the build.
    assert [line for line in lines if line.startswith("ARG")] == ["ARG BASE", "ARG BASE"]


@pytest.mark.parametrize(
    ("base", "is_built"),
    [
        (f"docker.io/library/python@sha256:{'0a' * 32}", True),
        (f"docker.io/library/python:3.12-slim@sha256:{'0a' * 32}", True),
        ("docker.io/library/python:3.12-slim", False),
        ("python", False),
        ("", False),
        (f"python@sha256:{'0a' * 31}", False),
        (f"python@sha256:{'0a' * 32}:latest", False),
        ("python@sha256:...", False),
    ],
)
def test_the_build_refuses_a_base_image_without_a_digest(base: str, *, is_built: bool) -> None:
    """The first step of the build, run as the build runs it."""
    first = next(line for line in CONTAINER.read_text().splitlines() if line.startswith("RUN"))
    done = subprocess.run(
        ["/bin/sh", "-c", first.removeprefix("RUN ")],
        env={"BASE": base, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == is_built
    assert ("by its digest" in done.stderr) != is_built


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
