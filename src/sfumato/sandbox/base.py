"""What runs other people's programs: the program, its limits, and the chamber it is shut into.

Decision 0383.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORD_ITEM = 8
"""Bytes of one number of a block's record: a little-endian float64."""

START_SECONDS = 60.0
"""The longest that workers may take to be ready. They have no rows, so nothing is told by it."""

SPARE_SECONDS = 1.0
"""What a job may take beside its blocks, once its workers are ready."""

OVERHEAD_SECONDS = 0.25
"""What a block may take beside its own time: its process is made, ended and swept away."""


@dataclass(frozen=True)
class BlockLimits:
    """What one block may use. Who goes beyond has failed, and nobody is told how."""

    seconds: float = 10.0
    """From the moment the block is handed out, by the clock on the wall."""
    memory: int = 512 << 20
    """Bytes of address space beside those that Python and its libraries take before the block."""
    said: int = 16 << 10
    """Bytes kept of what a program says when it is rehearsed on rows about nobody."""


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
    """What was found when the escapes were tried from inside: only none at all is a pass."""

    passed: bool
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rehearsal:
    """One run on rows about nobody, so that the program's own words may be shown."""

    record: bytes | None
    said: str
    """What it printed, and why it failed if it did."""


class Chamber(Protocol):
    """A place out of which nothing comes but one record for each block.

    Each block has a fresh process, that shares nothing with any other and sees nothing but the
    runtime and its own rows.
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
        """Run it as a block would, on made-up rows alone, and tell what it said."""
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
