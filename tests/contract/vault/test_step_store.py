"""What streams remember, in SQLite and in PostgreSQL: one figure a step, the same words again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.contract.privacy.ledger.conftest import fresh_schema
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.methods.stream.request import Participation
from sfumato.release.files_in_use import SECRET
from sfumato.release.fingerprint import new_secret, write_secret
from sfumato.vault.config import Config
from sfumato.vault.feeds.step_store import StepStore, StepTape, _StreamPeople
from sfumato.vault.streams import Arrival, Reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_POSTGRES = [pytest.mark.postgres, pytest.mark.xdist_group("postgres")]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=_POSTGRES)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], StepStore]]:
    database = "ledger.sqlite"
    if request.param == "postgres":
        database = fresh_schema(request.getfixturevalue("postgres_url"))
    config = Config(tmp_path, database, tmp_path / "head")
    write_secret(tmp_path / SECRET, new_secret())
    stores: list[StepStore] = []

    def one() -> StepStore:
        stores.append(StepStore(config))
        return stores[-1]

    yield one
    for each in stores:
        each.close()


def test_a_step_stands_once_and_its_words_are_the_same_until_then(
    opened: Callable[[], StepStore],
) -> None:
    store, other = opened(), opened()
    assert store.reached("a") is None
    for step in (1, 2):
        drawn = [store.tape("a", step), other.tape("a", step), opened().tape("a", step)]
        words = [[one.words(count).tolist() for count in (4, 1024)] for one in drawn]
        assert words[0] == words[1] == words[2]
        assert words[0][0] != words[0][1][:4]
        made = Reached(step, {"sum": [2**70]}, {"values": [step], "sd": [1.5]})
        assert store.settle("a", made) == made
        late = Reached(step, {"sum": [0]}, {"values": [99], "sd": [1.5]})
        assert other.settle("a", late) == made, "the second gets what the first came to"
        assert opened().tape("a", step).words(4).tolist() != words[0][0], "they are forgotten"
    assert other.reached("a") == made
    gap = Reached(9, {}, {"values": [9], "sd": [1.0]})
    assert store.settle("a", gap) == made, "no step is left out"
    assert store.reached("b") is None
    first = Reached(1, {}, {"values": [7], "sd": [1.0]})
    assert store.settle("b", first) == first


PERSON = Participation(sf.Entity("who", max_rows=3))


def came(*people: Any) -> Arrival:
    """Rows of these people, all in one cell."""
    return Arrival.of_people(pa.array(people), np.zeros(len(people), dtype=np.int64), 1)


def begin(store: StepStore, step: int, arrival: Arrival, **said: Any) -> int | None:
    """What a step counts; None where somebody else is done with it."""
    found = store.reserve("a", step, arrival, PERSON, **{"consent": {}, **said})
    return None if found is None else int(found.counts[0])


def settle(store: StepStore, step: int) -> None:
    store.settle("a", Reached(step, {}, {"values": [step], "sd": [1.0]}))


def test_a_step_that_is_begun_again_counts_the_same_and_uses_nothing_up_twice(
    opened: Callable[[], StepStore],
) -> None:
    store = opened()
    assert begin(store, 1, came(7, 7, 8), consent={"clinic": 4}) == 3
    # Killed here: the table has other rows by the time that another process takes the step up.
    assert begin(opened(), 1, came(*[9] * 50)) == 3
    found = opened().reserved("a")
    assert found is not None
    assert found.consent == {"clinic": 4}
    settle(store, 1)
    assert begin(opened(), 1, came(9)) is None, "it stands"
    assert begin(store, 2, came(7, 7, 7, 9)) == 2, "one row is left to 7, and 9 never counted"
    settle(store, 2)
    assert begin(store, 3, came(7, 8, 8, 8)) == 2
    settle(store, 3)
    assert begin(store, 4, came(7, 8, 9, 9, 9)) == 2, "whoever was erased and is back has no more"
    assert begin(store, 3, came(7)) is None


def test_people_are_known_however_their_column_is_declared(
    opened: Callable[[], StepStore],
) -> None:
    store = opened()
    for step, arrival in enumerate((came(7), came("7"), came(7.0), came(7, 7)), start=1):
        assert begin(store, step, arrival) == (1 if step < 4 else 0)
    assert begin(store, 5, came("7", "8", None)) == 1


def test_one_of_many_at_once_begins_a_step(opened: Callable[[], StepStore]) -> None:
    stores = [opened() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda at: begin(stores[at], 1, came(*range(at + 1))), range(6)))
        assert len(set(found)) == 1
        again = list(pool.map(lambda at: begin(stores[at], 2, came(*[0] * (at + 1))), range(6)))
    assert len(set(again)) == 1
    assert again[0] is not None
    assert 1 <= again[0] <= 2, "one row of person 0 counted in the first step"


@pytest.mark.parametrize("step", [1, 2])
def test_a_host_waits_for_another_that_is_in_the_middle_of_beginning_the_step(
    opened: Callable[[], StepStore], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Under READ COMMITTED too: nobody else reads what people have used up until then."""
    slow, quick = opened(), opened()
    if step == 2:
        assert begin(slow, 1, came(7, 8, 8)) == 3
        settle(slow, 1)
    inside, may_go_on, use_up = Event(), Event(), _StreamPeople.use_up

    def held_up(known: _StreamPeople, *given: Any) -> Any:
        found = use_up(known, *given)
        if not inside.is_set():
            inside.set()
            assert may_go_on.wait(20)
        return found

    monkeypatch.setattr(_StreamPeople, "use_up", held_up)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(begin, slow, step, came(7, 8))
        assert inside.wait(20)
        second = pool.submit(begin, quick, step, came(7, 7, 7, 8, 8, 8, 9))
        assert wait([second], timeout=0.5).not_done, "it counts nothing in the meantime"
        may_go_on.set()
        assert (first.result(), second.result()) == (2, 2)
    settle(quick, step)
    left = {1: 4, 2: 1}[step]
    assert begin(slow, step + 1, came(7, 7, 7, 8, 8, 8)) == left


