"""Values that are asked for again and again: two rounds, and the diary on a device."""

from __future__ import annotations

import fcntl
import json
import math
import multiprocessing
import stat
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, LedgerError, OutputError, ParameterError, SourceError
from sfumato.methods.local.longitudinal import Longitudinal
from sfumato.testing.entropy import SeededEntropy

VALUES = ["bus", "car", "foot"]


def made(epsilon: object = 1, forever: object = 2) -> Longitudinal:
    return Longitudinal(VALUES, epsilon=epsilon, forever=forever)  # type: ignore[arg-type]


def test_one_report_tells_epsilon_and_all_together_forever() -> None:
    oracle = made()
    told = [oracle.channel(reports).epsilon for reports in (1, 2, 4, 7)]
    assert told[0] == pytest.approx(1, abs=1e-9)
    assert told == sorted(told)
    assert told[-1] <= 2
    assert told[-1] > 1.99


@pytest.mark.parametrize("forever", ["1.0001", "20", "log(9)"])
@pytest.mark.parametrize("size", [2, 3, 1000])
def test_the_second_round_is_rounded_against_us(forever: str, size: int) -> None:
    oracle = Longitudinal(size, epsilon=1, forever=forever)
    assert oracle.epsilon.allows(oracle.ratio)
    assert oracle.realised == pytest.approx(1, abs=1e-4)


def test_shares_come_out_within_their_sd() -> None:
    oracle = made(2, 4)
    people = np.repeat(VALUES, [20_000, 15_000, 5_000])
    reports = oracle.randomize(people, SeededEntropy(3))
    found = oracle.estimate(oracle.sketch(reports)).to_pylist()
    for one, share in zip(found, (0.5, 0.375, 0.125), strict=True):
        assert abs(one["share"] - share) < 4 * one["sd"]
    assert oracle.sketch(reports) == oracle.sketch(reports.to_arrow())
    assert sf.local.from_json(oracle.to_json()) == oracle


def test_the_inverse_is_that_of_both_rounds() -> None:
    oracle = made()
    chances = oracle.channel().probabilities()
    assert chances[0, 0] == pytest.approx(float(oracle.p))
    assert chances[0, 1] == pytest.approx(float(oracle.q))


def test_forever_must_be_above_epsilon() -> None:
    with pytest.raises(ParameterError) as raised:
        made(2, 2)
    assert raised.value.code == "parameter_out_of_range"
    assert "Twice epsilon" in raised.value.message


def exact_losses(
    size: int, first: float, second: float, reports: int
) -> tuple[list[tuple[int, ...]], np.ndarray[Any, Any]]:
    """Every history of so many reports, and the exact loss between each two of them.

    By brute force: all permanent answers of all values, all reports. `first` and `second` are the
    odds of the truth in the two rounds.
    """

    def chances(odds: float) -> np.ndarray[Any, Any]:
        return (np.ones((size, size)) + (odds - 1) * np.eye(size)) / (odds + size - 1)

    permanent, instant = chances(first), chances(second)
    histories = list(product(range(size), repeat=reports))
    likelihood = np.zeros((len(histories), size**reports))
    for answers in product(range(size), repeat=size):
        weight = np.prod([permanent[value, answer] for value, answer in enumerate(answers)])
        for row, history in enumerate(histories):
            told = np.ones(1)
            for value in history:
                told = np.multiply.outer(told, instant[answers[value]]).ravel()
            likelihood[row] += weight * told
    logs = np.log(likelihood)
    losses = np.array([(own - logs).max(axis=1) for own in logs])
    return histories, losses


def pattern(history: tuple[int, ...]) -> tuple[int, ...]:
    """Which reports share a value: each by the first report of the same."""
    return tuple(history.index(value) for value in history)


def changes(history: tuple[int, ...]) -> tuple[bool, ...]:
    """On which days the value is another than the day before."""
    return tuple(one != other for one, other in pairwise(history))


def worst(histories: list[tuple[int, ...]], losses: np.ndarray[Any, Any], alike: Any) -> float:
    """The largest loss between two histories that are alike in some way."""
    kinds = [alike(history) for history in histories]
    return max(
        float(losses[at, to])
        for at in range(len(kinds)) for to in range(len(kinds)) if kinds[at] == kinds[to]
    )  # fmt: skip


def test_the_published_losses_of_histories() -> None:
    """k 3, F 2, I 4, T 4: the same days of change are not enough."""
    histories, losses = exact_losses(3, math.exp(2), math.exp(4), 4)
    found = [worst(histories, losses, alike) for alike in (pattern, changes, lambda _: 0)]
    assert found == pytest.approx([5.72, 10.25, 10.25], abs=0.005)


