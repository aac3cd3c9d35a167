"""Heavy work is bounded; small work and others than the one who asks too much go on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import EngineError
from sfumato.vault.limits import MOST_WAITING, SMALL_BYTES, HeavyWork
from sfumato.vault.principals import PERMITTED, Principal, PrincipalKind
from sfumato.vault.session import Asker

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = 10 * SMALL_BYTES
OWNER = Asker("owner", ())


def external(name: str) -> Asker:
    kind = PrincipalKind.EXTERNAL
    person = Principal(name=name, kind=kind, shapes=PERMITTED[kind])
    return Asker(name, (), rights=person)


ANA, BOB = external("ana"), external("bob")


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it takes too long")


def test_small_work_never_waits() -> None:
    heavy = HeavyWork(HEAVY)
    with heavy.room(HEAVY, ANA, 0), heavy.room(SMALL_BYTES, BOB, 0):
        pass


def test_heavy_work_takes_its_weight_and_gives_it_back() -> None:
    heavy, leave, inside = HeavyWork(2 * HEAVY), threading.Event(), threading.Barrier(3)

    def hold(asker: Asker) -> None:
        with heavy.room(HEAVY, asker, 0):
            inside.wait(30)
            leave.wait(30)

    with ThreadPoolExecutor(2) as threads:
        held = [threads.submit(hold, asker) for asker in (ANA, BOB)]
        inside.wait(30)
        with pytest.raises(EngineError) as busy, heavy.room(HEAVY, OWNER, 0):
            pass
        leave.set()
        for one in held:
            one.result(30)
    assert busy.value.code == "heavy_work_busy"
    assert "Nothing was charged" in busy.value.message
    with heavy.room(100 * HEAVY, ANA, 0):  # as much as there is, were it more
        pass


def test_a_failure_gives_its_room_back() -> None:
    heavy = HeavyWork(HEAVY)
    for _ in range(3):
        with pytest.raises(ValueError, match="inside"), heavy.room(HEAVY, ANA, 0):
            raise ValueError("inside")


def test_who_has_room_needs_no_more() -> None:
    heavy = HeavyWork(HEAVY)
    with heavy.room(HEAVY, ANA, 0), heavy.room(HEAVY, ANA, 0):
        pass
    with heavy.room(HEAVY, ANA, 0):
        pass


def test_one_of_each_waits_and_few_in_all_but_owners() -> None:
    heavy, done = HeavyWork(HEAVY), list[str]()
    askers = [ANA, BOB, *(external(f"x{n}") for n in range(MOST_WAITING - 2))]

    def work(asker: Asker) -> None:
        with heavy.room(HEAVY, asker, 30):
            done.append(asker.principal)

    with ThreadPoolExecutor(MOST_WAITING + 2) as threads:
        with heavy.room(HEAVY, OWNER, 0):
            waiting = []
            for place, asker in enumerate(askers, 1):
                waiting.append(threads.submit(work, asker))
                until(lambda: len(heavy._queue) == place)  # noqa: B023
            for asker in (ANA, external("late")):
                with pytest.raises(EngineError):
                    threads.submit(work, asker).result()
            waiting.append(threads.submit(work, OWNER))
            until(lambda: len(heavy._queue) == MOST_WAITING + 1)
        for one in waiting:
            one.result(30)
    assert done == [*(one.principal for one in askers), "owner"]
