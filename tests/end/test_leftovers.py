"""Processes that are told to end, or killed: what they leave, and who removes it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.filesystem import MARK, Scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMMAND = Path(sys.executable).with_name("sfumato")
SPILLING = """\
import pyarrow as pa
from sqlglot import exp
import importlib
command = importlib.import_module("sfumato.cli.main")
from sfumato.data.engines.sources import open_duckdb

def spill(arguments, **as_always):
    cells = pa.table({"cell": [f"secret-{n % 997:090d}-{n}" for n in range(800_000)]})
    engine = open_duckdb(cells, memory_limit="80MB")
    while True:
        engine.run(exp.select("cell").from_(engine.table).order_by("cell"))

command.build = lambda asked: spill
command.main()
"""
"""A command whose work does not fit into memory; all around the work is as it always is."""
WRITING = """\
import sys, time
from pathlib import Path
import importlib
command = importlib.import_module("sfumato.cli.main")
from sfumato.filesystem import whole

def write(arguments, **as_always):
    with whole(Path(sys.argv[1])) as temporary:
        temporary.write_text("cells")
        print("written", flush=True)
        time.sleep(60)

command.build = lambda asked: write
command.main(["write"])
"""
WAIT_SECONDS = 60


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def spilled(folder: Path) -> list[Path]:
    return list(folder.glob("sfumato-*/duckdb/*.tmp"))


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


@pytest.fixture
def spilling(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has cells on disk."""
    process = subprocess.Popen(
        [sys.executable, "-c", SPILLING],
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: bool(spilled(temporary)) or process.poll() is not None)
        assert process.poll() is None, process.stderr and process.stderr.read()
        yield process
    finally:
        process.kill()
        process.communicate()


def sweep_by_any_command(temporary: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(temporary)}
    subprocess.run([COMMAND, "--version"], env=environment, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
    ids=["SIGTERM", "SIGHUP", "SIGINT"],
)
def test_told_to_end_it_leaves_no_cell_on_disk(
    spilling: subprocess.Popen[str], temporary: Path, number: int, exit_code: int
) -> None:
    spilling.send_signal(number)
    _, words = spilling.communicate(timeout=WAIT_SECONDS)
    assert (spilling.returncode, words) == (
        exit_code,
        "sfumato: Interrupted; nothing was written.\n",
    )
    assert list(temporary.iterdir()) == []


def test_the_living_are_left_alone_and_the_dead_are_swept(
    spilling: subprocess.Popen[str], temporary: Path
) -> None:
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    sweep_by_any_command(temporary)
    assert spilling.poll() is None
    assert folder.exists()
    spilling.kill()
    spilling.wait()
    assert spilled(temporary)
    sweep_by_any_command(temporary)
    assert list(temporary.iterdir()) == []


def test_what_is_not_ours_is_never_swept(temporary: Path) -> None:
    (temporary / f"a-link{MARK}").symlink_to(temporary.parent)
    (temporary / f"a-file{MARK}").write_text("mine")
    (temporary / "sfumato-notes").mkdir()
    other = temporary / f"sfumato-other{MARK}"
    other.mkdir()
    if os.geteuid() == 0:
        os.chown(other, 65534, 65534)
    before = sorted(temporary.iterdir())
    sweep_by_any_command(temporary)
    kept = before if os.geteuid() == 0 else [path for path in before if path != other]
    assert sorted(temporary.iterdir()) == kept


def test_a_hang_up_that_is_ignored_stays_ignored(temporary: Path) -> None:
    started = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    code = (
        "import signal; from sfumato.cli.process import handle_stop_signals; handle_stop_signals();"
    )
    asked = f"{code} print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    command = [sys.executable, "-c", started, sys.executable, "-c", asked]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=temporary)
    assert found.stdout == "True\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_half_an_output_never_stays(tmp_path: Path, number: int) -> None:
    """After SIGKILL whoever writes to the folder next removes what lies there."""
    target = tmp_path / "out.csv"
    with subprocess.Popen(
        [sys.executable, "-c", WRITING, target], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        process.send_signal(number)
        process.wait(WAIT_SECONDS)
    assert list(tmp_path.iterdir()) == ([folder] if number == signal.SIGKILL else [])
    schema = tmp_path.parent / f"{tmp_path.name}.csv"
    schema.write_text("age\n3\n")
    asked: list[str | Path] = [COMMAND, "inspect", schema, "--write", tmp_path / "t.toml"]
    subprocess.run(asked, check=True, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == ["t.toml"]


def test_a_folder_swept_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making and locking a folder somebody else may take it for dead."""
    import fcntl

    lock = fcntl.flock
    seen: list[str] = []

    def late(handle: int, operation: int) -> None:
        lock(handle, operation)
        if not seen:
            seen.extend(path.name for path in tmp_path.iterdir())
            shutil.rmtree(tmp_path / seen[0])

    monkeypatch.setattr(fcntl, "flock", late)
    with Scratch(tmp_path, "x.") as folder:
        assert folder.is_dir()
        assert folder.name not in seen
    assert list(tmp_path.iterdir()) == []
