"""Workers end with their job, whatever ends it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.methods.programs.sandbox.conftest import SOURCE, provided

from sfumato.methods.programs.sandbox import BlockLimits, Program, workers
from sfumato.methods.programs.sandbox.base import OVERHEAD_SECONDS, PREPARE_SECONDS
from sfumato.methods.programs.sandbox.landlock import Landlock
from sfumato.methods.programs.sandbox.launcher import BlockOutcome, _number, sealed

if TYPE_CHECKING:
    from sfumato.methods.programs.sandbox.workers import ForkingChamber

_LONG = """
import sys
from sfumato.methods.programs.sandbox import BlockLimits, Program, chambers
chamber = next(one for one in chambers() if one.name == sys.argv[1])
program = Program(b"def f(table):\\n    while True: pass\\n", "f")
print("begun", flush=True)
chamber.run(program, [b""] * 4, 1, BlockLimits(seconds=100), 2)
"""


def _descendants(root: int) -> set[int]:
    """All processes below one, as the system sees them."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found = {root}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def _gone(processes: set[int], seconds: float = 5.0) -> bool:
    """Whether they all end soon; who only waits to be counted has ended."""
    end = time.monotonic() + seconds
    while any(map(_is_running, processes)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(_is_running, processes))


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_its_job(name: str, by: signal.Signals) -> None:
    """Also when whoever asked is killed so that it can do nothing any more."""
    provided(name)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(
        [sys.executable, "-c", _LONG, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as asking:
        assert asking.stdout
        assert asking.stdout.readline() == b"begun\n"
        # Two workers, two that stand by, each within bubblewrap of two processes; two blocks. Jobs
        # of other tests may have their turn first.
        number = {"bubblewrap": 4 * 2 + 2, "landlock": 4 + 2}[name]
        end = time.monotonic() + 120
        below: set[int] = set()
        while len(below) < number and time.monotonic() < end:
            time.sleep(0.05)
            below = _descendants(asking.pid)
        assert len(below) >= number
        asking.send_signal(by)
        assert _gone(below | {asking.pid})


def test_nothing_is_left_after_a_job(chamber: ForkingChamber) -> None:
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough
    children = _descendants(os.getpid())
    program = Program(b"def f(table):\n    while True: pass\n", "f")
    chamber.run(program, [b""] * 2, 1, BlockLimits(seconds=0.2), 2, on_time=False)
    assert _descendants(os.getpid()) <= children
    assert len(os.listdir("/proc/self/fd")) <= len(before)  # noqa: PTH208 - names are enough


def test_a_lost_worker_is_replaced(
    chamber: ForkingChamber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its block has failed; the others are not told."""
    from sfumato.methods.programs.sandbox.launcher import Fork, Worker

    real, calls = Worker.fork, []

    def lose_the_first(worker: Worker) -> Fork | None:
        calls.append(worker)
        if len(calls) == 1:
            os.kill(worker._inside, signal.SIGKILL)
        return real(worker)

    monkeypatch.setattr(Worker, "fork", lose_the_first)
    program = Program(b"def f(table):\n    return 2\n", "f")
    found = chamber.run(program, [b""] * 3, 1, BlockLimits(seconds=0.5), 1)
    assert [one is None for one in found] == [True, False, False]
    assert len(set(calls)) == 2


class Clock:
    """A clock that moves only when somebody sleeps or works: no load can make a test late."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def is_set(self) -> bool:
        return False

    def set(self) -> None:
        pass


class NotedFork:
    """A block's process that takes some time to be made, to run and to end, and notes when."""

    def __init__(self, clock: Clock, times: tuple[float, float, float]) -> None:
        self._clock, self._times = clock, times
        self.has_shared_pages = False
        self.handed = self.end = 0.0

    def prepared(self, seconds: float) -> bool:
        self._clock.now += min(self._times[0], seconds)
        return self._times[0] <= seconds

    def run(
        self, _block: bytes, _width: int, _limits: BlockLimits, end: float, *, listen: bool
    ) -> BlockOutcome:
        assert not listen
        self.handed, self.end = self._clock.now, end
        self._clock.now += self._times[1]
        return BlockOutcome(b"done")

    def close(self) -> None:
        self._clock.now += self._times[2]


def _handed(
    monkeypatch: pytest.MonkeyPatch, times: list[tuple[float, float, float]]
) -> list[float]:
    """When each block of a job got its rows and is to end, from when its worker was ready."""
    clock = Clock()
    monkeypatch.setattr(workers, "time", clock)
    forks = [NotedFork(clock, one) for one in times]
    left = iter(forks)
    worker = SimpleNamespace(fork=lambda: next(left), forget=lambda: None)
    chamber = Landlock()
    monkeypatch.setattr(chamber, "team", lambda *_: [worker], raising=False)
    job = workers._Job(chamber, -1, [b""] * len(times), 1, BlockLimits(seconds=1.0), 1)
    job._stopped = clock  # type: ignore[assignment]
    began = clock.now
    assert job.results(on_time=True) == [b"done"] * len(times)
    return [moment - began for fork in forks for moment in (fork.handed, fork.end)]


def test_state_attack_when_a_block_begins_tells_nothing_of_those_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A block gets its rows at its moment to the digit, however long those before took."""
    slot = 1.0 + OVERHEAD_SECONDS
    due = [turn * slot + PREPARE_SECONDS + part for turn in range(4) for part in (0.0, 1.0)]
    quick, whole, heavy = (0.0, 0.0, 0.0), (0.1, 1.0, 0.1), (0.2, 1.0, 0.25)
    for times in ([quick] * 4, [whole] * 4, [heavy] * 4, [heavy, quick, whole, quick]):
        with monkeypatch.context() as patch:
            assert _handed(patch, times) == pytest.approx(due)


def test_planted_blocks_that_follow_each_other_at_once_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without moments of their own, as it once was, blocks show how long those before took."""
    monkeypatch.setattr(workers, "_until", lambda *_: None)
    quick, whole = (0.0, 0.0, 0.0), (0.1, 1.0, 0.1)
    with monkeypatch.context() as patch:
        alone = _handed(patch, [quick] * 4)
    assert _handed(monkeypatch, [whole, quick, quick, quick]) != pytest.approx(alone)


STARTS = b"import time\ndef f(table):\n    return time.monotonic()\n"


def test_no_block_gets_its_rows_before_its_moment(chamber: ForkingChamber) -> None:
    """With real processes: a busy machine may make them late, but never early."""
    limits = BlockLimits(seconds=1.0)
    before = time.monotonic()
    found = chamber.run(Program(STARTS, "f"), [_rows(0)] * 3, 1, limits, 1)
    began = [None if one is None else struct.unpack("<d", one)[0] for one in found]
    for turn, moment in enumerate(began):
        due = before + turn * (limits.seconds + OVERHEAD_SECONDS) + PREPARE_SECONDS
        assert moment is None or moment >= due
    assert any(moment is not None for moment in began)


def _rows(count: int) -> bytes:
    table = pa.table({"x": pa.array(range(count), pa.int64())})
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return bytes(stream.getvalue())


def test_a_worker_is_told_the_same_for_every_block(
    chamber: ForkingChamber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However blocks end, what they are forked from gets one message each, and no rows."""
    real, sent = socket.send_fds, []

    def noted(channel: socket.socket, buffers: list[bytes], fds: list[int]) -> int:
        sent.append((b"".join(buffers), len(fds)))
        return real(channel, buffers, fds)

    monkeypatch.setattr(socket, "send_fds", noted)
    source = (
        b"def f(t):\n    if t.num_rows == 1: raise ValueError\n    while t.num_rows == 2: pass\n"
    )
    blocks = [_rows(0), _rows(1), _rows(2), _rows(0)]
    chamber.run(Program(source, "f"), blocks, 1, BlockLimits(seconds=0.5), 1, on_time=False)
    assert sent[0] == (b"S", 2)
    assert sent[1::2] == [(b"F", 1)] * 4
    assert [fds for _, fds in sent[2::2]] == [2] * 4


def test_a_block_s_memory_is_its_own(chamber: ForkingChamber) -> None:
    """Of no page a file is behind, but the kernel's vDSO, and no page is another process's too."""
    if os.geteuid() != 0:
        pytest.skip("only root may look into a worker")
    program = Program(b"import numpy\ndef f(t):\n    return 1\n", "f")
    with chamber._setup(program, 1, BlockLimits(), rows=True) as setup, ExitStack() as stack:
        (worker,) = chamber.team(setup, 1, stack)
        fork = worker.fork()
        assert fork is not None
        stack.callback(fork.close)
        assert fork.prepared(60)
        found = Path(f"/proc/{_number(fork._watched)}/smaps").read_text()
    shared: Counter[str] = Counter()
    name, of_file = "", False
    for line in found.splitlines():
        key, *rest = line.split()
        if not key.endswith(":"):
            name = line
            of_file = name.split()[4] != "0"
        elif key.startswith("Shared_") or (of_file and key == "Private_Clean:"):
            shared[name.split()[-1]] += int(rest[0])
    assert (+shared).keys() <= {"[vdso]", "[vvar]", "[vvar_vclock]"}


def test_what_is_sealed_cannot_be_changed() -> None:
    fd = sealed(b"rows")
    try:
        assert os.pread(fd, 10, 0) == b"rows"
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"more", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)
