from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from sfumato.data.schema.hierarchy import Taxonomy
from sfumato.errors import CriterionError
from sfumato.methods.itemsets.baskets import Baskets
from sfumato.methods.itemsets.km_anonymity import (
    LEFT_OUT,
    ItemTree,
    Recoded,
    _after_rise,
    global_recoding,
    local_recoding,
    violations,
)

LEAVES = "abcdefgh"
HALVES = [["ab", "ab", "cd", "cd", "ef", "ef", "gh", "gh"], ["a-d"] * 4 + ["e-h"] * 4]
TREE = ItemTree.of(Taxonomy.build(LEAVES, HALVES, missing=False))


def drawn(seed: int, owners: int = 60) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    often = np.array([8, 4, 4, 2, 6, 3, 1, 1]) / 29
    return [
        generator.choice(8, size=generator.integers(1, 5), replace=False, p=often).tolist()
        for _ in range(owners)
    ]


def fits_few(baskets: list[list[int]], found: Recoded, k: int, m: int) -> list[tuple[int, ...]]:
    """Of all sets of at most m original items, those that fit some released baskets, but few."""
    groups: list[set[int]] = [set() for _ in baskets]
    released = found.baskets
    for owner, group in zip(released.owners.tolist(), released.items.tolist(), strict=True):
        groups[owner].add(group)
    few = []
    for size in range(1, m + 1):
        for known in combinations(range(8), size):
            many = 0
            for owner, shown in enumerate(groups):
                cut = found.cuts[found.parts[owner]]
                many += all(cut[item] == LEFT_OUT or cut[item] in shown for item in known)
            if 0 < many < k:
                few.append(known)
    return few


@pytest.mark.parametrize("search", [global_recoding, local_recoding])
@pytest.mark.parametrize("suppress", [0, 12])
@pytest.mark.parametrize(("k", "m"), [(4, 1), (4, 2), (3, 3)])
def test_whoever_knows_m_items_finds_none_or_k(search, suppress, k, m) -> None:  # type: ignore[no-untyped-def]
    for seed in range(6):
        listed = drawn(seed)
        found = search(Baskets.from_lists(listed, 8), TREE, k, m, suppress=suppress)
        assert found.left_out <= suppress
        assert violations(found.baskets, k, m) is None
        assert fits_few(listed, found, k, m) == []


def test_rare_sets_are_those_of_brute_force_at_m_2() -> None:
    for seed in range(10):
        listed = drawn(seed, owners=25)
        baskets = Baskets.from_lists(listed, 8)
        by_size = [
            {
                one: many
                for one in combinations(range(8), size)
                if 0 < (many := sum(set(one) <= set(basket) for basket in listed)) < 4
            }
            for size in (1, 2)
        ]
        expected = next((one for one in by_size if one), None)
        found = violations(baskets, 4, 2)
        told = (
            None
            if found is None
            else dict(zip(map(tuple, found[0].tolist()), found[1].tolist(), strict=True))
        )
        assert told == expected


def all_cuts() -> list[np.ndarray]:
    """Every cut of the tree: of each half, itself or the cuts of its pairs; or the root."""
    pairs = [[(2 * place, 2 * place + 1), (8 + place,) * 2] for place in range(4)]
    halves = [
        [
            *(left + right for left, right in product(pairs[2 * side], pairs[2 * side + 1])),
            (12 + side,) * 4,
        ]
        for side in (0, 1)
    ]
    cuts = [left + right for left, right in product(*halves)]
    return [np.array(one) for one in (*cuts, (14,) * 8)]


def test_the_search_loses_little_more_than_the_best_of_all_cuts() -> None:
    ratios = []
    for seed in range(20):
        baskets = Baskets.from_lists(drawn(seed), 8)
        best = min(
            float(TREE.losses[cut[baskets.items]].mean())
            for cut in all_cuts()
            if violations(baskets.recoded(cut, TREE.groups), 4, 2) is None
        )
        found = global_recoding(baskets, TREE, 4, 2).loss
        assert found >= best - 1e-12
        ratios.append(found == pytest.approx(best))
    assert np.mean(ratios) >= 0.7


def test_a_group_of_one_group_alone_is_that_group() -> None:
    tree = ItemTree.of(Taxonomy.build("ab", [["x", "y"]], missing=False))
    assert tree.labels == ("a", "b", "*")
    assert tree.parents.tolist() == [2, 2, 2]


def test_fewer_baskets_than_k_cannot_hide_one() -> None:
    with pytest.raises(CriterionError, match="Lower k="):
        global_recoding(Baskets.from_lists([[0], [1], []], 8), TREE, 3, 2)


def test_local_recoding_loses_no_more_than_global() -> None:
    for seed in range(5):
        baskets = Baskets.from_lists(drawn(seed, owners=200), 8)
        assert local_recoding(baskets, TREE, 4, 2).loss <= global_recoding(baskets, TREE, 4, 2).loss


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_sets_after_a_rise_are_those_of_counting_all_anew(size: int, seed: int) -> None:
    """Groups rise to one that is there, to a new one, or are left out."""
    draw = np.random.default_rng(seed)
    owners, items = draw.integers(0, 30, 120), draw.integers(0, 8, 120)
    baskets = Baskets.of(owners, items, 30, 12)
    became = np.arange(12)
    became[[0, 1]], became[2], became[[4, 5]] = 9, 3, LEFT_OUT
    now, sets, counts = _after_rise(baskets, became, *baskets.occurring_supports(size))
    left = became[baskets.items] != LEFT_OUT
    anew = Baskets.of(baskets.owners[left], became[baskets.items][left], 30, 12)
    assert (now.owners == anew.owners).all()
    assert (now.items == anew.items).all()
    expected = dict(
        zip(
            map(tuple, anew.occurring_supports(size)[0].tolist()),
            anew.occurring_supports(size)[1],
            strict=True,
        )
    )
    assert dict(zip(map(tuple, sets.tolist()), counts.tolist(), strict=True)) == expected
    assert len(sets) == len(expected)
