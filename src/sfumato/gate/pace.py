"""How much is worked on at a time, and how often one token may ask: never by anything in data."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from sfumato.gate.problems import RequestError, UnreadyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.gate.callers import Caller
    from sfumato.gate.settings import Limits

R = TypeVar("R")

_LOOKING = 4
_MOST_KNOWN = 10_000


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
            raise UnreadyError(
                "queue_full",
                "Too many requests wait for an answer. Nothing was charged. Try again in a second.",
            )
        return await anyio.to_thread.run_sync(working, limiter=self._room)


class Paces:
    """How often each token asks: a bucket that fills by the second and is emptied by requests."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._levels: dict[str, tuple[float, float]] = {}

    def check(self, caller: Caller) -> None:
        """Count a request; refused where its token asks too often."""
        now, limits = self._clock(), self._limits
        level, before = self._levels.get(caller.token, (float(limits.at_once), now))
        level = min(float(limits.at_once), level + (now - before) * limits.per_second)
        if level < 1:
            wait = math.ceil((1 - level) / limits.per_second)
            raise RequestError(
                429,
                "too_many_requests",
                f"This token asks more often than {limits.per_second:g} times a second. Nothing "
                f"was charged. Try again in {wait} s.",
                headers={"Retry-After": str(wait)},
            )
        self._levels[caller.token] = (level - 1, now)
        if len(self._levels) > _MOST_KNOWN:
            self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop those whose bucket is full again: they are as if they had never asked."""
        full = self._limits.at_once / self._limits.per_second
        self._levels = {token: one for token, one in self._levels.items() if now - one[1] < full}
