"""Continual feeds by methods over streams: charged once, stepped once a period, in order.

A step that stands in the ledger is told and never done again. What the stream remembers may be one
step ahead of the ledger, where a process was killed between the two; then the ledger is told what
was remembered. How often each person counted is remembered too, whatever becomes of the table.
Decisions 0400 and 0491.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.counting.date_ranges import count_cells, rows_of_people
from sfumato.data.engines.base import column
from sfumato.data.engines.malformed_cells import as_spelled
from sfumato.data.schema.column import Kind
from sfumato.privacy.ledger.records import Amendment
from sfumato.vault.feeds.feed import FeedItem
from sfumato.vault.feeds.step_store import StepStore, lost_state
from sfumato.vault.stream_charge import Arrival, Reached, plain_told
from sfumato.vault.stream_start import COSTS, whole_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from sqlglot import exp

    from sfumato.arrays import IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.method import Dataset
    from sfumato.methods.stream.sensitivity import Participation
    from sfumato.privacy.ledger.records import BookState
    from sfumato.vault.feeds.feed import Feed
    from sfumato.vault.feeds.periods import Period
    from sfumato.vault.feeds.step_store import Reserved
    from sfumato.vault.session import AskerOf, Facts
    from sfumato.vault.stream_charge import WholeStream
    from sfumato.vault.vault import Vault

STEPS = "feed-step"
"""The records that say what each step of a continual feed gave."""
BY = "feed worker"


@dataclass
class StreamFeeds:
    """The streams of one vault's feeds."""

    vault: Vault

    @cached_property
    def store(self) -> StepStore:
        """What they remember."""
        return StepStore(self.vault.config)

    def close(self) -> None:
        """Let go of what they remember."""
        if "store" in self.__dict__:
            self.store.close()

    def prepared(self, feed: Feed, facts: Facts) -> WholeStream:
        """What a feed asks as a whole, by what is declared now."""
        offer = {one: feed.asked.get(one) for one in COSTS}
        asked = {k: v for k, v in feed.asked.items() if k not in (*COSTS, "method")}
        periods = None if feed.is_unending else len(feed.periods)
        span = {"every": feed.every, "begins": str(feed.begins), "dates": feed.column}
        whole = whole_stream(
            feed.name, facts, feed.asked["method"], offer, {"periods": periods, **asked}
        )
        return replace(whole, asked=tuple(span.items()))

    def answer(self, feed: Feed, period: Period, whole: WholeStream, who: AskerOf) -> None:
        """Tell one period, unless it is told."""
        session, ledger = self.vault.session, self.vault.ledger
        begun = session.answer(whole, who, request_id=feed.request_id(), part=whole)
        stream, key = begun.entry, (STEPS, f"{feed.name}/{period.name}")
        reached = self.store.reached(stream)
        if reached is None:
            state = json.loads(begun.table.column("state")[0].as_py())
            reached = Reached(0, state, {})
        if reached.step == period.number - 1:
            cells = StreamCells(whole.by, whole.values)
            days = period.low, period.high
            step = self.reserve(feed, stream, period.number, days, whole.request.people, cells)
            reached = self._stepped(stream, whole, reached, step) or reached
        made = ledger.decided().time.isoformat(timespec="seconds")

        def once(now: BookState) -> Amendment:
            if key[1] in now.of(STEPS):
                return Amendment()
            if reached.step != period.number:
                raise lost_state()
            return Amendment(records={key: {**reached.told, "made": made}})

        ledger.amend(once, operator=BY)

    def _stepped(
        self, stream: str, whole: WholeStream, before: Reached, step: Reserved | None
    ) -> Reached | None:
        """Draw and settle a step that was begun; where somebody else did, what they came to."""
        if step is None:
            return self.store.reached(stream)
        tape = self.store.tape(stream, step.step)
        state, told = whole.method.step(before.state, step.counts, tape)
        consent = {"consent": dict(step.consent)} if step.consent else {}
        found = Reached(step.step, state, {**plain_told(told), **consent})
        return self.store.settle(stream, found)

    def reserve(
        self,
        feed: Feed,
        stream: str,
        step: int,
        days: tuple[date, date],
        people: Participation,
        cells: StreamCells,
        scope: str = "",
    ) -> Reserved | None:
        """Begin a step with the rows between two days, or find what it counted when it was begun.

        A step that was killed counts the same again, whatever the table holds by now: its words are
        the same too, and one noise on two counts would tell their difference. None where another
        process is done with the step.
        """
        found = self.store.reserved(stream)
        if found is not None and found.step >= step:
            return found if found.is_open(step) else None
        session, versions = self.vault.session, dict[str, int]()
        session.store.check_readable((feed.dataset,))
        opened = session.store.together(
            (feed.dataset,), (), purpose=feed.purpose, versions=versions
        )
        with opened as datasets:
            arrival = arrived(datasets[feed.dataset], feed.column, days, people.unit, cells)
        return self.store.reserve(stream, step, arrival, people, consent=versions, scope=scope)

    def items(
        self, whole: WholeStream, told: Sequence[Period], steps: Mapping[str, Mapping[str, Any]]
    ) -> list[FeedItem]:
        """What was told of some periods."""
        found = []
        for one in told:
            step = steps[one.name]
            made = datetime.fromisoformat(step["made"])
            table, error = whole.table(step["values"]), whole.error(step["sd"])
            found.append(FeedItem(one, made, table, error, whole.guarantee.statement))
        return found


@dataclass(frozen=True)
class StreamCells:
    """The declared values of a column, each of which is counted by itself; or one for all rows."""

    by: str | None = None
    values: tuple[Any, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return max(1, len(self.values))

    def places(self, found: pa.ChunkedArray) -> IntArray:
        """By row the place of its value; -1 where it is none of them."""
        place = {value: at for at, value in enumerate(self.values)}
        return np.array([place.get(one, -1) for one in found.to_pylist()], dtype=np.int64)


def arrived(
    data: Dataset, of: str, days: tuple[date, date], unit: Unit, cells: StreamCells
) -> Arrival:
    """The rows of a data set between two days, of each person no more than can count."""
    low, high = days
    if unit.column is None:
        found = data.engine.run(count_cells(data.table, of, low, high, cells.by))
        if cells.by is None:
            return Arrival.of_counts(np.array([found.column(0)[0].as_py()]))
        rows = dict(zip(*(one.to_pylist() for one in found.columns), strict=True))
        return Arrival.of_counts(np.array([rows.get(one, 0) for one in cells.values]))
    person = _as_spelled(data, unit.column)
    found = data.engine.run(rows_of_people(data.table, of, unit, low, high, cells.by, person))
    people, numbers = found.column(0), found.column(found.num_columns - 1).to_numpy()
    if cells.by is None:
        rows_of = np.repeat(np.arange(found.num_rows), numbers.astype(np.int64))
        return Arrival.of_people(
            people.take(pa.array(rows_of)), np.zeros(len(rows_of), np.int64), 1
        )
    turns = np.argsort(numbers, kind="stable")
    where = cells.places(found.column(1))[turns]
    return Arrival.of_people(people.take(pa.array(turns)), where, cells.count)


def _as_spelled(data: Dataset, person: str) -> exp.Expr:
    """The column of people, where two spellings are two people whatever a collation says.

    A database that takes them for one would name either of the two, now this and now that, and so
    give one person two shares.
    """
    whose = column(person)
    if data.schema.column(person).kind is not Kind.TEXT:
        return whose
    return as_spelled(whose, data.engine.dialect)
