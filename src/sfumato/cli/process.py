"""The process of a command: its standard streams, and an orderly end however it comes."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from sfumato.errors import CallerError, InternalError, OutputError, ParameterError, spell, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from sfumato.errors import Option, SfumatoError


class EndedEarly(Exception):  # noqa: N818  # no error: the command has done what was wished
    """Raised when the work is written; its text says what was kept."""


INTERRUPTED = 130
"""The exit code after Ctrl-C."""

_STOPPING = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
_told: list[int] = []


def end_in_order() -> None:
    """Clean up before a request to end (SIGTERM) or a lost terminal (SIGHUP) ends the command.

    A signal that whoever started us wants ignored, as nohup does, stays so.
    """
    for one in _STOPPING:
        if signal.getsignal(one) == signal.SIG_DFL:
            signal.signal(one, _stop)


def exit_code() -> int:
    """The exit code of an interrupted command: 128 and the number of the signal."""
    return 128 + _told[0] if _told else INTERRUPTED


def _stop(number: int, _frame: FrameType | None) -> None:
    # Cleaning up must not be cut short by the next request; only SIGKILL can, and Ctrl-C.
    for one in _STOPPING:
        signal.signal(one, signal.SIG_IGN)
    _told.append(number)
    raise KeyboardInterrupt


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
            "output_unwritable",
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


def spare_pandas() -> None:
    """Have Arrow believe that there is no pandas, which no command uses.

    It asks at its first array, once, and where pandas is installed that costs more time than most
    questions do.
    """
    blind = _Blind()
    sys.meta_path.insert(0, blind)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(blind)


class _Blind:
    """Finds no pandas."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def hold_collector() -> None:
    """Look for no garbage while modules are loaded: there is none, and looking takes long.

    Whoever holds it lets it go before the work, and ends the process by `leave`.
    """
    gc.disable()


def release_collector() -> None:
    """Look for garbage again, where that was held, but never among what was loaded so far."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def leave(code: int) -> NoReturn:
    """Tidy up and end the process; the system frees at once what Python would piece by piece."""
    try:
        atexit._run_exitfuncs()  # noqa: SLF001  as Python does at its own end
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


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


def as_flag(named: Option) -> str:
    """Spell a parameter as the command does: ``--max-rows 10``."""
    flag = f"--{named.name.replace('_', '-')}"
    if named.metavar:
        return f"{flag} {named.metavar}"
    if named.value is None or named.value is True:
        return flag
    values = named.value if isinstance(named.value, list) else [named.value]
    return f"{flag} {','.join(map(_written, values))}"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else written(value)


def in_flags(error: SfumatoError) -> str:
    """The sentence of an error with its parameters spelled as flags."""
    return spell(error.sentence, as_flag)


@contextmanager
def paid() -> Iterator[None]:
    """After the charge nothing is the caller's mistake any more: what is paid for is not lost."""
    try:
        yield
    except CallerError as error:
        message = f"{error.sentence} It is paid for and stored: repeat the command, which is free."
        raise InternalError(error.code, message) from None
