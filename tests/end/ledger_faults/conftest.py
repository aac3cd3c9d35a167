"""A process that charges, answers and is hurt on the way, watched by strace."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.chain import digest
from sfumato.privacy.ledger.commit import OutsideHead
from sfumato.privacy.ledger.sql.sqlite import sqlite_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITING = (
    "write,pwrite64,pwritev,fdatasync,fsync,ftruncate,fallocate,unlink,rename,openat,fcntl,flock"
)
REFUSED = 3


def budget() -> Budget:
    return Budget.for_epsilon_delta(epsilon=1)


@dataclass
class Call:
    """One system call of the log: its name, its file, and whether it was made to fail."""

    name: str
    target: str
    failed: bool


@dataclass
class Bench:
    """A ledger on disk and a file of released answers, with a process that fills both."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "database").mkdir(parents=True)
        (self.folder / "outside").mkdir()

    @property
    def database(self) -> Path:
        return self.folder / "database" / "ledger.sqlite"

    @property
    def head(self) -> Path:
        return self.folder / "outside" / "head"

    @property
    def released(self) -> Path:
        return self.folder / "released"

    def open(self, at_step: Callable[[str], None] = lambda _: None) -> Ledger:
        head = OutsideHead(self.head)
        if head.read() is None:  # never begun, or interrupted before it was
            store = sqlite_store(self.database, create=True)
            return Ledger.create(store, head=head, at_step=at_step)
        return Ledger(sqlite_store(self.database), head=head, at_step=at_step)

    def answer(self, charges: int, at_step: Callable[[str], None] = lambda _: None) -> None:
        """Charge, draw, store and release, over and over."""
        released = os.open(self.released, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        ledger = self.open(at_step)
        ledger.open_account("visits", budget=budget())
        first = len(list(ledger.entries()))
        for number in range(first, first + charges):
            receipt = ledger.reserve(
                PureEvent(epsilon=Fraction(1, 100)),
                accounts=["visits"],
                principal="alice",
                request_id=f"r{number}",
                body_digest=digest(b""),
            )
            receipt.entropy().words(1)
            ledger.store(receipt, f"answer {number}".encode())
            os.write(released, f"r{number}\n".encode())
        ledger.close()

    def run(self, work: Callable[[], None], *options: str) -> tuple[int, list[Call]]:
        """Do work in a child under strace; return how it ended and what it called."""
        child = os.fork()
        if child == 0:
            self._be_child(work)
        os.waitpid(child, os.WUNTRACED)
        log = self.folder / "strace.log"
        command = ["strace", "-y", "-o", str(log), "-p", str(child), *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            line = tracer.stderr.readline()
            assert "attached" in line, line
            os.kill(child, signal.SIGCONT)
            _, status = os.waitpid(child, 0)
            tracer.stderr.read()
        return os.waitstatus_to_exitcode(status), parse(log.read_text())

    def _be_child(self, work: Callable[[], None]) -> None:
        status = 1
        try:
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
            status = 0
        except LedgerError:
            status = REFUSED
        finally:
            os._exit(status)

    def check(self) -> int:
        """Every released answer is charged and stored; at most one charge has no answer."""
        ledger = self.open()
        try:
            ledger.open_account("visits", budget=budget())
            found = ledger.verify()
            lines = self.released.read_text().split("\n") if self.released.exists() else [""]
            for request_id in lines[:-1]:
                stored = ledger.answer(
                    principal="alice", request_id=request_id, body_digest=digest(b"")
                )
                assert stored == f"answer {request_id[1:]}".encode()
            assert ledger.spent("visits") == ((found.requests * 10_000_000,),)
            open_charges = found.position.seq - 2 - 2 * (len(lines) - 1)
            # A charge, and perhaps its stored answer that was not released yet.
            assert 0 <= open_charges <= 2
            assert found.requests - (len(lines) - 1) <= 1
            return found.requests
        finally:
            ledger.close()


def parse(log: str) -> list[Call]:
    pattern = re.compile(r"^(?:\d+ +)?(\w+)\((?:AT_FDCWD<[^>]*>, )?(?:\d+<([^>]*)>|\"([^\"]*)\")?")
    calls = []
    for line in log.splitlines():
        found = pattern.match(line)
        if found:
            target = found[2] or found[3] or ""
            calls.append(Call(found[1], target, "INJECTED" in line))
    return calls


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    return Bench(tmp_path / "bench")


@pytest.fixture
def make_bench(tmp_path: Path) -> Callable[[str], Bench]:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    return lambda name: Bench(tmp_path / name)


@pytest.fixture
def writing_calls(make_bench: Callable[[str], Bench]) -> Counter[str]:
    """How often an undisturbed run makes each call of the write path."""
    bench = make_bench("undisturbed")
    status, calls = bench.run(lambda: bench.answer(2), "-e", f"trace={WRITING}")
    assert status == 0
    assert bench.check() == 2
    return Counter(call.name for call in calls)
