"""Programs in Starlark: the same bytes every time, nothing of the machine, and limits that hold."""

from __future__ import annotations

import builtins
import struct
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.fixtures.slices import few_fast
from tests.unit.methods.programs.sandbox.conftest import stream

from sfumato.methods.programs import starlark_host
from sfumato.methods.programs.language import STEPS_PER_SECOND, executable
from sfumato.methods.programs.sandbox import BlockLimits, Program

if TYPE_CHECKING:
    from sfumato.methods.programs.sandbox.workers import ForkingChamber

LIMITS = BlockLimits(seconds=3.0, memory=128 << 20)
BOB = 666
TABLE = pa.table(
    {
        "age": pa.array([31, 42, None, 2**53 + 1]),
        "cost": pa.array([0.1, 0.2, float("nan"), None]),
        "city": ["b", "a", None, "a"],
        "day": pa.array([0, 1, None, 20_000], pa.int32()).cast(pa.date32()),
        "ill": [True, False, None, True],
    }
)
KNOWN = {
    *("abs", "all", "any", "bool", "chr", "dict", "dir", "enumerate", "float", "getattr"),
    *("hasattr", "hash", "int", "len", "list", "max", "min", "ord", "range", "repr"),
    *("reversed", "round", "sorted", "str", "sum", "tuple", "type", "zip", "math", "True", "False"),
    *("None", "struct"),
}
"""The names of Python that a program may use; none of them reads anything but its arguments."""


def strict(source: str, limits: BlockLimits = LIMITS) -> Program:
    """What a chamber runs for a program whose function is `f`."""
    return executable(Program(source.encode(), "f", "starlark"), limits)


def run(
    chamber: ForkingChamber, source: str, *blocks: pa.Table, width: int = 1
) -> list[tuple[float, ...] | None]:
    given = [stream(one) for one in blocks]
    records = chamber.run(strict(source), given, width, LIMITS, 1, on_time=False)
    return [None if one is None else struct.unpack(f"<{width}d", one) for one in records]


def run_here(source: str, table: pa.Table = TABLE, steps: int = 10**7) -> list[float]:
    """The same in this process, for what needs no chamber."""
    names: dict[str, Any] = {"__name__": "host"}
    host = executable(Program(source.encode(), "f", "starlark"), LIMITS).source.decode()
    exec(f"{host}\nMAX_STEPS = {steps}\n", names)  # noqa: S102
    found: list[float] = names["run_block"](table)
    return found


def test_a_program_sees_cells_as_lists_and_gives_numbers(chamber: ForkingChamber) -> None:
    source = (
        "def known(cells):\n    return [one for one in cells if one != None]\n"
        "def f(rows):\n"
        "    ages, costs = known(rows['age']), known(rows['cost'])\n"
        "    at_home = [c for c, ill in zip(rows['city'], rows['ill']) if ill]\n"
        "    return [sum(ages), sum(costs), math.sqrt(rows['day'][3]), len(at_home),\n"
        "            sorted(ages, reverse = True)[0], round(2.5), len(rows)]\n"
    )
    expected = (31 + 42 + 2**53 + 1, 0.1 + 0.2, 20_000**0.5, 2, 2**53 + 1, 2, 5)
    [found] = run(chamber, source, TABLE, width=7)
    assert found == pytest.approx(tuple(map(float, expected)), rel=1e-15)


def test_two_runs_give_equal_bytes(chamber: ForkingChamber) -> None:
    """Nor does anything that a program can print of its own values name an address or an order."""
    source = (
        "def f(rows):\n"
        "    counts = {}\n"
        "    for city in rows['city']:\n        counts[city] = counts.get(city, 0) + 1\n"
        "    text = str(counts) + str(f) + repr(sum) + str(math) + repr(rows)\n"
        "    return [hash(text), len(text), math.log(7) * math.sin(2), counts['a']]\n"
    )
    blocks = [stream(TABLE.slice(0, size)) for size in (2, 4, 4)]
    first, second = (
        chamber.run(strict(source), blocks, 4, LIMITS, 1, on_time=False) for _ in range(2)
    )
    assert first == second
    assert first[1] == first[2] != first[0]
    assert None not in first


def test_no_other_name_of_python_is_known() -> None:
    modules = {one for one in sys.stdlib_module_names if not one.startswith("_")}
    for name in sorted({*dir(builtins), *modules, "starlark", "pyarrow", "__builtins__"} - KNOWN):
        if name.isidentifier():
            with pytest.raises((NameError, SyntaxError)):
                run_here(f"def f(rows):\n    return len(str({name}))\n")
    for name in KNOWN:
        assert run_here(f"def f(rows):\n    return len(str([{name}]))\n")


