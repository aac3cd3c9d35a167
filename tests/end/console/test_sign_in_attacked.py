"""Strangers who guess and flood do not keep people out of the console who can sign in."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from argon2 import PasswordHasher
from tests.end.console.conftest import consoled
from tests.end.console.visitors import PASSWORD, Console
from tests.end.gate.people_served import people_vault

from sfumato.console import sign_in as passwords
from sfumato.server.settings import Limits
from sfumato.testing.servers import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIGN_IN = "/console/sign-in"
OWNER = {"name": "owner", "password": PASSWORD}
ATTACKER, ELSEWHERE = "127.0.0.66", "127.0.0.77"


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """A console of its own for each test: tries are counted for a minute."""
    with consoled(tmp_path) as found:
        yield found


def guess(console: Console, address: str, tries: int, name: str = "owner") -> list[int]:
    stranger = console.stranger(address)
    word = stranger.word(SIGN_IN)
    wrong = {"name": name, "password": "wrong password"}
    return [stranger.send(SIGN_IN, word=word, **wrong).status for _ in range(tries)]


def test_guesses_from_one_address_do_not_keep_the_owner_at_another_out(console: Console) -> None:
    assert guess(console, ATTACKER, 8) == [403] * 5 + [429] * 3
    assert console.stranger(ELSEWHERE).send(SIGN_IN, **OWNER).status == 303
    # The owner's success does not give the attacker new tries.
    assert guess(console, ATTACKER, 1) == [429]


def test_a_few_addresses_do_not_keep_the_owner_at_a_new_one_out(console: Console) -> None:
    statuses = [one for n in range(10) for one in guess(console, f"127.0.1.{n + 1}", 6)]
    assert statuses.count(403) < 60
    assert console.stranger(ELSEWHERE).send(SIGN_IN, **OWNER).status == 303


def test_many_addresses_cannot_guess_without_bound_nor_keep_a_known_browser_out(
    console: Console,
) -> None:
    owner = console.stranger(ELSEWHERE)
    assert owner.send(SIGN_IN, **OWNER).status == 303
    assert owner.send("/console/sign-out", page="/console").status == 303
    statuses = [one for n in range(80) for one in guess(console, f"127.0.2.{n + 1}", 2)]
    assert statuses.count(403) == 60
    assert guess(console, "127.0.3.1", 1) == [429]
    assert owner.send(SIGN_IN, **OWNER).status == 303


def test_a_known_browser_has_few_tries_and_only_for_its_own_name(console: Console) -> None:
    alice = console.stranger(ELSEWHERE)
    assert alice.send(SIGN_IN, name="alice", password=PASSWORD).status == 303
    assert alice.send("/console/sign-out", page="/console").status == 303
    word = alice.word(SIGN_IN)
    for n in range(80):
        guess(console, f"127.0.5.{n + 1}", 1)
    for name, granted in (("alice", 5), ("owner", 0)):
        wrong = {"name": name, "password": "wrong password"}
        tried = [alice.send(SIGN_IN, word=word, **wrong).status for _ in range(7)]
        assert tried == [403] * granted + [429] * (7 - granted)


def test_a_signed_in_owner_changes_the_password_while_strangers_guess(console: Console) -> None:
    owner = console.visitor("owner")
    for n in range(80):
        guess(console, f"127.0.4.{n + 1}", 1)
    changed = {"before": PASSWORD, "password": "another good one", "again": "another good one"}
    assert owner.send("/console/password", **changed).status == 303


class SlowHasher(PasswordHasher):
    """Takes its time, as the real one does, without its cost to the machine."""

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # type: ignore[override]  # noqa: A002
        time.sleep(0.2)
        return bool(super().verify(hash, password))


@pytest.fixture
def _slow_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "hasher", lambda: slow)


@pytest.mark.usefixtures("_slow_hashes")
def test_a_flood_from_one_address_leaves_the_owner_a_turn(console: Console) -> None:
    stranger, owner = console.stranger(ATTACKER), console.stranger(ELSEWHERE)
    word, own_word = stranger.word(SIGN_IN), owner.word(SIGN_IN)
    over = threading.Event()

    def flood(n: int) -> list[int]:
        heard: list[int] = []
        while not over.is_set():
            wrong = {"name": f"somebody {n} {len(heard)}", "password": "wrong password"}
            heard.append(stranger.send(SIGN_IN, word=word, **wrong).status)
        return heard

    with ThreadPoolExecutor(40) as pool:
        floods = [pool.submit(flood, n) for n in range(40)]
        try:
            time.sleep(0.5)
            begun = time.monotonic()
            status = owner.send(SIGN_IN, word=own_word, **OWNER).status
            seconds = time.monotonic() - begun
        finally:
            over.set()
        heard = [status for one in floods for status in one.result()]
    assert status == 303
    # Two hashes of 0.2 s at a time: its turn comes after one of them, were the machine idle.
    assert seconds < 10
    assert {403, 503} <= set(heard) <= {403, 429, 503}
    assert heard.count(403) <= 40


def test_a_flood_of_pages_from_one_address_leaves_pages_to_others(tmp_path: Path) -> None:
    limits = Limits(per_second=1, at_once=8)
    with people_vault(tmp_path) as vault, served(vault, limits=limits) as server:
        console = Console(vault, server.url, "")
        stranger = console.stranger(ATTACKER)
        assert 429 in [stranger.get(SIGN_IN).status for _ in range(20)]
        assert console.stranger(ELSEWHERE).get(SIGN_IN).status == 200
        path = "/v1/openapi.json"
        assert 429 in [stranger.client.ask("GET", path).status for _ in range(20)]
        assert console.stranger(ELSEWHERE).client.ask("GET", path).status == 200
        # A health check costs nothing and is never counted.
        heard = {stranger.client.ask("GET", "/v1/health").status for _ in range(20)}
        assert heard == {200}


def test_somebody_who_signs_in_again_and_again_does_not_keep_strangers_waiting(
    console: Console,
) -> None:
    """Known callers go before strangers, so even right passwords of theirs must be bounded."""
    alice = console.stranger(ELSEWHERE)
    mine, statuses = {"name": "alice", "password": PASSWORD}, []
    for _ in range(passwords.HASHES_AT_ONCE + 8):
        word = alice.word(SIGN_IN)
        statuses.append(alice.send(SIGN_IN, word=word, **mine).status)
        if statuses[-1] == 303:
            alice.send("/console/sign-out", page="/console")
    assert statuses[:5] == [303] * 5
    assert 429 in statuses
    # A stolen device, with which only wrong passwords are tried, uses up nothing of a name.
    owner = console.stranger(ELSEWHERE)
    assert owner.send(SIGN_IN, **OWNER).status == 303
    assert owner.send("/console/sign-out", page="/console").status == 303
    word = owner.word(SIGN_IN)
    wrong = {"name": "owner", "password": "wrong password"}
    tried = [owner.send(SIGN_IN, word=word, **wrong).status for _ in range(40)]
    assert tried == [403] * 5 + [429] * 35
    invited = console.vault.logins.invite("owner")
    path = f"/console/invitation/{invited}"
    assert owner.send(path, password="another good one", again="another good one").status == 303
