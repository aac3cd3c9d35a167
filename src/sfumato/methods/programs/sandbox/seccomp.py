"""The system calls that a sandbox permits: two seccomp filters, as BPF code for the kernel.

The first is loaded before any of our own code runs inside. It refuses what no Python needs and much
that kernels were broken by. The second is loaded after the fork, just before the program: it allows
only what computing needs. It knows no file, no socket, no other process, no thread and no new code,
so that what may be read or reached does not rest on file permissions alone; and no call by which
one block could feel what another did. Clocks are read from the vDSO, a page of the kernel in every
process: no filter sees that. Decision `sandbox`.
"""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_CALLS: Final = 0x40000000
"""The same kernel answers these under other numbers."""


class _Machine(NamedTuple):
    audit: int
    column: int


_MACHINES = {"x86_64": _Machine(0xC000003E, 0), "aarch64": _Machine(0xC00000B7, 1)}
MACHINES: Final = tuple(_MACHINES)
"""Where the filters are written for."""


class _Rule(NamedTuple):
    """When a call is to be taken: if an argument has none of these bits, or is one of these."""

    argument: int
    no_bits: int = 0
    values: tuple[int, ...] = ()


_NO_NEW_CODE = _Rule(2, no_bits=4)
_RECORD_OR_NOWHERE = _Rule(0, values=(1, 2, 4, 5))
"""Files that a block may write: standard output and error (/dev/null), record, report."""
_OWN_MEMORY = _Rule(3, values=(0x22, 0x4022, 0x20022))
"""Flags of mmap: private and anonymous; also without reserve, or as a stack. Files, shared memory
and the machine's pool of huge pages are states that another block could see."""
_WALL_CLOCK = _Rule(0, values=(0, 1, 4, 5, 6, 7))
"""Not the processor time of any process, nor clocks that wake a sleeping machine."""
_OWN_FUTEX = _Rule(1, values=(128, 129, 137, 138, 393))
"""Wait and wake with the private flag. Without it a futex on a page of a library is one for all
processes that map the same file: a block could wake another one."""

# Name: (x86_64, aarch64), from the kernel's own tables; -1 where a machine has no such call.
#
# Each call is here because Python, NumPy or Arrow compute with it, and is safe between blocks:
# memory is the process's own, signals can only come from itself, and getrandom has no state that
# could be seen. Left out on purpose, since another block could feel them: madvise (pages out files
# or drops private copies of them), mremap (brings file pages back), mincore, getrusage, times,
# processor clocks, getcpu, sched_* and membarrier (what runs beside), sysinfo, statfs, fstat,
# fcntl and ioctl (states of shared files), lseek, read, poll (files are mapped before), prlimit.
_COMPUTING: dict[str, tuple[int, int]] = {
    "write": (1, 64), "munmap": (11, 215), "brk": (12, 214), "mmap": (9, 222),
    "mprotect": (10, 226),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, -1),
    "exit": (60, 93), "exit_group": (231, 94), "futex": (202, 98), "getrandom": (318, 278),
}  # fmt: skip
_ONLY_SO: dict[str, tuple[_Rule, ...]] = {
    "write": (_RECORD_OR_NOWHERE,),
    "mmap": (_NO_NEW_CODE, _OWN_MEMORY),
    "mprotect": (_NO_NEW_CODE,),
    "clock_gettime": (_WALL_CLOCK,),
    "clock_getres": (_WALL_CLOCK,),
    "clock_nanosleep": (_WALL_CLOCK,),
    "futex": (_OWN_FUTEX,),
}
# Process numbers count all processes of the machine; libraries ask for them and are told 0.
_ANSWERED_ZERO: dict[str, tuple[int, int]] = {
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173),
}  # fmt: skip

