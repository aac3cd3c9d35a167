"""Working attacks by which one block of a job tells another something through the kernel.

A program is one text for all blocks: a block whose number is `SEND` or `QUIET` may send, one whose
number is `LISTEN` reports what it received. `received` is what the listeners of a job reported.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.methods.programs.sandbox import BlockLimits, Program
from sfumato.methods.programs.sandbox.bubblewrap import Bubblewrap
from sfumato.methods.programs.sandbox.landlock import Landlock

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.programs.sandbox.workers import ForkingChamber

ALLOW_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)

QUIET, SEND, LISTEN = 1.0, 7.0, 2.0
LIMITS = BlockLimits(seconds=4.0, memory=256 << 20)

_HEAD = """
import ctypes, os, resource, time
import _decimal, _codecs_jp
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def code_of(function):
    # PyCFunctionObject: reference count, type, then its PyMethodDef, whose second word is the code.
    method = ctypes.c_void_p.from_address(id(function) + 16).value
    return ctypes.c_void_p.from_address(method + 8).value

def f(table):
    number = table["x"][0].as_py()
    if number == 2.0:
        return listen()
    if number == 7.0:
        send()
    return 0.0
"""

PAGE_CACHE = (
    _HEAD
    + """
# Conversion tables of Japanese lie here: nobody else maps them, so they can be paged out.
start, pages = code_of(_codecs_jp.getcodec) // 4096 * 4096 + (1 << 16), 40

def touch():
    return sum(ctypes.c_ubyte.from_address(start + 4096 * page).value for page in range(pages))

def send():
    touch()
    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(4096 * pages), 21)

def listen():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    touch()
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_majflt > before)
"""
)

FUTEX = (
    _HEAD
    + """
import struct
# A page of a library that no block writes: the same page of the same file in every process.
word = code_of(_decimal.setcontext) // 4096 * 4096
value = ctypes.c_uint.from_address(word).value

def send():
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        libc.syscall(202, ctypes.c_void_p(word), 1, 1, None, None, 0)

def listen():
    wait = struct.pack("=qq", 1, 500_000_000)
    return float(libc.syscall(202, ctypes.c_void_p(word), 0, value, wait, None, 0) == 0)
"""
)


def block(number: float) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"x": [number]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def received(
    chamber: ForkingChamber, source: str, numbers: list[float], workers: int
) -> list[float | None]:
    """What the listeners of one job report; None where the attack itself was refused."""
    records = chamber.run(
        Program(source.encode(), "f"),
        [block(number) for number in numbers],
        1,
        LIMITS,
        workers,
        on_time=False,
    )
    return [
        None if record is None else struct.unpack("<d", record)[0]
        for number, record in zip(numbers, records, strict=True)
        if number == LISTEN
    ]


def carried(chamber: ForkingChamber) -> dict[str, bool]:
    """By attack, whether a listener learnt that there was a sender."""
    attacks: dict[str, tuple[str, Callable[[float], list[float]], int]] = {
        "page cache": (PAGE_CACHE, lambda sender: [QUIET, LISTEN, sender, LISTEN], 1),
        "futex": (FUTEX, lambda sender: [LISTEN, sender], 2),
    }
    found = {}
    for name, (source, numbers, workers) in attacks.items():
        with_sender = received(chamber, source, numbers(SEND), workers)
        # Where the attack itself is refused there is no need to see what it says without a sender.
        refused = with_sender[-1] is None
        without = with_sender if refused else received(chamber, source, numbers(QUIET), workers)
        found[name] = with_sender[-1] != without[-1]
    return found


def twin(base: type[ForkingChamber], *, filtered: bool, fresh: bool) -> ForkingChamber:
    """A sandbox with one mend or both switched off: the program's filter, memory of its own."""

    class Twin(base):  # type: ignore[misc, valid-type]
        fresh_memory = fresh

        def _own_setup(self) -> dict[str, Any]:
            wishes: dict[str, Any] = super()._own_setup()
            return wishes | ({} if filtered else {"last_filter": ALLOW_ALL.hex()})

    return Twin()


def report() -> str:
    """For each sandbox, as it is and with both mends off: which attacks carry a bit."""
    found = {
        base.name: {
            "as it is": carried(twin(base, filtered=True, fresh=True)),
            "both off": carried(twin(base, filtered=False, fresh=False)),
        }
        for base in (Bubblewrap, Landlock)
    }
    return json.dumps(found)
