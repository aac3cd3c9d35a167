"""Running histograms and lists of the largest cells."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.stream.catalogue import KINDS, prepare
from sfumato.methods.stream.histograms import (
    RunningHistogram,
    TopChanges,
    TopCounts,
    ranked,
    shares,
)
from sfumato.methods.stream.method import StepFigures
from sfumato.methods.stream.request import StreamRequest
from sfumato.methods.stream.w_event import WEvent
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy


def request(cells: int = 5, **more: Any) -> StreamRequest:
    facts = {"unit": Rows(), "price": price(epsilon=2), "periods": 8, **more}
    return StreamRequest(cells=cells, **facts)


def run(method: Any, periods: Any, seed: int = 1) -> list[StepFigures]:
    entropy = SeededEntropy(seed)
    state, answers = method.begin(entropy), []
    for counts in periods:
        state, told = method.step(state, np.array(counts), entropy)
        answers.append(told)
    return answers


def test_cells_share_one_budget() -> None:
    many = prepare(request(50), "histogram")
    assert isinstance(many, RunningHistogram)
    one = prepare(request(1), str(many.parameters["method"]))
    assert many.event == one.event
    stddev = run(many, [[1] * 50])[0].stddev
    assert stddev.tolist() == run(one, [[1]])[0].stddev.tolist() * 50
    assert many.parameters["histogram"] == 50


def test_a_running_histogram_follows_every_cell() -> None:
    answers = run(prepare(request(price=price(epsilon=10)), "histogram"), [[9000, 0, 5, 0, 1]] * 8)
    error = np.abs(answers[-1].values - 8 * np.array([9000, 0, 5, 0, 1]))
    assert error.max() < 8 * answers[-1].stddev[0]
    assert answers[-1].values[0] > 70_000


def test_shares_are_ratios_with_their_error() -> None:
    found, off = shares(StepFigures(np.array([75, 25]), np.array([3.0, 4.0])))
    assert found.tolist() == [0.75, 0.25]
    # (x / (x + y))' is y / t^2 and -x / t^2.
    assert off == pytest.approx([math.hypot(25 * 3, 75 * 4) / 100**2] * 2)
    assert np.isnan(shares(StepFigures(np.array([-3, 1]), np.ones(2)))[0]).all()


def test_the_largest_come_first_and_of_equals_the_first_declared() -> None:
    assert ranked(StepFigures(np.array([3, 9, 9, 1]), np.ones(4)), 3) == [1, 2, 0]


def test_a_list_is_read_off_the_histogram() -> None:
    made = prepare(request(price=price(epsilon=10), options={"top": 2}), "top")
    assert isinstance(made, TopCounts)
    plain = prepare(request(price=price(epsilon=10)), "histogram")
    assert made.event == plain.event
    counts = [[900, 5, 0, 700, 3]] * 3
    told, whole = run(made, counts)[-1], run(plain, counts)[-1]
    assert np.flatnonzero(told.values).tolist() == [0, 3]
    assert told.values[0] == whole.values[0]
    assert told.note == "largest first: cells 0, 3"


def changing(**more: Any) -> TopChanges:
    made = prepare(request(options={"top": 2, "changes": 2, **more}, price=price(epsilon=4),
                           periods=None), "top")  # fmt: skip
    assert isinstance(made, TopChanges)
    return made


def test_a_list_is_counted_anew_only_when_it_is_outgrown() -> None:
    made = changing()
    quiet, turned = [900, 0, 0, 700, 0], [0, 9000, 0, 0, 0]
    answers = run(made, [quiet] * 4 + [turned] + [quiet] * 3)
    notes = [one.note.split("; ")[1] for one in answers]
    anew, before = "counted anew", "as before"
    assert notes == [anew, before, before, before, anew, before, before, before]
    assert np.flatnonzero(answers[3].values).tolist() == [0, 3]
    assert np.flatnonzero(answers[4].values).tolist() == [0, 1]
    assert (answers[7].values == answers[4].values).all()


def test_after_the_last_change_the_list_stays() -> None:
    turns = np.zeros((6, 5), dtype=int)
    for at in range(6):
        turns[at, at % 5] = 10 ** (at + 4)
    answers = run(changing(top=1), turns)
    notes = [one.note.split("; ")[1] for one in answers]
    assert notes[:3] == ["counted anew"] * 3
    assert notes[3:] == ["as before, and no change is left"] * 3


def test_an_even_stream_is_hardly_ever_told_anew_in_vain() -> None:
    """Each of 40 streams of 25 periods asks 24 times; of 1000 questions one in vain at most 5 %."""
    made = changing()
    told = [run(made, [[60, 60, 60, 60, 60]] * 25, seed) for seed in range(40)]
    vain = sum(one.note.endswith("anew") for answers in told for one in answers[1:])
    # The list is a random one of equals, so a cell outside never leads.
    assert vain <= 3


def test_asking_and_all_lists_cost_what_is_charged() -> None:
    made = changing()
    lists = (made.changes + 1) * made.noise.epsilon
    assert made.sparse.event.epsilon + lists == made.event.epsilon == 4  # type: ignore[union-attr]


def test_a_person_weighs_as_much_as_all_their_periods() -> None:
    plain = changing()
    unit = Entity("who", max_rows=3, relation=Neighbours.REPLACE_ONE)
    asked = {"top": 2, "changes": 2}
    heavy = prepare(request(unit=unit, days=4, options=asked, price=price(epsilon=4)), "top")
    assert isinstance(heavy, TopChanges)
    assert heavy.noise.scale == 24 * plain.noise.scale
    assert heavy.sparse.query_scale == 24 * plain.sparse.query_scale
    assert heavy.event == plain.event


def test_w_event_spends_the_price_over_the_whole_stream() -> None:
    made = prepare(
        request(periods=70, window=7, unit=Entity("who", max_rows=1), days=70), "w-event"
    )
    assert isinstance(made, WEvent)
    assert made.event.epsilon == 2
    assert made.epsilon == Fraction(1, 5)
    by_rows = prepare(request(periods=70, window=7, options={"plan": "distribution"}), "w-event")
    assert by_rows.event.epsilon == 2  # type: ignore[union-attr]
    assert by_rows.epsilon > 4  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("method", "facts", "code"),
    [
        ("w-event", {}, "stream_invalid"),
        ("w-event", {"window": 3, "options": {"plan": "even"}}, "choice_unknown"),
        ("w-event", {"window": 3, "options": {"top": 3}}, "option_unknown"),
        ("histogram", {"cells": 1}, "stream_invalid"),
        ("histogram", {"options": {"window": 3}}, "option_unknown"),
        ("top", {"options": {"top": 5}}, "stream_invalid"),
        ("top", {"options": {"top": 0}}, "parameter_out_of_range"),
        ("top", {"options": {"top": 2, "changes": 1}, "window": 2}, "stream_invalid"),
    ],
)
def test_what_makes_no_sense_is_refused(method: str, facts: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        prepare(request(**facts), method)
    assert refusal.value.code == code


def test_counts_of_another_number_of_cells_are_refused() -> None:
    for name in KINDS:
        options = {"top": 2, "changes": 1} if name == "top" else {}
        window = 3 if name == "w-event" else None
        made = prepare(request(options=options, window=window), name)
        with pytest.raises(ParameterError) as refusal:
            made.step(made.begin(SeededEntropy(1)), np.array([1, 2]), SeededEntropy(1))
        assert refusal.value.code == "stream_invalid"
