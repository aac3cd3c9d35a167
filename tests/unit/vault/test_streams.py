"""Streams in memory: charged as a whole, stepped by counts or rows, bounded by person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.privacy.mechanisms.laplace import Geometric

if TYPE_CHECKING:
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
ROWS = pa.table({"patient": [1, 1, 1, 2, 3], "city": ["north", "north", "south", "south", "x"]})


@pytest.fixture
def private(tmp_path: Path) -> sf.Private:
    (tmp_path / "visits.toml").write_text(SCHEMA)
    return sf.protect(ROWS, tmp_path / "visits.toml", epsilon=3)


@pytest.fixture
def _silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Geometric, "steps", lambda _self, values, _entropy: np.asarray(values))


def test_the_whole_is_charged_before_the_first_step_and_nothing_after(private: sf.Private) -> None:
    first = private.stream("tree", periods=4, epsilon=1)
    second = private.stream("tree", periods=4, epsilon=1)
    assert first.receipt != second.receipt, "two streams that ask alike are two charges"
    for came in (3, 5, 0, 2):
        first.step(came, bounded=True)
    assert code_of(private.stream, "tree", periods=4, epsilon="1.5") == "budget_exhausted"
    assert [one.number for one in first.told] == [1, 2, 3, 4]
    assert code_of(first.step, 1, bounded=True) == "allowance_exhausted"
    assert "Person level" in first.guarantee.statement
    assert "4 steps told" in repr(first)


@pytest.mark.usefixtures("_silent")
def test_rows_are_bounded_by_person_over_all_steps(private: sf.Private) -> None:
    stream = private.stream("tree", by="city", epsilon="0.5")
    assert stream.step(ROWS).values == [2, 1], "two rows of patient 1, one of 2; x is not declared"
    assert stream.step(ROWS).values == [2, 2], "one more of patient 2, who then has had two"
    assert stream.step(ROWS).values == [2, 2]
    days = private.stream("tree", by="city", days=2, epsilon="0.5")
    assert [days.step(ROWS).values for _ in range(3)] == [[2, 1], [4, 2], [4, 2]]


@pytest.mark.usefixtures("_silent")
def test_windows_forget_what_is_older(private: sf.Private) -> None:
    stream = private.stream("tree", window=2, epsilon=1)
    assert [stream.step(came, bounded=True).values[0] for came in (5, 1, 2, 0)] == [5, 6, 3, 2]


@pytest.mark.usefixtures("_silent")
def test_counts_of_people_are_taken_only_if_somebody_says_that_they_are_bounded(
    private: sf.Private,
) -> None:
    stream = private.stream("tree", by="city", epsilon=1)
    for came in ([40, 25], (40, 25), np.array([40, 25])):
        assert code_of(stream.step, came) == "stream_invalid"
    assert code_of(private.stream("tree", epsilon=1).step, np.int64(3)) == "stream_invalid"
    assert stream.told == []
    step = stream.step([40, 25], bounded=True)
    assert (step.values, step.note) == ([40, 25], "counts, bounded by whoever counted")
    assert stream.step(ROWS).note == ""
    rows = sf.protect(ROWS, private.schema, unit=sf.Rows(), epsilon=1)
    told = rows.stream("tree", by="city", epsilon=1).step([40, 25])
    assert (told.values, told.note) == ([40, 25], "")


@pytest.mark.usefixtures("_silent")
def test_rows_come_as_every_table_may(private: sf.Private) -> None:
    for came in (ROWS.to_pylist(), tuple(ROWS.to_pylist()), ROWS.to_pydict(), ROWS.to_pandas()):
        assert private.stream("tree", by="city", epsilon="0.1").step(came).values == [2, 1]


def test_what_is_no_step_is_refused(private: sf.Private) -> None:
    stream = private.stream(by="city", epsilon=1)
    for came in ([1], [1, -1], [1.0, 2.0], (1, 2, 3)):
        assert code_of(stream.step, came, bounded=True) == "stream_invalid"
    assert code_of(stream.step, pa.table({"city": ["north"]})) == "column_unknown"
    assert stream.told == []
    assert code_of(private.stream, by="patient", epsilon=1) == "column_unsuitable"
    assert code_of(private.stream, days=0, epsilon=1) == "parameter_out_of_range"
    rows = sf.protect(ROWS, private.schema, unit=sf.Rows(), epsilon=1)
    assert code_of(rows.stream, days=2, epsilon=1) == "option_not_applicable"
    assert "Event level" in rows.stream(epsilon=1).guarantee.statement
