"""The join of values with boxes finds what looking at all pairs finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.attack import matching
from sfumato.attack.classes import boxes_of, boxes_together
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.counting.grouping import group
from sfumato.data.schema.column import Column, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = (
    Column("age", Kind.INTEGER, Role.QUASI),
    Column("height", Kind.INTEGER, Role.QUASI),
    Column("town", Kind.TEXT, Role.QUASI),
)


def frequencies(rows: Sequence[Sequence[object]]) -> Frequencies:
    axes, codes = [], []
    for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        coded = pa.array(values).dictionary_encode()
        order = pc.sort_indices(coded.dictionary)
        axes.append(Listed(column.name, coded.dictionary.take(order), declared=False))
        codes.append(np.argsort(order.to_numpy())[coded.indices.to_numpy()])
    groups = group(codes, [axis.size for axis in axes], np.ones(len(rows), dtype=np.int64))
    kept = tuple(code[groups.representatives] for code in codes)
    return Frequencies(tuple(axes), kept, groups.counts)


def spread(low: int, high: int) -> str:
    return str(low) if low == high else f"[{low}, {high}]"


def fits(value: object, label: str) -> bool:
    if label.startswith("["):
        low, high = map(int, label[1:-1].split(", "))
        return isinstance(value, int) and low <= value <= high
    if label.startswith("{"):
        return value in label[1:-1].split(", ")
    return label in ("*", str(value))


@pytest.mark.parametrize("block", [1, 50, 1 << 20])
@pytest.mark.parametrize("overlapping", [True, False])
def test_pairs_are_those_of_all_pairs(
    block: int, overlapping: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "_BLOCK", block)
    towns = ["york", "hull", "leeds", "bath"]
    people = [(20 + n % 30, 150 + (7 * n) % 40, towns[n % 4]) for n in range(300)]
    if overlapping:
        classes = [
            (
                spread(20 + n % 25, 24 + n % 25),
                spread(150 + n % 30, 150 + n % 30 + n % 9),
                ("*", "{hull, york}", "leeds", "{bath, hull}")[n % 4],
            )
            for n in range(90)
        ]
    else:
        ages = [(20, 29), (30, 49)]
        classes = [(spread(*ages[n % 2]), "*", towns[n % 3]) for n in range(12)]
    released, listed = frequencies(classes), frequencies(people)
    found = boxes_of(released, COLUMNS, [listed])
    pairs: set[tuple[int, int]] = set()
    for mine, theirs in matching.fitting(found.locate(listed), found):
        block_pairs = list(zip(mine.tolist(), theirs.tolist(), strict=True))
        assert not pairs & {*block_pairs}
        pairs |= {*block_pairs}
    labels, values = released.table().to_pylist(), listed.table().to_pylist()
    expected = {
        (one, other)
        for one, value in enumerate(values)
        for other, label in enumerate(labels)
        if all(fits(value[column.name], label[column.name]) for column in COLUMNS)
    }
    assert expected
    assert pairs == expected


def covered(label: str, leaves: Sequence[object]) -> set[object]:
    return {leaf for leaf in leaves if fits(leaf, label)}


@pytest.mark.parametrize("block", [1, 40, 1 << 20])
@pytest.mark.parametrize("overlapping", [True, False])
def test_classes_that_meet_are_those_of_all_pairs(
    block: int, overlapping: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "_BLOCK", block)
    towns = ["york", "hull", "leeds", "bath"]
    labels = ("*", "{bath, york}", "leeds", "{bath, hull}") if overlapping else ("york", "leeds")

    def classes(size: int, step: int) -> list[tuple[str, str, str]]:
        wide = step if overlapping else 0
        return [
            (
                spread(20 + n % 25, 20 + n % 25 + (n * step) % (wide + 1)),
                spread(150 + (n * step) % 30, 150 + (n * step) % 30 + n % (wide + 1)),
                labels[(n // step) % len(labels)],
            )
            for n in range(size)
        ]

    tables = [frequencies(classes(90, 3)), frequencies(classes(70, 7))]
    ours, theirs = boxes_together(tables, COLUMNS)
    pairs: set[tuple[int, int]] = set()
    for one, other in matching.meeting(ours, theirs):
        found = list(zip(one.tolist(), other.tolist(), strict=True))
        assert not pairs & {*found}
        pairs |= {*found}
    leaves: list[Sequence[object]] = [range(20, 60), range(150, 200), towns]
    mine, yours = (
        [
            [covered(row[c.name], values) for c, values in zip(COLUMNS, leaves, strict=True)]
            for row in table.table().to_pylist()
        ]
        for table in tables
    )
    expected = {
        (a, b)
        for a, one in enumerate(mine)
        for b, other in enumerate(yours)
        if all(x & y for x, y in zip(one, other, strict=True))
    }
    assert expected
    assert pairs == expected


def test_values_that_the_release_cannot_have_fit_nothing() -> None:
    found = boxes_of(frequencies([("[20, 29]", "150", "york")]), COLUMNS)
    listed = frequencies([(90, 150, "york"), (25, 150, "york")])
    ((mine, theirs),) = matching.fitting(found.locate(listed), found)
    assert (mine.tolist(), theirs.tolist()) == ([0], [0])
