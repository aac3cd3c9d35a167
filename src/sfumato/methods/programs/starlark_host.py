"""Run a Starlark program on one block. This file runs in the sandbox in place of the program.

The program sees lists of cells and pure functions of numbers. Starlark itself has no clock, no
randomness, no files, no imports, no threads and no way to call the system, and evaluates in one
order. Inside a chamber there is nothing of Sfumato: this file knows the standard library and
`starlark` alone. Decision `programs`.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Never

import starlark

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE, FUNCTION, MAX_STEPS = "", "", 0
"""Set by `language.executable`, which appends a line to this file."""

_NAME = "program.star"
_STEPS_PER_CALL = 1000
"""Starlark asks whether to go on after so many loop turns and calls."""
_DEEPEST_CALL = 200
_MATH = (
    *("acos", "asin", "atan", "atan2", "ceil", "cos", "erf", "exp", "floor", "log", "log10"),
    *("log2", "pow", "sin", "sqrt", "tan", "tanh"),
)
_LINE = re.compile(rf"--> {re.escape(_NAME)}:(\d+):")


def run_block(table: pa.Table) -> list[float]:
    """The numbers that the program gives for the rows of one block."""
    asked = 0

    def is_over() -> bool:
        nonlocal asked
        asked += 1
        return asked * _STEPS_PER_CALL > MAX_STEPS

    options = starlark.EvalOptions(check_cancelled=is_over, max_callstack_size=_DEEPEST_CALL)
    known = starlark.Globals.extended_by([starlark.LibraryExtension.StructType])
    module = starlark.Module()
    _add_functions(module, known)
    try:
        parsed = starlark.parse(_NAME, SOURCE, starlark.Dialect.extended())
        # The steps of the file itself and of its function count together.
        starlark.eval_with(options, module, parsed, known)
        result = module.freeze().call_with(options, FUNCTION, columns_of(table)).value
    except starlark.StarlarkError as error:
        _raise_starlark(str(error), is_over=asked * _STEPS_PER_CALL > MAX_STEPS)
    values: list[Any] = result if isinstance(result, list) else [result]
    for value in values:
        # An infinity comes back as None: the way out of Starlark is JSON, too.
        if isinstance(value, bool) or not isinstance(value, int | float):
            reason = f"a number was expected, and {type(value).__name__} was given"
            _raise_at(_function_line(), TypeError(reason))
    return [float(value) for value in values]


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    """The cells of each column: whole numbers, reals, texts, True, False or None.

    A date is its number of days since 1970-01-01. NaN and infinities are None: the way into
    Starlark is JSON, which has neither, and one such cell must not fail the block.
    """
    columns = {}
    for name, cells in zip(table.column_names, table.columns, strict=True):
        values = (cells.cast("int32") if str(cells.type) == "date32[day]" else cells).to_pylist()
        columns[name] = [
            None if isinstance(value, float) and not math.isfinite(value) else value
            for value in values
        ]
    return columns


def _add_functions(module: starlark.Module, known: starlark.Globals) -> None:
    """What Starlark lacks, as pure functions of numbers: `sum`, `round` and `math`."""
    module.add_callable("sum", _sum)
    module.add_callable("round", round)
    for name in _MATH:
        module.add_callable(f"_{name}", getattr(math, name))
    members = [f"pi = {math.pi!r}", f"e = {math.e!r}", *(f"{name} = _{name}" for name in _MATH)]
    prelude = f"math = struct({', '.join(members)})"
    starlark.eval(module, starlark.parse("math.star", prelude), known)


def _sum(values: list[Any]) -> float:
    """The sum; of reals the exact one, rounded once: Python's own differs between versions."""
    return sum(values) if all(type(value) is int for value in values) else math.fsum(values)


def _raise_starlark(message: str, *, is_over: bool) -> Never:
    """Raise a built-in error at the line of the program that Starlark names."""
    match = _LINE.search(message)
    # The program may write such a line itself, with any number in it.
    line = _function_line() if match is None else min(int(match[1][:9]), SOURCE.count("\n") + 1)
    lines = [line_text for line_text in message.splitlines() if line_text.startswith("error: ")]
    reason = lines[0].removeprefix("error: ") if lines else message.partition("\n")[0]
    kind: type[Exception] = ValueError
    if is_over:
        kind, reason = TimeoutError, f"the program took more than {MAX_STEPS:,} steps"
    elif reason.startswith("Parse error"):
        kind = SyntaxError
    elif reason.startswith(("Variable", "Module has no symbol")):
        kind = NameError
    elif "stack overflow" in reason.lower():
        kind = RecursionError
    _raise_at(line, kind(f"line {line}: {reason}"))


def _function_line() -> int:
    """The line in which the function that is called begins."""
    before, definition, _ = SOURCE.partition(f"def {FUNCTION}(")
    return before.count("\n") + 1 if definition else 1


def _raise_at(line: int, error: Exception) -> Never:
    """Raise an error in a frame of the program's file at a line: a rehearsal looks for it there."""
    source = "\n" * (line - 1) + "raise error"
    exec(compile(source, "program.py", "exec"), {"error": error})  # noqa: S102
    raise AssertionError("unreachable")
