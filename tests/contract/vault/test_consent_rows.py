"""People who did not agree are in no row that a question sees: the same on every engine."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sfumato.data.engines.base import everything, named, render
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.method import Dataset
from sfumato.vault.config import Config
from sfumato.vault.consent import consent_filter
from sfumato.vault.consent.consent_filter import (
    AgreedPeople,
    ConsentCondition,
    ConsentFilter,
    LazyRegistry,
)
from sfumato.vault.consent.registry import ConsentChange, current_time, open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sfumato.data.engines.base import Engine
    from sfumato.vault.consent.log import ConsentLog

NAMES = ["a", "A", "a ", "ä", "a\u0308", "b", "b", None, "", "😀", "it's"]
TEXTS = pa.table({"who": NAMES, "row": pa.array(range(len(NAMES)), pa.int64())})
NUMBERS = pa.table(
    {
        "who": pa.array([1, 2, 2, -3, None, 2**63 - 1, -(2**63)], pa.int64()),
        "row": pa.array(range(7), pa.int64()),
    }
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ConsentLog]:
    (tmp_path / "v").mkdir()
    with closing(open_log(Config(tmp_path / "v", "ledger.sqlite", tmp_path / "head"))) as opened:
        yield opened


def say(log: ConsentLog, said: dict[str, bool]) -> None:
    log.record(
        "town",
        [ConsentChange("care", who, yes, current_time()) for who, yes in said.items()],
        operator="A",
    )


class Seen:
    """What questions see of a table, one after the other, in one engine."""

    def __init__(self, engine: Engine, log: ConsentLog, kind: Kind) -> None:
        schema = Schema("t", (Column("who", kind), Column("row", Kind.INTEGER)))
        self._data = Dataset("t", engine, engine.table, schema, Entity("who", 3))
        self._filter = ConsentFilter(engine)
        self._wanted = {"t": ConsentCondition(LazyRegistry(lambda: log, "town", kind), "care")}
        self.versions: dict[str, int] = {}

    def rows(self) -> list[int]:
        with self._filter.restrict({"t": self._data}, self._wanted, self.versions) as seen:
            found = self._data.engine.run(everything(seen["t"].table))
        assert found.column_names == ["who", "row"]
        return sorted(found["row"].to_pylist())

    def close(self) -> None:
        self._filter.close()


def test_texts_are_told_apart_as_they_are_spelled(
    open_engine: Callable[[pa.Table], Engine], log: ConsentLog
) -> None:
    seen = Seen(open_engine(TEXTS), log, Kind.TEXT)
    assert seen.rows() == []
    say(log, {"a": True, "b": True, "z": True})
    assert seen.rows() == [0, 5, 6]
    say(log, {"b": False, "a ": True, "😀": True, "it's": True})
    assert seen.rows() == [0, 2, 9, 10]
    say(log, {"a": False, "a\u0308": True, "A": True})
    assert seen.rows() == [1, 2, 4, 9, 10]
    assert seen.versions == {"town": log.check().seq}
    seen.close()


def test_numbers_to_the_last(open_engine: Callable[[pa.Table], Engine], log: ConsentLog) -> None:
    seen = Seen(open_engine(NUMBERS), log, Kind.INTEGER)
    say(log, {"2": True, "-3": True, str(2**63 - 1): True})
    assert seen.rows() == [1, 2, 3, 5]
    say(log, {"2": False, str(-(2**63)): True})
    assert seen.rows() == [3, 5, 6]
    seen.close()


def test_many_changes_are_lent_anew_and_read_the_same(
    open_quick_engine: Callable[[pa.Table], Engine],
    log: ConsentLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consent_filter, "_FEWEST", 2)
    engine = open_quick_engine(TEXTS)
    seen = Seen(engine, log, Kind.TEXT)
    yes, bases = {"a": True, "b": True}, set[object]()
    for step in range(12):
        say(log, {**yes, "it's": step % 2 == 0, f"new {step}": True, f"newer {step}": False})
        assert seen.rows() == [0, 5, 6, *([10] if step % 2 == 0 else [])]
        bases |= {one.position for one in seen._filter._bases.values()}
    assert len(bases) > 5, "three change at each step, and at most three are carried"
    seen.close()


def test_people_in_hand_from_a_log_that_is_no_more_are_let_go(
    duckdb_engine: Callable[[pa.Table], Engine], log: ConsentLog, tmp_path: Path
) -> None:
    seen = Seen(duckdb_engine(TEXTS), log, Kind.TEXT)
    say(log, {"a": True, "b": True})
    assert seen.rows() == [0, 5, 6]
    (tmp_path / "w").mkdir()
    config = Config(tmp_path / "w", "ledger.sqlite", tmp_path / "other")
    with closing(open_log(config)) as another:
        say(another, {"a": False, "b": True})
        register = LazyRegistry(lambda: another, "town", Kind.TEXT)
        seen._wanted = {"t": ConsentCondition(register, "care")}
        assert seen.rows() == [5, 6]
    seen.close()


def test_a_collation_that_takes_two_people_for_one_lends_nobody_anothers_yes() -> None:
    """The server of these tests knows no such collation; others do."""
    agreed = AgreedPeople(everything(named("agreed")), Kind.TEXT, 1)
    words = render(agreed.only(named("t"), "who", "postgres"), "postgres")
    assert 'CAST("who" AS TEXT) COLLATE "C" IN' in words


def test_two_questions_at_once_each_keep_what_they_read(
    open_quick_engine: Callable[[pa.Table], Engine],
    log: ConsentLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consent_filter, "_FEWEST", 1)
    engine = open_quick_engine(TEXTS)
    outer = Seen(engine, log, Kind.TEXT)
    say(log, {"a": True})
    with outer._filter.restrict({"t": outer._data}, outer._wanted, {}) as seen:
        say(log, {"a": False, "b": True, "c": True, "d": True})
        assert outer.rows() == [5, 6]
        # Read before the change, so it goes by what it read.
        assert engine.run(everything(seen["t"].table))["row"].to_pylist() == [0]
    assert outer.rows() == [5, 6]
    outer.close()
