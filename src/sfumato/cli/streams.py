"""The standard streams of a command: there before it starts, and given up once they fail."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sfumato.errors import OutputError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence


def open_streams() -> None:
    """Fill the places of closed standard streams; refuse to work for a closed standard output.

    A file opened later would take such a place, and what some library prints would land in it.
    """
    closed = sys.stdout is None
    while (place := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(place)
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    if closed:
        raise OutputError(
            "stdout_closed",
            "Standard output is closed, so the result would be lost. Leave it open, or send it to "
            "a file.",
        )


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse what is not UTF-8: no file of ours could name it."""
    for place, argument in enumerate(arguments, start=1):
        if any("\ud800" <= sign <= "\udfff" for sign in argument):
            shown = argument.encode("utf-8", "backslashreplace").decode()
            raise ParameterError(
                "argument_not_utf8",
                f"Argument {place}, '{shown[:80]}', is not UTF-8. Rename the file it names.",
            )


def stdout_works() -> bool:
    """Whether standard output takes what is left; if not, it is given up for good."""
    try:
        sys.stdout.flush()
    except OSError:
        # The reader has gone or the disk is full: Python must not flush once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")
