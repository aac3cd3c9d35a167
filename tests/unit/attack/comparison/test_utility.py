"""One figure of use for all kinds: 1 for the original itself, less the further counts are off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.attack.case import HeldRelease
from sfumato.attack.comparison.binned_counts import CountedRows, bins_of
from sfumato.attack.comparison.utility import Utility, Yardstick
from sfumato.attack.runner import held_people, held_release

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 3), sf.Widths((2,))),
        sf.Column("sex", sf.Kind.TEXT, sf.Role.QUASI, sf.Values(("F", "M")), sf.Removal()),
    ),
)
PEOPLE = [{"age": n % 4, "sex": "FM"[n % 2]} for n in range(40)]


def used(rows: list[dict[str, Any]], people_are: list[dict[str, Any]] = PEOPLE) -> Utility:
    with held_people(people_are, SCHEMA) as people, held_release(rows, SCHEMA) as held:
        bins = [bins_of(one, [], people.counted([one.name])) for one in SCHEMA.columns]
        return Yardstick(CountedRows(HeldRelease(people)), bins).measure(CountedRows(held))


def test_the_original_keeps_all_of_its_counts() -> None:
    found = used(PEOPLE)
    assert (found.kept, found.low, found.high, found.ranges) == (1, 1, 1, 0)
    assert found.tables == 3


def test_columns_apart_keep_single_counts_and_lose_pairs() -> None:
    """Shuffled so that age and sex are independent: each pair of values has an eighth."""
    found = used([{"age": n % 4, "sex": "FM"[n // 4 % 2]} for n in range(40)])
    assert found.one_way == pytest.approx(0)
    assert found.two_way == pytest.approx(0.5)
    assert found.kept == pytest.approx(1 - 0.5 / 3)
    assert found.low < found.kept < found.high
    assert found.ranges is not None
    assert found.ranges > 0


def test_the_looser_the_labels_the_less_is_kept() -> None:
    people: list[dict[str, Any]] = [
        {"age": max(n % 9 - 5, 0), "sex": "FFM"[n % 3]} for n in range(90)
    ]
    spans = [{"age": "0-1" if one["age"] < 2 else "2-3", "sex": one["sex"]} for one in people]
    stars = [{"age": "*", "sex": "*"} for _ in people]
    kept = [used(rows, people).kept for rows in (people, spans, stars)]
    assert kept == sorted(kept, reverse=True)
    assert len({*kept}) == len(kept)


def test_nothing_in_common_keeps_nothing_of_it() -> None:
    found = used([{"age": 9, "sex": "X"}] * 3)
    assert found.kept == 0
    assert np.isclose(found.one_way, 1)
