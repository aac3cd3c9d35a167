"""A pan-private counter that is killed: whatever lies on the disk then is one state and no more."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.filesystem import whole
from sfumato.methods.stream import pan_file
from sfumato.methods.stream.pan_file import MappedPan
from sfumato.methods.stream.pan_private import PanTable
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from types import FrameType

PEOPLE = 12
INPUTS = {"members.csv", "monday.csv"}
SURVIVED, KILLED, FAILED = 0, 7, 9
FOLLOWED = ("/stream/pan_", "/sfumato/filesystem.py")
VISITS = [1, 0, 2, 0, 0, 3, 1, 0, 0, 1, 5, 0]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    names = [f"p{number}" for number in range(PEOPLE)]
    Path("members.csv").write_text("member\n" + "".join(f"{name}\n" for name in names))
    came = [name for name, times in zip(names, VISITS, strict=True) for _ in range(times)]
    Path("monday.csv").write_text("member\n" + "".join(f"{name}\n" for name in came))
    return home


def killed_at(line: int, action: Any) -> int:
    """Do something in a forked process that ends, without cleaning up, at its n-th line of ours."""
    process = os.fork()
    if process == 0:
        seen = 0

        def at_line(frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal seen
            if not any(part in frame.f_code.co_filename for part in FOLLOWED):
                return None
            if event == "line":
                seen += 1
                if seen == line:
                    os._exit(KILLED)
            return at_line

        try:
            sys.settrace(at_line)
            action()
            os._exit(SURVIVED)
        except BaseException:  # noqa: BLE001  # a child must not go on with its parent's tests
            sys.settrace(None)
            traceback.print_exc()
            os._exit(FAILED)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def states_on_disk() -> list[Path]:
    """Every file beside the inputs that holds anything, in every folder: all of it is seen."""
    return [
        path for path in Path().rglob("*")
        if path.is_file() and path.name not in INPUTS and path.stat().st_size
    ]  # fmt: skip


def came(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the visits without a database, whose threads do not survive a fork."""
    visits = pan_file._Visits([f"p{at}" for at in range(PEOPLE)], np.array(VISITS), "text")
    monkeypatch.setattr(pan_file, "_people", lambda *_: visits)


def made() -> tuple[Path, bytes]:
    path = Path("seen.pan")
    pan_file.new(path, "members.csv", "member", epsilon=1, reads=2, at_least=3)
    return path, path.read_bytes()


def cells(content: bytes) -> bytes:
    """The page of cells: after the facts and the numbers."""
    return content[8192 : 8192 + PEOPLE]


def run_killed(path: Path, before: bytes, line: int, action: Any) -> int:
    path.unlink()
    path.write_bytes(before)
    code = killed_at(line, action)
    assert states_on_disk() == [path], f"killed at line {line}"
    return code


def test_a_killed_update_leaves_one_state_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    came(monkeypatch)
    monkeypatch.setattr(pan_file, "SystemEntropy", lambda: SeededEntropy(5))
    path, before = made()
    pan_file.update(path, "monday.csv")
    after = path.read_bytes()
    line, code, stopped, doubled = 0, KILLED, 0, 0
    while code == KILLED:
        line += 1
        code = run_killed(path, before, line, lambda: pan_file.update(path, "monday.csv"))
        seen, record = path.read_bytes(), pan_file.load(path)
        at = PEOPLE if record.updates else record.position
        old_new = zip(cells(before), cells(after), strict=True)
        # Each person is seen once, before or after: the only mixed state is that of the order.
        mixed = bytes(new if place < at else old for place, (old, new) in enumerate(old_new))
        stored = mixed[:at] + cells(after)[at : at + 1] + mixed[at + 1 :]
        assert cells(seen) in (mixed, stored)
        assert seen[12288:] == before[12288:]
        if record.position:
            stopped += 1
            with pytest.raises(ParameterError, match="resume=True"):
                pan_file.update(path, "monday.csv")
            with pytest.raises(ParameterError, match="resume=True"):
                pan_file.read(path)
            assert pan_file.update(path, "monday.csv", resume=True).updates == 1
            ended = np.frombuffer(cells(path.read_bytes()), np.uint8) >> 1
            wanted = np.frombuffer(cells(after), np.uint8) >> 1
            different = np.flatnonzero(ended != wanted).tolist()
            assert different in ([], [at])
            doubled += bool(different)
    assert code == SURVIVED
    assert stopped > PEOPLE
    assert doubled, "a kill between the two stores of one place was tried too"


