"""How much is worked on at a time, and how often a token or an address may ask.

None of it depends on data.
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

_LOOKING = 4
_MOST_KNOWN = 10_000
_HOUR_SECONDS = 3600
_WAITING_OF_ONE = 4
"""So many requests of one peer, or of one known caller, wait for costly work."""
_WAITING_STRANGERS = 64


class Workers:
    """Requests that are worked on, in threads, and those that wait for one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._room = CapacityLimiter(limits.workers)
        # Apart, so that who may come in is known even while all workers wait for the vault.
        self._lookers = CapacityLimiter(_LOOKING)

    async def look(self, looking: Callable[[], R]) -> R:
        """Have a short look at something, in a thread."""
        return await anyio.to_thread.run_sync(looking, limiter=self._lookers)

    async def work(self, working: Callable[[], R]) -> R:
        """Work in a thread as soon as one is free; sent away where too many wait."""
        if self._room.statistics().tasks_waiting >= self._limits.waiting:
            raise _queue_full()
        return await anyio.to_thread.run_sync(working, limiter=self._room)


class Buckets:
    """A token bucket for each key: full at first, refilled by the second, emptied by use.

    Memory is bounded: a full bucket says nothing and is dropped, and of more than `_MOST_KNOWN`
    keys the one that rested longest is dropped.
    """

    def __init__(
        self, per_second: float, size: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._size, self._clock = per_second, float(size), clock
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[float, float]] = {}
        """The level of each bucket and when it was that, in the order of last use."""

    def take(self, key: str, count: int = 1) -> float:
        """Take `count` from a bucket: 0, or, where it has less, the seconds to wait, at least 1."""
        with self._lock:
            now = self._clock()
            before, then = self._levels.pop(key, (self._size, now))
            level = min(self._size, before + (now - then) * self._per_second)
            is_taken = level >= count
            self._levels[key] = (level - count, now) if is_taken else (before, then)
            self._forget(now)
        return 0.0 if is_taken else max(1.0, (min(count, self._size) - level) / self._per_second)

    def give_back(self, key: str) -> None:
        """Undo the taking of 1, for what turned out not to count."""
        with self._lock:
            if key in self._levels:
                level, then = self._levels[key]
                self._levels[key] = (min(self._size, level + 1), then)

    def _forget(self, now: float) -> None:
        full_seconds = self._size / self._per_second
        while len(self._levels) > 1:
            oldest = next(iter(self._levels))
            if len(self._levels) <= _MOST_KNOWN and now - self._levels[oldest][1] < full_seconds:
                return
            del self._levels[oldest]


class Paces:
    """How often each token asks, and each address that shows none."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._buckets = Buckets(limits.per_second, limits.at_once, clock)

    def check(self, caller: Caller) -> None:
        """Count a request; refused where its token, or its address, asks too often."""
        # One bucket for all without a token would let one stranger shut all others out.
        key = f"token {caller.token}" if caller.token else f"peer {caller.peer}"
        wait = math.ceil(self._buckets.take(key))
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
    """How many survey reports each address sends to a round."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_hour = limits.reports_per_hour
        self._buckets = Buckets(self.per_hour / _HOUR_SECONDS, self.per_hour, clock)

    def check(self, peer: str, round_id: str, count: int = 1) -> None:
        """Count reports before they are looked at; refused where an address sends too many."""
        wait = math.ceil(self._buckets.take(f"{round_id} {peer}", count))
        if wait:
            fits = count <= self.per_hour  # else to wait does not help: there is never such room
            again = (
                f"send them again in {wait:,} s" if fits else f"at most {self.per_hour:,} at once"
            )
            raise RequestError(
                429,
                "requests_too_frequent",
                f"From one address this round takes {self.per_hour:,} reports an hour. None of "
                f"these was kept. Send fewer, or {again}.",
                headers={"Retry-After": str(wait)},
            )


class FairWorkers:
    """A few threads for costly work, shared fairly among those who wait for them.

    Known callers go first; strangers take turns by peer, so that however many requests one peer
    sends, another waits for one of them at most. Where all places are taken, a newcomer gets that
    of the last request of the peer that has most. Decision `server-limits`.
    """

    def __init__(self, workers: int) -> None:
        self._threads = CapacityLimiter(workers)
        self._free = workers
        self._known: dict[str, deque[asyncio.Future[None]]] = {}
        self._strangers: dict[str, deque[asyncio.Future[None]]] = {}

    async def work(self, lane: str, working: Callable[[], R], *, is_known: bool) -> R:
        """Work in a thread when it is this lane's turn; refused where too many wait."""
        await self._wait_for_turn(lane, self._known if is_known else self._strangers)
        try:
            return await anyio.to_thread.run_sync(working, limiter=self._threads)
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
                self._pass_on()  # it was this one's turn already
            raise

    def _make_room(self, lane: str, lanes: dict[str, deque[asyncio.Future[None]]]) -> None:
        waiting = len(lanes.get(lane, ()))
        if waiting >= _WAITING_OF_ONE:
            raise _queue_full()
        # Known callers are few and have limits of their own: strangers cannot take their places.
        if lanes is self._known or sum(map(len, lanes.values())) < _WAITING_STRANGERS:
            return
        longest = max(lanes, key=lambda one: len(lanes[one]))
        if len(lanes[longest]) <= waiting + 1:
            raise _queue_full()
        last = lanes[longest].pop()
        if not last.done():
            last.set_exception(_queue_full())

    def _pass_on(self) -> None:
        """Give the thread that has become free to whose turn it is."""
        for lanes in (self._known, self._strangers):
            while lanes:
                lane = next(iter(lanes))
                turns = lanes.pop(lane)
                turn = turns.popleft()
                if turns:
                    lanes[lane] = turns  # behind all others
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1


def _queue_full() -> UnreadyError:
    return UnreadyError(
        "server_busy",
        "Too many requests wait for an answer. Nothing was charged. Try again in a second.",
    )
