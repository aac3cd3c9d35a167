"""Programs that mean harm: each fails alone, and all other blocks are as if it were not there.

In each of them Bob's block is the second of three; what it does there must show nowhere else.
"""

from __future__ import annotations

import json
import struct
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.methods.programs.sandbox.conftest import LIMITS, as_plain_user, stream

from sfumato.methods.programs.sandbox import PROVIDERS, BlockLimits, Program, longest_seconds

if TYPE_CHECKING:
    from tests.unit.methods.programs.sandbox.conftest import Runs

    from sfumato.methods.programs.sandbox.workers import ForkingChamber

BOB = 7.0
_HEAD = """
import ctypes, mmap, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def f(table):
    x = table["x"][0].as_py()
    if x == 7.0:
        harm()
    return x
"""
HOSTILE = {
    "loops": "while True: pass",
    "sleeps": "time.sleep(1000)",
    "fork bomb": "while True: os.fork()",
    "ten gigabytes": "return_ = bytearray(10 * 2**30)",
    "leaves a file": "open('/tmp/bob', 'w').write('here')",
    "calls out": "socket.create_connection(('127.0.0.1', 1))",
    "looks into the parent": "assert libc.ptrace(16, os.getppid(), 0, 0) == 0",
    "huge output": "os.write(4, b'x' * (1 << 20)); time.sleep(1000)",
    "exit code": "os._exit(7)",
    "crashes": "ctypes.string_at(0)",
    "reads its memory": "open('/proc/self/mem', 'rb').read(1)",
    "kills all": "os.kill(-1, signal.SIGKILL)",
    "prints a gigabyte": "[print('Bob' * 1000) for _ in range(10**9)]",
    "eats the stack": "sys.setrecursionlimit(10**9); repr(eval('[' * 90 + ']' * 90)); harm()",
    "closes everything": "os.closerange(0, 64); raise SystemExit",
}
LASTING = ("loops", "sleeps", "huge output", "prints a gigabyte", "eats the stack")
"""They end with their time or their stack, which no provider but all that fork workers see to."""


@pytest.mark.parametrize(
    ("chamber", "harm"),
    [
        pytest.param(
            provider,
            harm,
            id=f"{provider}-{name}",
            marks=pytest.mark.slow if provider == "bubblewrap" and name in LASTING else [],
        )
        for provider in PROVIDERS
        for name, harm in HOSTILE.items()
    ],
    indirect=["chamber"],
)
def test_a_hostile_program_fails_alone(runs: Runs, harm: str) -> None:
    source = f"{_HEAD}def harm():\n    {harm}\n    raise ValueError\n"
    limits = BlockLimits(seconds=1.5, memory=LIMITS.memory)
    assert runs(source, 1.0, BOB, 3.0, limits=limits) == [(1.0,), None, (3.0,)]


@pytest.mark.slow
def test_hostile_programs_fail_alone_for_a_plain_user_too() -> None:
    sources = [
        f"{_HEAD}def harm():\n    {harm}\n    raise ValueError\n" for harm in HOSTILE.values()
    ]
    blocks = [stream(pa.table({"x": [one]})) for one in (1.0, BOB, 3.0)]
    told = as_plain_user(
        "import json\n"
        "from sfumato.methods.programs.sandbox import BlockLimits, Program, chambers\n"
        f"blocks, sources, limits = {blocks!r}, {sources!r}, BlockLimits(seconds=1.5)\n"
        "print(json.dumps([[one is None for one in chamber.run(\n"
        "    Program(source.encode(), 'f'), blocks, 1, limits, 2, on_time=False)]\n"
        "    for chamber in chambers() for source in sources]))"
    )
    assert json.loads(told) == [[False, True, False]] * (2 * len(HOSTILE))


def test_what_is_no_record_is_a_failure(runs: Runs) -> None:
    given = ("'seven'", "None", "[1, 2]", "[]", "b'1'", "table", "{'x': 1}", "10**400", "x")
    source = f"def f(table):\n    x = table['x'][0].as_py()\n    return eval({given!r}[int(x)])\n"
    *wrong, right = runs(source, *range(len(given)))
    assert wrong == [None] * 8
    assert right == (8.0,)


def test_the_state_attack_of_gupt_meets_a_fresh_process(runs: Runs) -> None:
    """A static that is set when Bob is met is never seen by another block."""
    source = """
import builtins, os, sys
seen = []
def f(table):
    x = table["x"][0].as_py()
    before = len(seen) + len(getattr(builtins, "left", "")) + len(os.environ.get("left", ""))
    if x == 7.0:
        seen.append(x); builtins.left = "Bob"; os.environ["left"] = "Bob"; sys.left = "Bob"
    return before
"""
    assert runs(source, 7.0, 7.0, 1.0, 2.0, 3.0, 4.0) == [(0.0,)] * 6


def test_the_budget_attack_of_gupt_finds_nothing_to_ask(runs: Runs) -> None:
    """The package that holds ledger and gatekeeper cannot be loaded inside."""
    source = "def f(table):\n    import sfumato\n    return 1\n"
    assert runs(source, 1.0) == [None]
    assert runs("import sfumato.privacy.ledger\ndef f(table):\n    return 1\n", 1.0) == [None]


def test_the_timing_attack_of_gupt_is_cut_off(chamber: ForkingChamber) -> None:
    """However long Bob's block takes, and whatever becomes of it, a job ends when it would."""
    limits = BlockLimits(seconds=0.3)
    long = longest_seconds(4, 2, limits)
    took = {}
    for name, body in (("quick", "return 1"), ("slow", "while True: pass")):
        program = Program(f"def f(table):\n    {body}\n".encode(), "f")
        begun = time.monotonic()
        found = chamber.run(program, [b""] * 4, 1, limits, 2)
        took[name] = time.monotonic() - begun
        assert (found == [None] * 4) == (name == "slow")
    assert all(long <= one <= long + 5 for one in took.values())


def test_rows_cannot_be_changed(runs: Runs) -> None:
    source = """
import numpy as np
def f(table):
    column = table["x"].combine_chunks().to_numpy()
    return float(column.flags.writeable)
"""
    assert runs(source, 1.0) == [(0.0,)]


def test_records_are_in_the_order_of_blocks(chamber: ForkingChamber) -> None:
    """The first is done last."""
    source = b"import time\ndef f(t):\n    x = t['x'][0].as_py()\n"
    source += b"    time.sleep(0.3 - x / 20)\n    return x\n"
    blocks = [stream(pa.table({"x": [float(one)]})) for one in range(5)]
    found = chamber.run(Program(source, "f"), blocks, 1, LIMITS, 3, on_time=False)
    assert found == [struct.pack("<d", one) for one in range(5)]


def test_wide_records_and_numbers_that_are_none_come_as_they_are(runs: Runs) -> None:
    source = "def f(t):\n    return [float('nan'), float('inf'), *range(19998)]\n"
    (found,) = runs(source, 1.0, width=20_000)
    assert found is not None
    assert found[0] != found[0]
    assert found[1:4] == (float("inf"), 0.0, 1.0)


def test_no_blocks_need_no_worker(chamber: ForkingChamber) -> None:
    assert chamber.run(Program(b"", "f"), [], 1, LIMITS, 2) == []
