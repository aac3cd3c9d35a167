"""Continual feeds: counted on for one price, each step told once, by any method of streams."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.methods.stream.catalogue import METHODS
from sfumato.privacy.ledger.base import Ledger
from sfumato.vault.feeds import period_answers
from sfumato.vault.feeds.feed import Feed
from sfumato.vault.feeds.period_answers import StreamCells
from sfumato.vault.feeds.step_store import StepStore, StepTape
from sfumato.vault.streams import Arrival, StreamPlan

if TYPE_CHECKING:
    from datetime import date

    from sfumato.methods.stream.request import Participation
    from sfumato.vault.streams import Reached


def add(vault: sf.Vault, name: str = "so-far", **said: Any) -> Feed:
    told = {"column": "day", "every": "month", "epsilon": 4, "operator": "Ann", **said}
    return vault.feed_registry.add(name, None, family="continual", dataset="visits", **told)


def left(vault: sf.Vault) -> float:
    found = next(one for one in vault.accounts() if one["account"] == "visits")
    amount: float = found["remaining"]["epsilon"]
    return round(amount, 6)


def figures(vault: sf.Vault, name: str = "so-far") -> list[list[Any]]:
    return [one.table.column("rows").to_pylist() for one in vault.feed_registry.read(name)]


def sum_of(
    vault: sf.Vault,
    days: list[tuple[date, date]],
    people: Participation,
    cells: StreamCells = StreamCells(),  # noqa: B008
) -> int:
    """The rows that count in some spans of days, one after the other."""
    used, total = Counter[Any](), 0
    with vault.session.store.together(("visits",), ()) as datasets:
        for span in days:
            found = period_answers.arrived(datasets["visits"], "day", span, people.unit, cells)
            before = np.array([used[one] for one in found.people])
            counts, after = found.bounded(before, people)
            used |= Counter(dict(zip(found.people, after.tolist(), strict=True)))
            total += int(counts.sum())
    return total


CASES: list[dict[str, Any]] = [
    {"method": "tree"},
    {"method": "honaker"},
    {"method": "root", "epsilon": None, "rho": "0.1"},
    {"method": "honaker", "ends": "never"},
    {"window": 3},
    {"window": 2, "ends": "never"},
    {"days": 3},
    {"by": "city"},
]


@pytest.mark.parametrize("said", CASES, ids=str)
def test_every_method_tells_rows_for_one_price_and_once(
    vault: sf.Vault, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody lives to see the 10,000 periods of a feed without end.
    july = datetime(2024, 8, 15, tzinfo=UTC)
    due = Feed.due
    monkeypatch.setattr(Feed, "due", lambda feed, now: due(feed, min(now, july)))
    feed = add(vault, **said)
    assert vault.feed_registry.work() == 7
    told, spent = vault.feed_registry.read("so-far"), left(vault)
    assert spent < 10
    assert feed.asked["method"] in METHODS[1:], "the choice is kept"
    assert feed.asked["method"] == said.get("method", feed.asked["method"]), "and so is a wish"
    window = said.get("window", 99)
    for one in told:
        last = one.period.number
        days = sum(
            (each.high - each.low).days + 1 for each in feed.periods[max(0, last - window) : last]
        )
        if one.period.number == 7:
            days = min(days, 200) if window == 99 else days - (31 - 18) * ("ends" in said)
        total = sum(one.table.column("rows").to_pylist())
        assert abs(total - 30 * days) < 40 * one.error["rows"]["sd"], one.period.name
        assert one.error["rows"]["bound95"] > one.error["rows"]["sd"]
        assert "Person level" in one.guarantee
    assert vault.feed_registry.work() == 0
    assert [one.table for one in vault.feed_registry.read("so-far")] == [one.table for one in told]
    assert left(vault) == spent
    state = vault.feed_registry.state(vault.feed_registry.get("so-far"))
    assert state["periods"] == (None if "ends" in said else 7)


def test_what_a_stream_remembers_is_for_its_owner_alone_and_forgets_what_it_drew(
    vault: sf.Vault,
) -> None:
    add(vault)
    vault.feed_registry.work()
    [kept] = Path("clinic").glob("streams.sqlite")
    assert kept.stat().st_mode & 0o077 == 0
    store = vault.feed_registry._answering._streams.store._store
    with store.reading() as connection:
        words = connection.exec_driver_sql("SELECT COUNT(*) FROM sfumato_stream_words").scalar()
        states = connection.exec_driver_sql("SELECT step FROM sfumato_stream_states").all()
    assert (words, [tuple(one) for one in states]) == (0, [(7,)])


class Killed(BaseException):
    """What ends a thread where a machine would have ended the process."""


class Forgetful(StepTape):
    """The wrong twin: whoever takes a step up draws anew."""

    def __init__(self, *said: Any) -> None:
        super().__init__(*said)
        with self._store.writing() as connection:
            connection.exec_driver_sql("DELETE FROM sfumato_stream_words")


@pytest.mark.parametrize("tape", [StepTape, Forgetful])
def test_a_step_that_was_killed_comes_to_the_same_figure(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch, tape: type[StepTape]
) -> None:
    """Killed at each step between its draw and the moment that it stands; twice."""
    add(vault, every="week", epsilon="0.5", ends="2024-02-25")
    monkeypatch.setattr(
        StepStore, "tape", lambda self, stream, step: tape(self._store, stream, step)
    )
    tried, settle = list[list[Any]](), StepStore.settle

    def killed(_self: StepStore, _stream: str, reached: Reached) -> Reached:
        tried.append(list(reached.figures["values"]))
        raise Killed

    steps = len(vault.feed_registry.get("so-far").periods)
    for step in range(1, steps + 1):
        monkeypatch.setattr(StepStore, "settle", killed)
        for _ in range(2):
            with pytest.raises(Killed):
                vault.feed_registry.work()
        monkeypatch.setattr(StepStore, "settle", settle)
        due = Feed.due
        monkeypatch.setattr(Feed, "due", lambda feed, now, n=step, due=due: due(feed, now)[:n])
        assert vault.feed_registry.work() == 1
        monkeypatch.setattr(Feed, "due", due)
    told = figures(vault)
    again = [one for one in told for _ in range(2)]
    assert (tried == again) is (tape is StepTape), "a second noise for the same step"
    assert left(vault) == 9.5


def test_a_step_that_stood_but_was_not_told_is_told_as_it_stood(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(vault)
    real, settled, settle = Ledger.amend, list[Any](), StepStore.settle

    def killed(self: Ledger, decide: Any, *, operator: str) -> Any:
        if operator == period_answers.BY:
            raise Killed
        return real(self, decide, operator=operator)

    def noted(self: StepStore, stream: str, reached: Reached) -> Reached:
        settled.append(reached.figures["values"])
        return settle(self, stream, reached)

    monkeypatch.setattr(StepStore, "settle", noted)
    monkeypatch.setattr(Ledger, "amend", killed)
    with pytest.raises(Killed):
        vault.feed_registry.work()
    monkeypatch.setattr(Ledger, "amend", real)
    # Rows that came meanwhile change nothing: the step stands.
    other = [Arrival.of_counts(np.array([many])) for many in (0, 10**6)]
    monkeypatch.setattr(period_answers, "arrived", lambda *_: other[len(settled) == 1])
    assert vault.feed_registry.work() == 7
    assert figures(vault)[0] == settled[0]
    assert len(settled) == 7


def test_two_at_once_come_to_one_figure(vault: sf.Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker does the same step while this one counts, and finds other rows."""
    feed = add(vault)
    real = period_answers.arrived
    with sf.open("clinic") as other:

        def slow(*_: Any) -> Arrival:
            monkeypatch.setattr(period_answers, "arrived", real)
            other.feed_registry._answering._answer(feed, feed.periods[0])
            return Arrival.of_counts(np.array([10**6]))

        monkeypatch.setattr(period_answers, "arrived", slow)
        vault.feed_registry._answering._answer(feed, feed.periods[0])
        assert figures(vault) == figures(other)
        assert figures(vault)[0][0] < 10**5
    assert vault.feed_registry.work() == 6


