"""The contract of a sandbox: a program, its limits, and the chamber in which it runs.

Decision `sandbox`.
"""

from __future__ import annotations

import builtins
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORD_ITEM = 8
"""Bytes of one number of a block's record: a little-endian float64."""

START_SECONDS = 60.0
"""The longest that workers may take to be ready. They have no rows, so it reveals nothing."""

SPARE_SECONDS = 1.0
"""What a job may take beside its blocks, once its workers are ready."""

PREPARE_SECONDS = 0.4
"""How long before its rows a block's process is made: all its memory is copied then."""

OVERHEAD_SECONDS = PREPARE_SECONDS + 0.1
"""What a block may take beside its own time: its process is made, ended and swept away."""

ERRORS = tuple(
    sorted(
        name
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException) and value.__name__ == name
    )
)
"""The classes of errors that a rehearsal may name: those of Python itself."""


@dataclass(frozen=True)
class BlockLimits:
    """The limits of one block. A block beyond them has failed, without a reason for the analyst."""

    seconds: float = 10.0
    """From the moment the block is handed out, by the clock on the wall."""
    memory: int = 512 << 20
    """Bytes of address space beside those that Python and its libraries take before the block."""


@dataclass(frozen=True)
class Program:
    """Source, and the function in it that is called with one block's rows.

    The function is given a read-only `pyarrow.Table` and gives a number, or a sequence of them. A
    chamber runs Python; `programs.language.executable` makes Python of a program in Starlark.
    """

    source: bytes
    function: str
    language: str = "python"


@dataclass(frozen=True)
class Probe:
    """The result of the self-test: it passes only if no escape worked."""

    passed: bool
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rehearsal:
    """One run on made-up rows.

    A program can observe the machine by the time that operations take, which other people's rows
    may have influenced. So its own texts are never shown, only a class of errors and a line.
    """

    record: bytes | None
    reason: str = ""
    """Why it failed, in words of ours; nothing where it did not."""
    error: str | None = None
    """The class of the error: one of `ERRORS`, `Exception` for any other; None for none."""
    line: int | None = None
    """In which line of the program, counted from 1, where that is known."""


class Chamber(Protocol):
    """A sandbox that lets out nothing but one record for each block.

    Each block has a fresh process that shares nothing with others and sees only the runtime and its
    own rows.
    """

    @property
    def name(self) -> str:
        """How it is chosen: `bubblewrap` or `landlock`."""
        ...

    def probe(self) -> Probe:
        """Try to escape, from inside, now."""
        ...

    def run(
        self,
        program: Program,
        blocks: Sequence[bytes],
        width: int,
        limits: BlockLimits,
        workers: int,
    ) -> list[bytes | None]:
        """The record of each block, in their order: `width` little-endian float64.

        A block is an Arrow IPC stream. Block i is worker i modulo `workers`'s, so that none waits
        for what another block does. None stands for any failure whatever. What a record holds is
        the program's choice: NaN, infinities and wild values are for the caller to mend. It is
        given `longest_seconds` after the workers were ready, neither sooner nor later.
        """
        ...

    def rehearse(
        self, program: Program, block: bytes, width: int, limits: BlockLimits
    ) -> Rehearsal:
        """Run it as a block would, on made-up rows alone, and say how it failed if it did."""
        ...


def longest_seconds(blocks: int, workers: int, limits: BlockLimits) -> float:
    """How long a run takes once its workers are ready: known before, whatever the rows hold."""
    rounds = math.ceil(blocks / workers)
    return SPARE_SECONDS + rounds * (limits.seconds + OVERHEAD_SECONDS)


def unavailable(detail: str) -> PolicyError:
    """That no program is run here; why is for the operator."""
    return PolicyError(
        "sandbox_unavailable",
        "Programs are not run here: no sandbox on this machine passes its own test. Nothing was "
        "run and nothing was charged. Its operator can see why with 'sfumato sandbox'.",
        detail=detail,
    )


def busy() -> PolicyError:
    """That a rehearsal did not get its turn."""
    return PolicyError(
        "sandbox_busy",
        "Another program is running, and programs run one at a time. Nothing was run and nothing "
        "was charged. Try again when it has ended.",
    )
