"""The languages of programs: Python in a sandbox, and Starlark, which cannot observe the machine.

The sandbox runs Python. A program in Starlark is wrapped into `starlark_host`, a Python file of
Sfumato that contains the program's source. So both languages have the same process for each block,
the same limits and the same record of outputs. Decision `programs`.
"""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from sfumato.errors import ParameterError
from sfumato.methods.programs.sandbox.base import Program

if TYPE_CHECKING:
    from sfumato.methods.programs.sandbox.base import BlockLimits

PYTHON: Final = "python"
STARLARK: Final = "starlark"
STARLARK_ENDING: Final = ".star"

STEPS_PER_SECOND: Final = 1_000_000
"""Loop turns and calls that a strict block may make for each second of its time limit.

Starlark makes 4 to 13 million a second on the machine where this was measured. So an endless loop
reaches this limit, which depends only on the program and its rows, well before the time limit,
which depends on the machine.
"""

_HOST = Path(__file__).with_name("starlark_host.py")


def language_of(path: PurePath) -> str:
    """The language of a file, by its ending."""
    return STARLARK if path.suffix == STARLARK_ENDING else PYTHON


def is_strict(program: Program) -> bool:
    """Whether a program is in a language that cannot observe the machine."""
    return program.language == STARLARK


def executable(program: Program, limits: BlockLimits) -> Program:
    """The Python that a chamber runs for a program."""
    if not is_strict(program):
        return program
    if find_spec("starlark") is None:
        raise ParameterError(
            "package_missing",
            "Programs in Starlark need the package starlark-pyo3 where the vault is. Install it "
            "with: pip install 'sfumato[strict]'.",
        )
    steps = max(int(STEPS_PER_SECOND * limits.seconds), 1)
    # repr() quotes the source, so no program can end the string and become code of the host.
    settings = program.source.decode(), program.function, steps
    # After all else in the file, so that these are the last values of the names; and as many lines
    # more as the program has, since a rehearsal names no line that the file does not have.
    lines = "\n" * (program.source.count(b"\n") + 1)
    source = (
        f"{_HOST.read_text(encoding='utf-8')}\nSOURCE, FUNCTION, MAX_STEPS = {settings!r}{lines}"
    )
    return Program(source.encode(), "run_block")


def program_digest(program: Program, helper: str | None) -> str:
    """SHA-256 over everything that decides which code runs: what an owner approves."""
    facts = {
        "language": program.language,
        "source": program.source.decode(),
        "function": program.function,
        "helper": helper,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, allow_nan=False).encode()).hexdigest()