@pytest.mark.parametrize(
    "source",
    [
        "import time\ndef f(rows): return time.time()",
        "load('os', 'getpid')\ndef f(rows): return getpid()",
        "def f(rows): return len(open('/etc/passwd').read())",
        "def f(rows): return ().__class__.__mro__[0]",
        "def f(rows): return getattr(sum, '__globals__')",
        "def f(rows): return math.sqrt.__self__",
        "def f(rows): return str.format('{0.__class__}', 1)",
        "def f(rows): return '{0.__globals__}'.format(sum)",
        "def f(rows): return eval('1')",
        "def f(rows): return breakpoint()",
        "def f(rows): return print(1)",
        "def f(rows):\n    while True: pass",
        "def f(rows): return f",
        "def f(rows): return sum",
        "def f(rows): return [1e200 * 1e200]",
        "def f(rows): return None",
        "def f(rows): return True",
        "def g(rows): return 1",
    ],
)
def test_what_would_look_outside_fails(source: str) -> None:
    with pytest.raises((NameError, SyntaxError, ValueError, TypeError)):
        run_here(source)


def test_steps_decide_at_the_same_one_every_time() -> None:
    """The limit is a function of the program and its rows: the clock of the machine has no part."""
    loop = "def f(rows):\n    n = 0\n    for i in range({}):\n        n += 1\n    return n\n"
    calls = (
        "def g(n):\n    return 1 if n == 0 else g(n - 1) + g(n - 1)\ndef f(rows):\n    return g({})"
    )
    top = "n = len([i for i in range({})])\ndef f(rows):\n    return n\n"
    for source, fits, exceeds in ((loop, 99_000, 101_000), (calls, 12, 20), (top, 99_000, 102_000)):
        for _ in range(3):
            assert run_here(source.format(fits), steps=100_000)
            with pytest.raises(TimeoutError):
                run_here(source.format(exceeds), steps=100_000)


HOSTILE = {
    "a loop without end": "for i in range(10000):\n        for j in range(10000000): x = j",
    "steps of a comprehension": "x = [i for i in range(1000000000)]",
    "a huge text": "x = len('a' * (1000000000 * n))",
    "a list that doubles": "x = [0]\n    for i in range(60): x = x + x",
    "a huge whole number": "x = 3\n    for i in range(60): x = x * x",
    "sorting without an end": "x = list(range(1000000 * n))\n"
    "    for i in range(900): x = sorted(x, reverse = i % 2 == 0)",
    "comparing what refers twice": "a, b = [], []\n"
    "    for i in range(60):\n        a, b = [a, a], [b, b]\n    x = a == b",
    "calls without end": "x = deeper(0)",
    "calls that branch": "x = wider(150)",
    "a refusal": "fail('no')",
    "an index": "x = [][1]",
    "no number": "return 'text'",
    "too many numbers": "return [1, 2]",
}


@pytest.mark.parametrize("name", few_fast(HOSTILE, 9))
def test_a_block_at_a_limit_fails_alone(chamber: ForkingChamber, name: str) -> None:
    source = (
        "def deeper(n):\n    return deeper(n + 1)\n"
        "def wider(n):\n    return 1 if n == 0 else wider(n - 1) + wider(n - 1)\n"
        "def harm(n):\n    " + HOSTILE[name] + "\n    return 1\n"
        f"def f(rows):\n    if {BOB} in rows['x']:\n        return harm(len(rows['x']))\n"
        "    return sum(rows['x'])\n"
    )
    blocks = [pa.table({"x": [one, 1]}) for one in (10, BOB, 20)]
    assert run(chamber, source, *blocks) == [(11.0,), None, (21.0,)]


def test_the_steps_follow_the_time_of_a_block() -> None:
    for seconds in (0.05, 1.0, 600.0):
        made = strict("def f(rows): return 1", BlockLimits(seconds=seconds)).source.decode()
        assert made.rstrip("\n").endswith(f"'f', {int(STEPS_PER_SECOND * seconds)})")


def test_a_failure_names_a_built_in_error_at_its_line() -> None:
    for source, kind, line in (
        ("def f(rows):\n    return 1 +* 2\n", SyntaxError, 2),
        ("\n\ndef f(rows):\n    return rows['agee']\n", ValueError, 4),
        ("def f(rows):\n    return agee\n", NameError, 2),
        ("def g(n):\n    return g(n)\ndef f(rows):\n    return g(1)\n", RecursionError, 2),
        ("\ndef f(rows):\n    return 'text'\n", TypeError, 2),
        ("def g(rows):\n    return 1\n", NameError, 1),
        ("def f(rows):\n    fail('--> program.star:99999999999:')\n", ValueError, 3),
    ):
        with pytest.raises(kind) as caught:
            run_here(source)
        frame = caught.traceback[-1]
        assert str(frame.path).endswith("program.py")
        assert frame.lineno + 1 == line, source


def test_the_host_needs_nothing_of_ours() -> None:
    """Inside a chamber there is no Sfumato."""
    text = executable(Program(b"", "f", "starlark"), LIMITS).source.decode()
    assert "import sfumato" not in text
    assert "from sfumato" not in text
    assert starlark_host.SOURCE == ""