def test_a_file_that_is_replaced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong: the state is written whole beside the old one, and renamed over it."""
    came(monkeypatch)
    path, before = made()

    def replaced(file: MappedPan) -> None:
        with whole(path, overwrite=True, private=True) as temporary:
            temporary.write_bytes(file.mapped[:])

    monkeypatch.setattr(MappedPan, "flush", replaced)
    with pytest.raises(AssertionError, match="killed at line"):
        for line in range(1, 2000):
            run_killed(path, before, line, lambda: pan_file.update(path, "monday.csv"))


@pytest.mark.slow
def test_a_killed_read_was_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    came(monkeypatch)
    path, before = made()
    line, code, lost = 0, KILLED, 0
    while code == KILLED:
        line += 1
        code = run_killed(path, before, line, lambda: pan_file.read(path))
        seen, answers = path.read_bytes(), pan_file.load(path).answers
        assert cells(seen) == cells(before)
        if not answers:  # no noise was drawn, so nothing of it is in the file
            assert seen == before
        lost += answers == ({"updates": 0},)
    assert code == SURVIVED
    assert lost
    path.write_bytes(before)
    with monkeypatch.context() as broken:
        broken.setattr("sfumato.methods.stream.pan_private.PanPrivateHeavy.estimate", None)
        with pytest.raises(TypeError):
            pan_file.read(path)
    assert pan_file.load(path).to_json()["reads_left"] == 1
    _, answer = pan_file.read(path)
    assert pan_file.read(path)[1] == answer
    assert pan_file.load(path).to_json()["reads_left"] == 0


def test_without_tables_the_rest_of_a_stopped_update_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came(monkeypatch)
    path, _ = made()
    real = PanTable.update

    def stopped(self: PanTable, *positions: Any, **named: Any) -> None:
        real(self, *positions, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(PanTable, "update", stopped)
    with pytest.raises(KeyboardInterrupt):
        pan_file.update(path, "monday.csv")
    monkeypatch.setattr(PanTable, "update", real)
    assert pan_file.load(path).position == 7
    before = cells(path.read_bytes())
    record = pan_file.update_all(path, [], resume=True)
    assert (record.updates, record.position) == (1, 0)
    assert cells(path.read_bytes()) == before


UPDATE = """
from pathlib import Path
from sfumato.methods.stream import pan_file
pan_file.{action}(Path("seen.pan"){more})
"""


BESIDE = r'write\(.*, "blat", 4\)|O_EXCL.*, 0600\) = \d+<[^>]*/\w{8}>|mkdir\("[^"]*sfumato-scratch"'
"""`tempfile` looks for a folder by a file of four letters; the database gets an empty folder, which
it would write visits to, never cells, if they did not fit into memory."""


def traced(action: str, more: str = "") -> str:
    """The calls by which a process names, writes or renames files."""
    script = UPDATE.format(action=action, more=more)
    calls = (
        "openat,open,creat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mkdir,mkdirat,"
        "truncate,ftruncate,memfd_create,copy_file_range,sendfile,write,pwrite64,writev,pwritev"
    )
    run = subprocess.run(
        ["strace", "-f", "-qq", "-y", "-e", f"trace={calls}", "-o", "../trace",
         sys.executable, "-B", "-c", script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "ptrace" in run.stderr or "PTRACE" in run.stderr:
        pytest.skip("this system does not let processes be traced")
    assert run.returncode == 0, run.stderr
    return Path("../trace").read_text()


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (apt-get install strace)")
@pytest.mark.parametrize(("action", "more"), [("update", ', "monday.csv"'), ("read", "")])
def test_nothing_is_written_anywhere_but_into_the_one_file(action: str, more: str) -> None:
    made()
    lines = traced(action, more).splitlines()
    changing = [
        line
        for line in lines
        if not re.search(r"^\d+ +open(at)?\(.*\bO_RDONLY", line)
        and " = -1 " not in line
        and "/dev/null" not in line
        and "</sys/devices/system/cpu" not in line  # libraries of other threads count processors
        and not re.search(BESIDE, line)
    ]
    assert len(changing) == 1, changing
    assert 'seen.pan", O_RDWR|O_CLOEXEC) =' in changing[0]
