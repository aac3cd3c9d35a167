"""The filters, run step by step as the kernel would, for both machines."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from sfumato.methods.programs.sandbox import seccomp
from sfumato.methods.programs.sandbox.seccomp import MACHINES, first_filter, last_filter

ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, REFUSED, NOT_THERE, KILL = 0x7FFF0000, 0x50001, 0x50026, 0x80000000
ZERO = 0x50000
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
GENERIC = {"newfstatat": "fstatat"}


def verdict(code: bytes, number: int, *arguments: int, architecture: int) -> int:
    """What the kernel would do with one call."""
    steps = list(struct.iter_unpack("=HBBI", code))
    words = struct.pack("<iIQ", number, architecture, 0)
    words += struct.pack("<6Q", *arguments, *([0] * (6 - len(arguments))))
    loaded, place = 0, 0
    while True:
        kind, if_so, if_not, value = steps[place]
        place += 1
        if kind == 0x20:
            (loaded,) = struct.unpack_from("<I", words, value)
        elif kind == 0x06:
            return int(value)
        else:
            met = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[kind]
            place += if_so if met else if_not


HARM = 0xFFFFFFFF
"""A first argument that is another process, or its clock."""


@pytest.mark.parametrize("machine", MACHINES)
def test_a_program_may_compute_and_nothing_else(machine: str) -> None:
    """Every number there is, asked with arguments that mean harm."""
    code, column = last_filter(machine), MACHINES.index(machine)
    taken = {
        number
        for number in range(1024)
        if verdict(code, number, HARM, 0xFFFF, 0xFFFF, architecture=ARCHITECTURE[machine]) == ALLOW
    }
    for numbers in seccomp._ANSWERED_ZERO.values():
        assert verdict(code, numbers[column], architecture=ARCHITECTURE[machine]) == ZERO
    plain = seccomp._COMPUTING.keys() - seccomp._ONLY_SO.keys()
    assert taken == {seccomp._COMPUTING[name][column] for name in plain} - {-1}
    never = {numbers[column] for numbers in (seccomp._NEVER | seccomp._EXECUTE).values()}
    assert not taken & never
    assert not taken & {seccomp._CLONE[column], seccomp._CLONE3[column]}


def test_arguments_decide_where_they_must() -> None:
    code, here = last_filter("x86_64"), ARCHITECTURE["x86_64"]

    def taken(*call: int) -> bool:
        return verdict(code, *call, architecture=here) == ALLOW

    assert taken(9, 0, 4096, 3, 0x22)
    assert not taken(9, 0, 4096, 7, 0x22)
    for flags in (0x02, 0x21, 0x01, 0x40022, 0x8022, 0x2022, 0x32):  # files, shared, huge, filled
        assert not taken(9, 0, 4096, 3, flags)
    assert not taken(10, 0, 4096, 4)
    assert taken(228, 1, 4096)
    for clock in (2, 3, 8, 9, (~1 << 3 | 2) & 0xFFFFFFFF):  # of processors, and of others
        assert not taken(228, clock, 4096)
    for operation in range(16):
        assert not taken(202, 4096, operation)
        assert not taken(202, 4096, operation | 256)
    assert taken(202, 4096, 128)
    assert taken(202, 4096, 129)
    assert not taken(202, 4096, 128 | 5)
    assert [fd for fd in range(16) if taken(1, fd, 4096, 1)] == [1, 2, 4, 5]


FELT_BY_OTHERS = {
    "madvise": (28, 233),
    "mremap": (25, 216),
    "mincore": (27, 232),
    "cachestat": (451, 451),
    "preadv2": (327, 286),
    "fadvise64": (221, 223),
    "readahead": (187, 213),
    "fstat": (5, 80),
    "getrusage": (98, 165),
    "times": (100, 153),
    "sysinfo": (99, 179),
    "fstatfs": (138, 44),
    "statfs": (137, 43),
    "flock": (73, 32),
    "fcntl": (72, 25),
    "inotify_init1": (294, 26),
    "setitimer": (38, 103),
    "timer_create": (222, 107),
    "timerfd_create": (283, 85),
    "alarm": (37, -1),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "getcpu": (309, 168),
    "membarrier": (324, 283),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "prlimit64": (302, 261),
    "ioctl": (16, 29),
    "poll": (7, -1),
    "ppoll": (271, 73),
    "read": (0, 63),
    "lseek": (8, 62),
    "pread64": (17, 67),
    "mlock": (149, 228),
    "msync": (26, 227),
    "futex_waitv": (449, 449),
    "futex_wake": (454, 454),
    "remap_file_pages": (216, 234),
    "getpriority": (141, 141),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_no_call_is_left_that_another_block_could_feel(machine: str) -> None:
    code, column = last_filter(machine), MACHINES.index(machine)
    for name, numbers in FELT_BY_OTHERS.items():
        if numbers[column] >= 0:
            found = verdict(code, numbers[column], architecture=ARCHITECTURE[machine])
            assert found == REFUSED, name


@pytest.mark.parametrize("machine", MACHINES)
def test_the_first_filter_refuses_what_kernels_are_broken_by(machine: str) -> None:
    column, here = MACHINES.index(machine), ARCHITECTURE[machine]
    open_, shut = (first_filter(machine, programs=wanted) for wanted in (True, False))
    for numbers in seccomp._NEVER.values():
        if numbers[column] >= 0:
            assert verdict(open_, numbers[column], architecture=here) == REFUSED
    execute, clone = seccomp._EXECUTE["execve"][column], seccomp._CLONE[column]
    assert verdict(open_, execute, architecture=here) == ALLOW
    assert verdict(shut, execute, architecture=here) == REFUSED
    assert verdict(shut, clone, 17, architecture=here) == ALLOW
    assert verdict(shut, clone, 0x10000000 | 17, architecture=here) == REFUSED
    assert verdict(shut, seccomp._CLONE3[column], architecture=here) == NOT_THERE


@pytest.mark.parametrize("machine", MACHINES)
def test_another_machine_s_calls_end_the_process(machine: str) -> None:
    for code in (last_filter(machine), first_filter(machine, programs=True)):
        assert verdict(code, 0, architecture=0x40000003) == KILL
        assert verdict(code, 0x40000000, architecture=ARCHITECTURE[machine]) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_the_kernel_s(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    text = HEADERS[machine].read_text()
    known = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)
    }
    column = MACHINES.index(machine)
    ours = seccomp._COMPUTING | seccomp._NEVER | seccomp._EXECUTE | seccomp._ANSWERED_ZERO
    ours |= {"ioctl": seccomp._IOCTL}
    wrong = {
        name: numbers[column]
        for name, numbers in (ours | {"clone": seccomp._CLONE, "clone3": seccomp._CLONE3}).items()
        if numbers[column] != known.get(name, -1)
    }
    assert wrong == {}
