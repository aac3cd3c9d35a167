"""Threads share a transaction, and nobody waits for one who has left."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from sfumato.errors import LedgerError, RolledBackError
from sfumato.privacy.ledger.commit import GroupCommit, Ticket


class Commits:
    """Batches, the first of which waits until it is let go."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.entered = threading.Event()
        self.release = threading.Event()
        self.failure: BaseException | None = None

    def __call__(self, batch: list[Ticket[object]]) -> None:
        self.sizes.append(len(batch))
        self.entered.set()
        self.release.wait()
        if self.failure is not None:
            raise self.failure
        for ticket in batch:
            ticket.apply(cast("Any", None))


def start(group: GroupCommit, results: list[object], value: int) -> threading.Thread:
    def work() -> None:
        try:
            results.append(group.run(lambda _: value))
        except BaseException as error:  # noqa: BLE001 - the test looks at all of them
            results.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def wait_for(group: GroupCommit, count: int) -> None:
    while len(group._waiting) < count:
        threading.Event().wait(0.001)


def test_those_who_come_meanwhile_share_the_next_transaction() -> None:
    commits, results = Commits(), list[object]()
    group = GroupCommit(commits)
    threads = [start(group, results, 0)]
    commits.entered.wait()
    threads += [start(group, results, value) for value in range(1, 32)]
    wait_for(group, 31)
    commits.release.set()
    for thread in threads:
        thread.join()
    assert commits.sizes == [1, 31]
    assert sorted(cast("list[int]", results)) == list(range(32))
    assert group.run(lambda _: 99) == 99


@pytest.mark.parametrize("failure", [OSError(), KeyboardInterrupt(), LedgerError("busy", "Busy.")])
def test_one_failure_is_everybody_s_and_the_next_batch_runs(failure: BaseException) -> None:
    commits, results = Commits(), list[object]()
    group = GroupCommit(commits)
    commits.failure = failure
    threads = [start(group, results, 0)]
    commits.entered.wait()
    threads += [start(group, results, value) for value in range(1, 4)]
    wait_for(group, 3)
    commits.release.set()
    for thread in threads:
        thread.join()
    assert commits.sizes == [1, 3]
    assert all(isinstance(result, BaseException) for result in results)
    # All but the two who led their batches got an error of their own.
    assert sum(result is failure for result in results) == 2


def test_an_own_error_keeps_every_field_of_the_shared_one() -> None:
    commits, results = Commits(), list[object]()
    group = GroupCommit(commits)
    said: dict[str, Any] = {
        "parameter": "head",
        "given": 1,
        "allowed": 2,
        "hint": "Wait.",
        "detail": "by 7",
    }
    failure = RolledBackError("busy", "Busy.", **said)
    commits.failure = failure
    threads = [start(group, results, 0)]
    commits.entered.wait()
    threads += [start(group, results, value) for value in range(1, 3)]
    wait_for(group, 2)
    commits.release.set()
    for thread in threads:
        thread.join()
    [own] = [result for result in results if result is not failure]
    assert isinstance(own, RolledBackError)
    assert {name: getattr(own, name) for name in said} == said
    assert (own.code, own.message) == ("busy", "Busy. Wait.")
    assert sum(isinstance(result, LedgerError) for result in results) >= 2
    commits.failure = None
    assert group.run(lambda _: 5) == 5


def test_a_waiter_who_leaves_hands_its_turn_on() -> None:
    commits, results = Commits(), list[object]()
    group = GroupCommit(commits)
    first = start(group, results, 0)
    commits.entered.wait()
    leaver: Ticket[object] = Ticket(lambda _: None, None)
    group._waiting.append(leaver)
    second = start(group, results, 1)
    wait_for(group, 2)
    commits.release.set()
    leaver.called.wait()  # now it leads, and is interrupted
    group._leave(leaver)
    first.join()
    second.join()
    assert sorted(cast("list[int]", results)) == [0, 1]
    assert group.run(lambda _: 2) == 2
