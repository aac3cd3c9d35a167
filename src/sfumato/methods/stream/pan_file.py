"""`sfumato pan`: make, update and read the file of a pan-private counter.

There is no table behind the file, no vault and no ledger: what may be spent is written down when it
is made, and an answer that was given is given again until something new has come. How it lies on
the disk: `pan_mapping`. Decision `pan-private`.
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


# How a pan-private counter lies on the disk: one state, changed where it lies.
#
# Two looks at the state name the visitors, so there is never a second one to look at. The file is
# written once, whole, before anybody came, and mapped into memory afterwards (MAP_SHARED). An
# update
# stores one byte for each place of the sample and a number that says how far it got. Nothing is
# copied, renamed or summed up over cells, so a process that is killed leaves one state: that of
# the
# visits it had taken in.
#
#     the facts, one line of JSON, padded to a whole page
#     the number of places passed, then 16 bytes for each answer that is paid for; padded
#     the cells, one byte for each place; padded
#     the digests of who has a place, 8 bytes each
#
# The file is as long before anybody came as after. Decision `pan-private`.

_FORMAT, _OLD_FORMAT = "sfumato-pan-2", "sfumato-pan-1"
# The most people of a sample: every update passes every place, about a second for a million.
MOST_PLACES = 5_000_000
# The most answers of a file, which has room for all of them from its beginning.
MOST_READS = 100_000
_PAGE = 4096
_NUMBER = 8
_LONGEST_FACTS = 1 << 20
_ANSWERED = 1
_KEY = 16


@dataclass(frozen=True)
class PanRecord:
    """What the file says of itself without places."""

    method: PanPrivateHeavy
    column: str
    kind: str
    """What the roll's column holds; visits must hold the same."""
    updates: int
    position: int
    """How many places an update that was stopped has passed; 0 where none was."""
    answers: tuple[dict[str, Any], ...]
    """Those paid for so far, the last last, each with how many updates it had seen.

    One that was lost, as its process ended before it was given, has no share.
    """

    def to_json(self) -> dict[str, Any]:
        """As JSON: who may know anything may know this."""
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
    """Two numbers for each answer: twice one more than the updates it saw, plus 1 once it was
    given; then the bits of its share. Both are 0 until it is paid for."""
    mapped: mmap.mmap

    def record(self) -> PanRecord:
        """What the file says of itself now."""
        return PanRecord(
            self.method, self.column, self.kind, self.state.updates, self.state.position,
            tuple(self._answers()),
        )  # fmt: skip

    def pay_answer(self, number: int) -> None:
        """Count an answer before its noise is drawn, and have that on the disk."""
        self.answers[2 * number] = 2 * (self.state.updates + 1)
        self.flush()

    def give_answer(self, number: int, share: float) -> None:
        """Keep the share of an answer that is paid for, and have it on the disk."""
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
        """Have the mapped pages on the disk."""
        self.mapped.flush()

    def check(self) -> None:
        """Refuse numbers that no file of ours has; ValueError."""
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
            mapped = mmap.mmap(handle, 0)  # shared: a store is a store into the file
        except (OSError, ValueError):
            raise _unreadable(path) from None
        yield _parsed(path, mapped)
    finally:
        release_lock(handle)  # the mapping holds the open file, and with it the lock, until freed
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
        # A file with holes takes no disk, but all its places take memory.
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
    """Ask the system to keep the cells' pages in memory while they are mapped.

    Pages of a shared mapping are never written to swap, only to their file: where the system
    refuses, for want of room for locked pages, nothing is lost but that.
    """
    address = ctypes.addressof(ctypes.c_char.from_buffer(cells))
    ctypes.CDLL(None).mlock(ctypes.c_void_p(address), ctypes.c_size_t(len(cells)))


