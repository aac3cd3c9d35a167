"""Counting people in places that may be seized."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.methods.stream.pan_private import (
    PanCells,
    PanPrivateDensity,
    PanPrivateHeavy,
    PanTable,
    PeopleSample,
)
from sfumato.testing.entropy import SeededEntropy

PEOPLE = 200
ROLL = [f"p{one}" for one in range(PEOPLE)]
SURE = 4.9
"""So many standard deviations are passed with a chance of 1e-6."""


def density(**more: Any) -> PanPrivateDensity:
    facts = {"people": PEOPLE, "size": PEOPLE, "epsilon": Fraction(1), "output_epsilon": 1, **more}
    return PanPrivateDensity(**facts)


def heavy(**more: Any) -> PanPrivateHeavy:
    facts = {"people": PEOPLE, "size": PEOPLE, "epsilon": Fraction(1), "output_epsilon": 1, **more}
    return PanPrivateHeavy(**facts)


def check_unbiased(made: PanPrivateDensity, events: list[list[str]], truth: float) -> None:
    """The mean of many runs, and that they spread no more than is told, nor far less."""
    runs, entropy = 300, SeededEntropy(9)
    found = []
    for _ in range(runs):
        state = made.begin(ROLL, entropy)
        for period in events:
            made.update(state, period, entropy)
        found.append(made.estimate(state, entropy).share)
    told = math.sqrt(made.variance)
    assert abs(np.mean(found) - truth) < SURE * told / math.sqrt(runs)
    assert 0.6 < np.std(found) / told < 1 + SURE / math.sqrt(2 * runs)


def came(*visits: int) -> list[str]:
    """The first of the roll came so often each."""
    return [ROLL[at] for at, times in enumerate(visits) for _ in range(times)]


@pytest.mark.parametrize("size", [PEOPLE, 50])
def test_a_share_of_people_is_told_without_bias(size: int) -> None:
    events = [came(*[1] * 60), came(*[3] * 45), ["stranger"] * 50]
    check_unbiased(density(size=size), events, 0.3)


@pytest.mark.parametrize("at_least", [1, 2, 3])
def test_a_share_who_came_often_is_told_without_bias(at_least: int) -> None:
    visits = [1] * 50 + [2] * 40 + [3] * 30 + [9] * 20
    # In two periods, which a counter must add up over.
    events = [came(*visits), came(*[0] * 50, *[1] * 20)]
    held = Counter(came(*visits)) + Counter(events[1])
    truth = sum(times >= at_least for times in held.values()) / PEOPLE
    check_unbiased(heavy(at_least=at_least), events, truth)


def test_nobody_came_is_told_as_nobody() -> None:
    check_unbiased(density(), [[]], 0.0)


def test_the_noise_of_answers_grows_with_their_number() -> None:
    assert density(reads=10).output_noise.scale == 10
    assert density(reads=10).event.epsilon == density().event.epsilon == 2


def test_answers_about_one_state_differ_by_the_noise_that_is_paid_for() -> None:
    """With the state at hand, an answer without noise would tell what changed since."""
    made, entropy, draws = heavy(at_least=1, reads=3), SeededEntropy(8), 2000
    state = made.begin(ROLL, entropy)
    shares = np.array([made.estimate(state, entropy).share for _ in range(draws)])
    ones = (shares * float(made.epsilon) / 4 + 0.5) * made.size
    claimed = made.output_noise.variance
    spread = SURE * math.sqrt(6 / draws)  # of a variance with the kurtosis of Laplace's
    assert abs(ones.var() / claimed - 1) < spread
    assert abs(ones.mean() - int(state.tables[0].one_count)) < SURE * math.sqrt(claimed / draws)


@pytest.mark.parametrize("round_", [1, 2, 128])
def test_a_cell_is_one_byte_changed_where_it_lies(round_: int) -> None:
    """After any number of visits the counter moved by them, and came round where it says so."""
    size, entropy = 5000, SeededEntropy(1)
    table = PanTable(size=size, epsilon=Fraction(1), round=round_)
    cells = table.begin(entropy)
    data, before = cells.data, PanCells(memoryview(bytes(cells.data)))
    visits = np.arange(size) % 7
    table.update(cells, visits, entropy)
    assert cells.data is data
    assert len(data) == size
    moved = before.counters + visits
    assert (cells.counters == moved % round_).all()
    stayed = moved < round_
    assert (cells.bits == before.bits)[stayed].all()
    drawn = cells.bits[~stayed]
    assert abs(drawn.mean() - 0.75) < SURE * math.sqrt(0.1875 / len(drawn))
    assert cells.one_count == cells.bits.sum()


def test_a_stopped_update_goes_on_with_the_places_it_had_not_passed() -> None:
    made, entropy = heavy(at_least=3), SeededEntropy(6)
    state = made.begin(ROLL, entropy)
    start = np.concatenate([cells.counters for cells in state.tables])
    visits = came(*[1] * PEOPLE)

    class _Stopping(SeededEntropy):
        """Stops the second table before its first draw."""

        asked = 0

        def words(self, count: int) -> Any:
            self.asked += 1
            if self.asked == 2:
                raise KeyboardInterrupt
            return super().words(count)

    with pytest.raises(KeyboardInterrupt):
        made.update(state, visits, _Stopping(1))
    assert (state.updates, state.position) == (0, 120)
    with pytest.raises(ParameterError) as refusal:
        made.update(state, visits, entropy)
    assert refusal.value.code == "pan_unfinished"
    made.update(state, visits, entropy, resume=True)
    assert (state.updates, state.position) == (1, 0)
    rounds = np.repeat([3, 2], [120, 80])
    ended = np.concatenate([cells.counters for cells in state.tables])
    assert (ended == (start + 1) % rounds).all()


def test_who_did_not_come_keeps_their_place_as_it_was() -> None:
    made, entropy = heavy(at_least=3), SeededEntropy(2)
    state = made.begin(ROLL, entropy)
    place = int(state.sample.positions(["p7"])[0])

    def flat() -> Any:
        return np.concatenate([np.array(cells.data) for cells in state.tables])

    before = flat()
    made.update(state, ["p7"] * 2, entropy)
    # In the table of two rounds, two visits come back to where they began.
    assert set(np.flatnonzero(before != flat())) <= {place}


def test_a_sample_is_drawn_by_key_and_finds_its_own() -> None:
    sample = PeopleSample.of(ROLL, 50, SeededEntropy(3))
    places = sample.positions([*ROLL, "stranger"])
    assert sorted(places[places >= 0]) == list(range(50))
    other = PeopleSample.of(ROLL, 50, SeededEntropy(4))
    both = (places[:-1] >= 0) & (other.positions(ROLL) >= 0)
    assert both.sum() < 25  # 12.5 by chance


def test_a_sample_is_divided_among_the_tables() -> None:
    made = heavy(at_least=3, size=100)
    assert [(table.size, table.round) for table in made.tables] == [(60, 3), (40, 2)]
    assert [(one.size, one.round) for one in heavy(at_least=2, size=2).tables] == [(1, 2), (1, 1)]


@pytest.mark.parametrize("epsilon", ["1.5937", "1.6", 2, 5, "1e308"])
def test_an_epsilon_beyond_the_formula_is_refused(epsilon: object) -> None:
    with pytest.raises(ParameterError) as refusal:
        density(epsilon=epsilon)
    assert refusal.value.code == "parameter_out_of_range"
    assert float(density(epsilon="1.5936").epsilon) == 1.5936


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (lambda: density(size=PEOPLE + 1), "parameter_out_of_range"),
        (lambda: heavy(size=1, at_least=2), "parameter_out_of_range"),
        (lambda: heavy(at_least=0), "parameter_out_of_range"),
        (lambda: heavy(at_least=129), "parameter_out_of_range"),
        (lambda: density(reads=0), "parameter_out_of_range"),
        (lambda: density().begin(ROLL[1:], SeededEntropy(1)), "table_empty"),
    ],
)
def test_what_cannot_be_is_refused(made: Any, code: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        made()
    assert refusal.value.code == code


class StoreLog(bytearray):
    """Cells that note which of them were stored."""

    def __init__(self, cells: memoryview) -> None:
        super().__init__(cells)
        self.stored: list[int] = []

    def __setitem__(self, place: Any, value: Any) -> None:
        self.stored.append(place)
        super().__setitem__(place, value)


def test_an_update_stores_every_place_in_one_order_whoever_came() -> None:
    """Whoever watches which bytes are written, or which pages become dirty, learns nothing."""
    for round_ in (1, 5):
        table = PanTable(size=5000, epsilon=Fraction(1), round=round_)
        for visits in (np.zeros(5000, np.int64), np.arange(5000) % 3, np.full(5000, 9)):
            log = StoreLog(table.begin(SeededEntropy(1)).data)
            cells: Any = PanCells(log)  # type: ignore[arg-type]
            table.update(cells, visits, SeededEntropy(2))
            assert log.stored == list(range(5000))
