"""Every command that the README and the guides print runs as printed, page by page, in order.

Libraries are loaded once for all of them: see `warm`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.slices import few_fast

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").rglob("*.md"))]
HERE_ALREADY = re.compile(r"make test|pip install|git clone|cd sfumato$")
"""What sets up the environment that the tests run in."""
DEMO = "sfumato-demo"
MAKES_TABLES = re.compile(r"^(?:make demo|sfumato demo --tables(?: --out (?P<out>\S+))?)$")


def commands(page: Path) -> list[str]:
    """The lines after a `$`, those that end in a backslash joined with the next."""
    text = page.read_text().replace("\\\n", " ")
    found = re.findall(r"^(?: {4})?\$ (.+?)(?: {2,}#.*)?$", text, re.MULTILINE)
    return [one.strip() for one in found if not HERE_ALREADY.match(one)]


PRINTED = [
    pytest.param(commands(page), id=str(page.relative_to(ROOT))) for page in PAGES if commands(page)
]


def run(lines: Sequence[str], folder: Path, warm: Path) -> None:
    script = "\n".join(["set -e", *lines])
    places = (str(warm), str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {**os.environ, "PATH": ":".join(places)}
    ran = subprocess.run(
        ["bash", "-x", "-c", script], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-3000:]


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory, warm: Path) -> Path:
    """The tables of the demo, with which most pages begin: made once, and copied."""
    made = tmp_path_factory.mktemp("tables")
    run(["sfumato demo --tables"], made, warm)
    return made / DEMO


@pytest.mark.parametrize("lines", few_fast(PRINTED, 14))
def test_the_commands_of_a_page_run_in_an_empty_folder(
    lines: list[str], tmp_path: Path, warm: Path, tables: Path
) -> None:
    def copied(found: re.Match[str]) -> str:
        return f"cp -r {shlex.quote(str(tables))} {found['out'] or DEMO}"

    # The page that `make demo` writes beside the tables has tests of its own.
    run([MAKES_TABLES.sub(copied, line) for line in lines], tmp_path, warm)


def test_no_command_is_printed_that_is_not_run() -> None:
    """A block that begins with the command's name has no `$` and would never be tried."""
    command = re.compile(r"^(?: {4})?(?:\.venv/bin/)?sfumato .*$", re.MULTILINE)
    assert [page.name for page in PAGES if command.search(page.read_text())] == []
