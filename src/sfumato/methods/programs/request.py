"""The plan of a program on blocks of people.

The whole charge is made before the first block. Programs cannot reach the ledger or each other, and
cannot influence the time of the answer, which leaves when the longest possible run would have
ended. Decision `programs`.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError, option
from sfumato.methods.method import AnswerSize, Plan
from sfumato.methods.programs.blocks import Cut, to_stream
from sfumato.methods.programs.forecast import ProgramForecast
from sfumato.methods.programs.language import executable, is_strict, program_digest
from sfumato.methods.programs.made_up_rows import made_up
from sfumato.methods.programs.sandbox import chamber
from sfumato.methods.programs.sandbox.base import Program, longest_seconds
from sfumato.privacy.noise.entropy import random_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray
    from sfumato.methods.method import Dataset
    from sfumato.methods.programs.aggregate import Aggregate
    from sfumato.methods.programs.range_helper import InputQuartiles
    from sfumato.methods.programs.sandbox.base import BlockLimits, Chamber
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.release import Guarantee, Release

VALUES = "values"
TICK_SECONDS = 1.0
"""The unit, rounded up, of the time for reading and of a delay: exact times depend on rows."""
_TWIN_ROWS = 200
_OUTPUT_BYTES = 8 * 25
"""The numbers of one output and of its errors, as JSON."""
_REHEARSED = 3
"""Tables of made-up rows in one rehearsal, each with the time of a block."""


class ProgramRules(Protocol):
    """The rules for a principal who sends programs: approvals, and limits on rehearsals."""

    def check_approved(self, digest: str) -> None:
        """Refuse native code that the owner has not approved."""
        ...

    def count_rehearsal(self, seconds: float) -> None:
        """Count a rehearsal that may take so long; refused where there were too many."""
        ...


@dataclass(frozen=True, repr=False)
class ProgramRun(Plan):
    """The plan of a program on blocks of people."""

    dataset: str
    program: Program
    cut: Cut
    aggregate: Aggregate
    price: Price
    limits: BlockLimits
    helper: InputQuartiles | None = None
    sandbox: str | None = None
    """The sandbox that the owner chose; None for the first one that passes its self-test."""
    workers: int = 1
    """How many blocks run at the same time. Two blocks can observe each other by the load of the
    machine, so only the owner may have more than one."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    rules: ProgramRules | None = field(default=None, compare=False)
    """The rules for the asker; None for the owner of the rows."""

    name = "run"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data set it reads."""
        return (self.dataset,)

    @property
    def event(self) -> Event:
        """What it costs, from public facts alone."""
        return self.aggregate.event

    @property
    def answer_size(self) -> AnswerSize:
        """At most how large the answer is: a row for each declared output."""
        outputs = self.aggregate.outputs
        size = sum(_OUTPUT_BYTES + len(output.name.encode()) for output in outputs)
        return AnswerSize(len(outputs), size, work=0)

    @property
    def error(self) -> Mapping[str, Any]:
        """The error of each output by the noise alone."""
        return self.aggregate.error

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form."""
        aggregate = self.aggregate
        return {
            "program": hashlib.sha256(self.program.source).hexdigest(),
            "language": self.program.language,
            "function": self.program.function,
            "columns": [[column.name, str(column.kind)] for column in self.cut.columns],
            "outputs": [output.to_record() for output in aggregate.outputs],
            "helper": None if self.helper is None else self.helper.to_record(),
            "cost": self.price.to_record(),
            "unit": self.cut.unit.sentence(),
            "method": {
                "blocks": aggregate.blocks,
                "repeats": aggregate.repeats,
                "aggregate": aggregate.how,
                "ranges": aggregate.ranges,
                "seconds": self.limits.seconds,
                "memory": self.limits.memory,
            },
        }

    @property
    def seconds(self) -> float:
        """The longest time that the blocks may take; an answer never leaves sooner."""
        return longest_seconds(self.aggregate.blocks, self.workers, self.limits)

    def check_runnable(self, deadline_seconds: float | None) -> None:
        """Refuse what could not be answered before the deadline, or fails a rehearsal."""
        if deadline_seconds is not None and self.seconds > deadline_seconds:
            raise ParameterError(
                "problem_too_large",
                f"The blocks may take {self.seconds:,.0f} seconds together, and nothing is "
                f"answered after {deadline_seconds:g}. Give fewer {option('blocks')}, or fewer "
                f"{option('seconds')} for each.",
            )
        self.rehearse()

    @property
    def digest(self) -> str:
        """The digest that an owner approves: of everything that decides which code runs."""
        return program_digest(self.program, None if self.helper is None else self.helper.function)

    def check_approved(self) -> None:
        """Refuse native code that the asker may not run on this machine.

        Programs in a strict language need no approval. Native code needs one also for rehearsals:
        even on made-up rows it could observe traces of other programs on the machine.
        """
        if self.rules is not None and not is_strict(self.program):
            self.rules.check_approved(self.digest)

    def rehearse(self) -> tuple[str, ...]:
        """Run the program on made-up rows; raise its error and line if it fails.

        Returns
        -------
        tuple of str
            Remarks for the analyst, such as cases in which it would fail on a real block.
        """
        # Of what the program produces, only a class of errors, a line and the first output that is
        # not as declared are shown: into anything else it could encode what it observed of the
        # machine.
        self.check_approved()
        if self.rules is not None:
            self.rules.count_rehearsal(_REHEARSED * self.limits.seconds)
        program = executable(self.program, self.limits)
        room, width = chamber(self.sandbox), len(self.aggregate.outputs)
        columns, remarks = self.cut.columns, []
        tried = {
            "": made_up(columns, _TWIN_ROWS),
            "values are missing": made_up(columns, _TWIN_ROWS, missing=True),
            "a block has no rows": made_up(columns, 0),
        }
        for where, rows in tried.items():
            rehearsal = room.rehearse(program, to_stream(rows), width, self.limits)
            fails = rehearsal.record is None
            if not where:
                if fails:
                    raise _failed(self.program, rehearsal.reason, self.limits)
                remarks += _unusual(rehearsal.record, self.aggregate)
            elif fails and rows != tried[""]:
                remarks.append(
                    f"The program fails where {where}: such a block counts as the middle of the "
                    f"range. {rehearsal.reason.rstrip('.')}."
                )
        # Once more: it may have been revoked meanwhile, and the charge and real rows come next.
        self.check_approved()
        return tuple(remarks)

    def explain(self) -> ProgramForecast:
        """Forecast cost and error, after a rehearsal on made-up rows."""
        return self.forecast(self.rehearse())

    def forecast(self, rehearsed: tuple[str, ...]) -> ProgramForecast:
        """The forecast with the remarks of a rehearsal, made here or on a server."""
        return ProgramForecast(
            self.parameters, self.error, self.seconds, (*rehearsed, *self.remarks)
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks for readers of the answer, from public facts."""
        blocks, repeats = self.aggregate.blocks, self.aggregate.repeats
        share = f"1/{blocks}" if repeats == 1 else f"{repeats}/{blocks}"
        stated = (
            "The error stated is that of the noise alone, which is known. The program itself saw "
            f"about {share} of the people at a time: what it loses by that is not known, grows "
            "with the number of blocks, and does not go away with a larger epsilon."
        )
        median = [error["blocks95"] for error in self.error.values() if "blocks95" in error]
        ranks = (
            f"The middle block is found within {max(median):,} blocks on either side in 95 % of "
            "cases; how far off that puts the value depends on how blocks differ."
            if median
            else ""
        )
        return tuple(remark for remark in (stated, ranks, *self.notes) if remark)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the release."""
        notes = list(self.remarks)
        return self._promise(self.price, self.cut.unit, table=self.dataset, notes=notes)

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Cut the rows into blocks, run the program on each, and release the aggregate."""
        started, data = time.monotonic(), datasets[self.dataset]
        room = chamber(self.sandbox)
        salt = random_key(entropy)
        # All blocks are encoded before the first program runs: none can delay the reading of
        # another's rows.
        blocks = [to_stream(block) for block in self.cut.blocks_of(data.engine, data.table, salt)]
        ranges = None
        if self.helper is not None:
            quartiles = self.helper.quartiles(
                data, self.cut.unit, self.aggregate.on_inputs, salt, entropy
            )
            ranges = self.helper.ranges(room, self.program, quartiles, self.aggregate, self.limits)
        reading = _ticks(time.monotonic() - started)
        values = self._outputs(room, blocks)
        released = self.aggregate.release(values, entropy, ranges)
        outputs = self.aggregate.outputs
        columns: dict[str, Any] = {
            "output": pa.array([output.name for output in outputs]),
            "value": pa.array([output.value for output in released]),
            "low": pa.array([output.low for output in released]),
            "high": pa.array([output.high for output in released]),
        }
        errors = {name: [output.error[name] for output in released] for name in released[0].error}
        release = self._release({VALUES: pa.table(columns)}, {"value": errors})
        # An answer that left earlier would tell how long the blocks took.
        _wait_until(started + reading + self.seconds)
        return release

    def _outputs(self, room: Chamber, blocks: list[bytes]) -> FloatArray:
        """The outputs of each block, one row for each; all NaN for a block that failed."""
        width = len(self.aggregate.outputs)
        program = executable(self.program, self.limits)
        records = room.run(program, blocks, width, self.limits, self.workers)
        failed = np.full(width, np.nan)
        return np.stack(
            [failed if record is None else np.frombuffer(record, dtype="<f8") for record in records]
        )


def _wait_until(moment: float) -> None:
    """Wait until a moment; if that is over already, until a whole tick after it."""
    late = time.monotonic() - moment
    time.sleep(_ticks(max(late, 0)) - late)


def _ticks(seconds: float) -> float:
    return math.ceil(seconds / TICK_SECONDS) * TICK_SECONDS


def _failed(program: Program, reason: str, limits: BlockLimits) -> ParameterError:
    return ParameterError(
        "program_failed",
        f"{program.function!r} failed on made-up rows, before anything was charged: "
        f"{reason.rstrip('.') or f'it did not end well within {limits.seconds:g} seconds'}. Mend "
        "it and try it again: that costs nothing.",
    )


def _unusual(record: bytes | None, aggregate: Aggregate) -> list[str]:
    """A remark on the first output that is not finite or out of range; never with its value."""
    values = np.frombuffer(record or b"", dtype="<f8").tolist()
    for output, value in zip(aggregate.outputs, values, strict=True):
        if not math.isfinite(value):
            return [
                (
                    f"{output.name!r} is no finite number on made-up rows: it would count as the "
                    "middle of the range."
                )
            ]
        if not output.low <= value <= output.high:
            return [
                (
                    f"{output.name!r} is outside of its range {float(output.low):g} to "
                    f"{float(output.high):g} on made-up rows: it would be moved to its end."
                )
            ]
    return []
