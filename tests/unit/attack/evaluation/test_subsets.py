"""Sets of columns: all, or some at even distances."""

from __future__ import annotations

from itertools import combinations

from sfumato.attack.evaluation.subsets import subsets


def test_few_sets_are_all_of_them() -> None:
    assert subsets(5, 3, 10) == list(combinations(range(5), 3))
    assert subsets(2, 3, 10) == []


def test_of_many_sets_some_are_taken_at_even_distances() -> None:
    everyone = list(combinations(range(9), 3))
    assert subsets(9, 3, 12) == [everyone[(2 * place + 1) * 84 // 24] for place in range(12)]
    wide = subsets(2_000, 3, 50)
    assert len(set(wide)) == 50
    assert all(0 <= a < b < c < 2_000 for a, b, c in wide)
