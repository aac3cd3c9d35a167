"""`sfumato pan`: make, update and read the file of a pan-private counter.

The file has no table, vault or ledger behind it. Its budget is fixed when it is made, and an answer
is repeated until an update changes the state.

*Attack*: two copies of the state from different times name the visitors between them, so there must
never be a second copy. The file is written once, before any visit, and then mapped into memory
(MAP_SHARED). An update stores one byte for each position of the sample, and a number that counts
the positions it has passed. Nothing is copied, renamed or checksummed, so a process that is killed
leaves one state: that of the visits it has stored. The file has four parts:

    the facts, one line of JSON, padded to a whole page
    the number of positions passed, then 16 bytes for each answer that is paid for; padded
    the cells, one byte for each position; padded
    the digests of the people of the sample, 8 bytes each

Its length is the same before and after visits. Decision `pan-private`.
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.data.engines.base import column as column_of
from sfumato.data.engines.sources import open_source
from sfumato.errors import (
    BudgetError,
    InternalError,
    OutputError,
    ParameterError,
    SourceError,
    option,
)
from sfumato.exact_numbers import positive
from sfumato.filesystem import PATIENCE_SECONDS, acquire_lock, check_target, release_lock, whole
from sfumato.methods.stream.pan_private import PanCells, PanPrivateHeavy, PanState, PeopleSample
from sfumato.platform_support import NOT_INHERITED, needs_locks
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sfumato.data.engines.sources import Source
    from sfumato.privacy.noise.entropy import Entropy


_FORMAT, _OLD_FORMAT = "sfumato-pan-2", "sfumato-pan-1"
# The most people of a sample: an update passes every position, about a second per million.
MOST_PLACES = 5_000_000
# The most answers of a file, which reserves space for all of them.
MOST_READS = 100_000
# Bytes of a page, of a number and of the key; and the longest line of facts.
_PAGE = 4096
_NUMBER = 8
_KEY = 16
_LONGEST_FACTS = 1 << 20
# The flag of an answer that has been given.
_ANSWERED = 1


@dataclass(frozen=True)
class PanRecord:
    """The public record of a file: its method, progress and answers, without cells."""

    method: PanPrivateHeavy
    column: str
    kind: str
    """The kind of the roll's column; visits must have the same kind."""
    updates: int
    position: int
    """The number of positions that an interrupted update has passed; else 0."""
    answers: tuple[dict[str, Any], ...]
    """The answers paid for, oldest first, each with the number of updates before it.

    An answer whose process ended before it was given has no share.
    """

    def to_json(self) -> dict[str, Any]:
        """The record as JSON; all of it is public."""
        method = self.method
        return {
            "people": method.people,
            "sample": method.size,
            "at_least": method.at_least,
            "epsilon": float(method.epsilon),
            "output_epsilon": float(method.output_epsilon),
            "reads": method.reads,
            "reads_left": method.reads - len(self.answers),
            "updates": self.updates,
        }


