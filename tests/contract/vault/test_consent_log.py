"""The log of consent keeps what was said and notices what was lost, in every database."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.fixtures.ledgers import code_of, in_child

from sfumato.errors import SfumatoError
from sfumato.privacy.ledger.commit import OutsideHead
from sfumato.release.files_in_use import consent_head
from sfumato.vault.config import Config
from sfumato.vault.consent.log import ConsentLog
from sfumato.vault.consent.registry import ConsentChange, current_time, open_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TIME = "2026-03-01T00:00:00+00:00"
LATER = "2026-03-02T00:00:00+00:00"


@dataclass
class Place:
    """Where a log lies, and how to run a statement on its database behind its back."""

    config: Config
    run: Callable[[str], object]

    def open(self) -> ConsentLog:
        return open_log(self.config)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    folder = tmp_path / "vault"
    folder.mkdir()
    head = tmp_path / "vault.head"
    if request.param == "sqlite":
        import sqlite3

        def lite(statement: str) -> object:
            with closing(sqlite3.connect(folder / "consent.sqlite")) as connection, connection:
                return connection.execute(statement).fetchall()

        return Place(Config(folder, "ledger.sqlite", head), lite)
    import psycopg

    url: str = request.getfixturevalue("postgres_url")
    schema = f"consent_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    address = f"{url}&options=-csearch_path%3D{schema}"

    def run(statement: str) -> object:
        with psycopg.connect(address, autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else None

    return Place(Config(folder, address, head), run)


def say(log: ConsentLog, *said: tuple[str, bool], time: str = "", of: str = "town") -> int:
    words = [
        ConsentChange("care", who, agreed, time or current_time(), bool(time))
        for who, agreed in said
    ]
    return log.record(of, words, operator="Ann").changed


def agreed(log: ConsentLog, of: str = "town", purpose: str = "care") -> list[str]:
    return sorted(log.standing(of, purpose, None).people)


def test_the_newest_word_stands_and_the_same_word_changes_nothing(place: Place) -> None:
    with closing(place.open()) as log:
        assert say(log, ("a", True), ("b", True), ("c", False)) == 3
        before = log.check()
        assert say(log, ("a", True), ("c", False)) == 0
        assert log.check() == before
        assert say(log, ("a", False), ("a ", True), ("A", True)) == 3
        assert agreed(log) == ["A", "a ", "b"]
        assert agreed(log, of="village") == agreed(log, purpose="research") == []
        changed = log.standing("town", "care", before)
        assert not changed.is_complete
        found = dict(zip(changed.people, changed.agreed, strict=True))
        assert found == {"a": False, "a ": True, "A": True}
        assert log.history("town", "a")[-1][:3] == (before.seq + 1, "care", False)
        assert log.counts("town") == {("care", True): 3, ("care", False): 2}
        assert log.verify() == log.check()
    with closing(place.open()) as log:
        assert agreed(log) == ["A", "a ", "b"]


def test_an_older_yes_does_not_undo_a_no_and_a_no_always_counts(place: Place) -> None:
    with closing(place.open()) as log:
        say(log, ("a", False), ("b", True), time=LATER)
        found = log.record(
            "town", [ConsentChange("care", "a", True, TIME, dated=True)], operator="Ann"
        )
        assert (found.changed, found.older) == (0, 1)
        assert say(log, ("b", False), time=TIME) == 1
        assert agreed(log) == []
        assert say(log, ("a", True)) == 1
        assert agreed(log) == ["a"]


def test_odd_people_are_kept_as_they_are(place: Place) -> None:
    people = ["ä", "a\u0308", "\t", "\\N", "\\.", "a\nb", "'; DROP TABLE x;--", "😀", "x" * 1000]
    with closing(place.open()) as log:
        assert say(log, *((one, True) for one in people)) == len(people)
        assert agreed(log) == sorted(people)
        assert log.verify() == log.check()


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE sfumato_consent_standing SET agreed = 1",
        "DELETE FROM sfumato_consent_standing",
        "INSERT INTO sfumato_consent_changes VALUES (2, 9, 'town', 'care', 'z', 1, 'now')",
        "INSERT INTO sfumato_consent_entries VALUES (3, '{\"seq\":3}', 'x')",
    ],
)
def test_what_was_tampered_with_is_found(place: Place, spoil: str) -> None:
    with closing(place.open()) as log:
        say(log, ("a", True), ("b", False))
        log.verify()
        place.run(spoil)
        assert code_of(log.verify) == "consent_damaged"


@pytest.mark.parametrize("table", ["entries", "changes"])
@pytest.mark.parametrize("action", ["UPDATE {} SET seq = 9", "DELETE FROM {}"])
def test_the_database_itself_keeps_what_was_said(place: Place, table: str, action: str) -> None:
    with closing(place.open()) as log:
        say(log, ("a", True))
    with pytest.raises(Exception, match="only ever added"):
        place.run(action.format(f"sfumato_consent_{table}"))


def test_a_log_without_its_head_answers_nobody_until_every_yes_is_void(place: Place) -> None:
    with closing(place.open()) as log:
        say(log, ("a", True), ("b", False))
        seen = log.check()
    head = consent_head(place.config.head)
    head.unlink()
    with closing(place.open()) as log:
        assert code_of(log.check) == "consent_rolled_back"
        assert code_of(lambda: say(log, ("c", True))) == "consent_rolled_back"
        assert log.acknowledge(operator="Ann") == 1
        assert log.acknowledge(operator="Ann") is None
        assert agreed(log) == []
        after = log.standing("town", "care", seen)
        assert dict(zip(after.people, after.agreed, strict=True)) == {"a": False}
        assert log.verify().seq == seen.seq + 1


def test_a_log_of_others_is_noticed_and_numbers_are_not_used_twice(place: Place) -> None:
    with closing(place.open()) as log:
        for number in range(3):
            say(log, (f"{number}", True))
        seen = log.check()
    tables = ("entries", "changes", "standing")
    place.run("; ".join(f"DROP TABLE sfumato_consent_{one}" for one in tables[:1]))
    for one in tables[1:]:
        place.run(f"DROP TABLE sfumato_consent_{one}")
    if "://" in place.config.database:
        place.run("DROP FUNCTION sfumato_consent_keep")
    with closing(place.open()) as log:
        assert code_of(log.check) == "consent_rolled_back"
        assert log.acknowledge(operator="Ann") == 0
        assert log.check().seq > seen.seq
        assert log.standing("town", "care", seen).is_complete
        assert log.verify() == log.check()


def test_a_death_before_the_head_moved_is_healed(place: Place) -> None:
    head = consent_head(place.config.head)
    with closing(place.open()) as log:
        say(log, ("a", True))
        before = head.read_bytes()
        say(log, ("b", True))
    head.write_bytes(before)
    with closing(place.open()) as log:
        assert agreed(log) == ["a", "b"]
    assert head.read_bytes() != before


KILLED = {
    "filled": (ConsentLog, "_fill", False),
    "linked": (ConsentLog, "_link", False),
    "committed": (OutsideHead, "write", True),
}
"""What has just been done, or, of the last, is about to be, and whether the changes then stand."""


def kill_at(stage: str) -> None:
    owner, name, _ = KILLED[stage]
    real: Any = getattr(owner, name)

    def killed(*arguments: Any, **options: Any) -> None:
        if stage != "committed":
            real(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, killed)


@pytest.mark.parametrize("stage", KILLED)
def test_a_process_that_is_killed_leaves_all_of_an_import_or_nothing(
    place: Place, stage: str
) -> None:
    with closing(place.open()) as log:
        say(log, ("a", True))
    child = os.fork()
    if child == 0:
        log = place.open()
        kill_at(stage)
        say(log, ("a", False), ("b", True))
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    with closing(place.open()) as log:
        assert agreed(log) == (["b"] if KILLED[stage][2] else ["a"])
        assert log.verify() == log.check()
        assert say(log, ("a", False), ("b", True)) == (0 if KILLED[stage][2] else 2)


def test_a_withdrawal_on_one_host_holds_on_another_at_once(place: Place) -> None:
    with closing(place.open()) as here:
        say(here, ("a", True), ("b", True))
        elsewhere = place.config.folder / "other.head"
        consent_head(elsewhere).write_bytes(consent_head(place.config.head).read_bytes())
        with closing(open_log(replace(place.config, head=elsewhere))) as there:
            before = there.check()
            say(here, ("a", False))
            assert agreed(there) == ["b"]
            assert there.standing("town", "care", before).people == ["a"]
            say(there, ("b", False))
            assert agreed(here) == []
            assert here.verify() == there.verify()


def test_many_at_once_lose_nothing(place: Place) -> None:
    failed: list[SfumatoError] = []

    def work(number: int) -> None:
        try:
            with closing(place.open()) as own:
                for step in range(5):
                    say(own, (f"{number}-{step}", True))
        except SfumatoError as error:
            failed.append(error)

    with closing(place.open()) as log:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not failed
        assert len(agreed(log)) == 20
        assert log.verify().seq == 21


def test_a_forked_child_is_turned_away(place: Place) -> None:
    with closing(place.open()) as log:
        assert in_child(log.check) == "object_not_shareable"
        log.check()


def test_a_storage_that_fails_tells_nobody_why(place: Place) -> None:
    with closing(place.open()) as log:
        say(log, ("a", True))
        place.run("DROP TABLE sfumato_consent_changes")
        with pytest.raises(SfumatoError) as caught:
            log.history("town", "secret person")
        assert caught.value.code == "consent_unavailable"
        assert "secret" not in f"{caught.value} {caught.value.detail} {caught.value.__context__}"
    assert "secret" not in (place.config.folder / "failures.log").read_text()


@pytest.mark.parametrize("part", ["log", "head"])
def test_a_replaced_file_closes_the_log(place: Place, part: str) -> None:
    """A withdrawal that others write to the file of that name must not be missed."""
    database = place.config.folder / "consent.sqlite"
    path = database if part == "log" else consent_head(place.config.head)
    with closing(place.open()) as log:
        say(log, ("a", True))
        if not path.exists():
            pytest.skip("a server keeps its own files")
        copy = path.with_name("copy")
        copy.write_bytes(path.read_bytes())
        copy.replace(path)
        for action in (log.check, log.verify, lambda: agreed(log), lambda: say(log, ("b", True))):
            assert code_of(action) == "ledger_replaced"
