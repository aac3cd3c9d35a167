"""Sixteen ways out, from each sandbox, for root and for a plain user: none is open."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from sfumato.sandbox.base import Probe
from sfumato.sandbox.bubblewrap import Bubblewrap
from sfumato.sandbox.landlock import Landlock
from sfumato.sandbox.probe import NAMES, planted, program

from .conftest import as_plain_user, provided

if TYPE_CHECKING:
    from sfumato.sandbox import Chamber

ALLOW_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
STAY_INSIDE = {"write_file", "listen", "fork", "start_program", "start_thread", "take_memory"}


def test_there_are_sixteen_and_all_are_open_where_nothing_is_shut() -> None:
    """The control: run bare, in a process of its own, every one of them succeeds."""
    assert len(NAMES) == 16
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
        "from sfumato.sandbox import chambers\n"
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

    def _wishes(self) -> dict[str, Any]:
        return {**super()._wishes(), "last_filter": ALLOW_ALL.hex()}


class _OuterLandlock(Landlock):
    """As it is, but that the program's own filter lets everything through."""

    def _wishes(self) -> dict[str, Any]:
        return {**super()._wishes(), "last_filter": ALLOW_ALL.hex()}


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

    def _wishes(self) -> dict[str, Any]:
        wide = {"landlock": None, "first_filter": ALLOW_ALL.hex(), "last_filter": ALLOW_ALL.hex()}
        return {**super()._wishes(), **wide}


def test_a_chamber_that_shuts_nothing_does_not_pass() -> None:
    provided("landlock")
    tried = _Open().probe()
    assert not tried.passed
    open_ways = {"read_secret", "connect_network", "connect_local"}
    # A plain user's forks are shut by RLIMIT_NPROC already, which does not bind root.
    assert open_ways | ({"fork"} if os.geteuid() == 0 else set()) <= set(tried.findings)
