"""Large answers lie beside the database, and the chain binds them (issue: load and denial, F34)."""

from __future__ import annotations

import sqlite3
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import ask, charge, code_of

from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.chain import ENTRY_BYTES, digest
from sfumato.privacy.ledger.commit import OutsideHead
from sfumato.privacy.ledger.large_answers import INLINE_BYTES, AnswerFiles
from sfumato.privacy.ledger.sql.sqlite import sqlite_store

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.privacy.accounting.filters import Budget

LARGE = b"{}\n" + bytes(range(256)) * (2 * INLINE_BYTES // 256)


class _KilledError(BaseException):
    """The process ends here."""


@pytest.fixture
def ledger(place: Any, one: Budget) -> Ledger:
    opened: Ledger = place.open()
    opened.open_account("visits", budget=one)
    return opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def beside(path: Path, one: Budget) -> Ledger:
    """A ledger in SQLite; its large answers lie in the folder 'ledger.sqlite.large'."""
    head = path.parent / "head"
    head.mkdir()
    Ledger.create(sqlite_store(path, create=True), head=OutsideHead(head / "head")).close()
    made = opened(path)
    made.open_account("visits", budget=one)
    return made


def opened(path: Path, **hooks: Any) -> Ledger:
    return Ledger(sqlite_store(path), head=OutsideHead(path.parent / "head" / "head"), **hooks)


def files(path: Path) -> list[str]:
    folder = path.with_name("ledger.sqlite.large")
    found = (one for one in folder.rglob("*") if one.is_file())
    return sorted(str(one.relative_to(folder).parent) for one in found)


def test_a_large_answer_is_given_again_by_every_ledger(ledger: Ledger, place: Any) -> None:
    ledger.store(charge(ledger, "1/10", "r1"), LARGE)
    assert ask(ledger, "r1") == LARGE
    assert ask(place.open(), "r1") == LARGE
    assert ledger.verify().requests == 1


def test_stored_bytes_are_counted_for_each_principal(ledger: Ledger, place: Any) -> None:
    ledger.store(charge(ledger, "1/10", "r1"), LARGE)
    ledger.store(charge(ledger, "1/10", "r2"), b"small")
    charge(ledger, "1/10", "r3")
    counted = {"alice": len(LARGE) + len(b"small") + 2 * ENTRY_BYTES}
    assert ledger.stored_bytes() == counted
    assert place.open().stored_bytes() == counted


def test_the_database_does_not_grow_with_large_answers(beside: Ledger, path: Path) -> None:
    for number in range(8):
        beside.store(charge(beside, "1/100", f"r{number}"), LARGE + bytes([number]))
    beside.close()
    assert path.stat().st_size < len(LARGE)
    assert files(path) == ["."] * 8
    assert path.with_name("ledger.sqlite.large").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("how", ["missing", "changed"])
def test_a_lost_file_is_a_lost_answer_and_never_a_second_draw(
    beside: Ledger, path: Path, how: str
) -> None:
    beside.store(charge(beside, "1/10", "r1"), LARGE)
    (file,) = path.with_name("ledger.sqlite.large").glob("[0-9a-f]*")
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(LARGE[:-1] + b"!")
    assert code_of(ask, beside, "r1") == "answer_lost"
    assert code_of(charge, beside, "1/10", "r1") == "request_answered"
    assert code_of(beside.verify) == "ledger_damaged"
    file.write_bytes(LARGE)
    assert ask(beside, "r1") == LARGE
    assert beside.verify().requests == 1


@pytest.mark.parametrize(
    ("step", "answered"), [("placed", False), ("saved", False), ("committed", True)]
)
def test_a_crash_between_file_and_entry_is_settled_by_the_next_opening(
    beside: Ledger, path: Path, step: str, answered: bool
) -> None:
    receipt = charge(beside, "1/10", "r1")
    beside.close()

    def die(at: str) -> None:
        if at == step:
            raise _KilledError

    dying = opened(path, at_step=die)
    receipt._ledger = dying  # the same process goes on with the ledger that is killed
    with pytest.raises(_KilledError):
        dying.store(receipt, LARGE)
    dying.close()
    assert files(path) == ["pending"]
    again = opened(path)
    assert files(path) == (["."] if answered else [])
    assert again.verify().requests == 1
    if answered:
        assert ask(again, "r1") == LARGE
    else:
        assert code_of(ask, again, "r1") == "answer_lost"


def test_a_file_on_its_way_is_found_and_not_swept(beside: Ledger, path: Path) -> None:
    receipt = charge(beside, "1/10", "r1")
    seen: list[tuple[bytes | None, list[str]]] = []

    def look(at: str) -> None:
        if at == "placed":
            opened(path).close()  # which sweeps what nobody holds
            kept = AnswerFiles(path.with_name("ledger.sqlite.large"))
            seen.append((kept.read(digest(LARGE)), files(path)))

    beside._at_step = look
    beside.store(receipt, LARGE)
    assert seen == [(LARGE, ["pending"])]
    assert files(path) == ["."]
    assert ask(beside, "r1") == LARGE


def test_a_ledger_of_the_former_format_opens_and_gives_its_answers(
    beside: Ledger, path: Path
) -> None:
    """Before, large answers lay in the table, and nobody had counted them."""
    beside.store(charge(beside, "1/10", "r1"), LARGE)
    beside.store(charge(beside, "1/10", "r2"), b"small")
    beside.close()
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE sfumato_answers SET answer = ? WHERE length(answer) > 80", (LARGE,)
        )
        connection.execute("DROP TABLE sfumato_stored")
    connection.close()
    for file in path.with_name("ledger.sqlite.large").glob("[0-9a-f]*"):
        file.unlink()
    old = opened(path)
    assert ask(old, "r1") == LARGE
    assert ask(old, "r2") == b"small"
    assert old.verify().requests == 2
    assert old.stored_bytes() == {"alice": len(LARGE) + len(b"small") + 2 * ENTRY_BYTES}
    old.store(charge(old, "1/10", "r3"), LARGE)
    assert ask(opened(path), "r3") == LARGE


def test_no_room_on_the_disk_is_told_before_the_charge(beside: Ledger) -> None:
    beside.check_room(1000)
    assert code_of(beside.check_room, 1 << 60) == "ledger_disk_full"


@pytest.mark.parametrize("is_early", [False, True], ids=["today", "book read before the lock"])
def test_a_writer_that_dies_while_another_process_opens_loses_no_answer(
    beside: Ledger, path: Path, is_early: bool
) -> None:
    """The planted twin reads the book before it has the lock, and deletes a file it names."""
    receipt = charge(beside, "1/10", "r1")
    beside.close()

    def die(at: str) -> None:
        if at == "committed":
            raise _KilledError

    folder = AnswerFiles(path.with_name("ledger.sqlite.large"))
    store, dying = sqlite_store(path), opened(path, at_step=die)
    receipt._ledger = dying
    with store.reading() as early:
        assert early.answer(receipt.request.charge) is None
        with pytest.raises(_KilledError):
            dying.store(receipt, LARGE)
        folder.sweep((lambda: nullcontext(early)) if is_early else store.reading)
    store.close()
    dying.close()
    assert files(path) == ([] if is_early else ["."])
    if not is_early:
        assert ask(opened(path), "r1") == LARGE
