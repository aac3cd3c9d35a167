"""Continual feeds by methods over streams: charged once, stepped once a period, in order.

A step that stands in the ledger is told and never done again. What the stream remembers may be one
step ahead of the ledger, where a process was killed between the two; then the ledger is told what
was remembered. Decision 0400.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.counting.days import PeriodBound, count_cells
from sfumato.ledger.records import Amendment
from sfumato.vault.beginning import COSTS, whole_stream
from sfumato.vault.feeds.feed import FeedItem
from sfumato.vault.feeds.steps import StepStore, lost_state
from sfumato.vault.streaming import Reached, take_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.ledger.records import BookState
    from sfumato.method import Dataset
    from sfumato.vault.feeds.feed import Feed
    from sfumato.vault.feeds.periods import Period
    from sfumato.vault.session import AskerOf, Facts
    from sfumato.vault.streaming import WholeStream
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
            with session.store.together((feed.dataset,), (), purpose=feed.purpose) as datasets:
                counts = counted(feed, whole, datasets[feed.dataset], period)
            reached = take_step(self.store, stream, whole.method, reached, counts)
        made = ledger.decided().time.isoformat(timespec="seconds")

        def once(now: BookState) -> Amendment:
            if key[1] in now.of(STEPS):
                return Amendment()
            if reached.step != period.number:
                raise lost_state()
            return Amendment(records={key: {**reached.told, "made": made}})

        ledger.amend(once, operator=BY)

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


def counted(feed: Feed, whole: WholeStream, data: Dataset, period: Period) -> NDArray[np.int64]:
    """The rows of a period in each cell, of each person as many as are allowed."""
    request = whole.request
    bound = PeriodBound(feed.begins, feed.every, request.days, whole.by)
    asked = count_cells(data.table, feed.column, request.unit, period.low, period.high, bound)
    found = data.engine.run(asked)
    if whole.by is None:
        return np.array([found.column(0)[0].as_py()], dtype=np.int64)
    rows = dict(zip(*(one.to_pylist() for one in found.columns), strict=True))
    return np.array([rows.get(one, 0) for one in whole.values], dtype=np.int64)
