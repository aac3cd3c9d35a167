"""How often a token may ask."""

from __future__ import annotations

import pytest

from sfumato.gate.callers import Caller
from sfumato.gate.pace import Paces
from sfumato.gate.problems import RequestError
from sfumato.gate.settings import Limits

ALICE, BOB = Caller("alice", "aaaaaaaa"), Caller("bob", "bbbbbbbb")


def test_a_bucket_is_emptied_by_requests_and_filled_by_the_clock() -> None:
    now = [0.0]
    paces = Paces(Limits(per_second=2, at_once=3), clock=lambda: now[0])
    for _ in range(3):
        paces.check(ALICE)
    with pytest.raises(RequestError) as refusal:
        paces.check(ALICE)
    assert (refusal.value.status, refusal.value.headers) == (429, {"Retry-After": "1"})
    paces.check(BOB)
    now[0] = 0.5
    paces.check(ALICE)
    with pytest.raises(RequestError):
        paces.check(ALICE)
    now[0] = 1000.0
    for _ in range(3):
        paces.check(ALICE)
    with pytest.raises(RequestError):
        paces.check(ALICE)


def test_a_clock_of_many_tokens_forgets_those_that_rest() -> None:
    now = [0.0]
    paces = Paces(Limits(per_second=1, at_once=1), clock=lambda: now[0])
    for one in range(10_001):
        now[0] = float(one)
        paces.check(Caller("x", str(one)))
    assert len(paces._levels) < 10
