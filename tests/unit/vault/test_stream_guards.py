"""A step of a stream in memory happens once: threads, forks, copies and interruptions."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.ledgers import code_of
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.methods.stream.catalogue import METHODS
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.vault import streams
from sfumato.vault.session import Session
from sfumato.vault.streams import Stream, plan_stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = """\
table = "visits"
unit = { column = "patient", max_rows = 2 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.city]
kind = "text"
values = ["north", "south"]
nullable = false
"""
ROWS = pa.table({"patient": [1, 2, 3, 4] * 2, "city": ["north"] * 8})


@pytest.fixture
def private(tmp_path: Path) -> sf.Private:
    (tmp_path / "visits.toml").write_text(SCHEMA)
    return sf.protect(ROWS, tmp_path / "visits.toml", epsilon=9)


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, tuple[int, ...]]]:
    """The words and the exact figures of each noise that is drawn; the noise itself is left out."""
    found: list[tuple[bytes, tuple[int, ...]]] = []

    def silent(_self: Geometric, values: Any, entropy: Any) -> Any:
        words = entropy.words(4).tobytes()
        time.sleep(0.001)  # other threads come in between
        found.append((words, tuple(np.asarray(values).ravel().tolist())))
        return np.asarray(values)

    monkeypatch.setattr(Geometric, "steps", silent)
    return found


def test_threads_take_turns_and_every_step_has_one_noise(
    private: sf.Private, draws: list[tuple[bytes, tuple[int, ...]]]
) -> None:
    stream = private.stream("w-event", window=1, periods=34, epsilon=1)
    with ThreadPoolExecutor(34) as pool:
        made = list(pool.map(lambda count: stream.step(count, bounded=True), range(1000, 1034)))
    assert sorted(one.number for one in made) == list(range(1, 35)), "a step was told twice"
    assert [one.number for one in stream.told] == list(range(1, 35))
    assert all(stream.told[one.number - 1] is one for one in made)
    by_words: dict[bytes, set[tuple[int, ...]]] = {}
    for words, figures in draws:
        by_words.setdefault(words, set()).add(figures)
    assert max(map(len, by_words.values())) == 1, "one noise hides two figures"


def test_threads_bound_each_person_over_all_steps(
    private: sf.Private,
    draws: list[tuple[bytes, tuple[int, ...]]],
) -> None:
    stream = private.stream("tree", periods=16, epsilon=1)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: stream.step(ROWS), range(16)))
    assert stream.told[-1].values == [8], "four people with two rows each"
    assert draws


def test_a_forked_child_steps_no_stream(private: sf.Private) -> None:
    stream = private.stream("tree", periods=4, epsilon=1)
    stream.step(ROWS)
    child = os.fork()
    if child == 0:
        try:
            code = code_of(stream.step, ROWS)
        except BaseException:  # noqa: BLE001  whatever goes wrong there
            code = ""
        os._exit(0 if code == "object_not_shareable" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert stream.step(ROWS).number == 2


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps, replace])
def test_a_stream_cannot_be_copied(private: sf.Private, duplicate: Callable[[Any], Any]) -> None:
    stream: Any = private.stream("tree", periods=4, epsilon=1)
    with pytest.raises((SfumatoError, TypeError)):
        duplicate(stream)


def test_one_charge_begins_one_stream(private: sf.Private) -> None:
    session, asker_of = private._session, private._asker_of
    assert isinstance(session, Session)
    facts = session.facts(asker_of, "visits")
    asked = {"periods": 4, "by": None}
    whole = plan_stream("stream x", facts, "tree", {"epsilon": 1}, asked)
    session.admit("publish", whole, facts)
    answers = [session.answer(whole, asker_of, request_id="same") for _ in range(2)]
    assert answers[0].entry == answers[1].entry
    ledger = session.gatekeeper.ledger
    assert Stream.begun(whole, answers[0], ledger).step(ROWS).number == 1
    assert code_of(Stream.begun, whole, answers[1], ledger) == "object_not_shareable"
    assert len(list(ledger.entries())) > 2


def interrupted_at(place: int, call: Callable[[], Any]) -> bool:
    """Whether a call was interrupted before the line that it came to as the `place`-th."""
    seen = [0]

    def trace(frame: Any, event: str, _: object) -> Any:
        if frame.f_globals.get("__name__") not in WATCHED:
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] == place:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


WATCHED = {
    "sfumato.vault.streams",
    *("sfumato.methods.stream.running_counts", "sfumato.methods.stream.factorization"),
}


def interrupt_everywhere(
    private: sf.Private, draws: list[tuple[bytes, tuple[int, ...]]], again: str
) -> None:
    """Interrupted once before each line in turn; then the same rows come again, or others do.

    The first step brings four people, the second three others: whichever line was hit, every row
    counts once, none is lost, and no words are used for two figures.
    """
    others = pa.table({"patient": [5, 6, 7], "city": ["north"] * 3})
    place = 0
    while True:
        place += 1
        draws.clear()
        stream = private.stream("tree", periods=2, epsilon="0.001")
        if not interrupted_at(place, partial(stream.step, ROWS)):
            break
        if again == "same":
            assert stream.step(ROWS).values == [8], place
            assert [one.number for one in stream.told] == [1], place
        else:
            # Whether the interrupted step stands, what was told says; its rows are not asked again.
            values = stream.step(others).values
            assert values == ([11] if len(stream.told) == 2 else [3]), place
        by_words: dict[bytes, set[tuple[int, ...]]] = {}
        for words, figures in draws:
            by_words.setdefault(words, set()).add(figures)
        assert all(len(one) == 1 for one in by_words.values()), place
        assert len(by_words) == len(stream.told), "a noise was drawn twice for one step"
    assert place > 60, "the step was not traced"


@pytest.mark.parametrize("again", few_fast(["same", "other"], 1))
def test_an_interruption_before_any_line_neither_loses_rows_nor_repeats_a_noise(
    private: sf.Private, draws: list[tuple[bytes, tuple[int, ...]]], again: str
) -> None:
    interrupt_everywhere(private, draws, again)


class Forgetful(streams.StepEntropy):
    """The wrong twin: a step that goes on after an interruption draws anew."""

    def __init__(self, words: dict[int, Any]) -> None:
        super().__init__({})
        del words


class Twice(Stream):
    """The wrong twin: rows that come again after an interruption are taken for new ones."""

    def _is_repeated(self, number: int, arrival: Any) -> bool:
        del number, arrival
        return False


@pytest.mark.parametrize("twin", [("StepEntropy", Forgetful), ("Stream", Twice)])
def test_the_wrong_twins_are_caught(
    private: sf.Private,
    draws: list[tuple[bytes, tuple[int, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    twin: tuple[str, Any],
) -> None:
    monkeypatch.setattr(streams, *twin)
    with pytest.raises(AssertionError):
        interrupt_everywhere(private, draws, "same")


def test_a_step_draws_other_words_than_the_same_step_of_another_stream(
    private: sf.Private, draws: list[tuple[bytes, tuple[int, ...]]]
) -> None:
    for _ in range(2):
        stream = private.stream("tree", periods=4, epsilon=1)
        stream.step(3, bounded=True)
        stream.step(3, bounded=True)
    assert len({words for words, _ in draws}) == len(draws) == 4


@pytest.mark.parametrize("method", METHODS[1:])
def test_a_step_repeated_with_its_words_comes_to_the_same_and_changes_no_state(
    private: sf.Private, method: str
) -> None:
    """What an interrupted step relies on: no method alters the state that it is given."""
    asked: dict[str, Any] = {"w-event": {"window": 2}, "top": {"top": 1}}.get(method, {})
    stream = private.stream(method, by="city", periods=8, epsilon="0.3", **asked)
    state = stream._done[0].state
    for came in ([3, 1], [0, 7], [5, 5], [1, 0]):
        words: dict[int, Any] = {}
        before, counts = copy.deepcopy(state), np.array(came)
        made = [
            stream.plan.method.step(state, counts, streams.StepEntropy(words)) for _ in range(2)
        ]
        assert state == before
        assert made[0][0] == made[1][0]
        assert made[0][1].values.tolist() == made[1][1].values.tolist()
        state = made[0][0]
