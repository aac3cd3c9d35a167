"""Releases of a stream that are made only when something has changed."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.stream.w_event import PLANS, REPEATED, Presence, WEvent
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.methods.stream.method import StepFigures

KINDS = sorted(PLANS)


def stream(
    kind: str = "absorption", *, window: int = 4, epsilon: object = 1, **more: Any
) -> WEvent:
    facts = {"cells": 2, "unit": Rows(), "presence": Presence(periods=1), **more}
    return WEvent(plan=PLANS[kind](window), epsilon=epsilon, **facts)  # type: ignore[arg-type]


def told(method: WEvent, periods: Any, seed: int = 1) -> tuple[list[StepFigures], list[Fraction]]:
    """What every period told, and what a ledger by periods would have noted for it."""
    entropy = SeededEntropy(seed)
    state = method.begin(entropy)
    answers, costs = [], []
    for counts in periods:
        state, answer = method.step(state, np.asarray(counts, dtype=np.int64), entropy)
        released = Fraction(state["spent"][-1], method.plan.share_count) * method.epsilon / 2
        answers.append(answer)
        costs.append(method.epsilon / (2 * method.plan.window) + released)
    return answers, costs


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    window=st.integers(1, 6),
    periods=st.lists(
        st.tuples(*[st.one_of(st.integers(0, 3), st.integers(0, 10**6))] * 2), min_size=1,
        max_size=25,
    ),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_every_window_costs_at_most_epsilon_and_the_whole_what_is_charged(
    kind: str, window: int, periods: list[tuple[int, int]], seed: int
) -> None:
    method = stream(kind, window=window, epsilon="1/2", presence=Presence(ends=len(periods)))
    _, costs = told(method, periods, seed)
    windows = [sum(costs[at : at + window], Fraction(0)) for at in range(len(costs))]
    assert max(windows) <= method.epsilon
    assert sum(costs, Fraction(0)) <= method.event.epsilon
    assert max(costs) <= stream(kind, window=window, epsilon="1/2").event.epsilon


@pytest.mark.parametrize("kind", KINDS)
def test_a_skipped_period_repeats_the_last_release_and_still_costs(kind: str) -> None:
    # Of many cells the noise on their distance is far below what would be worth a release.
    periods = [[0] * 50] * 3 + [[10_000] * 50] + [[10_001] * 50] * 3
    answers, costs = told(stream(kind, cells=50), periods)
    answers, costs = answers[3:], costs[3:]
    assert [one.note for one in answers] == ["", REPEATED, REPEATED, REPEATED]
    assert all((one.values == answers[0].values).all() for one in answers)
    assert abs(int(answers[0].values[0]) - 10_000) < 100
    assert costs[1] == costs[2] == Fraction(1, 8)
    assert costs[0] > costs[1]


def test_a_stream_that_jumps_is_told_anew() -> None:
    periods = [[1000 * at, 50_000 - 1000 * at] for at in range(0, 40, 4)]
    answers, _ = told(stream("absorption", window=2, epsilon=4), periods)
    fresh = [one for one in answers if not one.note]
    assert len(fresh) > 4
    assert all(abs(one.values - np.array(exact)).max() < 100 for one, exact in
               zip(answers, periods, strict=True) if not one.note)  # fmt: skip


def test_before_the_first_release_zeros_are_told() -> None:
    answers, _ = told(stream(cells=50), [[1] * 50])
    assert answers[0].values.tolist() == [0] * 50
    assert answers[0].note == REPEATED


def test_the_error_of_a_repeated_period_is_about_that_of_its_cells() -> None:
    method = stream(cells=50, window=10)
    answers, _ = told(method, [[15] * 50] * 2)  # one part would buy noise of scale 20 a cell
    assert answers[0].note == REPEATED
    assert answers[0].stddev.tolist() == pytest.approx([15] * 50, abs=3)


def test_the_state_is_made_of_what_was_told() -> None:
    """So it may be seized: from the answers alone it can be written down again."""
    method = stream(window=2, epsilon=2)
    entropy, state = SeededEntropy(3), method.begin(SeededEntropy(3))
    seen = {"released": [0, 0], "spent": []}
    for counts in ([500, 2], [501, 2], [9000, 3], [2, 2], [2, 2]):
        state, answer = method.step(state, np.array(counts), entropy)
        offer = method.plan.offered(seen["spent"])
        seen = {
            "released": [int(one) for one in answer.values],
            "spent": [*seen["spent"], 0 if answer.note else offer][-4:],
        }
        assert state == seen


def test_the_same_step_with_the_same_words_tells_the_same() -> None:
    method = stream()
    counts = np.array([70, 80])
    once = method.step(method.begin(SeededEntropy(1)), counts, SeededEntropy(5))
    again = method.step(method.begin(SeededEntropy(2)), counts, SeededEntropy(5))
    assert once[0] == again[0]
    assert (once[1].values == again[1].values).all()


def test_noise_grows_with_what_a_person_moves() -> None:
    replaced = stream(unit=Rows(relation=Neighbours.REPLACE_ONE))
    several = stream(unit=Entity("who", max_rows=3))
    assert stream().distance_noise.scale == 8
    assert replaced.distance_noise.scale == 16
    assert several.release_noise(4).scale == 3 * stream().release_noise(4).scale == 6


def test_counts_of_another_number_of_cells_are_refused() -> None:
    with pytest.raises(ParameterError) as refusal:
        stream().step(stream().begin(SeededEntropy(1)), np.array([1, 2, 3]), SeededEntropy(1))
    assert refusal.value.code == "stream_invalid"


def test_the_sentence_says_both_promises() -> None:
    said = stream(epsilon="0.5", window=7, presence=Presence(ends=70)).sentence()
    assert "epsilon 0.5 for any 7 periods" in said
    assert "and 5 for all of a person's up to 70 periods" in said
