"""Grouping by codes agrees with counting in plain Python, whatever path it takes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.data.counting import grouping
from sfumato.data.counting.grouping import group, keys, merge, sums

SIZES = st.lists(st.sampled_from([1, 2, 3, 7, 1 << 20, 1 << 31, 1 << 40]), min_size=1, max_size=4)


@st.composite
def coded_tables(draw: st.DrawFn) -> tuple[list[np.ndarray], list[int], np.ndarray]:
    sizes = draw(SIZES)
    rows = draw(st.integers(0, 40))
    columns = [
        np.array(
            draw(
                st.lists(
                    st.sampled_from(sorted({0, size // 2, size - 1})), min_size=rows, max_size=rows
                )
            ),
            dtype=np.int64,
        )
        for size in sizes
    ]
    counts = draw(st.lists(st.integers(1, 1 << 40), min_size=rows, max_size=rows))
    return columns, sizes, np.array(counts, dtype=np.int64)


@given(coded_tables())
def test_group_equals_a_counter(table: tuple[list[np.ndarray], list[int], np.ndarray]) -> None:
    columns, sizes, counts = table
    expected: Counter[tuple[int, ...]] = Counter()
    for row, count in zip(zip(*columns, strict=True), counts, strict=True):
        expected[tuple(map(int, row))] += int(count)
    found = group(columns, sizes, counts)
    combinations = [
        tuple(int(column[place]) for column in columns) for place in found.representatives
    ]
    assert combinations == sorted(expected)
    assert found.counts.tolist() == [expected[combination] for combination in combinations]
    assert sums(columns, sizes, counts).tolist() == found.counts.tolist()
    merged, added = merge(columns, sizes, counts)
    assert list(zip(*(column.tolist() for column in merged), strict=True)) == combinations
    assert added.tolist() == found.counts.tolist()


@given(coded_tables())
def test_keys_keep_the_lexicographic_order(
    table: tuple[list[np.ndarray], list[int], np.ndarray],
) -> None:
    columns, sizes, _ = table
    key, radix = keys(columns, sizes)
    rows = [tuple(map(int, row)) for row in zip(*columns, strict=True)]
    for i in range(len(rows)):
        for j in range(len(rows)):
            assert (rows[i] < rows[j]) == (key[i] < key[j])
    assert all(0 <= value < radix for value in key)


def test_unit_counts_take_the_short_way_to_the_same_sums() -> None:
    column = np.array([5, 5, 1, 9, 1, 5]) * (1 << 50)
    ones = np.ones(6, dtype=np.int64)
    assert sums([column], [1 << 60], ones).tolist() == [2, 3, 1]


def test_negative_counts_and_counts_of_nothing_are_merged_too() -> None:
    column, far = np.array([3, 1, 3, 2]), 1 << 40
    for counts in ([4, 0, 5, 0], [4, 0, -5, 1]):
        (merged,), added = merge([column], [far], np.array(counts))
        assert merged.tolist() == [1, 2, 3]
        assert added.tolist() == [0, counts[3], counts[0] + counts[2]]


def test_parts_sorted_on_several_cores_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_SORTED_ALONE", 10)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    column = np.random.default_rng(7).permutation(100) % 90
    (merged,), added = merge([column], [1 << 40], np.ones(100, dtype=np.int64))
    assert merged.tolist() == list(range(90))
    assert added.tolist() == [2] * 10 + [1] * 80


def test_counts_past_two_to_the_53_add_up_exactly() -> None:
    column = np.zeros(3, dtype=np.int64)
    counts = np.array([1 << 53, 1, (1 << 40) + 1])
    assert group([column], [1], counts).counts.tolist() == [(1 << 53) + (1 << 40) + 2]


def test_no_column_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one column"):
        keys([], [])