@pytest.mark.parametrize(("size", "reports"), [(2, 1), (2, 3), (2, 7), (3, 2), (3, 4), (3, 5)])
@pytest.mark.parametrize(("epsilon", "forever"), [("0.5", "1"), ("1", "2"), ("2", "5")])
def test_no_two_histories_differ_by_more_than_is_stated(
    size: int, reports: int, epsilon: str, forever: str
) -> None:
    oracle = Longitudinal(size, epsilon=epsilon, forever=forever)
    first, second = (truth / lie for truth, lie in (oracle.permanent, oracle.instant))
    histories, losses = exact_losses(size, first, second, reports)
    any_two = [float(oracle.any_history_epsilon(reports, m)) for m in range(1, size + 1)]
    patterns = [pattern(history) for history in histories]
    for at, history in enumerate(histories):
        for to, other in enumerate(histories):
            values = max(len(set(history)), len(set(other)))
            limit = any_two[values - 1]
            if patterns[at] == patterns[to]:
                limit = min(limit, values * float(oracle.forever))
            assert losses[at, to] <= limit + 1e-9
    # `forever` for each value, which was claimed once, is no bound, nor is epsilon for each report.
    if (size, reports, epsilon) == (2, 7, "1"):
        assert losses.max() > 2 * float(oracle.forever)
    assert losses.max() > 0.35 * float(oracle.any_history_epsilon(reports, size))


def test_a_return_to_an_old_value_shows_the_more_the_longer_it_lasts() -> None:
    """A..B..A against A..B..C: the same days of change, the loss of which has no end."""
    first, second = math.exp(2), math.exp(4)
    found = []
    for days in (1, 2, 3, 20):
        stretches = [(0, 1, 0), (0, 1, 2)]
        logs = []
        for stretch in stretches:
            # Reports of a stretch all alike: the likelihood of (A)^n (B)^n (A)^n as a report.
            total = 0.0
            for answers in product(range(3), repeat=3):
                weight = math.prod(
                    (first if value == answer else 1) / (first + 2)
                    for value, answer in enumerate(answers)
                )
                for value, told in zip(stretch, (0, 1, 2), strict=True):
                    match = answers[value] == told
                    weight *= ((second if match else 1) / (second + 2)) ** days
                total += weight
            logs.append(math.log(total))
        found.append(abs(logs[0] - logs[1]))
    assert found == sorted(found)
    assert found[1] > 6  # `forever` for each of three values
    assert found[-1] > 59
    oracle = made(1, 2)
    assert float(oracle.any_history_epsilon(60, 3)) > 59


def test_a_value_that_stays_keeps_its_permanent_answer(tmp_path: Path) -> None:
    path = tmp_path / "me.json"
    for _ in range(5):
        made().diary(path, lifetime=3).report("bus")
    first = json.loads(path.read_text())["answers"]
    assert len(first) == 1
    diary = made().diary(path, lifetime=3)
    for _ in range(20):
        diary.report("bus")
    assert json.loads(path.read_text())["answers"] == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # One value is all that this lifetime allows, so nothing can change and reports have no end.
    assert (diary.used, diary.most, diary.reports, diary.spent) == (1, 1, 25, 2.0)


@pytest.mark.parametrize("values", [("bus",), ("bus", "car"), ("bus", "car", "foot", "bus")])
def test_a_lifetime_allows_so_many_reports_whatever_they_are_about(
    tmp_path: Path, values: tuple[str, ...]
) -> None:
    """A refusal that came later for somebody whose value stays would tell that it stays."""
    oracle, path = made(), tmp_path / "me.json"
    diary, given = oracle.diary(path, lifetime=10), 0
    with pytest.raises(BudgetError) as raised:
        for given in range(100):
            diary.report(values[given % len(values)])
    assert raised.value.code == "allowance_exhausted"
    assert diary.reports == given
    assert diary.spent == pytest.approx(float(oracle.any_history_epsilon(given, diary.most)))
    assert diary.spent <= 10
    assert float(oracle.any_history_epsilon(given + 1, diary.most)) > 10
    assert diary.spent_same_pattern == 2 * len(set(values))
    before = path.read_bytes()
    with pytest.raises(BudgetError):
        diary.report("bus")
    assert path.read_bytes() == before
    extended = oracle.diary(path, lifetime=15, extend=True)
    extended.report("bus")
    assert extended.reports == given + 1


def test_a_diary_that_did_not_count_reports_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "me.json"
    told = {"version": 2, "made_by": made().made_by, "lifetime": "4", "answers": [[0, 1]]}
    path.write_text(json.dumps(told))
    with pytest.raises(SourceError) as raised:
        made().diary(path, lifetime=4).report("bus")
    assert raised.value.code == "file_malformed"


def test_beyond_the_lifetime_the_last_value_is_told_on(tmp_path: Path) -> None:
    diary = made("0.5", 20).diary(tmp_path / "me.json", lifetime="20")
    assert diary.most == 1
    diary.report("bus")
    kept = json.loads((tmp_path / "me.json").read_text())["answers"]
    bus = np.mean([diary.report("bus").rows["report"][0] == 0 for _ in range(300)])
    foot = np.mean([diary.report("foot").rows["report"][0] == 0 for _ in range(300)])
    assert json.loads((tmp_path / "me.json").read_text())["answers"] == kept
    assert abs(bus - foot) < 0.25


def test_values_that_come_back_keep_their_permanent_answers(tmp_path: Path) -> None:
    diary = made(1, 4).diary(tmp_path / "me.json", lifetime=9)
    for value in ("bus", "car", "bus", "car", "foot", "bus"):
        diary.report(value)
    assert [code for code, _ in json.loads((tmp_path / "me.json").read_text())["answers"]] == [0, 1]
    assert "6 reports about 2 of 2 values" in repr(diary)


