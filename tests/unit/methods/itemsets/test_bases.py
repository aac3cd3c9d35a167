from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.methods.itemsets.privbasis import MOST_LENGTH, _cliques, bases


def near(items: int, pairs: list[tuple[int, int]]) -> list[int]:
    found = [0] * items
    for one, other in pairs:
        found[one] |= 1 << other
        found[other] |= 1 << one
    return found


def brute(items: int, pairs: list[tuple[int, int]]) -> set[tuple[int, ...]]:
    """Sets of two and more of which any two are a pair, and that lie in no other such set."""
    all_of = [
        set(one)
        for size in range(2, items + 1)
        for one in combinations(range(items), size)
        if all(pair in pairs for pair in combinations(one, 2))
    ]
    return {tuple(sorted(one)) for one in all_of if not any(one < other for other in all_of)}


@pytest.mark.parametrize("seed", range(20))
def test_cliques_are_those_that_a_search_of_all_sets_finds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pairs = [one for one in combinations(range(7), 2) if draw.random() < 0.55]
    assert {tuple(one) for one in _cliques(near(7, pairs))} == brute(7, pairs)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_every_item_and_every_pair_is_in_a_base(seed: int, power: int) -> None:
    draw = np.random.default_rng(seed)
    pairs = [one for one in combinations(range(30), 2) if draw.random() < 0.06]
    found = [set(one.tolist()) for one in bases(30, pairs, power)]
    assert all(any({*pair} <= base for base in found) for pair in pairs)
    assert set().union(*found) == set(range(30))
    assert all(len(one) <= MOST_LENGTH for one in found)
    assert not any(one < other for one in found for other in found)


def test_more_items_than_fit_a_base_are_parted() -> None:
    pairs = list(combinations(range(15), 2))
    found = bases(15, pairs, 2)
    assert set(np.concatenate(found).tolist()) == set(range(15))
    assert max(map(len, found)) <= MOST_LENGTH


def test_items_that_go_with_none_share_bases() -> None:
    """Of Laplace noise, whose variance is squared with bases, three to a base are best."""
    assert sorted(map(len, bases(9, [], 2))) == [3, 3, 3]
    assert max(map(len, bases(9, [], 1))) == 2
