"""What keeps memory from being swapped out, decided from facts of made-up machines."""

from __future__ import annotations

import resource
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.methods.programs.sandbox.conftest import provided

from sfumato.errors import PolicyError
from sfumato.methods.programs.sandbox import BlockLimits, Program, cgroups

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = "Filename\tType\tSize\tUsed\tPriority\n"
PARTITION = "/dev/sda2 partition 2097148 0 -2\n"


class Machine:
    """The files by which a kernel tells of swap and control groups."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.groups = folder, folder / "control groups"
        self.home = self.groups / "system" / "vault"
        self.home.mkdir(parents=True)
        self.swaps(HEAD + PARTITION)
        shown = str(self.groups).replace(" ", "\\040")  # as the kernel writes a space
        (folder / "mounts").write_text(f"tmp /tmp tmpfs rw 0 0\ncgroup2 {shown} cgroup2 rw\n")
        (folder / "cgroup").write_text("0::/system/vault\n")

    def swaps(self, text: str) -> None:
        (self.folder / "swaps").write_text(text)

    def delegate(self, group: Path, controllers: str = "cpu memory") -> None:
        (group / "cgroup.subtree_control").write_text(controllers)
        (group / "cgroup.procs").write_text("")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that swaps, with groups of version 2, none of which is ours to use."""
    made = Machine(tmp_path)
    monkeypatch.setattr(cgroups, "_SWAPS", tmp_path / "swaps")
    monkeypatch.setattr(cgroups, "_MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(cgroups, "_OWN", tmp_path / "cgroup")
    # The kernel removes a group with the files it shows in it; a folder must be emptied first.
    real = Path.rmdir

    def remove(path: Path) -> None:
        for file in path.iterdir():
            file.unlink()
        real(path)

    monkeypatch.setattr(Path, "rmdir", remove)
    return made


def no_swap(machine: Machine) -> None:
    machine.swaps(HEAD)


def own_group_without_swap(machine: Machine) -> None:
    (machine.home / "memory.swap.max").write_text("0\n")


def group_above_without_swap(machine: Machine) -> None:
    (machine.groups / "system" / "memory.swap.max").write_text("0\n")


def delegated(machine: Machine) -> None:
    machine.delegate(machine.home)


def delegated_above(machine: Machine) -> None:
    machine.delegate(machine.groups)


def some_swap_is_allowed(machine: Machine) -> None:
    (machine.home / "memory.swap.max").write_text("max\n")
    (machine.groups / "system" / "memory.swap.max").write_text("4096\n")


def without_memory_control(machine: Machine) -> None:
    machine.delegate(machine.home, "cpu pids")


def version_1(machine: Machine) -> None:
    delegated(machine)
    own_group_without_swap(machine)
    (machine.folder / "mounts").write_text(f"cgroup {machine.groups} cgroup rw,memory 0 0\n")


def unknown_swap(machine: Machine) -> None:
    (machine.folder / "swaps").unlink()


def outside_of_what_is_mounted(machine: Machine) -> None:
    """Groups above the mount are not ours to read: `..` does not lead to them."""
    own_group_without_swap(machine)
    (machine.folder / "memory.swap.max").write_text("0\n")
    (machine.folder / "cgroup").write_text("0::/elsewhere\n")


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (no_swap, "no swap"),
        (own_group_without_swap, "no swap"),
        (group_above_without_swap, "no swap"),
        (delegated, "groups"),
        (delegated_above, "groups"),
        (lambda _: None, "locks"),
        (some_swap_is_allowed, "locks"),
        (without_memory_control, "locks"),
        (version_1, "locks"),
        (unknown_swap, "locks"),
        (outside_of_what_is_mounted, "locks"),
    ],
)
def test_what_keeps_memory_from_being_swapped(
    machine: Machine, fact: Callable[[Machine], None], expected: str
) -> None:
    fact(machine)
    assert cgroups.keeping() == expected


def test_each_process_gets_a_group_of_its_own_without_swap(machine: Machine) -> None:
    delegated(machine)
    first, second = cgroups.join(101), cgroups.join(102)
    assert first is not None
    assert second is not None
    assert first != second
    for group, process in ((first, "101"), (second, "102")):
        assert group.parent == machine.home
        assert (group / "memory.swap.max").read_text() == "0"
        assert (group / "cgroup.procs").read_text() == process
        cgroups.leave(group)
        assert not group.exists()


def test_a_group_that_cannot_be_limited_is_none(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel without control of swap has no such file; what was made is removed again."""
    delegated(machine)
    real = Path.write_text

    def write(path: Path, text: str) -> int:
        if path.name == "memory.swap.max":
            raise PermissionError
        return real(path, text)

    monkeypatch.setattr(Path, "write_text", write)
    assert cgroups.join(101) is None
    assert cgroups.keeping() == "locks"
    assert [one.name for one in machine.home.iterdir() if one.is_dir()] == []


def test_no_group_where_one_is_needed_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine offered groups a moment ago and does not give one: no rows are handed out."""
    chamber = provided("landlock")
    monkeypatch.setattr(cgroups, "keeping", lambda: "groups")
    monkeypatch.setattr(cgroups, "join", lambda _: None)
    program = Program(b"def f(table):\n    return 1\n", "f")
    with pytest.raises(PolicyError) as caught:
        chamber.run(program, [b""], 1, BlockLimits(seconds=0.2), 1, on_time=False)
    assert caught.value.code == "sandbox_unavailable"


def may_lock_memory() -> bool:
    """Whether this process may raise the limit of locked memory: not in most containers."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit[0], resource.RLIM_INFINITY))
    except (OSError, ValueError):
        return False
    return True


ONE = Program(b"def f(table):\n    return 1\n", "f")


def test_memory_is_locked_where_nothing_else_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    if not may_lock_memory():
        pytest.skip("this process may not raise the limit of locked memory")
    monkeypatch.setattr(cgroups, "keeping", lambda: "locks")
    records = provided("landlock").run(ONE, [b""], 1, BlockLimits(), 1, on_time=False)
    assert records == [struct.pack("<d", 1)]


def test_no_program_runs_where_memory_can_only_be_locked_and_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chamber = provided("landlock")
    monkeypatch.setattr(cgroups, "keeping", lambda: "locks")
    monkeypatch.setattr(resource, "prlimit", lambda *_: None)
    # As small as old kernels have it, far below what Python and its libraries take.
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 16, limit[1]))
    try:
        with pytest.raises(PolicyError) as caught:
            chamber.run(ONE, [b""], 1, BlockLimits(), 1, on_time=False)
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, limit)
    assert "memory must be locked" in (caught.value.detail or "")