def test_a_memory_that_is_gone_or_old_draws_no_second_noise(vault: sf.Vault) -> None:
    feed = add(vault)
    answering = vault.feed_registry._answering
    for period in feed.periods[:3]:
        answering._answer(feed, period)
    with answering._streams.store._store.writing() as connection:
        connection.exec_driver_sql("UPDATE sfumato_stream_states SET step = 2")
    before = figures(vault)
    assert vault.feed_registry.work() == 0
    trouble = vault.feed_registry.state(feed)["trouble"]
    assert trouble == {"period": "2024-04", "code": "stream_state_lost"}
    with answering._streams.store._store.writing() as connection:
        connection.exec_driver_sql("DELETE FROM sfumato_stream_states")
    assert vault.feed_registry.work() == 0
    assert figures(vault) == before


def test_a_feed_that_forgot_how_often_people_counted_ends(vault: sf.Vault) -> None:
    feed = add(vault)
    answering = vault.feed_registry._answering
    for period in feed.periods[:3]:
        answering._answer(feed, period)
    told = figures(vault)
    with answering._streams.store._store.writing() as connection:
        connection.exec_driver_sql("DELETE FROM sfumato_stream_people")
    assert vault.feed_registry.work() == 0
    trouble = vault.feed_registry.state(feed)["trouble"]
    assert trouble == {"period": "2024-04", "code": "stream_state_lost"}
    assert vault.feed_registry.work() == 0
    assert figures(vault) == told


