"""The process of a command: streams, signals, start-up and exit, and errors in terms of flags."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sfumato.errors import (
    CallerError,
    InternalError,
    OutputError,
    ParameterError,
    SchemaError,
    spell,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from sfumato.errors import Option, SfumatoError


INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 and the number of SIGINT."""

_STOP_SIGNALS = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
_received: list[int] = []
"""The stop signal that this process has received, if any."""


def handle_stop_signals() -> None:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, so that the command cleans up.

    A signal that is ignored already, as `nohup` ignores SIGHUP, stays ignored.
    """
    for number in _STOP_SIGNALS:
        # Python handles SIGINT itself, in the same way.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)


def exit_code() -> int:
    """The exit code of an interrupted command: 128 and the number of the signal."""
    return 128 + _received[0] if _received else INTERRUPTED


def _stop(received: int, _frame: FrameType | None) -> None:
    # A second signal must not cut cleaning up short; only SIGKILL and Ctrl-C can.
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _received.append(received)
    raise KeyboardInterrupt


def open_streams() -> None:
    """Replace closed standard streams; refuse to work with a closed standard output.

    A file opened later would get the descriptor of a closed stream, and whatever a library prints
    would end up in it.
    """
    output_is_closed = sys.stdout is None  # Python sets it to None if the descriptor is closed
    # The system gives out the lowest free descriptor, so this fills 0, 1 and 2.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if output_is_closed:
        raise OutputError(
            "output_unwritable",
            "Standard output is closed, so the result would be lost. Leave it open, or send it to "
            "a file.",
        )


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse an argument that is not UTF-8: it cannot name a file of ours."""
    for number, argument in enumerate(arguments, start=1):
        # Python decodes bytes that are not UTF-8 as surrogates, which no encoder accepts later.
        if any("\ud800" <= character <= "\udfff" for character in argument):
            shown = argument.encode("utf-8", "backslashreplace").decode()
            raise ParameterError(
                "parameter_type_wrong",
                f"Argument {number}, '{shown[:80]}', is not UTF-8. Rename the file that it names.",
            )


def skip_pandas() -> None:
    """Keep Arrow from importing pandas, which no command uses.

    Arrow looks for pandas once, when it makes its first array. Where pandas is installed, importing
    it takes longer than most questions.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


class _NoPandas:
    """An import hook under which there is no pandas."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def pause_garbage_collection() -> None:
    """Turn garbage collection off while modules are loaded: it takes long and finds nothing.

    `resume_garbage_collection` turns it on before the work; `end_process` must end the process.
    """
    gc.disable()


def resume_garbage_collection() -> None:
    """Turn garbage collection on if it was paused; it then skips all objects loaded so far."""
    if not gc.isenabled():
        gc.freeze()  # collections then skip what the imports made
        gc.enable()


def end_process(code: int) -> NoReturn:
    """Run exit handlers and end the process, without the interpreter's slow teardown."""
    try:
        atexit._run_exitfuncs()  # noqa: SLF001  as Python does at its own end
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Freeing millions of objects one by one would only delay the caller.
        os._exit(code)


def stdout_works() -> bool:
    """Whether standard output can be flushed; if not, it is replaced by the null device."""
    try:
        sys.stdout.flush()
    except OSError:
        # The reader has gone or the disk is full: Python must not flush again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def as_flag(named: Option) -> str:
    """Spell a parameter as the command does: ``--max-rows 10``."""
    flag = f"--{named.name.replace('_', '-')}"
    if named.metavar:
        return f"{flag} {named.metavar}"
    if named.value is None or named.value is True:
        return flag
    values = named.value if isinstance(named.value, list) else [named.value]
    return f"{flag} {','.join(map(_spell_value, values))}"


def _spell_value(value: Any) -> str:
    return value if isinstance(value, str) else written(value)


def in_flags(error: SfumatoError) -> str:
    """The sentence of an error with its parameters spelled as flags."""
    return spell(error.sentence, as_flag)


@contextmanager
def paid() -> Iterator[None]:
    """Report a caller's error after the charge as an internal one: the answer is not lost."""
    try:
        yield
    except CallerError as error:
        message = (
            f"{error.sentence} The answer is charged and stored. Repeat the command: it is free."
        )
        raise InternalError(error.code, message) from None


@contextmanager
def values_named() -> Iterator[None]:
    """Show values that a hierarchy lacks: the user of a local command may see the table."""
    try:
        yield
    except SchemaError as error:
        if error.detail is None:
            raise
        raise SchemaError(error.code, f"{error.sentence} {error.detail}.") from None
