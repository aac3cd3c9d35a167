"""What the console keeps, the same in SQLite and in PostgreSQL, and for several servers at once."""

from __future__ import annotations

import stat
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.fixtures.ledgers import code_of

from sfumato.errors import PolicyError
from sfumato.release.files_in_use import CONSOLE
from sfumato.vault import programs
from sfumato.vault.console_store import (
    DEVICE_SECONDS,
    INVITED_SECONDS,
    MOST_DEVICES,
    Guesser,
    Logins,
    TryLimits,
)
from sfumato.vault.vault import create_vault, open_vault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.vault.vault import Vault

_POSTGRES = [pytest.mark.postgres, pytest.mark.xdist_group("postgres")]
LASTING = {"idle": 1800.0, "absolute": 43200.0}
SCHEMA = """\
table = "people"
[columns.age]
kind = "integer"
bounds = [0, 99]
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=_POSTGRES)])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Vault, Vault]]:
    """One vault, as two servers have it."""
    ledger = "ledger.sqlite"
    if request.param == "postgres":
        import psycopg

        url, schema = request.getfixturevalue("postgres_url"), f"console_{uuid4().hex}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        ledger = f"{url}&options=-csearch_path%3D{schema}"
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(90))) + "\n")
    (tmp_path / "people.toml").write_text(SCHEMA)
    with ExitStack() as stack:
        one = stack.enter_context(create_vault(tmp_path / "clinic", ledger=ledger))
        one.add("people", tmp_path / "people.csv", tmp_path / "people.toml", epsilon=8)
        one.people.add("ann", "purchaser", epsilon=1, population="people", operator="Ann")
        yield one, stack.enter_context(open_vault(tmp_path / "clinic"))


def test_an_invitation_is_taken_up_once_at_whichever_server(
    servers: tuple[Vault, Vault], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (vault.logins for vault in servers)
    old, secret = one.invite("ann"), one.invite("ann")
    assert (other.invited(old), other.invited(secret)) == (None, "ann")
    with pytest.raises(PolicyError):
        one.invite("nobody")
    assert other.accept(secret, "first") == "ann"
    assert one.accept(secret, "second") is None
    assert one.hash_of("ann") == "first"
    late, now = one.invite("ann"), one._clock()
    monkeypatch.setattr(other, "_clock", lambda: now + INVITED_SECONDS + 1)
    assert other.invited(late) is None
    assert other.accept(late, "third") is None


def test_an_invitation_is_taken_up_once_by_requests_at_the_same_moment(
    servers: tuple[Vault, Vault],
) -> None:
    """Whoever has stolen the link and is a moment later must not set a second password."""
    logins = [vault.logins for vault in servers] * 3
    with ThreadPoolExecutor(len(logins)) as pool:
        for _ in range(10):
            secret, together = logins[0].invite("ann"), Barrier(len(logins))

            def accept(number: int, secret: str = secret, together: Barrier = together) -> bool:
                together.wait()
                return logins[number].accept(secret, f"password {number}") is not None

            assert sum(pool.map(accept, range(len(logins)))) == 1


def test_of_invitations_at_the_same_moment_one_stays_valid(servers: tuple[Vault, Vault]) -> None:
    logins = [vault.logins for vault in servers] * 3
    with ThreadPoolExecutor(len(logins)) as pool:
        for _ in range(10):
            together = Barrier(len(logins))

            def invite(number: int, together: Barrier = together) -> str:
                together.wait()
                return logins[number].invite("ann")

            secrets = list(pool.map(invite, range(len(logins))))
            assert sum(logins[0].invited(secret) == "ann" for secret in secrets) == 1


def test_a_session_is_known_to_all_servers_until_it_is_over(servers: tuple[Vault, Vault]) -> None:
    one, other = (vault.logins for vault in servers)
    session = one.begin("ann")
    one.set_notices(session, ["Done."])
    found = other.look_up(session, **LASTING)
    assert found is not None
    assert (found.principal, found.notices) == ("ann", ("Done.",))
    other.note_use(session, shown=True)
    again = one.look_up(session, **LASTING)
    assert again is not None
    assert again.notices == ()
    one.change("ann", "another")
    assert other.look_up(session, **LASTING) is None
    ended = one.begin("ann")
    other.end(ended, began_before=0.0)
    assert one.look_up(ended, **LASTING) is None


def test_tries_are_counted_over_all_servers(servers: tuple[Vault, Vault]) -> None:
    one, other = (vault.logins for vault in servers)
    limits, peer = TryLimits(per_guesser=3, repeated=4, first=6), Guesser("peer a", "a")
    tries = [logins.may_try("ann", peer, limits) for logins in (one, other, one, other)]
    assert tries == [True, True, True, False]
    one.forget_tries("ann", peer)
    assert other.may_try("ann", peer, limits)


def test_strangers_share_the_tries_of_a_name_and_known_devices_have_their_own(
    servers: tuple[Vault, Vault],
) -> None:
    one, other = (vault.logins for vault in servers)
    limits, now = TryLimits(per_guesser=3, repeated=4, first=6), one._clock()
    one._clock = other._clock = lambda: now

    def tries(guesser: Guesser, name: str = "ann") -> list[bool]:
        return [logins.may_try(name, guesser, limits) for logins in (one, other, one, other)]

    assert tries(Guesser("peer a", "a")) == [True, True, True, False]
    # The fourth try of strangers is this one's first; repeated tries are over.
    assert tries(Guesser("peer b", "b")) == [True, False, False, False]
    assert tries(Guesser("peer c", "c")) == [True, False, False, False]
    assert tries(Guesser("peer d", "d")) == [True, False, False, False]
    assert tries(Guesser("peer e", "e")) == [False] * 4
    assert tries(Guesser("peer e", "e"), "bob") == [True, True, True, False]
    assert tries(Guesser("device", "ann", is_known=True)) == [True, True, True, False]
    now += limits.seconds
    assert tries(Guesser("peer e", "e")) == [True, True, True, False]


def test_guesses_at_once_from_both_servers_are_counted_once_each(
    servers: tuple[Vault, Vault],
) -> None:
    limits = TryLimits(per_guesser=5, repeated=8, first=10)

    def tries(n: int) -> list[bool]:
        logins, peer = servers[n % 2].logins, Guesser(f"peer {n // 2}", "x")
        return [logins.may_try("ann", peer, limits) for _ in range(6)]

    with ThreadPoolExecutor(12) as pool:
        granted = [one for found in pool.map(tries, range(12)) for one in found]
    assert 8 <= granted.count(True) <= 10


def test_rehearsals_at_once_from_both_servers_are_counted_once_each(
    servers: tuple[Vault, Vault], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "MOST_REHEARSALS", 4)

    def rehearsed(n: int) -> str:
        return code_of(servers[n % 2].program_registry.count_rehearsal, "ann", 1.0)

    with ThreadPoolExecutor(16) as pool:
        outcomes = Counter(pool.map(rehearsed, range(16)))
    assert outcomes == {"no error": 4, "rehearsals_too_many": 12}


def test_a_device_is_known_for_its_own_name_until_it_is_replaced(
    servers: tuple[Vault, Vault],
) -> None:
    one, other = (vault.logins for vault in servers)
    first = one.remember_device("ann", "")
    assert other.knows_device("ann", first)
    assert not other.knows_device("owner", first)
    second = other.remember_device("ann", first)
    assert not one.knows_device("ann", first)
    for _ in range(MOST_DEVICES):
        last = one.remember_device("ann", "")
    assert one.knows_device("ann", last)
    assert not other.knows_device("ann", second)
    now = one._clock()
    one._clock = lambda: now + DEVICE_SECONDS + 1
    assert not one.knows_device("ann", last)
    other.change("ann", "another")
    assert not other.knows_device("ann", last)


def test_a_question_is_kept_once_with_its_answer(servers: tuple[Vault, Vault]) -> None:
    one, other = servers
    asked = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.5"}
    answer = one.query(asked["sql"], epsilon=0.5, principal="ann", request_id="r")
    for vault in (one, other):
        vault.history.add("ann", "r", asked, answer, ["people"])
    [kept] = other.history.list("ann")
    assert kept.asked == asked
    again = other.history.answer("ann", kept)
    assert again.table == answer.table
    assert again.remaining == answer.remaining
    assert other.history.get("bob", "r") is None


def test_a_form_that_is_sent_twice_at_once_is_one_question(servers: tuple[Vault, Vault]) -> None:
    asked = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.5"}
    answer = servers[0].query(asked["sql"], epsilon=0.5, principal="ann", request_id="r")
    histories = [vault.history for vault in servers] * 3
    with ThreadPoolExecutor(len(histories)) as pool:
        for turn in range(10):
            together = Barrier(len(histories))

            def add(number: int, turn: int = turn, together: Barrier = together) -> str:
                together.wait()
                return histories[number].add("ann", f"r{turn}", asked, answer, ["people"])

            assert set(pool.map(add, range(len(histories)))) == {f"r{turn}"}
    assert len(histories[0].list("ann")) == 10


def test_nothing_that_lets_somebody_in_lies_in_the_file(tmp_path: Path) -> None:
    with create_vault(tmp_path / "clinic") as vault:
        vault.people.add("ann", "purchaser", operator="Ann")
        secrets = [vault.logins.invite("ann"), vault.logins.begin("ann")]
        assert isinstance(vault.logins, Logins)
    kept = tmp_path / "clinic" / CONSOLE
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not [one for one in secrets if one.encode() in kept.read_bytes()]
