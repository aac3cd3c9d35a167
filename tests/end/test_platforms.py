"""Where processes cannot lock each other out, importing and looking at tables works; a vault says
that it does not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = """
import os, signal, sys
import duckdb, jinja2, numpy, pyarrow.compute, rich.console, sqlalchemy, sqlglot, typer

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "pwd", "grp", "resource", "termios"}:
            raise ModuleNotFoundError(name, name=name)

for name in ("fcntl", "pwd", "grp", "resource", "termios"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
for name in (
    "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "geteuid", "getuid",
    "pread", "pwrite", "fchmod", "chown", "fork", "uname", "sysconf",
):
    delattr(os, name)
del signal.SIGHUP
sys.platform = "win32"
opened = os.open

def open_no_folder(path, *rest, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "a folder", str(path))
    return opened(path, *rest, **more)

os.open = open_no_folder
"""
WORKS = """
import sfumato as sf
from pathlib import Path

assert sf.noise.discrete_laplace(3, 5).shape == (5,)
people = sf.read("people.csv")
assert people.inspect().rows == 3
from sfumato.cli.main import run
assert run(["inspect", "people.csv", "--write", "people.toml"]) == 0
assert "kind" in Path("people.toml").read_text()
schema = sf.Schema("people", (sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 99)),))
private = sf.protect(sf.read("people.csv", schema=schema), epsilon=3)
assert private.query("SELECT COUNT(*) AS n FROM people", epsilon=1).table.num_rows == 1
"""
REFUSED = """
from sfumato.cli.main import run

assert run(["init", "clinic"]) == 2
assert run(["query", "SELECT COUNT(*) FROM people", "--vault", "clinic"]) == 2
"""


def elsewhere(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "people.csv").write_text("age\n31\n44\n52\n")
    return subprocess.run(
        [sys.executable, "-c", ELSEWHERE + script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_tables_are_read_inspected_and_asked_on_any_system(tmp_path: Path) -> None:
    done = elsewhere(tmp_path, WORKS)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_vault_says_that_it_cannot_run(tmp_path: Path) -> None:
    done = elsewhere(tmp_path, REFUSED)
    assert done.returncode == 0, done.stderr[-3000:]
    says = (
        "sfumato: A vault needs locks between processes, which this system (win32) does not offer. "
        "Use Linux or macOS, or Linux inside Windows (WSL)."
    )
    assert done.stderr.splitlines() == [says, says]