@dataclass(frozen=True)
class MappedPan:
    """An open file: its facts, and views of the mapped numbers and cells."""

    method: PanPrivateHeavy
    column: str
    kind: str
    state: PanState
    answers: memoryview
    """Two numbers for each answer: 2 (updates before it + 1), plus 1 once it was given; then the
    bits of its share. Both are 0 until it is paid for."""
    mapped: mmap.mmap

    def record(self) -> PanRecord:
        """The present record of the file."""
        return PanRecord(
            self.method, self.column, self.kind, self.state.updates, self.state.position,
            tuple(self._answers()),
        )  # fmt: skip

    def pay_answer(self, number: int) -> None:
        """Count an answer and flush, before its noise is drawn."""
        self.answers[2 * number] = 2 * (self.state.updates + 1)
        self.flush()

    def give_answer(self, number: int, share: float) -> None:
        """Store the share of an answer that is paid for, and flush."""
        self.answers[2 * number + 1] = int(np.float64(share).view(np.uint64))
        self.answers[2 * number] |= _ANSWERED
        self.flush()

    def _answers(self) -> Iterator[dict[str, Any]]:
        stddev, people = math.sqrt(self.method.variance), self.method.people
        for at in range(0, len(self.answers), 2):
            if self.answers[at] == 0:
                return
            updates = self.answers[at] // 2 - 1
            if not self.answers[at] & _ANSWERED:
                yield {"updates": updates}
                continue
            share = float(np.uint64(self.answers[at + 1]).view(np.float64))
            yield {
                "share": share,
                "sd": stddev,
                "count": share * people,
                "count_sd": stddev * people,
                "updates": updates,
            }

    def flush(self) -> None:
        """Write the mapped pages to disk."""
        self.mapped.flush()

    def check(self) -> None:
        """Raise ValueError for numbers that no valid file has."""
        for table, cells in zip(self.method.tables, self.state.tables, strict=True):
            if any((block >> 1 >= table.round).any() for block in cells.blocks()):
                raise ValueError("a counter beyond its round")
        answers = list(self._answers())
        updates = [answer["updates"] for answer in answers] + [self.state.updates]
        unpaid = self.answers[2 * len(answers) :]
        if updates != sorted(updates) or any(unpaid):
            raise ValueError("answers of updates that never were")
        if not all(math.isfinite(answer.get("share", 0)) for answer in answers):
            raise ValueError("an answer that is no number")


@contextmanager
def open_mapped(path: Path) -> Iterator[MappedPan]:
    """Map the file, for one process at a time."""
    needs_locks("A file that several processes may update")
    try:
        handle = os.open(path, os.O_RDWR | NOT_INHERITED)
    except FileNotFoundError:
        raise SourceError(
            "source_missing", f"There is no file '{path}'. Make one with 'sfumato pan new'."
        ) from None
    except OSError:
        raise _unreadable(path) from None
    try:
        if not acquire_lock(handle, seconds=PATIENCE_SECONDS):
            raise InternalError(
                "file_in_use", f"Another process is updating '{path.name}'. Wait, and try again."
            )
        try:
            mapped = mmap.mmap(handle, 0)  # shared: a store changes the file itself
        except (OSError, ValueError):
            raise _unreadable(path) from None
        yield _parsed(path, mapped)
    finally:
        release_lock(handle)  # else the mapping would hold the file and its lock until it is freed
        os.close(handle)


def _parsed(path: Path, mapped: mmap.mmap) -> MappedPan:
    """The parts of a mapped file, checked."""
    try:
        line = mapped[: mapped.find(b"\n", 0, _LONGEST_FACTS) + 1]
        facts = json.loads(line)
        if facts["format"] == _OLD_FORMAT:
            raise SourceError(
                "file_malformed",
                f"'{path}' was made by an earlier version, which wrote every state anew beside the "
                "one before: whoever finds both knows who came. Read it with that version, and "
                "make a new one, which begins at nobody.",
            )
        if facts["format"] != _FORMAT:
            raise ValueError("another format")
        method = PanPrivateHeavy(
            people=facts["people"], size=facts["sample"], at_least=facts["at_least"],
            epsilon=positive(facts["epsilon"], "epsilon"),
            output_epsilon=positive(facts["output_epsilon"], "epsilon"), reads=facts["reads"],
        )  # fmt: skip
        # *Attack*: a sparse file takes no disk space, but all its positions take memory.
        if method.size > MOST_PLACES or method.reads > MOST_READS:
            raise ValueError("more places or answers than a file of ours has")
        numbers, cells, digests, end = _offsets(len(line), method)
        if end != len(mapped):
            raise ValueError("another length")
        view = memoryview(mapped)
        lengths = [table.size for table in method.tables]
        starts = [cells + start for start in accumulate(lengths, initial=0)]
        tables = tuple(
            PanCells(view[start : start + length])
            for start, length in zip(starts, lengths, strict=False)
        )
        key = bytes.fromhex(facts["key"])
        if len(key) != _KEY:
            raise ValueError("a key of another length")
        sample = PeopleSample(key, np.frombuffer(view[digests:end], "<u8").astype(np.uint64))
        numbers_view = view[numbers : numbers + _NUMBER * (1 + 2 * method.reads)].cast("Q")
        state = PanState(sample, tables, numbers_view[:1])
        mapped_file = MappedPan(
            method, str(facts["column"]), str(facts["kind"]), state, numbers_view[1:], mapped
        )
        mapped_file.check()
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError,
            ParameterError):  # fmt: skip
        raise _unreadable(path) from None
    _keep_in_memory(view[cells:digests])
    return mapped_file