def test_two_hosts_that_draw_at_once_draw_the_same(opened: Callable[[], StepStore]) -> None:
    tapes = [opened().tape("a", 1) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for count in (1, 64, 4096):
            words = pool.map(StepTape.words, tapes, [count] * len(tapes))
            assert len({one.tobytes() for one in words}) == 1


def test_what_is_lost_ends_the_stream(opened: Callable[[], StepStore], tmp_path: Path) -> None:
    store = opened()
    begin(store, 1, came(7, 8))
    settle(store, 1)
    assert code_of(begin, store, 3, came(7)) == "stream_state_lost", "a step is left out"
    secret = (tmp_path / SECRET).read_bytes()
    (tmp_path / SECRET).write_bytes(new_secret())
    assert code_of(begin, store, 2, came(7)) == "stream_state_lost", "under another key all are new"
    (tmp_path / SECRET).write_bytes(secret)
    assert begin(store, 2, came(7)) == 1
    settle(store, 2)
    with store._store.writing() as connection:
        connection.exec_driver_sql("DELETE FROM sfumato_stream_people")
    assert code_of(begin, store, 3, came(7)) == "stream_state_lost"
    with store._store.writing() as connection:
        connection.exec_driver_sql("DELETE FROM sfumato_stream_reserved")
    assert code_of(begin, store, 3, came(7)) == "stream_state_lost"
    rows = Participation(sf.Rows())
    found = store.reserve("b", 3, Arrival.of_counts(np.array([5])), rows, consent={})
    assert found is not None
    assert found.counts.tolist() == [5], "where every row is one of its own nothing is used up"


def test_nobody_is_named_or_followed_from_stream_to_stream(opened: Callable[[], StepStore]) -> None:
    store = opened()
    for stream in ("a", "b"):
        store.reserve(stream, 1, came("ann", "bob"), PERSON, consent={})
    with store._store.reading() as connection:
        rows = connection.exec_driver_sql("SELECT person FROM sfumato_stream_people").all()
    hashes = {bytes(one[0]) for one in rows}
    assert len(hashes) == 4
    assert {len(one) for one in hashes} == {16}