def test_the_answer_is_on_the_disk_before_a_report_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    oracle = made()
    diary = oracle.diary(tmp_path / "me.json", lifetime=4)
    monkeypatch.setattr(Longitudinal, "tell", cut)
    with pytest.raises(KeyboardInterrupt):
        diary.report("car")
    kept = json.loads((tmp_path / "me.json").read_text())
    assert kept["reports"] == 1  # counted, too
    monkeypatch.undo()
    diary.report("car")
    assert json.loads((tmp_path / "me.json").read_text()) == {**kept, "reports": 2}


def test_a_failed_write_gives_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    diary = made().diary(tmp_path / "me.json", lifetime=4)
    monkeypatch.setattr("sfumato.filesystem.sync", full)
    with pytest.raises(sf.SfumatoError):
        diary.report("car")
    assert not (tmp_path / "me.json").exists()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 3}', '{"version": 4, "made_by": {}, "answers": []}'],
)
def test_a_diary_that_cannot_be_read_is_never_begun_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "me.json"
    path.write_text(text)
    with pytest.raises(SourceError) as raised:
        made().diary(path, lifetime=4).report("bus")
    assert raised.value.code == "file_malformed"
    assert path.read_text() == text


@pytest.mark.parametrize("answers", [[[0, 3]], [[-1, 0]], [[0]], [["0", 1]], [[True, 1]], {"0": 1}])
def test_answers_that_cannot_be_are_not_believed(tmp_path: Path, answers: object) -> None:
    path = tmp_path / "me.json"
    told = {"version": 3, "made_by": made().made_by, "lifetime": "4", "reports": 1}
    path.write_text(json.dumps({**told, "answers": answers}))
    with pytest.raises(SourceError) as raised:
        made().diary(path, lifetime=4).report("bus")
    assert raised.value.code == "file_malformed"


@pytest.mark.parametrize("reports", [0, -1, 1.0, None, True, "1"])
def test_numbers_of_reports_that_cannot_be_are_not_believed(
    tmp_path: Path, reports: object
) -> None:
    path = tmp_path / "me.json"
    told = {"version": 3, "made_by": made().made_by, "lifetime": "4", "answers": [[0, 1], [1, 1]]}
    path.write_text(json.dumps({**told, "reports": reports}))
    with pytest.raises(SourceError) as raised:
        made().diary(path, lifetime=4).report("bus")
    assert raised.value.code == "file_malformed"


def test_the_diary_of_another_question_is_refused(tmp_path: Path) -> None:
    made().diary(tmp_path / "me.json", lifetime=4).report("bus")
    with pytest.raises(SourceError) as raised:
        made(1, 3).diary(tmp_path / "me.json", lifetime=4).report("bus")
    assert raised.value.code == "round_differs"


def test_a_lifetime_must_allow_one_value(tmp_path: Path) -> None:
    with pytest.raises(ParameterError) as raised:
        made().diary(tmp_path / "me.json", lifetime="1.9")
    assert raised.value.code == "parameter_out_of_range"


def test_a_longer_lifetime_is_not_slipped_in(tmp_path: Path) -> None:
    path = tmp_path / "me.json"
    made().diary(path, lifetime=4).report("bus")
    for longer in (6, "4.1", sf.local.log(60)):
        with pytest.raises(ParameterError) as raised:
            made().diary(path, lifetime=longer).report("car")
        assert raised.value.code == "parameter_out_of_range"
    shorter = made().diary(path, lifetime=3)
    shorter.report("car")  # a shorter one binds at once
    assert (shorter.used, shorter.most) == (1, 1)
    with pytest.raises(BudgetError):
        shorter.report("bus")
    assert made().diary(path, lifetime=4).used == 1  # and does not make anybody forget the longer
    diary = made().diary(path, lifetime=8, extend=True)
    for value in ("car", "foot"):
        diary.report(value)
    assert (diary.used, diary.most) == (3, 3)
    assert made().diary(path, lifetime=8).used == 3  # it is remembered from then on


def test_a_diary_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as raised:
        made().diary(tmp_path / "nowhere" / "me.json", lifetime=4)
    assert raised.value.code == "output_unwritable"


def _answer(path: str) -> None:
    made().diary(path, lifetime=8).report("bus")


def test_two_programs_draw_one_permanent_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "me.json")
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_answer, args=(path,)) for _ in range(4)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert [one.exitcode for one in both] == [0] * 4
    assert len(json.loads(Path(path).read_text())["answers"]) == 1


def test_who_finds_the_diary_in_use_waits_and_then_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "me.json"
    monkeypatch.setattr("sfumato.methods.local.longitudinal.PATIENCE_SECONDS", 0.05)
    with Path(f"{path}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LedgerError) as raised:
            made().diary(path, lifetime=4).report("bus")
    assert raised.value.code == "file_in_use"
    assert not path.exists()
    made().diary(path, lifetime=4).report("bus")
    assert path.exists()
