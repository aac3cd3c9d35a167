from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.methods.itemsets import baskets as module
from sfumato.methods.itemsets.baskets import Baskets


def drawn(seed: int, owners: int = 40, kinds: int = 9) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [
        sorted(generator.choice(kinds, size=generator.integers(0, 6), replace=False).tolist())
        for _ in range(owners)
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("dense", [1, 1 << 25])
def test_supports_are_those_of_counting_every_set(
    size: int, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DENSE", dense)
    monkeypatch.setattr(module, "_BLOCK", 50)
    listed = drawn(size)
    counted = Counter(one for basket in listed for one in combinations(basket, size))
    sets, counts = Baskets.from_lists(listed, 9).supports(size)
    found = {tuple(one): many for one, many in zip(sets.tolist(), counts.tolist(), strict=True)}
    assert found == dict(counted)


def test_a_pair_that_comes_twice_is_one() -> None:
    found = Baskets.of(np.array([1, 0, 1]), np.array([2, 0, 2]), 3, 3)
    assert found.sizes.tolist() == [1, 1, 0]


def test_a_part_keeps_the_baskets_of_its_owners() -> None:
    found = Baskets.from_lists([[0], [1, 2], [], [2]], 3).of_owners(np.array([3, 1]))
    assert found.owners.tolist() == [0, 1, 1]
    assert found.items.tolist() == [2, 1, 2]


def test_too_many_sets_are_refused_before_they_are_written_out() -> None:
    with pytest.raises(ParameterError, match="smaller m") as caught:
        Baskets.from_lists([list(range(60))], 60).supports(5, most=1000)
    assert caught.value.code == "problem_too_large"


def test_F21_sets_of_many_kinds_of_items_are_told_apart() -> None:
    """Four of 100,000 items need 67 bits: in one number of 64 bits two different sets were one."""
    kinds = 100_000
    lists = [[0, 1, 2, kinds - 1], [1, 2, 3, 4, kinds - 1], [*range(kinds - 6, kinds)]]
    for size in (3, 4):
        sets, counts = Baskets.from_lists([*lists, lists[1]], kinds).supports(size)
        found = dict(zip(map(tuple, sets.tolist()), counts.tolist(), strict=True))
        expected = Counter(
            one for basket in [*lists, lists[1]] for one in combinations(sorted(basket), size)
        )
        assert found == expected
