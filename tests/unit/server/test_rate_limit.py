"""How often a token or an address may ask, and who waits for costly work."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from sfumato.server.authorization import Caller
from sfumato.server.problem_json import RequestError
from sfumato.server.rate_limit import Buckets, FairWorkers, Paces, ReportPaces
from sfumato.server.settings import Limits

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

ALICE, BOB = Caller("alice", "aaaaaaaa"), Caller("bob", "bbbbbbbb")


def test_a_bucket_is_emptied_by_requests_and_filled_by_the_clock() -> None:
    clock_value = [0.0]
    paces = Paces(Limits(per_second=2, at_once=3), clock=lambda: clock_value[0])
    for _ in range(3):
        paces.check(ALICE)
    with pytest.raises(RequestError) as refusal:
        paces.check(ALICE)
    assert (refusal.value.status, refusal.value.headers) == (429, {"Retry-After": "1"})
    paces.check(BOB)
    clock_value[0] = 0.5
    paces.check(ALICE)
    with pytest.raises(RequestError):
        paces.check(ALICE)
    clock_value[0] = 1000.0
    for _ in range(3):
        paces.check(ALICE)
    with pytest.raises(RequestError):
        paces.check(ALICE)


def test_strangers_have_a_bucket_by_address_and_not_one_for_all() -> None:
    paces = Paces(Limits(per_second=1, at_once=1), clock=lambda: 0.0)
    paces.check(Caller("", peer="192.0.2.1"))
    with pytest.raises(RequestError, match="Your address asks"):
        paces.check(Caller("", peer="192.0.2.1"))
    paces.check(Caller("", peer="192.0.2.2"))


def test_buckets_that_are_full_again_are_forgotten() -> None:
    clock_value = [0.0]
    buckets = Buckets(per_second=1, size=1, clock=lambda: clock_value[0])
    for number in range(10_001):
        clock_value[0] = float(number)
        assert buckets.take(str(number)) == 0
    assert len(buckets._levels) < 10


def test_many_keys_at_one_moment_take_bounded_memory_and_not_that_of_the_latest() -> None:
    buckets = Buckets(per_second=1, size=1, clock=lambda: 0.0)
    for number in range(30_000):
        assert buckets.take(str(number)) == 0
    assert len(buckets._levels) == 10_000
    assert buckets.take("29999") == 1


def test_more_than_a_bucket_holds_is_never_taken() -> None:
    buckets = Buckets(per_second=10, size=5, clock=lambda: 0.0)
    assert buckets.take("a", 6) == 1
    assert buckets.take("a", 5) == 0


def test_threads_together_take_no_more_than_a_bucket_holds() -> None:
    buckets = Buckets(per_second=1, size=500, clock=lambda: 0.0)
    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda _: buckets.take("a"), range(2000)))
    assert waits.count(0.0) == 500


class Crowd:
    """Requests for costly work whose order is seen, each done when it is told to be."""

    def __init__(self) -> None:
        self.workers = FairWorkers(1)
        self.begun: list[str] = []
        self._go = threading.Semaphore(0)
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, lane: str, *, is_known: bool = False) -> None:
        """Send a request and wait until it works, waits or was refused."""

        def working() -> None:
            self.begun.append(lane)
            assert self._go.acquire(timeout=30)

        async def asking() -> None:
            await self.workers.work(lane, working, is_known=is_known)

        self.tasks.append(asyncio.create_task(asking()))
        for _ in range(5):
            await asyncio.sleep(0)

    async def finish(self) -> list[str]:
        """Let all be done: what became of each that was refused."""
        for _ in self.tasks:
            self._go.release()
        ended = await asyncio.gather(*self.tasks, return_exceptions=True)
        assert self.workers._free == 1
        return [
            getattr(number, "code", type(number).__name__) for number in ended if number is not None
        ]


def test_a_batch_for_which_there_is_never_room_is_not_told_to_wait() -> None:
    paces = ReportPaces(Limits().among(4), clock=lambda: 0.0)
    with pytest.raises(RequestError) as refusal:
        paces.check("peer", "round", 100)
    assert "at most 75 at once" in refusal.value.message
    assert "again in" not in refusal.value.message
    paces.check("peer", "round", 75)


def run_alone(scene: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own: tests of pages leave a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, scene).result()


def test_peers_take_turns_and_known_callers_go_first() -> None:
    async def scene() -> list[str]:
        crowd = Crowd()
        for _ in range(4):
            await crowd.ask("a")
        await crowd.ask("b")
        await crowd.ask("c")
        await crowd.ask("owner", is_known=True)
        assert await crowd.finish() == []
        return crowd.begun

    assert run_alone(scene()) == ["a", "owner", "a", "b", "c", "a", "a"]


def test_one_peer_takes_few_places_and_a_newcomer_gets_one_of_them() -> None:
    async def scene() -> tuple[list[str], list[str]]:
        crowd = Crowd()
        for peer in range(17):
            for _ in range(6):
                await crowd.ask(f"flood {peer}")
        await crowd.ask("newcomer")
        await crowd.ask("owner", is_known=True)
        return await crowd.finish(), crowd.begun

    refused, begun = run_alone(scene())
    assert set(refused) == {"server_busy"}
    assert {"newcomer", "owner"} <= set(begun[:20])
    assert len(begun) == 1 + 64 + 1
    assert max(Counter(begun).values()) <= 5


def test_places_of_many_peers_are_not_taken_from_each_other() -> None:
    async def scene() -> tuple[list[str], list[str]]:
        crowd = Crowd()
        for peer in range(66):
            await crowd.ask(f"peer {peer}")
        await crowd.ask("owner", is_known=True)
        return await crowd.finish(), crowd.begun

    refused, begun = run_alone(scene())
    assert refused == ["server_busy"]
    assert begun[1] == "owner"


def test_a_request_that_is_given_up_gives_its_turn_to_another() -> None:
    async def scene() -> list[str]:
        crowd = Crowd()
        for lane in ("a", "b", "c"):
            await crowd.ask(lane)
        crowd.tasks[1].cancel()
        assert await crowd.finish() == ["CancelledError"]
        return crowd.begun

    assert run_alone(scene()) == ["a", "c"]


def test_reports_are_counted_by_address_and_round() -> None:
    clock_value = [0.0]
    paces = ReportPaces(Limits(reports_per_hour=10), clock=lambda: clock_value[0])
    paces.check("192.0.2.1", "r", 10)
    with pytest.raises(RequestError) as refusal:
        paces.check("192.0.2.1", "r", 1)
    assert (refusal.value.status, refusal.value.headers) == (429, {"Retry-After": "360"})
    assert "10 reports an hour" in refusal.value.message
    paces.check("192.0.2.1", "another", 10)
    paces.check("192.0.2.2", "r", 10)
    clock_value[0] = 360.0
    paces.check("192.0.2.1", "r", 1)
    with pytest.raises(RequestError):
        paces.check("192.0.2.3", "r", 11)


def test_processes_share_the_reports_of_an_address() -> None:
    assert Limits(reports_per_hour=300).among(4).reports_per_hour == 75
