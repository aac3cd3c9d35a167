"""The guide to the architecture is true: its picture, and every file that its walks name."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "architecture.md"
LONGEST = 15
SCRIPT = r"""
import json, sys, threading
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
import sfumato
from typer.testing import CliRunner
from sfumato.cli.main import build
from sfumato.testing.servers import served

ROOT = f"{Path(sfumato.__file__).parent}/"
Path("people.toml").write_text('''
table = "people"
unit = "row"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 110]
hierarchy = { widths = [5, 10, 20] }
[columns.city]
role = "quasi"
kind = "text"
values = ["north", "south"]
hierarchy = { mask = "right" }
''')
rows = (f"{20 + place % 40},{'north' if place % 3 else 'south'}" for place in range(400))
Path("people.csv").write_text("age,city\n" + "\n".join(rows) + "\n")
walks, crossed = {}, {}

def seen(frame, event, _):
    code = frame.f_code  # bodies of modules and of classes run when they are loaded
    if event == "call" and code.co_flags & CO_OPTIMIZED and code.co_filename.startswith(ROOT):
        crossed.setdefault(code.co_filename.removeprefix(ROOT))

@contextmanager
def walking(name):
    crossed.clear()
    threading.setprofile(seen)
    sys.setprofile(seen)
    yield
    sys.setprofile(None)
    threading.setprofile(None)
    walks[name] = list(crossed)

def run(*words):
    done = CliRunner().invoke(build(words[0]), [*words])
    assert done.exit_code == 0, (done.output, done.exception)

def walk(name, *words):
    with walking(name):
        run(*words)

schema = ("--schema", "people.toml")
walk("An inspection", "inspect", "people.csv")
walk("An anonymization", "anonymize", "people.csv", *schema, "--k", "5", "-o", "safe.csv")
walk("", "init", "clinic")
walk("", "add", "people", "people.csv", *schema, "--epsilon", "3", "--vault", "clinic")
asked = "SELECT city, COUNT(*), AVG(age) FROM people GROUP BY city"
walk("A question", "query", asked, "--epsilon", "1", "--vault", "clinic")
told = ("--columns", "age", "--epsilon", "1", "--vault", "clinic", "-o", "tree.csv")
walk("A publication", "publish", "tree", "people", *told)
with sfumato.open("clinic") as vault:
    token = vault.tokens.new("owner", operator="Ann")
    with walking("A request to a server"), served(vault) as server:
        with sfumato.connect(server.url, token) as there:
            there.query("SELECT COUNT(*) FROM people", epsilon=1)
with walking("A survey"):
    run("survey", "new", "q.toml", "--question", "Well?", "--choices", "a,b,c", "--epsilon", "1")
    sfumato.Survey("q.toml").randomize(["a", "b"] * 9).save("monday.jsonl")
    run("collect", "q.toml", "monday.jsonl")
    run("survey", "estimate", "q.toml")
print(json.dumps(walks))
"""


def told() -> dict[str, list[str]]:
    """The lines of each walk."""
    _, *walks = re.split(r"^## ", GUIDE.read_text(), flags=re.MULTILINE)
    return {
        head: body.strip().splitlines() for head, _, body in (one.partition("\n") for one in walks)
    }


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The files in which a function ran, walk by walk."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path_factory.mktemp("walk"),
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("walk", sorted(told()))
def test_every_file_that_a_walk_names_is_walked_through(
    walk: str, walked: dict[str, list[str]]
) -> None:
    lines = told()[walk]
    assert len(lines) <= LONGEST
    named = re.findall(r"`([a-z_/]+\.py)`", "\n".join(lines))
    assert len(named) > 5
    assert [file for file in named if file not in walked[walk]] == []


def test_the_picture_shows_the_floors() -> None:
    drawing = runpy.run_path(str(GUIDE.with_name("floors.py")))
    assert GUIDE.with_name("floors.svg").read_text() == drawing["picture"](), "make reference"
