"""The file of a pan-private counter: the collector's, seizable, replaced whole at every update.

It holds who has a place, random bits, and the answers that were given; nothing of the events. It is
as long before anybody came as after. There is no table behind it, no vault and no ledger: what may
be spent is written down when it is made, and an answer that was given is given again until
something new has come. Decision 0411.
"""

from __future__ import annotations

import json
import os
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.engines.base import column as column_of
from sfumato.engines.sources import open_source
from sfumato.errors import BudgetError, InternalError, OutputError, ParameterError, SourceError
from sfumato.files import PATIENCE_SECONDS, acquire_lock, check_target, whole
from sfumato.noise.entropy import SystemEntropy
from sfumato.privacy.numbers import positive
from sfumato.stream.pan_heavy import PanPrivateHeavy
from sfumato.stream.pan_private import PanState
from sfumato.stream.pan_table import HeldBits, PeopleSample
from sfumato.system import needs_locks
from sfumato.texts import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sfumato.engines.sources import Source
    from sfumato.noise.entropy import Entropy

USUAL_SAMPLE = 100_000
MOST_PLACES = 5_000_000
"""The most people of a sample: the file, of some 25 letters each, is written at every update."""

_FORMAT = "sfumato-pan-1"
_NAME, _VISITS = "person", "visits"


@dataclass(frozen=True)
class PanRecord:
    """What the file holds."""

    method: PanPrivateHeavy
    column: str
    kind: str | None
    """What the roll's column holds; visits must hold the same. None of files before it was kept."""
    state: PanState
    updates: int
    answers: tuple[dict[str, Any], ...]
    """Those given, the last last, each with how many updates it had seen."""

    def to_json(self) -> dict[str, Any]:
        """What it says of itself without places: who may know anything may know this."""
        made = self.method
        return {
            "people": made.people,
            "sample": made.size,
            "at_least": made.at_least,
            "epsilon": float(made.epsilon),
            "output_epsilon": float(made.output_epsilon),
            "reads": made.reads,
            "reads_left": made.reads - len(self.answers),
            "updates": self.updates,
        }


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
    found = _people(roll, column)
    names = found.names
    size = min(len(names), USUAL_SAMPLE) if sample is None else sample
    if size > MOST_PLACES:
        raise ParameterError(
            "pan_sample_size",
            f"A sample has at most {MOST_PLACES:,} people, not {size:,}. Ask for fewer.",
        )
    made = PanPrivateHeavy(
        people=max(len(names), 1), size=size, epsilon=state_epsilon,
        output_epsilon=told_epsilon, reads=reads, at_least=at_least,
    )  # fmt: skip
    record = PanRecord(made, column, found.kind, made.begin(names, SystemEntropy()), 0, ())
    _write(path, record, overwrite=False)
    return record


def update(path: Path, events: Source, column: str | None = None) -> PanRecord:
    """Take in who came: a row for each visit."""
    return update_all(path, [events], column)


def update_all(path: Path, tables: Sequence[Source], column: str | None = None) -> PanRecord:
    """Take in several tables of visits, all of them or none: all are read before any counts."""
    with _turn(path):
        found = load(path)
        came = [_people(one, column or found.column, found.kind) for one in tables]
        state = found.method.update(
            found.state,
            [name for one in came for name in one.names],
            SystemEntropy(),
            np.concatenate([one.visits for one in came]),
        )
        after = replace(found, state=state, updates=found.updates + len(tables))
        _write(path, after, overwrite=True)
    return after


def read(path: Path, entropy: Entropy | None = None) -> tuple[PanRecord, dict[str, Any]]:
    """The share of people who came as often as asked; the same again until more has come in."""
    with _turn(path):
        found = load(path)
        if found.answers and found.answers[-1]["updates"] == found.updates:
            return found, found.answers[-1]
        if len(found.answers) == found.method.reads:
            raise BudgetError(
                "pan_reads_used",
                f"All {found.method.reads:,} answers that '{path.name}' pays for were given. Make "
                "a new file with more reads, which begins at nobody.",
            )
        told = found.method.tell(found.state, entropy or SystemEntropy())
        answer = {
            "share": told.share,
            "sd": told.stddev,
            "count": told.count,
            "count_sd": told.stddev * told.people,
            "updates": found.updates,
        }
        after = replace(found, answers=(*found.answers, answer))
        _write(path, after, overwrite=True)  # on the disk before anybody sees it
    return after, answer


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
                "pan_kind_differs",
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
        found = engine.run(query)
    visits = np.asarray(found.column(_VISITS), dtype=np.int64)
    return _Visits(found.column(_NAME).to_pylist(), visits, str(held[column]))


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


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Let one process change the file at a time; a lock of its own, as the file is replaced."""
    needs_locks("A file that several processes may update")
    if not path.exists():
        raise SourceError(
            "pan_missing", f"There is no file '{path}'. Make one with 'sfumato pan new'."
        )
    handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not acquire_lock(handle, seconds=PATIENCE_SECONDS):
            raise InternalError(
                "pan_in_use", f"Another process is updating '{path.name}'. Wait, and try again."
            )
        yield
    finally:
        os.close(handle)


def _write(path: Path, record: PanRecord, *, overwrite: bool) -> None:
    made, state = record.method, record.state
    told = {
        "format": _FORMAT,
        "people": made.people,
        "sample": made.size,
        "at_least": made.at_least,
        "epsilon": str(made.epsilon),
        "output_epsilon": str(made.output_epsilon),
        "reads": made.reads,
        "column": record.column,
        "kind": record.kind,
        "updates": record.updates,
        "answers": list(record.answers),
        "key": state.sample.key.hex(),
        "digests": state.sample.digests.astype("<u8").tobytes().hex(),
        "tables": [one.to_record() for one in state.tables],
    }
    with whole(path, overwrite=overwrite, private=True) as temporary:
        temporary.write_text(dumps(told) + "\n", encoding="utf-8")


def load(path: Path) -> PanRecord:
    """Read the file; one that is not as it was written is refused."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["format"] != _FORMAT:
            raise ValueError("another format")
        made = PanPrivateHeavy(
            people=told["people"], size=told["sample"], at_least=told["at_least"],
            epsilon=Fraction(told["epsilon"]), output_epsilon=Fraction(told["output_epsilon"]),
            reads=told["reads"],
        )  # fmt: skip
        digests = np.frombuffer(bytes.fromhex(told["digests"]), dtype="<u8").astype(np.uint64)
        if len(digests) != made.size or len(told["answers"]) > made.reads:
            raise ValueError("another size")
        updates = [one["updates"] for one in told["answers"]] + [told["updates"]]
        if updates != sorted(updates) or updates[0] < 0:
            raise ValueError("answers of updates that never were")
        tables = tuple(
            HeldBits.from_record(one, table.size)
            for one, table in zip(told["tables"], made.tables, strict=True)
        )
        state = PanState(PeopleSample(bytes.fromhex(told["key"]), digests), tables)
        kind = None if told.get("kind") is None else str(told["kind"])
        return PanRecord(made, str(told["column"]), kind, state, int(told["updates"]),
                         tuple(dict(one) for one in told["answers"]))  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, ParameterError):
        raise SourceError(
            "pan_unreadable",
            f"'{path}' is not a file of 'sfumato pan', or it was damaged. Make a new one.",
        ) from None