def test_a_step_killed_after_its_draw_counts_the_same_rows_again(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One noise on two counts would tell their difference to whoever saw both."""
    feed = add(vault, "so-far", method="w-event", window=2, caution=0)
    tried, settle = list[list[Any]](), StepStore.settle

    def killed(_self: StepStore, _stream: str, reached: Reached) -> Reached:
        tried.append(list(reached.figures["values"]))
        raise Killed

    monkeypatch.setattr(StepStore, "settle", killed)
    for many in (None, 0, 10**6):
        if many is not None:
            other = Arrival.of_counts(np.array([many]))
            monkeypatch.setattr(period_answers, "arrived", lambda *_, other=other: other)
        with pytest.raises(Killed):
            vault.feed_registry._answering._answer(feed, feed.periods[0])
    monkeypatch.setattr(StepStore, "settle", settle)
    vault.feed_registry._answering._answer(feed, feed.periods[0])
    assert tried == figures(vault) * 3


def test_of_a_person_the_first_periods_count_and_rows_in_each(vault: sf.Vault) -> None:
    """1950 people with 3 or 4 visits each, of which `days` and `max_rows` let so many through."""

    def total(**said: Any) -> int:
        plan = {"column": "day", "every": "month", "epsilon": 1, **said}
        feed = vault.feed_registry.plan("x", None, family="continual", dataset="visits", **plan)
        whole = vault.feed_registry._answering.prepared(feed)
        assert isinstance(whole, StreamPlan)
        cells = StreamCells(whole.by, whole.values)
        days = [(one.low, one.high) for one in feed.periods]
        return sum_of(vault, days, whole.request.people, cells)

    assert total() == total(days=4) == 6000
    assert total(days=1, every="year") == 6000, "up to four rows of a person in one period"
    assert total(days=2) < total(days=3) < 6000
    for every in ("quarter", "50d"):
        few = total(days=1, every=every)
        assert 1950 <= few < 6000
        assert total(days=1, every=every, by="city") == few


def test_what_cannot_be_is_refused(vault: sf.Vault) -> None:
    refused: list[tuple[str, dict[str, Any]]] = [
        ("choice_unknown", {"method": "root-tree"}),
        ("column_unsuitable", {"by": "day"}),
        ("parameter_out_of_range", {"window": 0}),
        ("stream_invalid", {"window": 8}),
        ("option_unknown", {"colour": "red"}),
        ("stream_invalid", {"method": "root", "window": 3, "ends": "never"}),
        ("parameter_missing", {"epsilon": None}),
    ]
    for code, said in refused:
        assert code_of(add, vault, **said) == code, code
    never = {"column": "day", "every": "month", "epsilon": 1, "operator": "Ann", "ends": "never"}
    sql = "SELECT COUNT(*) FROM visits"
    assert code_of(vault.feed_registry.add, "x", sql, **never) == "feed_period_invalid"
    assert vault.feed_registry.list() == []
