"""Ways out and channels, from each sandbox, for root and for a plain user: none is open."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.methods.programs.sandbox.conftest import as_plain_user, provided

from sfumato.methods.programs.sandbox import seccomp
from sfumato.methods.programs.sandbox.base import Probe
from sfumato.methods.programs.sandbox.bubblewrap import Bubblewrap
from sfumato.methods.programs.sandbox.landlock import Landlock
from sfumato.methods.programs.sandbox.probe import NAMES, planted, program

if TYPE_CHECKING:
    from sfumato.methods.programs.sandbox import Chamber

ALLOW_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
CHANNELS = {
    "page_out": {"madvise": (28, 233)},
    "see_page_cache": {"mincore": (27, 232)},
    "count_faults": {"getrusage": (98, 165)},
    "share_futex": {"futex": (202, 98)},
    "remap_files": {"mremap": (25, 216)},
    "lock_file": {"flock": (73, 32)},
    "read_file_state": {"fstat": (5, 80)},
    "look_at_load": {"sysinfo": (99, 179)},
    "set_timer": {"setitimer": (38, 103)},
    "count_processes": {"getpid": (39, 172)},
}
"""Between blocks, and by which call each is open again."""
OTHER_CALLS = {
    "see_page_cache": {"cachestat": (451, 451), "preadv2": (327, 286), "fadvise64": (221, 223)},
    "count_faults": {"times": (100, 153), "clock_gettime": (228, 113)},
    "lock_file": {"fcntl": (72, 25), "inotify_init1": (294, 26)},
    "read_file_state": {"lseek": (8, 62), "fstatfs": (138, 44), "ioctl": (16, 29)},
    "look_at_load": {
        "sched_getaffinity": (204, 123),
        "getcpu": (309, 168),
        "sched_yield": (24, 124),
        "membarrier": (324, 283),
        "prlimit64": (302, 261),
    },
    "remap_files": {"mmap": (9, 222)},
    "set_timer": {"timer_create": (222, 107), "timerfd_create": (283, 85)},
}
STAY_INSIDE = {
    *("write_file", "listen", "fork", "start_program", "start_thread", "take_memory"),
    *CHANNELS,
}


def test_all_are_open_where_nothing_is_shut() -> None:
    """The control: run bare, in a process of its own, every one of them succeeds."""
    assert len(NAMES) == 26
    assert CHANNELS.keys() <= set(NAMES)
    forgotten = fcntl.fcntl(0, fcntl.F_DUPFD, 10)
    with planted() as facts:
        code = f"{program(facts).source.decode()}\nprint(attempt(None))"
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, pass_fds=[forgotten]
        )
    os.close(forgotten)
    ran, *tried = json.loads(done.stdout)
    shut = {name for name, open_ in zip(NAMES, tried, strict=True) if not open_}
    # Namespaces, and looking into others, may be forbidden to all on this machine.
    assert ran == 1
    assert shut <= {"look_into_process", "win_rights"}


def test_none_is_open_from_inside(chamber: Chamber) -> None:
    assert chamber.probe() == Probe(passed=True)


def test_none_is_open_for_a_plain_user() -> None:
    told = as_plain_user(
        "import json, os\n"
        "from sfumato.methods.programs.sandbox import chambers\n"
        "print(json.dumps([os.geteuid(), {one.name: one.probe().findings for one in chambers()}]))"
    )
    user, findings = json.loads(told)
    assert user == 12345
    assert findings.keys() == {"bubblewrap", "landlock"}
    for name, found in findings.items():
        if not any("bwrap" in one or "Landlock" in one for one in found):
            assert (name, found) == (name, [])


class _OuterBubblewrap(Bubblewrap):
    """As it is, but that the program's own filter lets everything through."""

    def _own_setup(self) -> dict[str, Any]:
        return {**super()._own_setup(), "last_filter": ALLOW_ALL.hex()}


class _OuterLandlock(Landlock):
    """As it is, but that the program's own filter lets everything through."""

    def _own_setup(self) -> dict[str, Any]:
        return {**super()._own_setup(), "last_filter": ALLOW_ALL.hex()}


def test_the_outer_wall_of_bubblewrap_holds_by_itself() -> None:
    """Without the program's filter: what is open then stays within the chamber."""
    provided("bubblewrap")
    found = set(_OuterBubblewrap().probe().findings)
    assert found <= STAY_INSIDE | {"read_system", "send_signal", "win_rights"}


def test_the_outer_wall_of_landlock_holds_by_itself() -> None:
    """Without the program's filter no file can be read; its size can be seen, though.

    A signal reaches only the worker, whose domain is the same.
    """
    provided("landlock")
    found = set(_OuterLandlock().probe().findings)
    assert found <= STAY_INSIDE - {"write_file"} | {"measure_secret", "send_signal", "win_rights"}


class _Open(Landlock):
    """A planted wrong twin: it shuts nothing."""

    def _own_setup(self) -> dict[str, Any]:
        wide = {"landlock": None, "first_filter": ALLOW_ALL.hex(), "last_filter": ALLOW_ALL.hex()}
        return {**super()._own_setup(), **wide}


def test_a_chamber_that_shuts_nothing_does_not_pass() -> None:
    provided("landlock")
    tried = _Open().probe()
    assert not tried.passed
    open_ways = {"read_secret", "connect_network", "connect_local"}
    # A plain user's forks are shut by RLIMIT_NPROC already, which does not bind root.
    assert open_ways | ({"fork"} if os.geteuid() == 0 else set()) <= set(tried.findings)


def opened(machine: str, calls: dict[str, tuple[int, int]]) -> str:
    """The program's filter, but that it lets some calls through whatever their arguments."""
    column = seccomp.MACHINES.index(machine)
    allowed = [
        struct.pack("=HBBI", 0x15, 0, 1, numbers[column]) + ALLOW_ALL for numbers in calls.values()
    ]
    code = seccomp.last_filter(machine)
    # The number of the call is loaded by the fourth step; the next two refuse another convention.
    return (code[: 6 * 8] + b"".join(allowed) + code[6 * 8 :]).hex()


@pytest.mark.parametrize("base", [Bubblewrap, Landlock])
@pytest.mark.parametrize(
    ("channel", "name", "numbers"),
    [
        pytest.param(channel, name, numbers, id=f"{channel}-{name}")
        for table in (CHANNELS, OTHER_CALLS)
        for channel, calls in table.items()
        for name, numbers in calls.items()
    ],
)
def test_a_channel_that_is_open_again_is_found(
    base: type[Bubblewrap | Landlock], channel: str, name: str, numbers: tuple[int, int]
) -> None:
    """Planted twins: one call is let through, and the probe names the channel it opens."""
    provided(base.name)

    class Leaking(base):  # type: ignore[misc, valid-type]
        def _own_setup(self) -> dict[str, Any]:
            wide = opened(platform.machine(), {name: numbers})
            return {**super()._own_setup(), "last_filter": wide}

    assert channel in Leaking().probe().findings


@pytest.mark.parametrize("base", [Bubblewrap, Landlock])
def test_memory_that_files_are_behind_is_found(base: type[Bubblewrap | Landlock]) -> None:
    """A planted twin whose blocks keep the pages of library files: the kernel counts them."""
    provided(base.name)

    class Sharing(base):  # type: ignore[misc, valid-type]
        def _own_setup(self) -> dict[str, Any]:
            return {**super()._own_setup(), "fresh_memory": False}

    assert "no memory of its own" in Sharing().probe().findings[0]
