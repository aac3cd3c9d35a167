"""Values that are asked for again and again: two rounds, and the diary on a device."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import stat
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import LedgerError, OutputError, ParameterError, SourceError
from sfumato.local.longitudinal import Longitudinal
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
    assert oracle.level.allows(oracle.ratio)
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


def test_a_value_that_stays_keeps_its_permanent_answer(tmp_path: Path) -> None:
    path = tmp_path / "me.json"
    for _ in range(5):
        made().diary(path, lifetime=4).report("bus")
    first = json.loads(path.read_text())["answers"]
    assert len(first) == 1
    diary = made().diary(path, lifetime=4)
    for _ in range(20):
        diary.report("bus")
    assert json.loads(path.read_text())["answers"] == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (diary.used, diary.most, diary.spent) == (1, 2, 2.0)


def test_beyond_the_lifetime_the_last_value_is_told_on(tmp_path: Path) -> None:
    diary = made("0.5", 20).diary(tmp_path / "me.json", lifetime="20")
    assert diary.most == 1
    diary.report("bus")
    kept = (tmp_path / "me.json").read_text()
    bus = np.mean([diary.report("bus").rows["report"][0] == 0 for _ in range(300)])
    foot = np.mean([diary.report("foot").rows["report"][0] == 0 for _ in range(300)])
    assert (tmp_path / "me.json").read_text() == kept
    assert abs(bus - foot) < 0.25


def test_values_that_come_back_cost_nothing_more(tmp_path: Path) -> None:
    diary = made().diary(tmp_path / "me.json", lifetime=4)
    for value in ("bus", "car", "bus", "car", "foot", "bus"):
        diary.report(value)
    assert [code for code, _ in json.loads((tmp_path / "me.json").read_text())["answers"]] == [0, 1]
    assert "2 of 2 values" in repr(diary)


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
    kept = (tmp_path / "me.json").read_text()
    monkeypatch.undo()
    diary.report("car")
    assert (tmp_path / "me.json").read_text() == kept


def test_a_failed_write_gives_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    diary = made().diary(tmp_path / "me.json", lifetime=4)
    monkeypatch.setattr("sfumato.files.sync", full)
    with pytest.raises(sf.SfumatoError):
        diary.report("car")
    assert not (tmp_path / "me.json").exists()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 2}', '{"version": 3, "made_by": {}, "answers": []}'],
)
def test_a_diary_that_cannot_be_read_is_never_begun_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "me.json"
    path.write_text(text)
    with pytest.raises(SourceError) as raised:
        made().diary(path, lifetime=4).report("bus")
    assert raised.value.code == "diary_unreadable"
    assert path.read_text() == text


@pytest.mark.parametrize("answers", [[[0, 3]], [[-1, 0]], [[0]], [["0", 1]], [[True, 1]], {"0": 1}])
def test_answers_that_cannot_be_are_not_believed(tmp_path: Path, answers: object) -> None:
    path = tmp_path / "me.json"
    told = {"version": 2, "made_by": made().made_by, "lifetime": "4", "answers": answers}
    path.write_text(json.dumps(told))
    with pytest.raises(SourceError):
        made().diary(path, lifetime=4).report("bus")


def test_the_diary_of_another_question_is_refused(tmp_path: Path) -> None:
    made().diary(tmp_path / "me.json", lifetime=4).report("bus")
    with pytest.raises(SourceError) as raised:
        made(1, 3).diary(tmp_path / "me.json", lifetime=4).report("bus")
    assert raised.value.code == "reports_of_another_oracle"


def test_a_lifetime_must_allow_one_value(tmp_path: Path) -> None:
    with pytest.raises(ParameterError) as raised:
        made().diary(tmp_path / "me.json", lifetime="1.9")
    assert raised.value.code == "lifetime_too_short"


def test_a_longer_lifetime_is_not_slipped_in(tmp_path: Path) -> None:
    path = tmp_path / "me.json"
    made().diary(path, lifetime=4).report("bus")
    for longer in (6, "4.1", sf.local.log(60)):
        with pytest.raises(ParameterError) as raised:
            made().diary(path, lifetime=longer).report("car")
        assert raised.value.code == "lifetime_longer"
    made().diary(path, lifetime=2).report("car")  # a shorter one binds at once
    assert made().diary(path, lifetime=4).used == 1
    diary = made().diary(path, lifetime=6, extend=True)
    for value in ("car", "foot"):
        diary.report(value)
    assert (diary.used, diary.most) == (3, 3)
    assert made().diary(path, lifetime=6).used == 3  # it is remembered from then on


def test_a_diary_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as raised:
        made().diary(tmp_path / "nowhere" / "me.json", lifetime=4)
    assert raised.value.code == "output_unwritable"


def _answer(path: str) -> None:
    made().diary(path, lifetime=4).report("bus")


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
    monkeypatch.setattr("sfumato.local.diary.PATIENCE_SECONDS", 0.05)
    with Path(f"{path}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LedgerError) as raised:
            made().diary(path, lifetime=4).report("bus")
    assert raised.value.code == "diary_in_use"
    assert not path.exists()
    made().diary(path, lifetime=4).report("bus")
    assert path.exists()
