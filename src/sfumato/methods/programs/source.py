"""The source of a program: a file, or a Python function that needs nothing outside of itself.

The source is neither parsed nor compiled here: only the sandbox does that.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import textwrap
import unicodedata
from types import CodeType
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, option
from sfumato.methods.programs.language import PYTHON, language_of
from sfumato.methods.programs.sandbox.base import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LONGEST = 64 * 1024
"""Bytes of a program's source."""


def program_of(source: object, function: object, language: str = PYTHON) -> Program:
    """A program by its text, the function that is called, and its language."""
    text = arguments.text(source, "program")
    try:
        written = text.encode()
    except UnicodeEncodeError:
        raise ParameterError(
            "program_invalid", "A program must be UTF-8 text; this one has broken letters."
        ) from None
    check_length(len(written))
    if not text.strip():
        raise ParameterError(
            "program_invalid", "The program has no text. Give a .py or .star file."
        )
    if function is None:
        raise ParameterError(
            "parameter_missing",
            "Name the function of the program that is called with each block of rows: "
            f"{option('function', metavar='F')}.",
            parameter="function",
        )
    name = arguments.text(function, "function")
    if not name.isidentifier():
        raise ParameterError(
            "program_invalid",
            f"{quoted(name)} is no name of a function. Give {option('function', metavar='F')} such "
            "as F in 'def F(rows):'.",
        )
    return Program(written, name, language)


def check_length(size: int) -> None:
    """Refuse a source that is longer than programs are."""
    if size > LONGEST:
        raise ParameterError(
            "program_invalid",
            f"A program may have {LONGEST:,} bytes of source, not {size:,}. Leave out what it does "
            "not need; data does not belong in it.",
        )


_HIDING = {"Cc", "Cf", "Zl", "Zp"}
"""Unicode's categories of letters that control a screen: they hide, move or reorder other text."""

_BLANK = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065)),
    *((0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
)
"""Ranges of Unicode's Default_Ignorable_Code_Point that are letters or marks by their category.

A screen shows nothing for them, and Python takes most of them in names: with a Hangul filler two
names look the same, and a text of variation selectors carries a second program that nobody sees.
"""


def check_visible(source: str) -> None:
    """Refuse a source that a person could read otherwise than Python does ("Trojan Source")."""
    for number, line in enumerate(source.split("\n"), start=1):
        letters = line.removesuffix("\r").replace("\t", "")
        hidden = next(filter(_is_hidden, letters), None)
        if hidden is not None:
            raise ParameterError(
                "program_invalid",
                f"Line {number} of the program has the invisible letter U+{ord(hidden):04X}, which "
                "can hide or reorder what you read. Write it as an escape such as '\\u202e', or "
                "take it out, and approve the program then.",
            )


def _is_hidden(letter: str) -> bool:
    code = ord(letter)
    is_blank = any(first <= code <= last for first, last in _BLANK)
    return is_blank or unicodedata.category(letter) in _HIDING


def text_of(
    program: Callable[..., Any] | str | Path, function: str | None
) -> tuple[str, str | None, str]:
    """The source of a function or a file, the function's name, and the language."""
    if callable(program):
        return _function(program), program.__name__ if function is None else function, PYTHON
    path = arguments.path(program, "program")
    return read_program(path), function, language_of(path)


def read_program(path: Path) -> str:
    """The text of a file."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise IsADirectoryError
        check_length(size)
        # Line ends as they lie in the file: what is approved and what is sent are the same bytes.
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise ParameterError(
            "program_invalid", f"'{path}' is not UTF-8 text. Give a .py or .star file."
        ) from None
    except OSError:
        raise ParameterError(
            "program_invalid", f"Cannot read the program '{path}'. Give the path of a file."
        ) from None


def _function(program: Callable[..., Any]) -> str:
    """The source of a function; refused where it needs what is outside of it."""
    code = getattr(program, "__code__", None)
    if not isinstance(code, CodeType) or program.__name__ == "<lambda>":
        raise _alone(
            "program_invalid",
            "A program must be a Python function written with def, not "
            f"{arguments.shown(program)}.",
        )
    if code.co_freevars:
        raise _alone(
            "program_invalid",
            f"{quoted(program.__name__)} uses {_listed(code.co_freevars)} of the function around "
            "it, which does not go with it.",
        )
    known = getattr(program, "__globals__", {})
    # A name of the module would not exist in the sandbox, and the program would fail after its
    # charge.
    outside = sorted(
        {name for name in _globals(code) if name in known and name != program.__name__}
    )
    if outside:
        raise _alone(
            "program_invalid",
            f"{quoted(program.__name__)} uses {_listed(outside)}, which is defined outside of it "
            "and does not go with it.",
        )
    try:
        return textwrap.dedent(inspect.getsource(program))
    except (OSError, TypeError):
        raise _alone(
            "program_invalid",
            f"The source of {quoted(program.__name__)} is nowhere to be found.",
        ) from None


def _globals(code: CodeType) -> Iterator[str]:
    """The names that a function takes from outside, those of functions within it included."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and not hasattr(
            builtins, instruction.argval
        ):
            yield instruction.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner)


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(quoted, names))


def _alone(code: str, message: str) -> ParameterError:
    return ParameterError(
        code,
        f"{message} Import and define all it needs inside the function, or give a .py file and "
        "function=... instead.",
    )