def _offsets(line: int, method: PanPrivateHeavy) -> tuple[int, int, int, int]:
    """Where numbers, cells and digests begin, each on a page of its own, and where they end."""
    sizes = (line, _NUMBER * (1 + 2 * method.reads), method.size)
    numbers, cells, digests = accumulate(-(-size // _PAGE) * _PAGE for size in sizes)
    return numbers, cells, digests, digests + _NUMBER * method.size


def write_new(path: Path, method: PanPrivateHeavy, column: str, kind: str, state: PanState) -> None:
    """Write the file, whole; nobody came yet, so that what is left of a failure tells nothing."""
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
        # No holes: where a page needs room on a full disk, a store into it would end the process.
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
    """Make the file of a roll of people, of whom nobody came yet; one that exists is refused."""
    needs_locks("A file that several processes may update")
    _check_new(path)
    state_epsilon = positive(epsilon, "epsilon")
    told_epsilon = state_epsilon if output_epsilon is None else positive(output_epsilon, "epsilon")
    people = _people(roll, column)
    names = people.names
    size = min(len(names), USUAL_SAMPLE) if sample is None else sample
    if size > MOST_PLACES:
        raise ParameterError(
            "parameter_out_of_range",
            f"A sample has at most {MOST_PLACES:,} people, not {size:,}. Ask for fewer.",
        )
    method = PanPrivateHeavy(
        people=max(len(names), 1), size=size, epsilon=state_epsilon,
        output_epsilon=told_epsilon, reads=reads, at_least=at_least,
    )  # fmt: skip
    if method.reads > MOST_READS:
        raise ParameterError(
            "parameter_out_of_range",
            f"reads must be from 1 to {MOST_READS:,}, not {method.reads:,}.",
        )
    write_new(path, method, column, people.kind, method.begin(names, SystemEntropy()))
    return load(path)


def update(
    path: Path, events: Source, column: str | None = None, *, resume: bool = False
) -> PanRecord:
    """Take in who came: a row for each visit."""
    return update_all(path, [events], column, resume=resume)


def update_all(
    path: Path, tables: Sequence[Source], column: str | None = None, *, resume: bool = False
) -> PanRecord:
    """Take in several tables of visits as one update; all are read before any counts.

    An update that was stopped goes on with `resume` and the same tables; without tables its
    remaining visits are left out.
    """
    with open_mapped(path) as file:
        came = [_people(table, column or file.column, file.kind) for table in tables]
        try:
            file.method.update(
                file.state,
                [name for table_visits in came for name in table_visits.names],
                SystemEntropy(),
                np.concatenate(
                    [np.zeros(0, np.int64), *(table_visits.visits for table_visits in came)]
                ),
                resume=resume,
            )
        finally:
            file.flush()
        return file.record()


def read(path: Path, entropy: Entropy | None = None) -> tuple[PanRecord, dict[str, Any]]:
    """The share of people who came as often as asked; the same again until more has come in."""
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
        # Paid for on the disk before noise is drawn: were it the other way round, an answer in the
        # file that was never counted, and the next one, would be two for the price of one.
        file.pay_answer(len(record.answers))
        share = file.method.estimate(file.state, entropy or SystemEntropy()).share
        file.give_answer(len(record.answers), share)  # on the disk before anybody sees it
        record = file.record()
    return record, record.answers[-1]


def load(path: Path) -> PanRecord:
    """Read what the file says of itself; one that is not as it was written is refused."""
    with open_mapped(path) as file:
        return file.record()


@dataclass(frozen=True)
class _Visits:
    """The different people of a table, the rows of each, and what their column holds."""

    names: list[str]
    visits: np.ndarray[Any, Any]
    kind: str


def _people(source: Source, column: str, kind: str | None = None) -> _Visits:
    """Who a table is about; rows without a person are left out, another kind is refused."""
    with closing(open_source(source)) as engine:
        held = engine.columns(engine.table)
        if column not in held:
            raise SourceError(
                "column_unknown",
                f"The table has no column {column!r}. It has {', '.join(list(held)[:10])}.",
            )
        if kind not in (None, str(held[column])):  # by types alone: it tells nothing of the rows
            raise SourceError(
                "schema_differs",
                f"The people in column {column!r} are of kind {held[column]}, those of the roll "
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
    return _Visits(counted_rows.column(_NAME).to_pylist(), visits, str(held[column]))


def _check_new(path: Path) -> None:
    """Refuse a file that exists: what it counted would be gone, and its answers told anew."""
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
