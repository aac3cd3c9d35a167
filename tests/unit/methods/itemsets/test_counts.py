from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.data.schema.unit import Neighbours
from sfumato.errors import ParameterError
from sfumato.methods.itemsets.baskets import ItemFacts, read_items
from sfumato.methods.itemsets.counts import (
    _all_sets,
    _ranks,
    prepare,
    prepare_itemsets,
    zealous_threshold,
)
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from tests.unit.methods.itemsets.conftest import MakeRequest, MakeRows

    from sfumato.methods.publish.request import FormRequest

SHOP = [list("abc"), list("ab"), list("ac"), ["a"], list("bd")]


def test_at_a_huge_epsilon_counts_of_public_items_are_exact(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(values=tuple("dcba"), epsilon=10)
    method = prepare(request)
    released = method.release(make_rows(request, SHOP), SeededEntropy(1))["items"]
    sure = method.error["count"]["bound95"] * 4
    told = dict(zip(released["item"].to_pylist(), released["count"].to_pylist(), strict=True))
    assert list(told) == list("dcba")
    assert all(abs(told[name] - many) <= sure for name, many in Counter("abcabacabd").items())


def test_sets_of_public_items_are_all_told_of_in_order(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(values=tuple("abcd"), epsilon=10)
    released = prepare_itemsets(request, size="2").release(
        make_rows(request, SHOP * 50), SeededEntropy(1)
    )["itemsets"]
    sets = list(zip(released["item_1"].to_pylist(), released["item_2"].to_pylist(), strict=True))
    assert sets == list(combinations("abcd", 2))
    true = Counter(one for basket in SHOP * 50 for one in combinations(basket, 2))
    noisy = released["count"].to_pylist()
    assert all(abs(many - true[one]) < 20 for one, many in zip(sets, noisy, strict=True))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_sets_are_numbered_in_their_order(size: int) -> None:
    sets = _all_sets(7, size)
    assert list(map(tuple, sets.tolist())) == list(combinations(range(7), size))
    assert _ranks(sets, 7).tolist() == list(range(comb(7, size)))


def test_items_that_are_not_public_need_a_delta_and_pass_a_threshold(
    make_request: MakeRequest, make_rows: MakeRows
) -> None:
    with pytest.raises(ParameterError, match="delta=") as caught:
        prepare(make_request(epsilon=1))
    assert caught.value.code == "parameter_missing"
    request = make_request(epsilon=1, delta=Fraction(1, 10**6))
    rows = make_rows(request, [["often"]] * 300 + [["once"]])
    released = prepare(request).release(rows, SeededEntropy(1))["items"]
    assert released["item"].to_pylist() == ["often"]


def moved(
    request: FormRequest, make_rows: MakeRows, size: int, baskets: list[list[str]], owner: int
) -> int:
    """How far all counts move, added up, when a person leaves."""

    def counted(kept: list[list[str]]) -> Counter[tuple[str, ...]]:
        held = read_items(ItemFacts.of(request), make_rows(request, kept))
        sets, counts = held.baskets.supports(size)
        names = [tuple(held.values[int(one)].as_py() for one in row) for row in sets]
        return Counter(dict(zip(names, counts.tolist(), strict=True)))

    before = counted(baskets)
    after = counted([[] if place == owner else one for place, one in enumerate(baskets)])
    return sum(abs(before[one] - after[one]) for one in {*before, *after})


@pytest.mark.parametrize("size", [1, 2])
def test_nobody_moves_counts_by_more_than_the_noise_is_made_for(
    size: int, make_request: MakeRequest, make_rows: MakeRows
) -> None:
    request = make_request(max_rows=3, values=tuple("abcdefgh"), epsilon=1)
    noise = prepare_itemsets(request, size=size).keys.noise
    baskets = [list("abcdefgh"), list("aab"), [], list("cdefg")]
    moves = [moved(request, make_rows, size, baskets, owner) for owner in range(4)]
    assert max(moves) == noise.l1_sensitivity == comb(3, size)  # type: ignore[union-attr]


def test_a_cap_after_counting_is_caught(make_request: MakeRequest, make_rows: MakeRows) -> None:
    """The wrong twin counts everything and caps what a count may be: one person moves all."""
    request = make_request(max_rows=3, values=tuple("abcdefgh"), epsilon=1)
    wide = make_request(max_rows=8, values=tuple("abcdefgh"), epsilon=1)
    claimed = prepare(request).keys.noise.l1_sensitivity  # type: ignore[union-attr]
    assert moved(wide, make_rows, 1, [list("abcdefgh"), ["a"]], 0) > claimed


def test_threshold_and_noise_are_of_one_relation(make_request: MakeRequest) -> None:
    """ZEALOUS: at least the published tau', of the scale that the relation asks for."""
    delta = Fraction(1, 10**5)
    for relation, scale in ((Neighbours.ADD_REMOVE, 5), (Neighbours.REPLACE_ONE, 10)):
        request = make_request(max_rows=5, relation=relation, epsilon=1, delta=delta)
        threshold = prepare(request).keys.threshold
        assert threshold is not None
        noise = threshold.noise
        if hasattr(noise, "scale"):
            assert noise.scale == scale
            least = zealous_threshold(5, scale, float(delta))
            assert least <= threshold.threshold < least + 10
        # Over all items that a person alone has, the chance to show is at most delta.
        assert 5 * noise.tail(threshold.threshold - 1) <= delta


def test_more_sets_of_a_person_than_can_be_counted_are_refused(make_request: MakeRequest) -> None:
    with pytest.raises(ParameterError, match="smaller size") as caught:
        prepare_itemsets(make_request(max_rows=100, epsilon=1, delta=0.001), size=3)
    assert caught.value.code == "problem_too_large"


def test_gaussian_noise_is_taken_where_it_is_less(make_request: MakeRequest) -> None:
    plain = make_request(max_rows=60, values=tuple("ab"), epsilon=1)
    paid = make_request(max_rows=60, values=tuple("ab"), epsilon=1, delta=0.00001)
    assert prepare(paid).keys.noise.stddev < prepare(plain).keys.noise.stddev / 2
    assert np.isfinite(prepare(paid).keys.detection_bound)