def _keep_in_memory(cells: memoryview) -> None:
    """Ask the system to keep the pages of the cells in memory while they are mapped.

    Pages of a shared mapping are never written to swap, only to their file, so a refusal (too many
    locked pages) does no harm.
    """
    address = ctypes.addressof(ctypes.c_char.from_buffer(cells))
    ctypes.CDLL(None).mlock(ctypes.c_void_p(address), ctypes.c_size_t(len(cells)))


def _offsets(line: int, method: PanPrivateHeavy) -> tuple[int, int, int, int]:
    """The offsets of numbers, cells and digests, each on its own page, and the end of the file."""
    sizes = (line, _NUMBER * (1 + 2 * method.reads), method.size)
    numbers, cells, digests = accumulate(-(-size // _PAGE) * _PAGE for size in sizes)
    return numbers, cells, digests, digests + _NUMBER * method.size


def write_new(path: Path, method: PanPrivateHeavy, column: str, kind: str, state: PanState) -> None:
    """Write the file atomically, before any visit, so that remains of a failure reveal nothing."""
    facts = {
        "format": _FORMAT,
        "people": method.people,
        "sample": method.size,
        "at_least": method.at_least,
        "epsilon": str(method.epsilon),
        "output_epsilon": str(method.output_epsilon),
        "reads": method.reads,
        "column": column,
        "kind": kind,
        "key": state.sample.key.hex(),
    }
    line = dumps(facts).encode() + b"\n"
    _, cells, digests, _ = _offsets(len(line), method)
    with whole(path, private=True) as temporary, temporary.open("wb") as to:
        # No holes: a store into a hole kills the process (SIGBUS) if the disk is full.
        to.write(line.ljust(cells, b"\0"))
        to.write(b"".join(table.data for table in state.tables).ljust(digests - cells, b"\0"))
        to.write(state.sample.digests.astype("<u8").tobytes())


def _unreadable(path: Path) -> SourceError:
    return SourceError(
        "file_malformed",
        f"'{path}' is not a file of 'sfumato pan', or it was damaged. Make a new one.",
    )


__all__ = ["PanRecord", "load", "new", "read", "update", "update_all"]

USUAL_SAMPLE = 100_000

_NAME, _VISITS = "person", "visits"


def new(
    path: Path,
    roll: Source,
    column: str,
    *,
    epsilon: object,
    output_epsilon: object = None,
    reads: int = 1,
    at_least: int = 1,
    sample: int | None = None,
) -> PanRecord:
    """Make the file for a roll of people, before any visit; refuse an existing file."""
    needs_locks("A file that several processes may update")
    _check_new(path)
    state_epsilon = positive(epsilon, "epsilon")
    answer_epsilon = (
        state_epsilon if output_epsilon is None else positive(output_epsilon, "epsilon")
    )
    people = _people(roll, column)
    names = people.names
    size = min(len(names), USUAL_SAMPLE) if sample is None else sample
    if size > MOST_PLACES:
        raise ParameterError(
            "parameter_out_of_range",
            f"A sample has at most {MOST_PLACES:,} people, not {size:,}. Ask for fewer.",
            parameter="size",
            given=size,
        )
    method = PanPrivateHeavy(
        people=max(len(names), 1), size=size, epsilon=state_epsilon,
        output_epsilon=answer_epsilon, reads=reads, at_least=at_least,
    )  # fmt: skip
    if method.reads > MOST_READS:
        raise ParameterError(
            "parameter_out_of_range",
            f"reads must be from 1 to {MOST_READS:,}, not {method.reads:,}.",
            parameter="reads",
            given=method.reads,
        )
    write_new(path, method, column, people.kind, method.begin(names, SystemEntropy()))
    return load(path)


def update(
    path: Path, events: Source, column: str | None = None, *, resume: bool = False
) -> PanRecord:
    """Count the visits of a table, one row for each visit."""
    return update_all(path, [events], column, resume=resume)


def update_all(
    path: Path, tables: Sequence[Source], column: str | None = None, *, resume: bool = False
) -> PanRecord:
    """Count several tables of visits as one update; all tables are read first.

    `resume` continues an interrupted update with the same tables; without tables it drops the
    remaining visits.
    """
    with open_mapped(path) as file:
        visitors = [_people(table, column or file.column, file.kind) for table in tables]
        try:
            file.method.update(
                file.state,
                [name for table_visits in visitors for name in table_visits.names],
                SystemEntropy(),
                np.concatenate(
                    [np.zeros(0, np.int64), *(table_visits.visits for table_visits in visitors)]
                ),
                resume=resume,
            )
        finally:
            file.flush()
        return file.record()


def read(path: Path, entropy: Entropy | None = None) -> tuple[PanRecord, dict[str, Any]]:
    """The share of people with enough visits; the last answer again if no update came since."""
    with open_mapped(path) as file:
        if file.state.position:
            raise ParameterError(
                "pan_unfinished",
                f"The last update of '{path.name}' stopped half-way. Give its tables again to "
                f"'sfumato pan update' with {option('resume', True)}, then read.",
            )
        record = file.record()
        last = record.answers[-1] if record.answers else None
        if last is not None and "share" in last and last["updates"] == record.updates:
            return record, last
        if len(record.answers) == record.method.reads:
            raise BudgetError(
                "allowance_exhausted",
                f"All {record.method.reads:,} answers that '{path.name}' pays for were given. Make "
                "a new file with more reads, which begins at nobody.",
            )
        # *Invariant*: an answer is paid for on disk before its noise is drawn. Otherwise a crash in
        # between would allow two answers for the price of one.
        file.pay_answer(len(record.answers))
        share = file.method.estimate(file.state, entropy or SystemEntropy()).share
        file.give_answer(len(record.answers), share)  # on disk before anybody sees it
        record = file.record()
    return record, record.answers[-1]


def load(path: Path) -> PanRecord:
    """Read the record of a file; refuse a damaged file."""
    with open_mapped(path) as file:
        return file.record()


@dataclass(frozen=True)
class _Visits:
    """The distinct people of a table, the visits of each, and the kind of their column."""

    names: list[str]
    visits: np.ndarray[Any, Any]
    kind: str


def _people(source: Source, column: str, kind: str | None = None) -> _Visits:
    """Count the rows of each person of a table; skip missing names, refuse another kind."""
    with closing(open_source(source)) as engine:
        kinds = engine.columns(engine.table)
        if column not in kinds:
            raise SourceError(
                "column_unknown",
                f"The table has no column {column!r}. It has {', '.join(list(kinds)[:10])}.",
            )
        if kind not in (None, str(kinds[column])):  # depends on types only, not on rows
            raise SourceError(
                "schema_differs",
                f"The people in column {column!r} are of kind {kinds[column]}, those of the roll "
                f"of kind {kind}, so that one person would be written in two ways and not be "
                "counted. Nothing was taken in. Convert the column to the kind of the roll; in a "
                "CSV all is text.",
            )
        named = exp.cast(column_of(column), "TEXT")
        counted = exp.cast(exp.Count(this=exp.Star()), "BIGINT")
        query = (
            exp.select(named.as_(_NAME, quoted=True), counted.as_(_VISITS, quoted=True))
            .from_(engine.table)
            .where(exp.not_(exp.Is(this=column_of(column), expression=exp.Null())))
            .group_by(named.copy())
        )
        counted_rows = engine.run(query)
    visits = np.asarray(counted_rows.column(_VISITS), dtype=np.int64)
    return _Visits(counted_rows.column(_NAME).to_pylist(), visits, str(kinds[column]))


def _check_new(path: Path) -> None:
    """Refuse an existing file: its counts would be lost, and its budget would start anew."""
    try:
        check_target(path)
    except OutputError as error:
        if error.code != "output_exists":
            raise
        raise OutputError(
            "output_exists",
            f"Cannot write '{path}': it exists, and a counter is never replaced. Choose another "
            "name.",
        ) from None