_NEVER: dict[str, tuple[int, int]] = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "mknod": (133, -1), "mknodat": (259, 33), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "iopl": (172, -1),
    "ioperm": (173, -1), "syslog": (103, 116), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "personality": (135, 92),
    "move_pages": (279, 239), "migrate_pages": (256, 238), "vhangup": (153, 58),
}  # fmt: skip
_CLONE, _CLONE3, _IOCTL = (56, 220), (435, 435), (16, 29)
_EXECUTE = {"execve": (59, 221), "execveat": (322, 281)}
_NEW_NAMESPACES = 0x7E020080
_TYPING_FOR_OTHERS = _Rule(1, values=(0x5412, 0x541C))


def first_filter(machine: str, *, programs: bool) -> bytes:
    """The filter from the start; with `programs`, a program may still be started.

    New namespaces are refused, so that no rights are won in them. `clone3` is said not to exist:
    its arguments lie where no filter can look, and the C library then takes `clone`.
    """
    column = _MACHINES[machine].column
    refused = _NEVER if programs else _NEVER | _EXECUTE
    code = [_on_call(numbers[column], _refused()) for numbers in refused.values()]
    code += [
        _on_call(_CLONE3[column], _returned(_REFUSE | errno.ENOSYS)),
        _on_call(_CLONE[column], _checked(_Rule(0, no_bits=_NEW_NAMESPACES))),
        _on_call(_IOCTL[column], _refused_if(_TYPING_FOR_OTHERS)),
    ]
    return _assembled(machine, code, _returned(_ALLOW))


def last_filter(machine: str) -> bytes:
    """The filter of a block's program: the permitted calls; all others fail with EPERM."""
    column = _MACHINES[machine].column
    code = [
        _on_call(
            numbers[column], _checked(*_ONLY_SO[name]) if name in _ONLY_SO else _returned(_ALLOW)
        )
        for name, numbers in _COMPUTING.items()
    ]
    code += [_on_call(numbers[column], _returned(_REFUSE)) for numbers in _ANSWERED_ZERO.values()]
    return _assembled(machine, code, _refused())


def _assembled(machine: str, code: Iterable[bytes], otherwise: bytes) -> bytes:
    """Calls of another machine's convention end the process: their numbers mean other calls."""
    # Checked first, on each call: under another convention the numbers below mean other calls.
    kill = _returned(_KILL)
    head = _step(_LOAD, _ARCHITECTURE_AT) + _step(_EQUAL, _MACHINES[machine].audit, 1, 0) + kill
    head += _step(_LOAD, _NUMBER_AT) + _step(_AT_LEAST, _X32_CALLS, 0, 1) + kill
    return head + b"".join(code) + otherwise


def _on_call(number: int, body: bytes) -> bytes:
    """What happens on one call; the body always returns."""
    return b"" if number < 0 else _step(_EQUAL, number, 0, len(body) // 8) + body


def _checked(*rules: _Rule) -> bytes:
    """Taken if all rules hold, refused if not.

    Bits and values lie in the lower half of an argument, as the kernel reads them.
    """
    return b"".join(map(_required, rules)) + _returned(_ALLOW)


def _required(rule: _Rule) -> bytes:
    """Refused unless the rule holds; then on to what follows."""
    low = _step(_LOAD, _ARGUMENTS_AT + 8 * rule.argument)
    if rule.no_bits:
        return low + _step(_ANY_BIT, rule.no_bits, 0, 1) + _refused()
    return low + _among(rule.values) + _refused()


def _refused_if(rule: _Rule) -> bytes:
    """Refused if an argument is one of these."""
    low = _step(_LOAD, _ARGUMENTS_AT + 8 * rule.argument)
    return low + _among(rule.values) + _returned(_ALLOW) + _refused()


def _among(values: Sequence[int]) -> bytes:
    """Jump over one step if the loaded word is one of these."""
    last = len(values)
    return b"".join(_step(_EQUAL, value, last - index, 0) for index, value in enumerate(values))


def _refused() -> bytes:
    return _returned(_REFUSE | errno.EPERM)


def _returned(action: int) -> bytes:
    return _step(_RETURN, action)


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)
