"""Limits on requests: how many are processed at a time, and how often each caller may send them.

No limit depends on data, so a refusal reveals nothing about it.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from sfumato.server.problem_json import RequestError, UnreadyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.server.authorization import Caller
    from sfumato.server.settings import Limits

R = TypeVar("R")

_LOOKUP_THREADS = 4
_MOST_BUCKETS = 10_000
"""Bounds the memory that strangers with many addresses can take."""
_HOUR_SECONDS = 3600
_WAITING_PER_LANE = 4
"""The most requests of one peer, or of one known caller, that wait for costly work."""
_WAITING_STRANGERS = 64


class Workers:
    """The threads that process requests, and the queue of requests that wait for one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = CapacityLimiter(limits.workers)
        # Separate threads: tokens are checked even while all workers wait for the vault.
        self._lookup_threads = CapacityLimiter(_LOOKUP_THREADS)

    async def look(self, function: Callable[[], R]) -> R:
        """Run a short lookup in a thread."""
        return await anyio.to_thread.run_sync(function, limiter=self._lookup_threads)

    async def work(self, function: Callable[[], R]) -> R:
        """Run a function in a thread as soon as one is free; refused if too many requests wait."""
        if self._threads.statistics().tasks_waiting >= self._limits.waiting:
            raise _queue_full()
        return await anyio.to_thread.run_sync(function, limiter=self._threads)


class Buckets:
    """A token bucket for each key: full at first, emptied by use, refilled over time.

    Memory is bounded: a bucket that is full again is forgotten, and of more than `_MOST_BUCKETS`
    the one that was not used for the longest time is.
    """

    def __init__(
        self, per_second: float, size: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._size, self._clock = per_second, float(size), clock
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[float, float]] = {}
        """The level of each bucket and the time of that level, in the order of last use."""

    def take(self, key: str, count: int = 1) -> float:
        """Take `count` from a bucket. Return 0, or the seconds to wait (at least 1) if it lacks."""
        # Surveys take from worker threads, so the event loop alone does not protect the levels.
        with self._lock:
            now = self._clock()
            old_level, since = self._levels.pop(key, (self._size, now))
            level = min(self._size, old_level + (now - since) * self._per_second)
            is_taken = level >= count
            self._levels[key] = (level - count, now) if is_taken else (old_level, since)
            self._forget(now)
        return 0.0 if is_taken else max(1.0, (min(count, self._size) - level) / self._per_second)

    def give_back(self, key: str) -> None:
        """Put 1 back that was taken, for a request that need not be counted."""
        with self._lock:
            if key in self._levels:
                level, since = self._levels[key]
                self._levels[key] = (min(self._size, level + 1), since)

    def _forget(self, now: float) -> None:
        # In the order of last use, so the search ends at the first bucket that is not full.
        full_seconds = self._size / self._per_second
        while len(self._levels) > 1:
            oldest = next(iter(self._levels))
            if len(self._levels) <= _MOST_BUCKETS and now - self._levels[oldest][1] < full_seconds:
                return
            del self._levels[oldest]


class Paces:
    """The rate limit of each token, and of each address without a token."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._buckets = Buckets(limits.per_second, limits.at_once, clock)

    def check(self, caller: Caller) -> None:
        """Count a request; refuse it if its caller sends too many."""
        wait = math.ceil(self._buckets.take(caller.key))
        if wait:
            subject = "This token asks" if caller.token else "Your address asks"
            raise RequestError(
                429,
                "requests_too_frequent",
                f"{subject} more often than {self._limits.per_second:g} times a second. Nothing "
                f"was charged. Try again in {wait} s.",
                headers={"Retry-After": str(wait)},
            )


class ReportPaces:
    """The limit on the survey reports that each address sends to a round."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_hour = limits.reports_per_hour
        self._buckets = Buckets(self.per_hour / _HOUR_SECONDS, self.per_hour, clock)

    def check(self, peer: str, round_id: str, count: int = 1) -> None:
        """Count reports before they are read; refuse them if their address sends too many."""
        wait = math.ceil(self._buckets.take(f"{round_id} {peer}", count))
        if wait:
            # A batch above the size of the bucket never fits, however long its sender waits.
            advice = (
                f"send them again in {wait:,} s"
                if count <= self.per_hour
                else f"at most {self.per_hour:,} at once"
            )
            raise RequestError(
                429,
                "requests_too_frequent",
                f"From one address this round takes {self.per_hour:,} reports an hour. None of "
                f"these was kept. Send fewer, or {advice}.",
                headers={"Retry-After": str(wait)},
            )


class FairWorkers:
    """A few threads for costly work, shared fairly among the callers who wait for them.

    Requests wait in lanes, one per peer or known caller. Lanes take turns, so a peer that sends
    many requests delays another peer by one request at most. Known callers go before strangers. If
    the queue is full, a new lane takes the place of the last request of the longest lane. Decision
    `server-limits`.
    """

    def __init__(self, workers: int) -> None:
        self._threads = CapacityLimiter(workers)
        self._free = workers
        # Dictionaries keep the order of insertion: the first lane is the one whose turn it is.
        self._known: dict[str, deque[asyncio.Future[None]]] = {}
        self._strangers: dict[str, deque[asyncio.Future[None]]] = {}

    async def work(self, lane: str, function: Callable[[], R], *, is_known: bool) -> R:
        """Run a function in a thread when it is the lane's turn; refused if too many wait."""
        await self._wait_for_turn(lane, self._known if is_known else self._strangers)
        try:
            return await anyio.to_thread.run_sync(function, limiter=self._threads)
        finally:
            self._pass_on()

    async def _wait_for_turn(
        self, lane: str, lanes: dict[str, deque[asyncio.Future[None]]]
    ) -> None:
        if self._free:
            self._free -= 1
            return
        self._make_room(lane, lanes)
        turn = asyncio.get_running_loop().create_future()
        lanes.setdefault(lane, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()  # the turn came at the moment of the cancellation
            raise

    def _make_room(self, lane: str, lanes: dict[str, deque[asyncio.Future[None]]]) -> None:
        waiting = len(lanes.get(lane, ()))
        if waiting >= _WAITING_PER_LANE:
            raise _queue_full()
        # Known callers are few and have limits of their own: strangers cannot take their places.
        if lanes is self._known or sum(map(len, lanes.values())) < _WAITING_STRANGERS:
            return
        longest = max(lanes, key=lambda name: len(lanes[name]))
        if len(lanes[longest]) <= waiting + 1:
            raise _queue_full()
        last = lanes[longest].pop()
        if not last.done():
            last.set_exception(_queue_full())

    def _pass_on(self) -> None:
        """Give a free thread to the lane whose turn it is."""
        for lanes in (self._known, self._strangers):
            while lanes:
                lane = next(iter(lanes))
                turns = lanes.pop(lane)
                turn = turns.popleft()
                if turns:
                    lanes[lane] = turns  # at the end: all other lanes come first
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1


def _queue_full() -> UnreadyError:
    return UnreadyError(
        "server_busy",
        "Too many requests wait for an answer. Nothing was charged. Try again in a second.",
    )
