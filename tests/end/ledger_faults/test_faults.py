"""Crashes, failing disks and old files: never an answer without a durable charge."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.privacy.ledger.sql import sqlite

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

WRITING = (
    "write,pwrite64,pwritev,fdatasync,fsync,ftruncate,fallocate,unlink,rename,openat,fcntl,flock"
)
KILLED = -signal.SIGKILL
STEPS = ("locked", "applied", "saved", "committed", "published", "reserved", "stored")


def points(calls: Counter[str], names: tuple[str, ...], stride: int) -> list[tuple[str, int]]:
    found = [(name, when) for name in names for when in range(1, calls[name] + 1)]
    return found[::stride]


def kill_everywhere(make_bench: Any, calls: Counter[str], stride: int) -> int:
    names = ("write", "pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "fcntl", "flock")
    killed = 0
    for name, when in points(calls, names, stride):
        bench = make_bench(f"{name}-{when}")
        inject = f"inject={name}:signal=KILL:when={when}"
        status, _ = bench.run(lambda b=bench: b.answer(2), "-e", f"trace={name}", "-e", inject)
        assert status == KILLED, (name, when)
        before = bench.check()
        bench.answer(1)
        assert bench.check() == before + 1
        shutil.rmtree(bench.folder)
        killed += 1
    return killed


def test_L2_kill_at_write_path_calls(make_bench: Any, writing_calls: Counter[str]) -> None:
    assert kill_everywhere(make_bench, writing_calls, 11) >= 12


@pytest.mark.slow
def test_L2_kill_at_every_write_path_call(make_bench: Any, writing_calls: Counter[str]) -> None:
    assert kill_everywhere(make_bench, writing_calls, 1) >= 100


@pytest.mark.parametrize("step", STEPS)
def test_L2_kill_at_every_protocol_step(bench: Any, step: str) -> None:
    """F16: killed between charge and answer, it is still charged."""
    seen: list[str] = []

    def die(at: str) -> None:
        seen.append(at)
        # The first transaction opens the account.
        if at == step and len(seen) > 5:
            os.kill(os.getpid(), signal.SIGKILL)

    status, _ = bench.run(lambda: bench.answer(2, die), "-e", "trace=none")
    assert status == KILLED
    charged = bench.check()
    assert charged == (0 if step in {"locked", "applied", "saved"} else 1)
    bench.answer(1)
    assert bench.check() == charged + 1


def fail_everywhere(make_bench: Any, calls: Counter[str], error: str, stride: int) -> int:
    refused = 0
    for name, when in points(calls, ("fdatasync", "fsync", "pwrite64"), stride):
        bench = make_bench(f"{error}-{name}-{when}")
        inject = f"inject={name}:error={error}:when={when}"
        options = ("-e", f"trace={WRITING}", "-e", inject)
        status, log = bench.run(lambda b=bench: b.answer(2), *options)
        check_closed(bench, log)
        refused += status != 0
        bench.check()
        shutil.rmtree(bench.folder)
    return refused


def check_closed(bench: Any, log: list[Any]) -> None:
    """After a failed write or sync of a file nothing is released.

    A failed sync of a directory matters as long as it holds a log whose name was not synced yet:
    SQLite syncs it once more, later, and ignores the outcome.
    """
    folder, wal = str(bench.database.parent), f"{bench.database}-wal"
    broken: set[str] = set()
    unnamed = False
    for call in log:
        if call.failed and call.target != folder:
            broken.add(call.target)
        elif call.name == "openat" and call.target == wal:
            unnamed = True
        elif call.name in {"fsync", "fdatasync"} and call.target == folder and not call.failed:
            unnamed = False
        elif call.name == "write" and call.target == str(bench.released):
            assert not broken
            assert not unnamed


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_L9_failing_writes_and_syncs(
    make_bench: Any, writing_calls: Counter[str], error: str
) -> None:
    assert fail_everywhere(make_bench, writing_calls, error, 7) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_L9_every_failing_write_and_sync(
    make_bench: Any, writing_calls: Counter[str], error: str
) -> None:
    assert fail_everywhere(make_bench, writing_calls, error, 1) >= 30


def early_answers(bench: Any, work: Callable[[], None]) -> tuple[int, int]:
    """How many answers left while a write to the log or the head was not yet synced."""
    status, log = bench.run(work, "-e", f"trace={WRITING}")
    assert status == 0
    unsynced: set[str] = set()
    early = answers = 0
    watched = {f"{bench.database}-wal", str(bench.head)}
    for call in log:
        if call.name in {"pwrite64", "pwritev"} and call.target in watched:
            unsynced.add(call.target)
        elif call.name in {"fsync", "fdatasync"}:
            unsynced.discard(call.target)
        elif call.name == "write" and call.target == str(bench.released):
            answers += 1
            early += bool(unsynced)
    return early, answers


def test_L1_no_answer_before_the_log_is_synced(bench: Any) -> None:
    assert early_answers(bench, lambda: bench.answer(20)) == (0, 20)


def test_L1_the_order_test_catches_a_lazy_log(bench: Any) -> None:
    pragmas = tuple(
        ("synchronous", "NORMAL", 1) if name == "synchronous" else (name, value, expected)
        for name, value, expected in sqlite._PRAGMAS
    )

    def lazily() -> None:
        sqlite._PRAGMAS = pragmas  # type: ignore[assignment]
        bench.answer(20)

    early, answers = early_answers(bench, lazily)
    assert (early, answers) == (20, 20)


def test_L1_the_order_test_catches_a_lazy_head(bench: Any) -> None:
    from sfumato.privacy.ledger import commit

    def lazily() -> None:
        commit._sync_data = lambda _: None
        bench.answer(5)

    assert early_answers(bench, lazily) == (5, 5)


def test_L1_the_directory_is_synced_before_the_first_charge(bench: Any) -> None:
    """SQLite creates its log anew at each first opening; its name must be durable too."""
    bench.answer(1)
    status, log = bench.run(lambda: bench.answer(1), "-e", f"trace={WRITING}")
    assert status == 0
    wal, folder = f"{bench.database}-wal", str(bench.database.parent)
    created = next(n for n, call in enumerate(log) if call.target == wal)
    synced = [n for n, call in enumerate(log) if call.name == "fsync" and call.target == folder]
    written = next(
        n for n, call in enumerate(log) if call.name == "pwrite64" and call.target == wal
    )
    assert any(created < number < written for number in synced)
