"""Ranges above a threshold: judged in order, and hits paid for."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.counts import frequencies, request_for, whole_numbers

import sfumato as sf
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.publish.sparse_vector import prepare
from sfumato.testing.entropy import SeededEntropy

LINE = whole_numbers(8, nullable=True)
RANGES = [(0, 0), (1, 2), (5, 4), (3, 7), (0, 7)]
COUNTS = [900, 5, 5, 700, 0, 0, 0, 0, 10_000]


def judged(**given: Any) -> list[bool | None]:
    made = prepare(request_for(LINE, epsilon=5, boxes=RANGES), threshold=300, **given)
    table = made.release(frequencies(LINE, COUNTS), SeededEntropy(1))["above"]
    assert table["a_from"].to_pylist() == [0, 1, None, 3, 0]
    assert table["a_to"].to_pylist() == [0, 2, None, 7, 7]
    found: list[bool | None] = table["above"].to_pylist()
    return found


def test_ranges_are_judged_in_order_until_the_hits_are_used_up() -> None:
    assert judged(at_most=3) == [True, False, False, True, True]
    assert judged(at_most=2) == [True, False, False, True, None]
    assert judged() == [True, None, None, None, None]


def test_noise_follows_the_unit() -> None:
    def vector(unit: Any) -> Any:
        asked = request_for(LINE, epsilon=1, boxes=RANGES, unit=unit)
        return prepare(asked, threshold=3, at_most=2).noise

    assert vector(Rows()).monotone
    assert not vector(Rows(relation=Neighbours.REPLACE_ONE)).monotone
    assert vector(Entity("who", max_rows=3)).sensitivity == 3
    wider = vector(Rows(relation=Neighbours.REPLACE_ONE)).query_scale
    assert wider > vector(Rows()).query_scale


def test_the_stated_bound_holds() -> None:
    made = prepare(request_for(LINE, epsilon=1, boxes=RANGES), threshold=500, at_most=5)
    far = made.error["verdicts"]["bound95"]
    sums = np.array([500 + far, 500 - far, 500 + far, 500 - far, 500 - far]).astype(np.int64)
    runs = made.judge(np.broadcast_to(sums, (4000, 5)), SeededEntropy(2))
    wrong = (runs != [1, 0, 1, 0, 0]).any(axis=1).mean()
    # 5 % at most, and five standard errors.
    assert wrong < 0.05 + 5 * (0.05 / 4000) ** 0.5


@pytest.mark.parametrize(
    ("boxes", "given", "code"),
    [
        (None, {"threshold": 3}, "workload_invalid"),
        (RANGES, {}, "parameter_missing"),
        (RANGES, {"threshold": -1}, "parameter_out_of_range"),
        (RANGES, {"threshold": 3, "at_most": 6}, "parameter_out_of_range"),
        (RANGES, {"threshold": 3, "at_most": 0}, "parameter_out_of_range"),
    ],
)
def test_wrong_options_are_refused(boxes: Any, given: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as raised:
        prepare(request_for(LINE, boxes=boxes), **given)
    assert raised.value.code == code


def test_through_the_door() -> None:
    day = sf.Column("day", sf.Kind.DATE, domain=sf.Bounds(date(2024, 1, 1), date(2024, 1, 31)))
    days = pa.table({"day": pa.array([date(2024, 1, 9)] * 500 + [date(2024, 1, 20)] * 3)})
    private = sf.protect(sf.read(days, schema=sf.Schema("t", (day,))), epsilon=3)
    weeks = np.array(
        [[[f"2024-01-{low:02}", f"2024-01-{low + 6:02}"]] for low in (1, 8, 15, 22)],
        dtype="datetime64[D]",
    )
    found = private.publish(
        "above", columns=["day"], workload=weeks, threshold=100, at_most=2, epsilon=1
    )
    assert found.table["above"].to_pylist() == [False, True, False, False]
    assert found.table["day_from"].to_pylist()[1] == date(2024, 1, 8)
    with pytest.raises(ParameterError, match="does not answer ranges"):
        found.ranges(weeks)
