"""w-event streams by the exact loss along their transcripts; planted wrong ones are caught.

Nothing is drawn, so a loss above the claim is a proof and needs no false-alarm rate.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.stream.w_event import PLANS, BudgetAbsorption, Presence, WEvent
from sfumato.testing.audit import largest_loss

if TYPE_CHECKING:
    from sfumato.privacy.mechanisms.laplace import Geometric

WINDOW, CELLS, PERIODS = 3, 2, 7
REPLACED = Rows(relation=Neighbours.REPLACE_ONE)
ROUNDING = 1e-9
Stream = tuple[tuple[int, int], ...]


def method(kind: str, unit: Any, presence: Presence) -> WEvent:
    plan = PLANS[kind](WINDOW)
    return WEvent(plan=plan, epsilon=Fraction(1), cells=CELLS, unit=unit, presence=presence)


def watched(made: WEvent) -> Any:
    """Run a stream to its end."""

    def run(periods: Stream) -> None:
        state = made.begin(cast("Any", None))
        for counts in periods:
            state, _ = made.step(state, np.array(counts), cast("Any", None))

    return run


def pair(changes: dict[int, tuple[int, int]]) -> tuple[Stream, Stream]:
    """A quiet stream, and the same with some of its periods moved."""
    quiet = tuple((20, 20) for _ in range(PERIODS))
    moved = tuple(
        (20 + changes.get(at, (0, 0))[0], 20 + changes.get(at, (0, 0))[1]) for at in range(PERIODS)
    )
    return quiet, moved


ADDED = dict.fromkeys((2, 3, 4), (1, 0))
MOVED = dict.fromkeys((2, 3, 4), (-1, 1))


@pytest.mark.parametrize("kind", sorted(PLANS))
@pytest.mark.parametrize(
    ("unit", "changes"),
    [
        (Rows(), ADDED),
        (REPLACED, MOVED),
        (REPLACED, {2: (1, 0), 3: (-1, 0), 4: (-1, 1)}),
        (Entity("who", max_rows=2), {2: (1, 1), 3: (2, 0), 4: (0, 2)}),
    ],
)
def test_a_person_within_one_window_loses_at_most_epsilon(
    kind: str, unit: Any, changes: dict[int, tuple[int, int]]
) -> None:
    made = method(kind, unit, Presence(periods=WINDOW, in_a_row=True))
    assert made.event.epsilon <= 1
    loss = largest_loss(watched(made), pair(changes), tries=25)
    assert loss <= float(made.event.epsilon) + ROUNDING


@pytest.mark.parametrize("kind", sorted(PLANS))
@pytest.mark.parametrize("periods", [(3,), (0, 6), (0, 3, 6), tuple(range(PERIODS))])
def test_a_person_anywhere_loses_at_most_what_is_charged(
    kind: str, periods: tuple[int, ...]
) -> None:
    presence = Presence(periods=len(periods), ends=PERIODS)
    made = method(kind, Rows(), presence)
    loss = largest_loss(watched(made), pair(dict.fromkeys(periods, (1, 0))), tries=25)
    assert loss <= float(made.event.epsilon) + ROUNDING
    if len(periods) == PERIODS:
        assert loss > 1 + ROUNDING, "a window's epsilon does not bound a whole stream"


def test_what_is_charged_is_nearly_found() -> None:
    """So a cost understated by a fifth would be caught."""
    made = method("absorption", Rows(), Presence(ends=PERIODS))
    loss = largest_loss(watched(made), pair(dict.fromkeys(range(PERIODS), (1, 0))), tries=80)
    assert loss > 0.8 * float(made.event.epsilon)


def test_a_row_that_is_replaced_but_counted_once_is_caught() -> None:
    """The distance moves by 2 of 2 cells there: a sensitivity of 1 / cells is for rows added."""
    wrong = method("absorption", Rows(), Presence(periods=WINDOW, in_a_row=True))
    loss = largest_loss(watched(wrong), pair(MOVED), tries=60)
    assert loss > float(wrong.event.epsilon) + 0.1


class _FreeSkips(WEvent):
    """Wrong: all of epsilon goes to releases, as if a skipped period had cost nothing."""

    def release_noise(self, parts: int) -> Geometric:
        return replace(super().release_noise(parts), epsilon=self.epsilon * parts / WINDOW)


class _Greedy(BudgetAbsorption):
    """Wrong: what a release absorbed is never paid back."""

    def offered(self, spent: Any) -> int:
        ages = [age for age, taken in enumerate(reversed(spent), start=1) if taken]
        return min(WINDOW, ages[0] if ages else len(spent) + 1, 2) if spent else 2


@pytest.mark.parametrize("twin", ["skips for nothing", "nothing paid back"])
def test_wrong_budgets_are_caught(twin: str) -> None:
    presence = Presence(periods=WINDOW, in_a_row=True)
    right = method("absorption", Rows(), presence)
    wrong = (
        _FreeSkips(plan=right.plan, epsilon=Fraction(1), cells=CELLS, unit=Rows(),
                   presence=presence)
        if twin == "skips for nothing"
        else replace(right, plan=_Greedy(WINDOW))
    )  # fmt: skip
    loss = largest_loss(watched(wrong), pair(ADDED), tries=60)
    assert loss > 1 + ROUNDING
